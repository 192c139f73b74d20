"""Scheduled messages, posted at their time by the twin's clock.

https://docs.slack.dev/reference/methods/chat.scheduleMessage
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from slack_twin.clock import Timer
from slack_twin.errors import SlackError
from slack_twin.people import Channel

if TYPE_CHECKING:
    from slack_twin.workspace import Draft, Workspace

MOST_DAYS = 120
_DAY_SECONDS = 86_400
_MOST_IN_WINDOW = 30  # messages for one channel
_WINDOW_SECONDS = 5 * 60
_LAST_MINUTE_SECONDS = 60  # the time before posting in which a message can no longer be deleted


@dataclass(kw_only=True)
class Scheduled:
    """A scheduled message."""

    id: str
    app_id: str
    channel: Channel
    draft: "Draft"
    post_at: int  # seconds since 1970
    created: int
    timer: Timer


class Schedules:
    """The scheduled messages of all apps. Needs a running event loop for its timers."""

    def __init__(self, workspace: "Workspace") -> None:
        self._workspace = workspace
        self._waiting: dict[str, Scheduled] = {}
        self._count = 0

    def add(self, app_id: str, channel: Channel, draft: "Draft", post_at: int) -> Scheduled:
        """Schedules a message.

        Raises `time_in_past`, `time_too_far` after 120 days, `restricted_too_many` for 30 messages within five minutes.
        """
        clock = self._workspace.clock
        now = clock.now()
        if post_at <= now:
            raise SlackError("time_in_past")
        if post_at > now + MOST_DAYS * _DAY_SECONDS:
            raise SlackError("time_too_far")
        near = [one for one in self.of(app_id) if abs(one.post_at - post_at) < _WINDOW_SECONDS]
        if len([one for one in near if one.channel is channel]) >= _MOST_IN_WINDOW:
            raise SlackError("restricted_too_many")
        self._count += 1
        scheduled_id = f"Q{self._count:08d}"
        timer = clock.call_at(post_at, lambda: self._post(scheduled_id))
        scheduled = Scheduled(
            id=scheduled_id,
            app_id=app_id,
            channel=channel,
            draft=draft,
            post_at=post_at,
            created=int(now),
            timer=timer,
        )
        self._waiting[scheduled_id] = scheduled
        return scheduled

    def of(self, app_id: str) -> list[Scheduled]:
        """Returns the scheduled messages of one app, the next one first."""
        return sorted((one for one in self._waiting.values() if one.app_id == app_id), key=lambda one: one.post_at)

    def remove(self, app_id: str, channel: Channel, scheduled_id: str) -> None:
        """Removes a message. Raises `invalid_scheduled_message_id`, also in the last minute before its time."""
        scheduled = self._waiting.get(scheduled_id)
        if scheduled is None or scheduled.app_id != app_id or scheduled.channel is not channel:
            raise SlackError("invalid_scheduled_message_id")
        if scheduled.post_at - self._workspace.clock.now() < _LAST_MINUTE_SECONDS:
            raise SlackError("invalid_scheduled_message_id")
        scheduled.timer.cancel()
        del self._waiting[scheduled_id]

    def _post(self, scheduled_id: str) -> None:
        """Posts a due message. If its channel or thread no longer exists, the message is dropped."""
        scheduled = self._waiting.pop(scheduled_id)
        try:
            self._workspace.post(scheduled.channel, scheduled.draft)
        except SlackError:
            return

    def clear(self) -> None:
        for scheduled in self._waiting.values():
            scheduled.timer.cancel()
        self._waiting.clear()
