"""What is said in a thread: messages as Slack tells us of them, and as we keep them.

Threads: one Slack conversation, its owner, and how much of it we know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from swarm.domain.model.states import step

CONTEXT_WAIT_SECONDS: Final = 10
"""So long a message waits for its thread to be read from Slack; then it goes out with ``context_incomplete``."""


class AuthorKind(StrEnum):
    """Who wrote a message."""

    USER = "user"
    AGENT = "agent"  # one of ours
    BOT = "bot"  # somebody else's


class Standing(StrEnum):
    """How the author of a message stands to the workspace and, where that is the channel's rule, to the channel."""

    MEMBER = "member"  # also our own agents, and bots on the channel's list
    GUEST = "guest"
    EXTERNAL = "external"  # of another workspace
    UNVERIFIED = "unverified"  # Slack does not know the author, or has not said yet
    NOT_ALLOWED = "not_allowed"  # a member, or a bot, whom the channel's lists leave out


STRANGERS: Final = frozenset({Standing.GUEST, Standing.EXTERNAL, Standing.UNVERIFIED})
"""Whose words alone make nothing write."""

STANDING_WORDS: Final[Mapping[Standing, str]] = {
    Standing.GUEST: "a guest",
    Standing.EXTERNAL: "of another workspace",
    Standing.UNVERIFIED: "unverified",
    Standing.NOT_ALLOWED: "not allowed here",
}
"""How a message is marked for its readers; a member's has no mark."""


class ChannelType(StrEnum):
    """Where a message was written."""

    CHANNEL = "channel"  # public or private
    DM = "dm"
    GROUP = "group"  # a direct message among several people


class ContextState(StrEnum):
    """How much of a thread we know.

    ::

        unknown | loading | stale → loading     begin
        loading → complete                      load
        loading → unknown                       give_up
        complete | loading → stale              doubt
    """

    UNKNOWN = "unknown"
    LOADING = "loading"
    COMPLETE = "complete"
    STALE = "stale"


class ContextStep(StrEnum):
    """What can happen to our knowledge of a thread."""

    BEGIN = "begin"  # to read it from Slack; again, if a reader was never heard of again
    LOAD = "load"
    GIVE_UP = "give_up"
    DOUBT = "doubt"  # something may have been missed, also by a read under way


_C = ContextState

CONTEXT_TRANSITIONS: Final = {
    ContextStep.BEGIN: step(_C.UNKNOWN, _C.LOADING, _C.STALE, to=_C.LOADING),
    ContextStep.LOAD: step(_C.LOADING, to=_C.COMPLETE),
    ContextStep.GIVE_UP: step(_C.LOADING, to=_C.UNKNOWN),
    ContextStep.DOUBT: step(_C.COMPLETE, _C.LOADING, to=_C.STALE),
}


@dataclass(frozen=True, kw_only=True, slots=True)
class File:
    """An attachment, by name; its content stays in Slack until somebody asks for it."""

    id: str
    name: str
    mimetype: str | None = None
    size_bytes: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Author:
    """Who wrote a message. ``id`` is a user's id (``U…``, ``W…``) or, of a bot without a user, the bot's (``B…``)."""

    id: str
    kind: AuthorKind
    name: str | None = None  # the display name, where it is known
    bot_id: str | None = None
    teams: tuple[str, ...] = ()  # the workspaces that Slack names as the author's own, where it says so
    standing: Standing | None = None  # None: not known yet, which counts as a stranger's


@dataclass(frozen=True, kw_only=True, slots=True)
class SlackMessage:
    """A message of a conversation as Slack told it, whatever the event was called."""

    channel: str
    ts: str
    thread_ts: str | None  # None for a message outside any thread and for a thread's root
    author: Author
    text: str  # as Slack stores it: <@U…>, <#C…>, &amp;
    subtype: str | None = None
    channel_type: ChannelType = ChannelType.CHANNEL
    files: tuple[File, ...] = ()
    edited_ts: str | None = None  # when it was last edited
    event_id: str | None = None
    delivery_id: str | None = None  # our own key, from a post's metadata
    has_replies: bool = False  # as its conversation's history says of a root; an event does not say it
    quoted: str = ""  # the end of ``text`` that somebody else has said, in a message that is forwarded

    @property
    def own_text(self) -> str:
        """What the author says: mentions and addresses count here, and not in what is forwarded."""
        return self.text.removesuffix(self.quoted)

    @property
    def root_ts(self) -> str:
        """The timestamp that names the thread which this message belongs to or opens."""
        return self.thread_ts or self.ts

    @property
    def is_root(self) -> bool:
        return self.thread_ts is None or self.thread_ts == self.ts


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelMessage:
    """A message as the history of its conversation shows it: outside of threads, or the root of one."""

    message: SlackMessage
    latest_reply_ts: str | None = None  # of the newest message in its thread


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageEdited:
    """Slack says that a message reads differently now."""

    message: SlackMessage
    previous_text: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageDeleted:
    """Slack says that a message is gone."""

    channel: str
    ts: str
    thread_ts: str | None
    event_id: str | None = None


SlackEvent = SlackMessage | MessageEdited | MessageDeleted


@dataclass(frozen=True, kw_only=True, slots=True)
class TranscriptMessage:
    """One message of a transcript, ready to be read by an agent or a person."""

    ts: str
    author_id: str
    author: str  # display name, or the agent's name
    kind: AuthorKind
    text: str
    edited: bool
    files: tuple[File, ...]
    standing: Standing = Standing.MEMBER


OWNED_FOR_IDLE_DAYS: Final = 7
"""Ownership of a thread ends after so many days without a message."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Thread:
    """A thread that the swarm takes part in."""

    id: str
    team: str
    channel: str
    thread_ts: str
    channel_type: ChannelType
    owner_id: str | None
    epoch: int  # counts the changes of owner
    context: ContextState
    told_queued_at: int | None  # when the thread was told that nobody is there; None once it was answered
    watermark_ts: str  # what was said later than this and was not routed was missed
