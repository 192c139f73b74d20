"""Messages of one channel, indexed so that no call scans them all."""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from slack_twin.errors import Json
from slack_twin.files import File


@dataclass(frozen=True, kw_only=True)
class Reaction:
    """Everybody who reacted with one emoji, in the order they did."""

    name: str
    users: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Edit:
    user: str
    ts: str


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message as the workspace keeps it; text is in Slack's form (`<@U…>`, `&lt;`)."""

    ts: str
    channel: str
    user: str  # the person, or the bot user of the app that posted
    text: str
    app_id: str | None = None  # the app that posted; None for people
    thread_ts: str | None = None  # the root, for replies only
    subtype: str | None = None  # thread_broadcast, file_share, channel_join, me_message, tombstone
    blocks: tuple[Json, ...] = ()
    attachments: tuple[Json, ...] = ()
    metadata: Json | None = None  # {event_type, event_payload}
    files: tuple[File, ...] = ()
    reactions: tuple[Reaction, ...] = ()
    edited: Edit | None = None
    username: str | None = None  # the name an app chose for this post
    client_msg_id: str | None = None
    streaming: bool = False  # an app is still writing it (chat.startStream)
    details: Json | None = None  # what the subtype adds: the topic that was set, who invited

    @property
    def is_note(self) -> bool:
        """Whether it says what happened to the channel: who joined, what the topic is."""
        return (self.subtype or "").startswith(("channel_", "group_"))

    @property
    def in_history(self) -> bool:
        """Whether the channel itself shows it: roots, and replies also sent to the channel."""
        return self.thread_ts is None or self.subtype == "thread_broadcast"


@dataclass(kw_only=True)
class Thread:
    """The replies of one root, oldest first."""

    replies: list[str] = field(default_factory=list)
    authors: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, kw_only=True)
class Pin:
    """Who pinned a message to its channel, and when."""

    user: str
    created: int  # seconds since 1970


class MessageLog:
    """The messages of one channel: by timestamp, as the channel shows them, by thread, and those that are pinned."""

    def __init__(self) -> None:
        self.pins: dict[str, Pin] = {}  # by timestamp, the latest last
        self._by_ts: dict[str, Message] = {}
        self._shown: list[str] = []
        self._threads: dict[str, Thread] = {}

    def get(self, ts: str) -> Message | None:
        return self._by_ts.get(ts)

    def all(self) -> list[Message]:
        """Every message, replies included, oldest first."""
        return list(self._by_ts.values())

    def thread(self, root_ts: str) -> Thread | None:
        return self._threads.get(root_ts)

    def add(self, message: Message) -> None:
        """Append a message that is newer than all others."""
        self._by_ts[message.ts] = message
        if message.in_history:
            insort(self._shown, message.ts)
        if message.thread_ts is not None:
            thread = self._threads.setdefault(message.thread_ts, Thread())
            thread.replies.append(message.ts)
            thread.authors[message.user] += 1

    def keep(self, most: int) -> None:
        """Forget the oldest messages beyond `most`; replies may outlive their root."""
        while len(self._by_ts) > most:
            self.remove(next(iter(self._by_ts.values())))

    def replace(self, message: Message) -> None:
        """Put a changed version of a message in its place; its timestamp and thread do not change."""
        self._by_ts[message.ts] = message

    def remove(self, message: Message) -> None:
        del self._by_ts[message.ts]
        self.pins.pop(message.ts, None)
        if message.in_history:
            _discard(self._shown, message.ts)
        if message.thread_ts is not None:
            self._leave_thread(message, message.thread_ts)

    def _leave_thread(self, message: Message, root_ts: str) -> None:
        thread = self._threads[root_ts]
        _discard(thread.replies, message.ts)
        thread.authors[message.user] -= 1
        thread.authors += Counter()  # drops the authors who have no reply left
        if not thread.replies:
            del self._threads[root_ts]

    def shown(self, *, after: str = "", before: str = "~") -> Sequence[str]:
        """Timestamps the channel shows with `after` <= ts < `before`, oldest first."""
        return self._shown[bisect_left(self._shown, after) : bisect_left(self._shown, before)]

    def replies(self, root_ts: str, *, after: str = "", before: str = "~") -> Sequence[str]:
        """Timestamps of the replies with `after` <= ts < `before`, oldest first."""
        thread = self._threads.get(root_ts)
        if thread is None:
            return ()
        return thread.replies[bisect_left(thread.replies, after) : bisect_left(thread.replies, before)]


def _discard(ordered: list[str], ts: str) -> None:
    place = bisect_left(ordered, ts)
    if place < len(ordered) and ordered[place] == ts:
        del ordered[place]
