"""The apps' display in threads: titles, suggested prompts and session states.

https://docs.slack.dev/ai/agent-sessions and https://docs.slack.dev/reference/methods/assistant.threads.setTitle
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from slack_twin.people import Channel

CHANNEL_ENTITY = "slack#/types/channel_id"
"""The type of a viewed channel in an event's context."""

_MOST_KEPT = 10_000


class SessionStatus(StrEnum):
    """The state of an agent's session in a thread. Only its app changes it: Stop and the end of a stream do not."""

    PROCESSING = "processing"  # the app is working; people see a Stop button
    ACTIVE = "active"
    SUSPENDED = "suspended"
    CLOSED = "closed"


@dataclass(frozen=True, kw_only=True)
class Prompt:
    """A suggested prompt: the label of its button, and the message that the button sends."""

    title: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Assistance:
    """The display of one app in one thread."""

    app_id: str
    channel: str
    thread_ts: str  # empty: in the app's Messages tab
    title: str = ""
    prompts_title: str = ""
    prompts: tuple[Prompt, ...] = ()
    session: SessionStatus | None = None  # None: the app has no session in the thread
    initiator: str | None = None  # the person for whom the session was started


class Assistants:
    """All displays, by channel, thread and app. Above 10,000, the least recently changed are removed."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, str], Assistance] = {}

    def get(self, channel: Channel, thread_ts: str, app_id: str) -> Assistance:
        """Returns the app's display in a thread, empty by default."""
        known = self._known.get((channel.id, thread_ts, app_id))
        return known or Assistance(app_id=app_id, channel=channel.id, thread_ts=thread_ts)

    def put(self, shown: Assistance) -> None:
        key = (shown.channel, shown.thread_ts, shown.app_id)
        self._known.pop(key, None)
        self._known[key] = shown
        if len(self._known) > _MOST_KEPT:
            del self._known[next(iter(self._known))]

    def set_session(self, shown: Assistance, status: SessionStatus) -> Assistance:
        changed = replace(shown, session=status)
        self.put(changed)
        return changed

    def in_thread(self, channel: Channel, thread_ts: str) -> Iterator[Assistance]:
        """Yields the display of each app in a thread."""
        for shown in self._known.values():
            if (shown.channel, shown.thread_ts) == (channel.id, thread_ts):
                yield shown

    def all(self) -> Iterator[Assistance]:
        yield from self._known.values()

    def clear(self) -> None:
        self._known.clear()
