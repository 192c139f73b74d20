"""The effective settings of one channel, each with its value and its source."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from pydantic import BaseModel, SecretStr

from swarm.config.channels import ChannelSettings
from swarm.config.importing.translation import Note
from swarm.config.reading import Reading
from swarm.domain.errors import ConfigurationError
from swarm.domain.policy.section import CHANNEL_ID
from swarm_base.redaction import HIDDEN, SECRET_NAME
from swarm_base.secrets import without_patterns

DIRECT: Final = "dm"
"""The word for direct messages, in place of a channel's id."""

_DEFAULT: Final = "default"


@dataclass(frozen=True, kw_only=True, slots=True)
class SourcedSetting:
    """One setting of a channel."""

    key: str
    value: object  # a JSON value; secrets are hidden
    source: str


def explain(reading: Reading, channel: str) -> list[SourcedSetting]:
    """Returns every setting of a channel, or of direct messages (`DIRECT`), that a coordinator would use.

    Raises ConfigurationError for anything but a channel's id and `DIRECT`. Unknown ids have the defaults.
    """
    if channel != DIRECT and not CHANNEL_ID.fullmatch(channel):
        raise ConfigurationError(
            f"'{channel}' is not a channel's id; an id such as C0123456789 is expected, or {DIRECT} for direct messages"
        )
    settings = reading.settings
    chosen = settings.channels_in_full.get(channel, settings.channel_defaults)
    rows = [
        SourcedSetting(key=".".join(path), value=_shown(value, path), source=_source(reading, channel, path, value))
        for path, value in _leaves(chosen)
    ]
    special = {"agent": _agent, "alerts.template": _template}
    rows = [special[row.key](reading, channel, chosen, row) if row.key in special else row for row in rows]
    return [*rows, *_decisions(reading, channel), *_extensions(reading)]


def _decisions(reading: Reading, channel: str) -> Iterator[SourcedSetting]:
    """Yields the rules of who decides here, and says which of them calls escape that name no tool."""
    rules = reading.settings.decisions
    here = [(place, rule) for place, rule in enumerate(rules) if rule.channel in (None, channel)]
    for place, rule in here:
        covers = [one for _, one in here if one.tool is None and one.agent in (None, rule.agent)]
        gap = "" if rule.tool is None or covers else ": does not bind calls that name no tool; a rule without tool does"
        value = {name: part for name, part in _plain(rule).items() if part not in (None, False, [])}
        yield SourcedSetting(
            key=f"decisions.{place}", value=value, source=(reading.origin("decisions") or _DEFAULT) + gap
        )


def _extensions(reading: Reading) -> Iterator[SourcedSetting]:
    """Yields the settings of other packages, which are the same in all channels."""
    for path, value in _leaves(reading.settings.extensions, ("extensions",)):
        shown = _without_secrets({path[-1]: _plain(value)})[path[-1]]  # by its name, too
        yield SourcedSetting(key=".".join(path), value=shown, source=reading.origin(*path) or _DEFAULT)


def _source(reading: Reading, channel: str, path: tuple[str, ...], value: object) -> str:
    """Returns the source of a value: the channel's entry, or else ``channel_defaults`` if it has the same value."""
    if source := reading.origin("channels", channel, *path):
        return source
    default = dict(_leaves(reading.settings.channel_defaults)).get(path)
    return (reading.origin("channel_defaults", *path) if default == value else None) or _DEFAULT


def notes(reading: Reading, channel: str) -> list[Note]:
    """Returns notes on the keys of CAIPE's configuration for this channel that became something else."""
    if channel in reading.settings.channels and reading.is_in_file("channels", channel):
        return []
    return [note for note in reading.translation.notes if note.source.startswith(f"{channel}.") and note.remark]


def _agent(reading: Reading, channel: str, chosen: ChannelSettings, row: SourcedSetting) -> SourcedSetting:
    """Returns the agent that answers: the channel's own, that for direct messages, or the default lead."""
    agents = reading.settings.agents
    is_direct = channel == DIRECT or channel.startswith("D")
    if is_direct and agents.dm and not reading.origin("channels", channel, "agent"):
        return replace(row, value=agents.dm, source=reading.origin("agents", "dm") or _DEFAULT)
    if chosen.agent_id is not None:
        source = reading.origin("channels", channel, "agent_id") or reading.origin("channel_defaults", "agent_id")
        return replace(row, value=reading.settings.agent_of(chosen), source=source or _DEFAULT)
    if row.value is not None:
        return row
    if agents.default:
        return replace(row, value=agents.default, source=reading.origin("agents", "default") or _DEFAULT)
    return replace(row, source=f"{row.source}: the oldest lead that is online answers")


def _template(reading: Reading, channel: str, chosen: ChannelSettings, row: SourcedSetting) -> SourcedSetting:
    """Returns the template; its source is the file, if it is in one of its own."""
    file = chosen.alerts.template_file
    return replace(row, source=f"the file {file}") if file else row


def _leaves(value: object, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    if isinstance(value, BaseModel):
        for name in type(value).model_fields:
            yield from _leaves(getattr(value, name), (*path, name))
    else:
        yield path, value


def _shown(value: object, path: tuple[str, ...]) -> object:
    """Returns a JSON value without secrets. Of a webhook's address only the host is left; its path is often a key."""
    if path[-2:] == ("webhook", "url") and isinstance(value, str):
        parts = urlsplit(value)
        return f"{parts.scheme}://{parts.hostname}/{HIDDEN}"
    return _without_secrets(_plain(value))


def _without_secrets(value: Any) -> Any:
    match value:
        case str():
            return without_patterns(value, HIDDEN)
        case dict():
            return {key: HIDDEN if SECRET_NAME.search(key) else _without_secrets(part) for key, part in value.items()}
        case list():
            return [*map(_without_secrets, value)]
        case _:
            return value


def _plain(value: object) -> Any:
    match value:
        case SecretStr():
            return HIDDEN
        case BaseModel():
            return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
        case Enum():
            return value.value
        case Path():
            return str(value)
        case Mapping():
            return {str(name): _plain(part) for name, part in value.items()}
        case frozenset():
            return sorted(map(_plain, value))
        case tuple() | list():
            return [_plain(part) for part in value]
        case _:
            return value


def in_one_line(value: object) -> str:
    """Returns a value as in YAML's flow style, which is JSON but for plain texts."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
