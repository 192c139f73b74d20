"""A stand-in for Slack, as the use cases see it: it takes deliveries, is asked for them, and has threads to be read."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from swarm.domain.deliveries import Accepted, Answer, Delivery, DeliveryKind, NotSent, Refused
from swarm.domain.errors import NotFound, SwarmError
from swarm.domain.transcript import AuthorKind, SlackMessage

LOST = "the connection broke"

Script = Answer | SwarmError | Callable[[Delivery], Answer]


@dataclass
class FakeSlack:
    """Accepts everything, unless ``script`` says otherwise for the next calls.

    ``landed`` is what Slack has, in order; ``calls`` what it was asked to do, refused or not.
    """

    calls: list[Delivery] = field(default_factory=list)
    landed: list[Delivery] = field(default_factory=list)
    looked_up: list[Delivery] = field(default_factory=list)
    reads: list[tuple[str, str]] = field(default_factory=list)
    threads: dict[tuple[str, str], list[SlackMessage]] = field(default_factory=dict)
    script: deque[Script] = field(default_factory=deque)
    lookups: deque[SwarmError] = field(default_factory=deque)  # the next lookups fail so
    reading_fails: deque[SwarmError] = field(default_factory=deque)  # the next reads of threads fail so
    hold: asyncio.Event | None = None  # calls wait for it after they have landed, before they are answered
    entered: asyncio.Event = field(default_factory=asyncio.Event)  # a call is under way

    @property
    def posts(self) -> list[str]:
        return [delivery.text for delivery in self.landed if delivery.kind is DeliveryKind.POST]

    @property
    def reactions(self) -> list[tuple[str | None, str]]:
        return [(delivery.target_ts, delivery.text) for delivery in self.landed if delivery.kind is DeliveryKind.REACTION]

    async def ready(self, delivery: Delivery) -> None:
        await asyncio.sleep(0)

    async def deliver(self, delivery: Delivery) -> Answer:
        self.calls.append(delivery)
        scripted = self.script.popleft() if self.script else None
        answer = scripted(delivery) if callable(scripted) else scripted
        if not isinstance(answer, Refused | NotSent | SwarmError) and not (callable(scripted)):
            pass
        if isinstance(answer, SwarmError):
            raise answer
        if answer is None:
            answer = self.land(delivery)
        self.entered.set()
        if self.hold:
            await self.hold.wait()
        return answer

    def land(self, delivery: Delivery) -> Accepted:
        """What happens when Slack takes a call, whoever hears of it."""
        self.landed.append(delivery)
        return Accepted(ts=self._ts(len(self.landed)), thread_ts=delivery.thread_ts)

    async def find(self, delivery: Delivery) -> Accepted | None:
        self.looked_up.append(delivery)
        if self.lookups:
            raise self.lookups.popleft()
        for number, landed in enumerate(self.landed, start=1):
            if landed.id == delivery.id:
                return Accepted(ts=self._ts(number), thread_ts=delivery.thread_ts)
        return None

    async def read_thread(self, channel: str, thread_ts: str) -> list[SlackMessage]:
        self.reads.append((channel, thread_ts))
        if self.reading_fails:
            raise self.reading_fails.popleft()
        if (channel, thread_ts) not in self.threads:
            raise NotFound("thread_not_found")
        return self.threads[channel, thread_ts]

    async def author_name(self, author_id: str, kind: AuthorKind) -> str:
        return {"U1": "alice", "U2": "bob", "B1": "pager"}.get(author_id, author_id)

    async def channel_name(self, channel_id: str) -> str:
        return {"C1": "general", "D1": "alice"}.get(channel_id, channel_id)

    @staticmethod
    def _ts(number: int) -> str:
        return f"1800000000.{number:06}"
