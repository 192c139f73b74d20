"""Slack threads: their messages, authors and events, the owner, and how much of a thread is known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from swarm.domain.model.states import step
from swarm.domain.text.slack_text import without_quotations
from swarm.domain.views import Hidden, JsonView

CONTEXT_WAIT_SECONDS: Final = 10
"""The maximum wait for a thread's history from Slack; then the message is handed out with ``context_incomplete``."""


FLAT: Final = ""
"""The ``thread_ts`` of a flat direct message: all its messages outside threads are one conversation without a root."""

FLAT_MESSAGES: Final = 200
"""The number of earlier messages of a flat direct message that agents see. It has no end, unlike a thread."""


class AuthorKind(StrEnum):
    """The kind of a message's author."""

    USER = "user"
    AGENT = "agent"  # an agent of this swarm
    BOT = "bot"  # another app


class Standing(StrEnum):
    """The author's standing in the workspace and, according to the channel's policy, in the channel."""

    MEMBER = "member"  # also the swarm's own agents, and bots on the channel's list
    GUEST = "guest"
    EXTERNAL = "external"  # from another workspace
    UNVERIFIED = "unverified"  # unknown to Slack, or not looked up yet
    NOT_ALLOWED = "not_allowed"  # a member or bot that the channel's lists exclude


STRANGERS: Final = frozenset({Standing.GUEST, Standing.EXTERNAL, Standing.UNVERIFIED})
"""Messages from these authors alone never start a tool that writes."""

STANDING_WORDS: Final[Mapping[Standing, str]] = {
    Standing.GUEST: "a guest",
    Standing.EXTERNAL: "of another workspace",
    Standing.UNVERIFIED: "unverified",
    Standing.NOT_ALLOWED: "not allowed here",
}
"""The mark of a message for its readers; a member's message has no mark."""


class ChannelType(StrEnum):
    """The type of a message's conversation."""

    CHANNEL = "channel"  # public or private
    DM = "dm"
    GROUP = "group"  # a direct message between several people


def is_user(author_id: str) -> bool:
    """Whether an id belongs to a person; ids of bots and agents have other prefixes."""
    return author_id.startswith(("U", "W"))


class ContextState(StrEnum):
    """How much of a thread is known.

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
    """The steps of a thread's context."""

    BEGIN = "begin"  # starts reading from Slack; repeated if the previous reader has vanished
    LOAD = "load"
    GIVE_UP = "give_up"
    DOUBT = "doubt"  # messages may have been missed, even by a read in progress


_C = ContextState

CONTEXT_TRANSITIONS: Final = {
    ContextStep.BEGIN: step(_C.UNKNOWN, _C.LOADING, _C.STALE, to=_C.LOADING),
    ContextStep.LOAD: step(_C.LOADING, to=_C.COMPLETE),
    ContextStep.GIVE_UP: step(_C.LOADING, to=_C.UNKNOWN),
    ContextStep.DOUBT: step(_C.COMPLETE, _C.LOADING, to=_C.STALE),
}


class Silence(StrEnum):
    """Why nothing of a thread's work is shown, or that people have asked in vain so far; see `ChannelPolicy.overthink`.

    ::

        silent → asked    a person mentions the bot or an agent in the thread
        silent | asked → (none)    an answer is shown
    """

    SILENT = "silent"  # nobody has asked: nothing is shown before an answer that the agent is sure of
    ASKED = "asked"  # somebody has asked since, and has no answer yet


@dataclass(frozen=True, kw_only=True, slots=True)
class File(JsonView):
    """An attachment, by name.

    Its content stays in Slack until requested.
    """

    id: str
    name: str
    mimetype: str | None = None
    size_bytes: int | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class PersonFacts:
    """Slack's statements about a person, as far as lists of people need them. They are looked up anew, never stored."""

    groups: Mapping[str, bool] = field(default_factory=dict, hash=False)  # membership by user group; others are unknown
    hidden_groups: frozenset[str] = frozenset()  # among ``groups``: Slack refuses to show their members
    domain: str | None = None  # of the confirmed e-mail address; "": Slack shows none; None: unknown


NO_FACTS: Final = PersonFacts()


