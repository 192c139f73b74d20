"""Trigger ids: each lets an app open one view within three seconds for the person who acted.

https://docs.slack.dev/interactivity/handling-user-interaction#modal_responses
"""

import asyncio
import re
import secrets
from collections import OrderedDict
from dataclasses import dataclass, field

from slack_twin.clock import Clock
from slack_twin.errors import SlackError

LIFETIME_SECONDS = 3.0
_KEPT = 10_000
_FORM = re.compile(r"\d+\.\d+\.[0-9a-f]+", re.ASCII)


@dataclass(eq=False, kw_only=True)
class Trigger:
    """The permission from one action of a person. `exchanged` is set once it was used."""

    id: str
    app_id: str
    user_id: str
    view_id: str | None  # the view of the action, onto which another may be pushed
    channel_id: str | None  # the person's current conversation
    expires_at: float  # in seconds since 1970, by the twin's clock
    exchanged: asyncio.Event = field(default_factory=asyncio.Event)


class Triggers:
    """The last ten thousand triggers."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: OrderedDict[str, Trigger] = OrderedDict()

    def issue(self, *, app_id: str, user_id: str, view_id: str | None = None, channel_id: str | None = None) -> Trigger:
        now = self._clock.now()
        trigger = Trigger(
            id=f"{int(now * 1000)}.{len(self._known) + 1}.{secrets.token_hex(16)}",
            app_id=app_id,
            user_id=user_id,
            view_id=view_id,
            channel_id=channel_id,
            expires_at=now + LIFETIME_SECONDS,
        )
        self._known[trigger.id] = trigger
        while len(self._known) > _KEPT:
            self._known.popitem(last=False)
        return trigger

    def check(self, trigger_id: str, *, app_id: str) -> Trigger:
        """Returns a trigger that may still be exchanged.

        Raises `invalid_trigger_id`, also for another app's trigger, `exchanged_trigger_id`, `expired_trigger_id`.
        """
        trigger = self._known.get(trigger_id) if _FORM.fullmatch(trigger_id) else None
        if trigger is None or trigger.app_id != app_id:
            raise SlackError("invalid_trigger_id")
        if trigger.exchanged.is_set():
            raise SlackError("exchanged_trigger_id")
        if trigger.expires_at <= self._clock.now():
            raise SlackError("expired_trigger_id")
        return trigger

    def clear(self) -> None:
        self._known.clear()
