"""The messages of one channel, with indexes that avoid full scans."""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from slack_twin.errors import Json
from slack_twin.files import File


@dataclass(frozen=True, kw_only=True)
class Reaction:
    """The users who reacted with one emoji, in order."""

    name: str
    users: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Edit:
    user: str
    ts: str


@dataclass(frozen=True, kw_only=True)
class Message:
    """One stored message; its text is in Slack's format (`<@U…>`, `&lt;`)."""

    ts: str
    channel: str
    user: str  # the person, or the bot user of the posting app
    text: str
    app_id: str | None = None  # the posting app; None for people
    thread_ts: str | None = None  # the root message's timestamp, for replies only
    subtype: str | None = None  # thread_broadcast, file_share, channel_join, me_message, tombstone
    blocks: tuple[Json, ...] = ()
    attachments: tuple[Json, ...] = ()
    metadata: Json | None = None  # {event_type, event_payload}
    files: tuple[File, ...] = ()
    reactions: tuple[Reaction, ...] = ()
    edited: Edit | None = None
    username: str | None = None  # the name that the app chose for this post
    client_msg_id: str | None = None
    streaming: bool = False  # the app is still streaming it (chat.startStream)
    live_for: str | None = None  # the only person who sees it grow; None: everybody
    begun: tuple[str, tuple[Json, ...]] = ("", ())  # the text and blocks that others see until its end
    details: Json | None = None  # additional fields of the subtype: the new topic, the inviter

    @property
    def is_note(self) -> bool:
        """Returns whether the message is a channel notice, such as a new member or a new topic."""
        return (self.subtype or "").startswith(("channel_", "group_"))

    def as_seen_by(self, user_id: str) -> "Message":
        """Returns the message for a reader: Slack shows a stream live to its recipient only."""
        if not self.streaming or self.live_for in (None, user_id):
            return self
        return replace(self, text=self.begun[0], blocks=self.begun[1])

    @property
    def in_history(self) -> bool:
        """Returns whether the channel shows the message: roots, and replies also sent to the channel."""
        return self.thread_ts is None or self.subtype == "thread_broadcast"


@dataclass(kw_only=True)
class Thread:
    """The replies to one root message, oldest first."""

    replies: list[str] = field(default_factory=list)
    authors: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, kw_only=True)
class Pin:
    """The user who pinned a message, and the time."""

    user: str
    created: int  # in seconds since 1970


class MessageLog:
    """The messages of one channel: by timestamp, in the channel's order, by thread, and the pinned ones."""

    def __init__(self) -> None:
        self.pins: dict[str, Pin] = {}  # by timestamp, the latest last
        self._by_ts: dict[str, Message] = {}
        self._shown: list[str] = []
        self._threads: dict[str, Thread] = {}

    def get(self, ts: str) -> Message | None:
        return self._by_ts.get(ts)

    def all(self) -> list[Message]:
        """Returns every message, including replies, oldest first."""
        return list(self._by_ts.values())

    def thread(self, root_ts: str) -> Thread | None:
        return self._threads.get(root_ts)

    def add(self, message: Message) -> None:
        """Appends a message that is newer than all others."""
        self._by_ts[message.ts] = message
        if message.in_history:
            insort(self._shown, message.ts)
        if message.thread_ts is not None:
            thread = self._threads.setdefault(message.thread_ts, Thread())
            thread.replies.append(message.ts)
            thread.authors[message.user] += 1

    def keep(self, most: int) -> None:
        """Removes the oldest messages above `most`; replies may outlive their root."""
        while len(self._by_ts) > most:
            self.remove(next(iter(self._by_ts.values())))

    def replace(self, message: Message) -> None:
        """Replaces a message with a changed version, which keeps its timestamp and thread."""
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
        thread.authors += Counter()  # removes the authors without remaining replies
        if not thread.replies:
            del self._threads[root_ts]

    def shown(self, *, after: str = "", before: str = "~") -> Sequence[str]:
        """Returns the timestamps of the channel's visible messages with `after` <= ts < `before`, oldest first."""
        return self._shown[bisect_left(self._shown, after) : bisect_left(self._shown, before)]

    def replies(self, root_ts: str, *, after: str = "", before: str = "~") -> Sequence[str]:
        """Returns the timestamps of the replies with `after` <= ts < `before`, oldest first."""
        thread = self._threads.get(root_ts)
        if thread is None:
            return ()
        return thread.replies[bisect_left(thread.replies, after) : bisect_left(thread.replies, before)]


def _discard(ordered: list[str], ts: str) -> None:
    place = bisect_left(ordered, ts)
    if place < len(ordered) and ordered[place] == ts:
        del ordered[place]
