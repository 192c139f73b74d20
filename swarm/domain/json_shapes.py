"""The JSON of the contract: triggers, inbox messages, tasks, files, agents and the messages between them.

Entry points and tools share these shapes. A `TypedDict` defines the keys and types of an object; :func:`shape` fills it
from a view. Times are ISO 8601 in UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache, partial
from operator import attrgetter
from types import NoneType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

from typing_extensions import TypedDict, is_typeddict

from swarm.clock import to_iso
from swarm.domain.model.agents import AgentMessage
from swarm.domain.model.triggers import Tray
from swarm.domain.text.slack_text import preview

_Shape = TypeVar("_Shape")
_Convert = Callable[[Any], Any]
_Read = Callable[[tuple[Any, ...]], Any]


def shape(kind: type[_Shape], *views: object, **given: object) -> _Shape:
    """Returns the JSON object of a `TypedDict`. Each value comes from the first view with an attribute or key of that
    name.

    ``given`` values take precedence. Enums are replaced by their values, and integers where text is expected are times.
    A nested object without an attribute of its own is built from the attributes that begin with its name, such as
    ``user_id`` and ``user_name``; it is null if the first of them is None. Raises AttributeError for a missing value.
    """
    found: dict[str, object] = {}
    for key, convert, read in _plan(kind, *map(type, views)):  # type: ignore[arg-type]  # types are hashable
        value = given[key] if key in given else read(views)
        found[key] = value if convert is None or type(value) is str else convert(value)  # most values are strings
    return cast("_Shape", found)


@cache
def _plan(kind: type, *views: type) -> tuple[tuple[str, _Convert | None, _Read], ...]:
    """Returns how to convert and read the value of each key, computed once for each combination of views."""
    hints = get_type_hints(kind)
    return tuple((key, _conversion(hint), _reader(key, views, _parts(hint))) for key, hint in hints.items())


def _reader(key: str, views: tuple[type, ...], parts: tuple[str, ...] = (), first: int = 0) -> _Read:
    for place, view in enumerate(views[first:], first):
        if issubclass(view, Mapping):  # the keys differ between mappings
            otherwise = _reader(key, views, parts, place + 1)
            return lambda found: found[place][key] if key in found[place] else otherwise(found)
        if hasattr(view, key) or key in getattr(view, "__dataclass_fields__", ()):
            read = attrgetter(key)
            return lambda found: read(found[place])
    readers = {part: _reader(f"{key}_{part}", views) for part in parts}

    def nested(found: tuple[Any, ...]) -> dict[str, Any] | None:
        values = {part: read(found) for part, read in readers.items()}
        if not values:
            raise AttributeError(f"no view has '{key}'")
        return None if values[parts[0]] is None else values

    return nested


def _conversion(hint: Any) -> _Convert | None:
    """Returns the conversion of a value to JSON; None if the value is already JSON."""
    inner = get_args(hint)
    if is_typeddict(hint):
        return partial(shape, hint)
    if get_origin(hint) is list:
        each = _conversion(inner[0])
        return (lambda values: [each(value) for value in values]) if each else list
    if NoneType in inner:
        present = _conversion(inner[0])
        return present and (lambda value: None if value is None else present(value))
    return _text if hint is str else None


def _parts(hint: Any) -> tuple[str, ...]:
    """Returns the keys of the nested object if the value is one."""
    kind = next((each for each in (hint, *get_args(hint)) if is_typeddict(each)), None)
    return tuple(get_type_hints(kind)) if kind and get_origin(hint) is not list else ()


def _text(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    return to_iso(value) if isinstance(value, int) else value


class SharedFileShape(TypedDict):
    """A file shared in a thread. ``ts`` is the timestamp of its message, null if Slack did not report it."""

    file_id: str
    name: str
    size_bytes: int
    ts: str | None


class UserShape(TypedDict):
    """The author of a message."""

    id: str
    name: str


TrayPreviewShape = TypedDict("TrayPreviewShape", {"inbox_message_id": str, "from": str, "channel": str, "preview": str})
"""The beginning of an unread message. Functional syntax, because ``from`` is a Python keyword."""


TrayMessageShape = TypedDict(
    "TrayMessageShape", {"message_id": str, "from": str, "channel": str | None, "preview": str, "sent_at": str}
)
"""The beginning of an unread message from another agent; a direct message has no channel."""


class TrayShape(TypedDict):
    """The summary of an agent's inbox."""

    unread: int
    previews: list[TrayPreviewShape]
    mentions: int
    messages: list[TrayMessageShape]
    tasks: dict[str, int]
    threads_owned: int


class AgentShape(TypedDict):
    """One agent of the team."""

    id: str
    name: str
    role: str
    description: str
    capabilities: list[str]
    status: str


class LoadShape(TypedDict):
    """The current load of an agent."""

    open_tasks: int
    threads_owned: int
    running: int


class MemberShape(AgentShape):
    """An agent with its load."""

    load: LoadShape


class AddresseeShape(TypedDict):
    """The recipient of a message: an online agent gets it at once, an offline agent on its return."""

    id: str
    name: str
    status: str


AgentMessageShape = TypedDict(
    "AgentMessageShape",
    {
        "id": str,
        "from": UserShape,
        "to": str | None,
        "channel": str | None,
        "text": str,
        "sent_at": str,
        "for_you": bool,
        "unread": bool,
    },
)
"""A message between agents, as seen by one of them. Functional syntax, because ``from`` is a Python keyword."""


def tray_shape(tray: Tray) -> TrayShape:
    """Returns a tray."""
    return shape(
        TrayShape,
        tray,
        previews=[shape(TrayPreviewShape, unread, **{"from": unread.sender}) for unread in tray.previews],
        messages=[_tray_message(message) for message in tray.messages],
    )


def _tray_message(message: AgentMessage) -> TrayMessageShape:
    return {
        "message_id": message.id,
        "from": message.sender,
        "channel": f"#{message.channel}" if message.channel else None,
        "preview": preview(message.text),
        "sent_at": to_iso(message.created_at),
    }


def agent_message_shape(message: AgentMessage) -> AgentMessageShape:
    """Returns a complete message."""
    return {
        "id": message.id,
        "from": {"id": message.sender_id, "name": message.sender},
        "to": message.recipient,
        "channel": f"#{message.channel}" if message.channel else None,
        "text": message.text,
        "sent_at": to_iso(message.created_at),
        "for_you": message.for_reader,
        "unread": message.unread,
    }
