"""How large a twin may grow and how strict it is, from the environment.

A test passes `Settings` of its own to `build_twin`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from slack_twin.files import FILE_CAP_BYTES
from slack_twin.workspace import RETENTION_MESSAGES

_MOST = 10**12


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the environment can change. Everything that grows is bounded."""

    rates: bool = True  # Slack's rate limits, for calls and for events
    retention_messages: int = RETENTION_MESSAGES  # that a channel keeps; the oldest go first
    file_cap_bytes: int = FILE_CAP_BYTES  # of one file; all together may take four times as much


def read_settings(environment: Mapping[str, str]) -> Settings:
    """Settings from `TWIN_RATES`, `TWIN_RETENTION_MESSAGES` and `TWIN_FILE_CAP_BYTES`.

    Raises ValueError that names the variable and what it expects.
    """
    return Settings(
        rates=_switch(environment, "TWIN_RATES"),
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
