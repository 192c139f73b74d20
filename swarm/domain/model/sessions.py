"""Sessions: what a built-in agent remembers of a conversation, however often the coordinator restarts.

A session grows by blocks, one for each run: what was said to the agent, the tools it called with what they answered,
and its answer. A block is stored when its run is over, whole, so a tool's call is never without its result. Where a
message in Slack is answered once more, its runs are attempts: while one goes on, it is told none of the others, and the
one that answers takes their place. When a session has grown long, its older part is summarised (`compaction`): from
then on the agent is told the summary in its place. The originals stay, all attempts among them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Protocol

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
