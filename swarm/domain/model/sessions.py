"""Sessions: a built-in agent's memory of a conversation, which survives restarts of the coordinator.

A session grows by blocks, one per run: the input, the tool calls with their results, and the answer. A complete block
is stored when its run has ended, so no tool call lacks its result, except calls that wait for people's approval: their
results are added when people have decided, and the run that continues takes over the block. Several runs that answer
the same Slack message are attempts: a run sees none of the other attempts, and the run that answers replaces them. The
older part of a long session is summarised; from then on the agent gets the summary instead. The original messages stay,
including all attempts.

Compaction never separates a tool call from its result: both are summarised, or both are kept. They are paired by call
id. Some models restart the numbering of calls in each run, so a result belongs to the last call with its id that has no
result.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final, Protocol

from swarm.domain.errors import Invalid

COMPACTION_THRESHOLD: Final = 50
KEEP_RECENT_MESSAGES: Final = 5


class MessageRole(StrEnum):
    """The role of a session message."""

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"  # the summary of the earlier messages
    TOOL_USE = "tool_use"
    TOOL_RESULT = "tool_result"


@dataclass(frozen=True, kw_only=True, slots=True)
class SessionMessage:
    """One message of a session."""

    role: MessageRole
    text: str = ""  # for a tool's result: the result; empty for a tool call
    author: str = ""  # for a user's message: the display name
    call_id: str = ""  # connects a tool call with its result
    tool: str = ""  # for a tool call and its result: the tool's name
    arguments: Mapping[str, object] = field(default_factory=dict)  # for a tool call
    failed: bool = False  # for a tool's result
    source: str = ""  # for a user's message from Slack: the id of its inbox message or task
    waits_in: str = ""  # for a tool call that people have to approve: the conversation in which they are asked
    position: int = 0  # 1 is the session's first; 0: not stored
    created_at: int = 0  # microseconds since 1970 UTC; 0: not stored


@dataclass(frozen=True, kw_only=True, slots=True)
class WaitingTurn:
    """The stored messages of a run that asked people to approve tool calls, oldest first."""

    run: str  # the run's id, as in `Memory.add_run`
    messages: Sequence[SessionMessage]

    @property
    def open_calls(self) -> tuple[SessionMessage, ...]:
        """The calls that still wait. A call whose result is stored does not wait any more."""
        return open_calls(self.messages)


@dataclass(frozen=True, kw_only=True, slots=True)
class Session:
    """A session without its messages."""

    id: str
    agent: str  # the id of the owner: two agents in one conversation have separate sessions
    metadata: Mapping[str, object]
    messages: int  # the number of messages that the agent gets, including the summary
    created_at: int  # microseconds since 1970 UTC
    updated_at: int


class SessionScope(StrEnum):
    """The Slack conversations that share a session."""

    USER = "user"  # a person in a channel, across all its threads
    THREAD = "thread"  # a thread, with all its participants


Summarise = Callable[[str, Sequence[SessionMessage]], Awaitable[str]]
"""Summarises messages of a session, given by its id. May raise any error; the session then stays unchanged."""


class CallMemory(Protocol):
    """The tool calls in the sessions of one agent that wait for people's approval."""

    async def waiting_turn(
        self, session_id: str, conversation_id: str, call_ids: Collection[str] = ()
    ) -> WaitingTurn | None:
        """Returns the last run that asked people in this conversation to approve tool calls, also if it does not wait
        any more; None if there is none.

        With ``call_ids``, only a run that asked for one of these calls.
        """
        ...

    async def settle_calls(self, session_id: str, run: str, results: Sequence[SessionMessage]) -> frozenset[str]:
        """Adds results to waiting calls of a run, in one transaction. Returns the ids of the calls that still waited.

        A call is settled once, whoever tries it how often: a result for a call that does not wait is ignored.
        """
        ...

    async def change_result(self, session_id: str, run: str, result: SessionMessage) -> None:
        """Stores the result of a tool that has run, in place of the result from `settle_calls`."""
        ...