@dataclass(frozen=True, kw_only=True, slots=True)
class Author:
    """The author of a message. ``id`` is a user id (``U…``, ``W…``); for a bot without a user, the bot id (``B…``)."""

    id: str
    kind: AuthorKind
    name: str | None = None  # the display name, if known
    bot_id: str | None = None
    teams: tuple[str, ...] = ()  # the author's own workspaces, if Slack reports them
    standing: Standing | None = None  # None: unknown, treated as a stranger's
    facts: PersonFacts = NO_FACTS


@dataclass(frozen=True, kw_only=True, slots=True)
class SlackMessage:
    """A message from Slack, independent of the event type that carried it."""

    channel: str
    ts: str
    thread_ts: str | None  # None for a message outside any thread and for a thread's root; `FLAT`: of a flat DM
    author: Author
    text: str  # in Slack's stored form: <@U…>, <#C…>, &amp;
    subtype: str | None = None
    channel_type: ChannelType = ChannelType.CHANNEL
    files: tuple[File, ...] = ()
    edited_ts: str | None = None  # the time of the last edit
    event_id: str | None = None
    delivery_id: str | None = None  # the key in the metadata of the swarm's own post
    has_replies: bool = False  # for a root in a conversation's history; events do not have it
    quoted: str = ""  # the end of ``text`` with what others said, and what is spoken in a clip or pasted as a file
    blocks: str = ""  # the blocks of a bot's root message as JSON text, bounded; empty without blocks
    attachments: str = ""  # the same for its attachments

    @property
    def own_text(self) -> str:
        """The author's own text. Mentions, addresses and commands count here, but not in what the author quotes."""
        return without_quotations(self.text.removesuffix(self.quoted))

    @property
    def root_ts(self) -> str:
        """The timestamp of the thread that this message belongs to or opens; `FLAT` in a flat direct message."""
        return self.ts if self.thread_ts is None else self.thread_ts

    @property
    def is_root(self) -> bool:
        """Whether the message is no reply in a thread."""
        return self.thread_ts in (None, FLAT, self.ts)


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelMessage:
    """A message in its conversation's history: outside of threads, or the root of a thread."""

    message: SlackMessage
    latest_reply_ts: str | None = None  # the newest message in its thread


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageEdited:
    """An edit of a message in Slack."""

    message: SlackMessage
    previous_text: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class MessageDeleted:
    """The deletion of a message in Slack."""

    channel: str
    ts: str
    thread_ts: str | None
    event_id: str | None = None


SlackEvent = SlackMessage | MessageEdited | MessageDeleted


@dataclass(frozen=True, kw_only=True, slots=True)
class TranscriptMessage(JsonView):
    """One message of a thread's transcript. ``standing`` is its author's standing."""

    contract_name = "MessageShape"

    ts: str
    author: str  # display name, or the agent's name
    kind: AuthorKind
    standing: Standing = Standing.MEMBER
    text: str
    edited: bool = False
    files: tuple[File, ...] = ()
    author_id: Hidden[str]


OWNED_FOR_IDLE_DAYS: Final = 7
"""Ownership of a thread ends after this many days without a message."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Thread:
    """A thread with the swarm as a participant."""

    id: str
    team: str
    channel: str
    thread_ts: str  # the root's timestamp; `FLAT` for the conversation of a flat direct message
    channel_type: ChannelType
    owner_id: str | None
    epoch: int  # the number of owner changes
    context: ContextState
    queued_notice_at: int | None  # when the thread was informed that no agent is online; None after an answer
    watermark_ts: str  # later messages that were not routed were missed
    silence: Silence | None = None

    @property
    def is_silent(self) -> bool:
        """Whether nothing of the thread's work may be shown."""
        return self.silence is Silence.SILENT

    @property
    def is_flat(self) -> bool:
        """Whether this is the conversation of a flat direct message: it has no root, and posts in it no thread."""
        return self.thread_ts == FLAT


def permalink(workspace_url: str, channel: str, ts: str) -> str:
    """Returns the address of a message; of a flat direct message, which has no first message, that of the channel."""
    link = f"{workspace_url.rstrip('/')}/archives/{channel}"
    return link if ts == FLAT else f"{link}/p{ts.replace('.', '')}"
