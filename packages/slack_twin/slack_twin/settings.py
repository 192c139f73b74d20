"""The limits of a twin's size and its rate limits, from environment variables.

Tests pass their own `Settings` to `build_twin`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from slack_twin.files import FILE_CAP_BYTES
from slack_twin.workspace import RETENTION_MESSAGES

_MOST = 10**12


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings from the environment. They limit all growing data."""

    rates: bool = True  # enables Slack's rate limits for calls and events
    own_events: bool = False  # sends apps the events about their own messages, as Slack does
    retention_messages: int = RETENTION_MESSAGES  # per channel; the oldest are removed first
    file_cap_bytes: int = FILE_CAP_BYTES  # per file; all files together may take four times as much


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Reads settings from `TWIN_RATES`, `TWIN_OWN_EVENTS`, `TWIN_RETENTION_MESSAGES` and `TWIN_FILE_CAP_BYTES`.

    Raises ValueError with the variable and the expected value.
    """
    return Settings(
        rates=_switch(environment, "TWIN_RATES"),
        own_events=_switch(environment, "TWIN_OWN_EVENTS"),
        retention_messages=_number(environment, "TWIN_RETENTION_MESSAGES", RETENTION_MESSAGES),
        file_cap_bytes=_number(environment, "TWIN_FILE_CAP_BYTES", FILE_CAP_BYTES),
    )


def _switch(environment: Mapping[str, str], name: str) -> bool:
    value = environment.get(name, "") or "on"
    if value not in ("on", "off"):
        raise ValueError(f"{name} must be on or off, not {value!r}")
    return value == "on"


def _number(environment: Mapping[str, str], name: str, default: int) -> int:
    value = environment.get(name, "") or str(default)
    if not (value.isascii() and value.isdecimal() and 1 <= int(value) <= _MOST):
        raise ValueError(f"{name} must be a whole number from 1 to {_MOST}, not {value!r}")
    return int(value)
