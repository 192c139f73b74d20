"""Read marks and unread counts of each person, stored on the server so that all their windows agree."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from slack_twin.errors import Json
from slack_twin.messages import Message
from slack_twin.people import Channel, ChannelKind
from slack_twin.text import mentioned

_EVERYBODY = ("<!here", "<!channel", "<!everyone")


@dataclass(kw_only=True)
class Waiting:
    """A person's unread messages in one conversation."""

    count: int = 0  # unread messages in the channel
    loud: int = 0  # the direct messages and mentions among them
    threads: dict[str, int] = field(default_factory=dict)  # unread replies for the person, by root message


class ReadMarks:
    """The last message that each person has read in each channel and thread; empty at first."""

    def __init__(self) -> None:
        self._marks: dict[tuple[str, str, str], str] = {}

    def read(self, user: str, channel: Channel, ts: str, *, thread_ts: str = "") -> None:
        """Marks everything up to `ts` as read. A mark never moves back."""
        place = (user, channel.id, thread_ts)
        self._marks[place] = max(ts, self._marks.get(place, ""))

    def mark(self, user: str, channel: Channel, thread_ts: str = "") -> str:
        return self._marks.get((user, channel.id, thread_ts), "")

    def waiting(self, user: str, channel: Channel) -> Waiting:
        """Returns the unread messages of a conversation, without the person's own messages."""
        waiting, seen = Waiting(), self.mark(user, channel)
        for message in channel.messages.all():
            if message.user == user or message.subtype == "tombstone":
                continue
            concerns = channel.kind is ChannelKind.DIRECT or mentions(message, user)
            if message.in_history and message.ts > seen:
                waiting.count += 1
                waiting.loud += concerns
            root = message.thread_ts
            if root and message.ts > self.mark(user, channel, root) and (concerns or _takes_part(user, channel, root)):
                waiting.threads[root] = waiting.threads.get(root, 0) + 1
        return waiting

    def state(self, user: str, channels: Iterable[Channel]) -> list[Json]:
        """Returns the unread counts of these conversations for the page."""
        return [self._described(user, channel, self.waiting(user, channel)) for channel in channels]

    def _described(self, user: str, channel: Channel, waiting: Waiting) -> Json:
        return {
            "channel": channel.id,
            "read": self.mark(user, channel),
            "count": waiting.count,
            "loud": waiting.loud,
            "threads": waiting.threads,
        }


def mentions(message: Message, user: str) -> bool:
    return user in mentioned(message.text) or any(sign in message.text for sign in _EVERYBODY)


def _takes_part(user: str, channel: Channel, root_ts: str) -> bool:
    """Returns whether a user started a thread or has replied in it."""
    root, thread = channel.messages.get(root_ts), channel.messages.thread(root_ts)
    return (root is not None and root.user == user) or (thread is not None and user in thread.authors)
