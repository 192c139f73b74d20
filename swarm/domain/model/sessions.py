"""Sessions: what a built-in agent remembers of a conversation, however often the coordinator restarts.

A session grows by blocks, one for each run: what was said to the agent, the tools it called with what they answered,
and its answer. A block is stored when its run is over, whole, so a tool's call is never without its result. Where a
message in Slack is answered once more, its runs are attempts: while one goes on, it is told none of the others, and the
one that answers takes their place. When a session has grown long, its older part is summarised (`compaction`): from
then on the agent is told the summary in its place. The originals stay, all attempts among them.

What a session keeps of a message: text that every database takes, and not more of it than anybody reads.

Which messages of a session may be parted: a tool's use and its result are told together, summarised together or not
at all. Pure: what is cut where, not who summarises.

A use and a result belong together by their call id. Models that number their calls anew in each run use an id again, so
a result belongs to the last use before it that has none yet.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Protocol

from swarm.domain.errors import Invalid

COMPACTION_THRESHOLD: Final = 50
KEEP_RECENT_MESSAGES: Final = 5


class MessageRole(StrEnum):
    """Who says a message of a session."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"  # the summary of what came before
    TOOL_USE = "tool_use"
    TOOL_RESULT = "tool_result"


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionMessage:
    """One message of a session."""

    role: MessageRole
    text: str = ""  # what is said; of a tool's result, what the tool answered; of its use, nothing
    author: str = ""  # of a user's: the display name
    call_id: str = ""  # joins a tool's use and its result
    tool: str = ""  # of a tool's use and its result: the tool's name
    arguments: Mapping[str, object] = field(default_factory=dict)  # of a tool's use
    failed: bool = False  # of a tool's result
    source: str = ""  # of a user's: the inbox message or task that it says, where it came through Slack
    position: int = 0  # 1 is the session's first; 0: not stored
    created_at: int = 0  # microseconds since 1970 UTC; 0: not stored


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """A session, without its messages."""

    id: str
    agent: str  # whose memory it is: two agents in one conversation remember apart
    metadata: Mapping[str, object]
    messages: int  # so many the agent is told, the summary included
    created_at: int  # microseconds since 1970 UTC
    updated_at: int


class SessionScope(StrEnum):
    """What in Slack makes one session."""

    USER = "user"  # a person in a channel, over all threads there
    THREAD = "thread"  # a thread, with everybody in it


Summarise = Callable[[str, Sequence[SessionMessage]], Awaitable[str]]
"""Puts messages of a session (its id) into a few words. Raises whatever it likes; the session then stays as it is."""


class Memory(Protocol):
    """The sessions of one agent. All of it raises Unavailable while the database is away."""

    async def get_or_create_session(self, session_id: str, metadata: Mapping[str, object] | None = None) -> Session:
        """The session; one that is there keeps its metadata, but for the keys that are given."""
        ...

    async def get_messages(
        self, session_id: str, limit: int | None = None, *, turn_id: str = ""
    ) -> list[SessionMessage]:
        """What the agent is told, oldest first: the summary, if there is one, and what came after it.

        With ``limit`` the last so many, and beyond that what keeps a tool's use with its result. Empty for a session
        that is not there. With ``turn_id``, that of a turn in Slack, nothing of other attempts at what it answers; if
        the summary knows of one, the last of the messages themselves in its place.
        """
        ...

    async def shown_before(self, turn_id: str) -> frozenset[str]:
        """Where in Slack (``ts``) other attempts at what a turn answers were shown."""
        ...

    async def get_originals(self, session_id: str) -> list[SessionMessage]:
        """Everything that was ever said, oldest first, without summaries."""
        ...

    async def add_message(
        self, session_id: str, role: MessageRole | str, content: str | Mapping[str, object]
    ) -> SessionMessage:
        """Add one message; the session is made if it is not there. Raises Invalid for a role or content that cannot be.

        ``content`` is text, or for tools a mapping: ``{"id", "name", "arguments"}`` of a use, ``{"id", "name",
        "content", "failed"}`` of a result.
        """
        ...

    async def add_run(
        self,
        session_id: str,
        run: str,
        messages: Sequence[SessionMessage],
        *,
        turn_id: str = "",
        has_answered: bool = True,
    ) -> None:
        """Add all messages of a run, named by its id, at once. What is there of it already stays as it is.

        With ``turn_id``, that of a turn in Slack: a run that ``has_answered`` takes the place of all earlier attempts
        at what this turn answers, one that broke off of none. If a newer attempt is there already, the messages are
        kept among the originals and never told.
        """
        ...

    async def compact_session(self, session_id: str) -> bool:
        """Summarise all but the last messages, if there are more than the threshold; whether that was done.

        It may take as long as a model does, and holds up nobody: what is said meanwhile is kept after the summary. Two
        at once do no harm: one of them does nothing. A summary that fails leaves the session as it was, and is logged.
        """
        ...


