"""What happened in the workspace. Delivery turns it into Slack events, the page into updates."""

from dataclasses import dataclass

from slack_twin.errors import Json
from slack_twin.messages import Message, Pin
from slack_twin.people import Channel


@dataclass(frozen=True, kw_only=True)
class MessagePosted:
    channel: Channel
    message: Message
    by: str | None = None  # who did what a note in the channel says, when it happened to somebody else


@dataclass(frozen=True, kw_only=True)
class MessageChanged:
    channel: Channel
    message: Message
    previous: Message
    ts: str  # of the change itself
    is_live: bool = False  # text that a stream adds: readers see it grow, apps hear of it when the stream ends


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
    inviter: str | None = None  # None for those who came by themselves


@dataclass(frozen=True, kw_only=True)
class MemberLeft:
    channel: Channel
    user: str
    ts: str
    removed_by: str | None = None  # None for those who went by themselves


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
    """A channel was archived, or taken back from there: what it is now is in the channel."""

    channel: Channel
    user: str
    ts: str


@dataclass(frozen=True, kw_only=True)
class PinChanged:
    """A message was pinned to its channel, or with `is_gone` taken off."""

    channel: Channel
    message: Message
    pin: Pin
    user: str
    ts: str
    is_gone: bool = False


@dataclass(frozen=True, kw_only=True)
class EphemeralPosted:
    """Seen by one person. The same `ts` again means that it was replaced, or with `is_gone` taken away."""

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
    """An app says what it is doing in a thread; an empty text clears it."""

    channel: Channel
    thread_ts: str
    app_id: str
    text: str
    loading_messages: tuple[str, ...] = ()  # shown in turns


@dataclass(frozen=True, kw_only=True)
class AssistantChanged:
    """What an app shows beside a thread: its title, prompts to choose from, the state of its session."""

    channel: Channel
    thread_ts: str
    app_id: str


@dataclass(frozen=True, kw_only=True)
class AppTold:
    """An event for one app alone, as Slack writes it; people do not see it."""

    channel: Channel
    app_id: str
    body: Json


@dataclass(frozen=True, kw_only=True)
class ViewChanged:
    """A modal was opened, changed or closed, or a home tab published: what a person sees now is in `surfaces`."""

    channel: Channel  # the direct conversation of the person with the app
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
