"""Ephemeral messages: kept while their buttons can be pressed, and excluded from every history."""

from collections import OrderedDict
from dataclasses import dataclass

from slack_twin.messages import Message

_KEPT = 1_000


@dataclass(frozen=True, kw_only=True)
class Ephemeral:
    """A message and the one person who sees it."""

    message: Message
    user_id: str


class Ephemerals:
    """The last thousand ephemeral messages, oldest first."""

    def __init__(self) -> None:
        self._by_ts: OrderedDict[str, Ephemeral] = OrderedDict()

    def put(self, shown: Ephemeral) -> None:
        """Adds an ephemeral message, or replaces the one with its timestamp."""
        self._by_ts[shown.message.ts] = shown
        while len(self._by_ts) > _KEPT:
            self._by_ts.popitem(last=False)

    def get(self, user_id: str, channel_id: str, ts: str) -> Message | None:
        """Returns a person's ephemeral message, None for other people."""
        shown = self._by_ts.get(ts)
        is_meant = shown is not None and (shown.user_id, shown.message.channel) == (user_id, channel_id)
        return shown.message if shown and is_meant else None

    def remove(self, ts: str) -> None:
        self._by_ts.pop(ts, None)

    def seen_by(self, user_id: str, channel_id: str) -> list[Message]:
        """Returns a person's ephemeral messages in a channel, oldest first."""
        return [
            shown.message
            for shown in self._by_ts.values()
            if (shown.user_id, shown.message.channel) == (user_id, channel_id)
        ]

    def clear(self) -> None:
        self._by_ts.clear()