MOST_BYTES: Final = 1_000_000
"""So long may a text be, in UTF-8; and so long the arguments of a call, all in all."""

MOST_CHARACTERS: Final = 500
"""So long may what names something be: a session, a run, a call, a tool, an author."""

_MOST_DEPTH: Final = 50
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")
_ROLES_OF_TEXT: Final = (MessageRole.USER, MessageRole.ASSISTANT, MessageRole.SYSTEM)


def storable(text: str) -> str:
    """Text that every database takes: NUL, and halves of surrogate pairs, become U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)


def kept_text(text: str) -> str:
    """Text as it is kept: storable, and cut with a note if it is longer than `MOST_BYTES`."""
    return _cut(storable(text))


def checked_name(name: str, what: str) -> str:
    """The name of a session or run, if it can be one. Raises Invalid."""
    if not 0 < len(name) <= MOST_CHARACTERS or _UNSTORABLE.search(name):
        raise Invalid(
            f"The id of a {what} has 1 to {MOST_CHARACTERS} characters, and no NUL.", fields={what: "another id"}
        )
    return name


def kept(message: SessionMessage) -> SessionMessage:
    """A message as it is kept. What is too long is cut, and says so."""
    return replace(
        message,
        text=kept_text(message.text),
        author=_name(message.author),
        call_id=_name(message.call_id),
        tool=_name(message.tool),
        arguments=_kept_arguments(message.arguments),
    )


def message_of(role: MessageRole | str, content: str | Mapping[str, object]) -> SessionMessage:
    """A message out of its role and content (see `swarm.domain.model.sessions.Memory.add_message`). Raises Invalid."""
    try:
        known = MessageRole(role)
    except ValueError:
        raise _refused("role", f"one of {', '.join(MessageRole)}") from None
    if known in _ROLES_OF_TEXT:
        if not isinstance(content, str) or not content.strip():
            raise _refused("content", "text that is not empty")
        return SessionMessage(role=known, text=content)
    if isinstance(content, str):
        raise _refused("content", 'a mapping with "id" and "name"')
    return _of_tool(known, content)


def plain(value: object, depth: int = 0) -> Any:
    """A value as JSON has it: with storable text, what is unknown as text, and nothing nested deeper than needed."""
    if isinstance(value, str):
        return storable(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth >= _MOST_DEPTH:
        return "(nested too deeply to be kept)"
    if isinstance(value, Mapping):
        return {storable(str(key)): plain(inner, depth + 1) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [plain(inner, depth + 1) for inner in value]
    return storable(str(value))


def _of_tool(role: MessageRole, content: Mapping[str, object]) -> SessionMessage:
    call_id, tool = content.get("id"), content.get("name")
    if not isinstance(call_id, str) or not call_id or not isinstance(tool, str) or not tool:
        raise _refused("content", 'a mapping with "id" and "name", both text')
    if role is MessageRole.TOOL_RESULT:
        answer = content.get("content", "")
        text = answer if isinstance(answer, str) else json.dumps(plain(answer), ensure_ascii=False)
        return SessionMessage(role=role, call_id=call_id, tool=tool, text=text, failed=bool(content.get("failed")))
    arguments = content.get("arguments") or {}
    if not isinstance(arguments, Mapping):
        raise _refused("content", 'a mapping whose "arguments" are a mapping')
    return SessionMessage(role=role, call_id=call_id, tool=tool, arguments=arguments)


def _kept_arguments(arguments: Mapping[str, object]) -> Mapping[str, object]:
    kept_whole: dict[str, object] = plain(arguments)
    size = _size(kept_whole)
    if size <= MOST_BYTES:
        return kept_whole
    return {"not_kept": f"The arguments had {size} bytes, which is more than is kept."}


def _size(value: object) -> int:
    """About so many bytes of JSON."""
    if isinstance(value, str):
        return len(value.encode()) + 2
    if isinstance(value, dict):
        return sum(_size(key) + _size(inner) + 2 for key, inner in value.items()) + 2
    if isinstance(value, list):
        return sum(_size(inner) + 1 for inner in value) + 2
    return len(str(value))


def _cut(text: str) -> str:
    if len(text) * 4 <= MOST_BYTES:
        return text
    encoded = text.encode()
    if len(encoded) <= MOST_BYTES:
        return text
    return encoded[:MOST_BYTES].decode(errors="ignore") + f"\n[Cut: there were {len(encoded)} bytes.]"


def _name(text: str) -> str:
    return storable(text)[:MOST_CHARACTERS]


def _refused(field: str, expected: str) -> Invalid:
    return Invalid(f"A message of a session has as its {field} {expected}.", fields={field: expected})


_OF_TOOLS = (MessageRole.TOOL_USE, MessageRole.TOOL_RESULT)


def tool_pairs(messages: Sequence[SessionMessage]) -> Mapping[int, int]:
    """The uses of tools that have a result, each with it, as places in ``messages``."""
    waiting: dict[str, list[int]] = {}
    found: dict[int, int] = {}
    for place, message in enumerate(messages):
        if message.role is MessageRole.TOOL_USE:
            waiting.setdefault(message.call_id, []).append(place)
        elif message.role is MessageRole.TOOL_RESULT and waiting.get(message.call_id):
            found[waiting[message.call_id].pop()] = place
    return found


def compaction_point(messages: Sequence[SessionMessage], keep: int) -> int:
    """Where to cut so that at least the last ``keep`` messages stay together with their like: how many come before.

    Calls that were made side by side, and their results, are one: the cut is before the first of them.
    """
    place = max(len(messages) - keep, 0)
    whole = tool_pairs(messages)
    while parted := [use for use, result in whole.items() if use < place <= result]:
        place = min(parted)
    return place


def tellable(messages: Sequence[SessionMessage]) -> list[SessionMessage]:
    """What may be told to a model, which refuses a use without its result, a result without its use, and empty words.

    A history has such after a crash, when somebody has added messages singly, or because an answer was empty.
    """
    whole = tool_pairs(messages)
    in_pairs = whole.keys() | set(whole.values())
    return [
        message
        for place, message in enumerate(messages)
        if (place in in_pairs if message.role in _OF_TOOLS else message.text.strip())
    ]


def recent_messages(messages: Sequence[SessionMessage], limit: int | None) -> list[SessionMessage]:
    """The last so many that may be told, and those before them without which they could not be; None: all."""
    told = tellable(messages)
    return told if limit is None else told[compaction_point(told, limit) :]


def to_summarise(messages: Sequence[SessionMessage], threshold: int, keep_recent: int) -> Sequence[SessionMessage]:
    """The first of the messages that are told: those to put into the summary. Empty unless there is need and use.

    There is need above ``threshold`` messages, and use unless there is nothing but an earlier summary.
    """
    if len(messages) <= threshold:
        return ()
    older = messages[: compaction_point(messages, keep_recent)]
    worth = tellable(older)
    return older if len(worth) > 1 or any(message.role is not MessageRole.SYSTEM for message in worth) else ()
