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

from swarm.clock import from_iso, to_iso
from swarm.domain.errors import Invalid
from swarm.domain.model.agents import AgentMessage
from swarm.domain.model.triggers import Tray
from swarm.domain.requests.shapes import RequestShape, request_shape
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


def time_of(since: str | None) -> int:
    """Returns a time in ISO 8601 as microseconds since 1970; 0 for no time. Raises Invalid for other text."""
    if not since:
        return 0
    try:
        return from_iso(since)
    except ValueError:
        expected = "a time in ISO 8601, such as 2026-11-23T09:30:00Z"
        raise Invalid(f"'since' is not {expected}.", fields={"since": expected}) from None


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
    if hint is RequestShape:
        return lambda request: request_shape(request, for_asker=True)
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


class FileShape(TypedDict):
    """An attachment, by name."""

    id: str
    name: str
    mimetype: str | None
    size_bytes: int | None


class SharedFileShape(TypedDict):
    """A file shared in a thread. ``ts`` is the timestamp of its message, null if Slack did not report it."""

    file_id: str
    name: str
    size_bytes: int
    ts: str | None


class MessageShape(TypedDict):
    """One message of a thread's transcript. ``standing`` is its author's standing."""

    ts: str
    author: str
    kind: str
    standing: str
    text: str
    edited: bool
    files: list[FileShape]


class UserShape(TypedDict):
    """The author of a message."""

    id: str
    name: str


class InboxMessageShape(TypedDict):
    """An inbox message with the complete new message."""

    id: str
    text: str
    preview: str
    user: UserShape
    standing: str
    ts: str
    received_at: str
    matched_by: str
    files: list[FileShape]
    task_id: str | None
    instruction: str | None


class ThreadShape(TypedDict):
    """The thread of a conversation."""

    id: str
    team: str
    channel: str
    channel_name: str
    thread_ts: str
    permalink: str


class LeaseShape(TypedDict):
    """The right to work on a trigger, until it expires."""

    token: str
    expires_at: str


class TriggerLeaseShape(LeaseShape):
    """The lease of a trigger. The key is a bearer token for the program that does the work, and ends with the lease."""

    key: str


class NoticeShape(TypedDict):
    """A notice: the event, its cause, the related inbox message, task or agent message, and a text."""

    kind: str
    inbox_message_id: str | None
    task_id: str | None
    agent_message_id: str | None
    channel: str | None
    actor: UserShape | None
    text: str | None


class DependencyShape(TypedDict):
    """A task that another task waits for, and its result."""

    id: str
    title: str
    status: str
    result: str | None
    error: str | None


class TaskShape(TypedDict):
    """A task. Agents are given by name."""

    id: str
    title: str
    description: str
    status: str
    priority: int
    agent: str | None
    agent_id: str | None
    created_by: str | None
    requester: str | None
    parent_id: str | None
    depends_on: list[str]
    dependencies: list[DependencyShape]
    thread_id: str | None
    inbox_message_id: str | None
    attempts: int
    progress: str | None
    percent: int | None
    result: str | None
    error: str | None
    created_at: str
    started_at: str | None
    ended_at: str | None


class FoundTasks(TypedDict):
    """Tasks, newest first."""

    tasks: list[TaskShape]


class TriggerShape(TypedDict):
    """One piece of work or one notice."""

    id: str
    kind: str
    created_at: str
    attempt: int
    due_at: str
    lease: TriggerLeaseShape
    prompt: str
    thread: ThreadShape | None
    thread_context: list[MessageShape]
    context_incomplete: bool
    started_by: str
    inbox_messages: list[InboxMessageShape]
    task: TaskShape | None
    notice: NoticeShape | None
    requests: list[RequestShape]
    overthink: bool
    humble_followup: bool
    instruction: str | None


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
