"""Changes of the workspace. Delivery turns them into Slack events, and the page into updates."""

from dataclasses import dataclass

from slack_twin.errors import Json
from slack_twin.messages import Message, Pin
from slack_twin.people import Channel


@dataclass(frozen=True, kw_only=True)
class MessagePosted:
    channel: Channel
    message: Message
    by: str | None = None  # the person whose action a channel notice describes, if it affected another person


@dataclass(frozen=True, kw_only=True)
class MessageChanged:
    channel: Channel
    message: Message
    previous: Message
    ts: str  # the timestamp of the change itself
    is_live: bool = False  # streamed text: readers see it immediately, and apps get an event at the end


@dataclass(frozen=True, kw_only=True)
class MessageDeleted:
    channel: Channel
    previous: Message
    ts: str  # the timestamp of the change itself
    tombstone: Message | None  # replaces a root message that has replies


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
    inviter: str | None = None  # None for members who joined by themselves


@dataclass(frozen=True, kw_only=True)
class MemberLeft:
    channel: Channel
    user: str
    ts: str
    removed_by: str | None = None  # None for members who left by themselves


@dataclass(frozen=True, kw_only=True)
class ChannelCreated:
    channel: Channel
    user: str
    ts: str


@dataclass(frozen=True, kw_only=True)
class ChannelRenamed:
    channel: Channel
    user: str
    ts: str


@dataclass(frozen=True, kw_only=True)
class ChannelArchived:
    """A channel was archived or unarchived; the channel has the new state."""

    channel: Channel
    user: str
    ts: str


@dataclass(frozen=True, kw_only=True)
class PinChanged:
    """A message was pinned to its channel, or unpinned if `is_gone` is true."""

    channel: Channel
    message: Message
    pin: Pin
    user: str
    ts: str
    is_gone: bool = False


@dataclass(frozen=True, kw_only=True)
class EphemeralPosted:
    """An ephemeral message was posted. The same `ts` replaces it, and `is_gone` removes it."""

    channel: Channel
    user: str
    app_id: str
    ts: str
    text: str
    blocks: tuple[Json, ...]
    thread_ts: str | None
    is_gone: bool = False


@dataclass(frozen=True, kw_only=True)
class StatusChanged:
    """An app set its status in a thread; an empty text clears it."""

    channel: Channel
    thread_ts: str
    app_id: str
    text: str
    loading_messages: tuple[str, ...] = ()  # shown in rotation


@dataclass(frozen=True, kw_only=True)
class AssistantChanged:
    """An app changed its display in a thread: the title, suggested prompts, or the session's state."""

    channel: Channel
    thread_ts: str
    app_id: str


@dataclass(frozen=True, kw_only=True)
class AppTold:
    """An event for a single app, in Slack's format; people do not see it."""

    channel: Channel
    app_id: str
    body: Json


@dataclass(frozen=True, kw_only=True)
class ViewChanged:
    """A modal was opened, updated or closed, or a home tab published; `surfaces` has the new state."""

    channel: Channel  # the direct conversation between the person and the app
    user: str
    view_id: str


Change = (
    MessagePosted
    | MessageChanged
    | MessageDeleted
    | ReactionAdded
    | ReactionRemoved
    | MemberJoined
    | MemberLeft
    | ChannelCreated
    | ChannelRenamed
    | ChannelArchived
    | PinChanged
    | EphemeralPosted
    | StatusChanged
    | AssistantChanged
    | AppTold
    | ViewChanged
)
