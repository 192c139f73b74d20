"""Reports Slack traffic to a watcher: incoming events, timed until they are stored, and each delivery attempt."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from swarm.domain.model.deliveries import Answer, Delivery, DeliveryAccepted
from swarm.domain.model.threads import MessageDeleted, MessageEdited, SlackEvent, SlackMessage
from swarm.domain.ports import SlackSender
from swarm.domain.watchers import SlackEventHandled, Watcher

Handle = Callable[[SlackEvent], Awaitable[None]]


def watched_events(handle: Handle, watcher: Watcher) -> Handle:
    """Returns ``handle``, extended to report each event's result and time to ``watcher``."""

    async def watched(event: SlackEvent) -> None:
        begun = time.perf_counter()
        stored = False
        try:
            await handle(event)
            stored = True
        finally:
            seconds = time.perf_counter() - begun
            watcher.slack_event_handled(SlackEventHandled(kind=_kind(event), stored=stored, seconds=seconds))

    return watched


class WatchedSender:
    """A `SlackSender` that reports every attempt to ``watcher``."""

    def __init__(self, slack: SlackSender, watcher: Watcher) -> None:
        self._slack = slack
        self._watcher = watcher

    def expected_wait_seconds(self, delivery: Delivery) -> float:
        return self._slack.expected_wait_seconds(delivery)

    async def ready(self, delivery: Delivery) -> None:
        await self._slack.ready(delivery)

    async def deliver(self, delivery: Delivery) -> Answer:
        begun = time.perf_counter()
        answer = await self._slack.deliver(delivery)
        self._watcher.delivery_tried(delivery, answer, time.perf_counter() - begun)
        return answer

    async def find(self, delivery: Delivery) -> DeliveryAccepted | None:
        return await self._slack.find(delivery)


def _kind(event: SlackEvent) -> str:
    match event:
        case SlackMessage():
            return "message"
        case MessageEdited():
            return "edit"
        case MessageDeleted():
            return "delete"
