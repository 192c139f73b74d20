"""What happened in the workspace. Delivery turns it into Slack events, the page into updates."""

from dataclasses import dataclass

from swarm.twin.errors import Json
from swarm.twin.messages import Message
from swarm.twin.people import Channel


@dataclass(frozen=True, kw_only=True)
class MessagePosted:
    channel: Channel
    message: Message


@dataclass(frozen=True, kw_only=True)
class MessageChanged:
    channel: Channel
    message: Message
    previous: Message
    ts: str  # of the change itself


@dataclass(frozen=True, kw_only=True)
class MessageDeleted:
    channel: Channel
    previous: Message
    ts: str  # of the change itself
    tombstone: Message | None  # what stays in place of a root that has replies


@dataclass(frozen=True, kw_only=True)
class ReactionAdded:
    channel: Channel
    message: Message
    user: str
    name: str
    ts: str


@dataclass(frozen=True, kw_only=True)
class ReactionRemoved:
    channel: Channel
    message: Message
    user: str
    name: str
    ts: str


@dataclass(frozen=True, kw_only=True)
class MemberJoined:
    channel: Channel
    user: str
    ts: str


@dataclass(frozen=True, kw_only=True)
class EphemeralPosted:
    """Seen by one person on the page, and kept nowhere."""

    channel: Channel
    user: str
    app_id: str
    ts: str
    text: str
    blocks: tuple[Json, ...]
    thread_ts: str | None


@dataclass(frozen=True, kw_only=True)
class StatusChanged:
    """An app says what it is doing in a thread; an empty text clears it."""

    channel: Channel
    thread_ts: str
    app_id: str
    text: str


Change = (
    MessagePosted
    | MessageChanged
    | MessageDeleted
    | ReactionAdded
    | ReactionRemoved
    | MemberJoined
    | EphemeralPosted
    | StatusChanged
)