class RunMemory(CallMemory, Protocol):
    """The part of `Memory` that answers a run."""

    async def get_messages(
        self, session_id: str, limit: int | None = None, *, run_id: str = ""
    ) -> list[SessionMessage]:
        """Returns the messages that the agent gets; see `Memory.get_messages`."""
        ...


class Memory(RunMemory, Protocol):
    """The sessions of one agent. Every method raises Unavailable while the database is unavailable."""

    async def owner(self) -> str:
        """Returns the id of the agent to which the sessions belong now. Raises NotFound after its removal."""
        ...

    async def get_or_create_session(self, session_id: str, metadata: Mapping[str, object] | None = None) -> Session:
        """Returns the session. An existing session keeps its metadata, except for the given keys."""
        ...

    async def get_messages(
        self, session_id: str, limit: int | None = None, *, run_id: str = ""
    ) -> list[SessionMessage]:
        """Returns the messages that the agent gets, oldest first: the summary, if any, and all messages after it.

        ``limit`` restricts the result to the last messages, plus the messages that keep a tool call with its result.
        Empty for an unknown session. With the ``run_id`` of a run in Slack, the result excludes other attempts at the
        same answer; if the summary includes such an attempt, the last original messages are returned instead of the
        summary.
        """
        ...

    async def shown_before(self, run_id: str) -> frozenset[str]:
        """Returns the Slack messages (``ts``) that show other attempts at the run's answer."""
        ...

    async def get_originals(self, session_id: str) -> list[SessionMessage]:
        """Returns all messages ever stored, oldest first, without summaries."""
        ...

    async def add_message(
        self, session_id: str, role: MessageRole | str, content: str | Mapping[str, object]
    ) -> SessionMessage:
        """Adds one message and creates a missing session. Raises Invalid for an invalid role or content.

        ``content`` is text, or a mapping for tools: ``{"id", "name", "arguments"}`` for a call, ``{"id", "name",
        "content", "failed"}`` for a result.
        """
        ...

    async def add_run(
        self,
        session_id: str,
        run: str,
        messages: Sequence[SessionMessage],
        *,
        run_id: str = "",
        has_answered: bool = True,
        continues: str = "",
        owner: str = "",
        metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Adds all messages of a run, identified by its id, at once, and describes the session as
        `get_or_create_session` does. Messages stored earlier stay unchanged.

        With the ``run_id`` of a run in Slack: a run that ``has_answered`` replaces all earlier attempts at the same
        answer; a run that broke off replaces none. If a newer attempt exists, the messages are kept only among the
        originals.

        ``continues`` is the run whose waiting tool calls this run has settled. Unless this run broke off, the messages
        of both become the messages of this run. Nothing is stored if the other run's messages have been erased, nor if
        the sessions no longer belong to ``owner``.
        """
        ...

    async def compact_session(self, session_id: str) -> bool:
        """Summarises all but the last messages if their number exceeds the threshold. Returns whether it did.

        May take as long as a model call without blocking other calls: messages that arrive in the meantime follow the
        summary. Of two concurrent calls, one does nothing. A failed summary is logged and leaves the session unchanged.
        """
        ...


MOST_BYTES: Final = 1_000_000
"""The maximum size of a text, and of a call's arguments together, in bytes of UTF-8."""

MOST_CHARACTERS: Final = 500
"""The maximum length of a name or id of a session, run, call, tool or author."""

_MOST_DEPTH: Final = 50
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")
_ROLES_OF_TEXT: Final = (MessageRole.USER, MessageRole.ASSISTANT, MessageRole.SYSTEM)


def storable(text: str) -> str:
    """Returns text that every database accepts: NUL and lone surrogates become U+FFFD."""
    return _UNSTORABLE.sub("\ufffd", text)


def kept_text(text: str) -> str:
    """Returns text prepared for storage, and cut with a note beyond `MOST_BYTES`."""
    return _cut(storable(text))


def checked_name(name: str, what: str) -> str:
    """Returns the id of a session or run. Raises Invalid for an invalid id."""
    if not 0 < len(name) <= MOST_CHARACTERS or _UNSTORABLE.search(name):
        raise Invalid(
            f"The id of a {what} must have 1 to {MOST_CHARACTERS} characters and no NUL.", fields={what: "another id"}
        )
    return name


def kept(message: SessionMessage) -> SessionMessage:
    """Returns a message prepared for storage. Long parts are cut, with a note."""
    return replace(
        message,
        text=kept_text(message.text),
        author=_name(message.author),
        call_id=_name(message.call_id),
        tool=_name(message.tool),
        arguments=_kept_arguments(message.arguments),
    )


def message_of(role: MessageRole | str, content: str | Mapping[str, object]) -> SessionMessage:
    """Builds a message from role and content (see `Memory.add_message`). Raises Invalid."""
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
    """Returns a value as JSON types: storable text, unknown types as text, and a limited depth."""
    if isinstance(value, str):
        return storable(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if depth >= _MOST_DEPTH:
        return "(nested too deeply to be stored)"
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
    """Returns the approximate size as JSON, in bytes."""
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
    """Returns the tool calls that have a result, as a mapping from the call's position to the result's position."""
    waiting: dict[str, list[int]] = {}
    found: dict[int, int] = {}
    for place, message in enumerate(messages):
        if message.role is MessageRole.TOOL_USE:
            waiting.setdefault(message.call_id, []).append(place)
        elif message.role is MessageRole.TOOL_RESULT and waiting.get(message.call_id):
            found[waiting[message.call_id].pop()] = place
    return found


def open_calls(messages: Sequence[SessionMessage]) -> tuple[SessionMessage, ...]:
    """Returns the tool calls that wait for people's approval."""
    whole = tool_pairs(messages)
    return tuple(message for place, message in enumerate(messages) if message.waits_in and place not in whole)


def compaction_point(messages: Sequence[SessionMessage], keep: int) -> int:
    """Returns the number of messages before a cut that keeps at least the last ``keep`` messages together.

    Parallel calls and their results stay together: the cut precedes the first of them.
    """
    place = max(len(messages) - keep, 0)
    whole = tool_pairs(messages)
    while parted := [use for use, result in whole.items() if use < place <= result]:
        place = min(parted)
    return place


def messages_for_model(messages: Sequence[SessionMessage]) -> list[SessionMessage]:
    """Returns the messages that a model accepts: no tool call without its result, no result without its call, no empty
    text.

    Other messages exist after a crash, after individual `add_message` calls, and after an empty answer.
    """
    whole = tool_pairs(messages)
    in_pairs = whole.keys() | set(whole.values())
    return [
        message
        for place, message in enumerate(messages)
        if (place in in_pairs if message.role in _OF_TOOLS else message.text.strip())
    ]


def recent_messages(messages: Sequence[SessionMessage], limit: int | None) -> list[SessionMessage]:
    """Returns the last ``limit`` messages for a model, plus the calls for their results. A ``limit`` of None returns
    all.
    """
    sendable = messages_for_model(messages)
    return sendable if limit is None else sendable[compaction_point(sendable, limit) :]


def to_summarise(messages: Sequence[SessionMessage], threshold: int, keep_recent: int) -> Sequence[SessionMessage]:
    """Returns the leading messages to summarise; empty if a summary is unnecessary or useless.

    A summary is necessary above ``threshold`` messages, and useless if the only such message is an earlier summary.
    """
    if len(messages) <= threshold:
        return ()
    older = messages[: compaction_point(messages, keep_recent)]
    worth = messages_for_model(older)
    return older if len(worth) > 1 or any(message.role is not MessageRole.SYSTEM for message in worth) else ()
