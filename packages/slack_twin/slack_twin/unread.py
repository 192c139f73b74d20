"""What each person has read, and what waits for them: kept here, so that all their windows agree."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from slack_twin.errors import Json
from slack_twin.messages import Message
from slack_twin.people import Channel, ChannelKind
from slack_twin.text import mentioned

_EVERYBODY = ("<!here", "<!channel", "<!everyone")


@dataclass(kw_only=True)
class Waiting:
    """What a person has not read in one conversation."""

    count: int = 0  # messages the channel shows
    loud: int = 0  # those of them that are direct or mention the person
    threads: dict[str, int] = field(default_factory=dict)  # replies that concern the person, by root


class ReadMarks:
    """Up to which message each person has read each channel and thread; nothing at first."""

    def __init__(self) -> None:
        self._marks: dict[tuple[str, str, str], str] = {}

    def read(self, user: str, channel: Channel, ts: str, *, thread_ts: str = "") -> None:
        """Everything up to `ts` has been seen. A mark never goes back."""
        place = (user, channel.id, thread_ts)
        self._marks[place] = max(ts, self._marks.get(place, ""))

    def mark(self, user: str, channel: Channel, thread_ts: str = "") -> str:
        return self._marks.get((user, channel.id, thread_ts), "")

    def waiting(self, user: str, channel: Channel) -> Waiting:
        """What is unread in a conversation. One's own messages never are."""
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
        """For the page: what waits in each of these conversations."""
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
    """Whether somebody began a thread or has replied in it."""
    root, thread = channel.messages.get(root_ts), channel.messages.thread(root_ts)
    return (root is not None and root.user == user) or (thread is not None and user in thread.authors)
