"""Busy minutes under Slack's limits: every answered message has its ✅ in the end."""

from __future__ import annotations

import asyncio
import heapq
import itertools
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import aiohttp
import pytest
from slack_twin.clock import still_clock
from slack_twin.server import running
from slack_twin.twin import build_twin

from swarm.clock import ManualClock
from swarm.domain.model.threads import SlackMessage, Thread
from swarm.services.outbox.deliver import OutboxSender
from swarm.services.speaking.system_messages import post_message, show_answered
from swarm.slack.outgoing.pacing import Pacing
from swarm.store import deliveries, reactions
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.threads import threads
from tests.contract.slack.workspace import Workspace
from tests.support.waiting import PATIENCE_SECONDS
from tests.support.world import BOT, ME, World, said

pytestmark = pytest.mark.req("LOOP-14", "OPS-10")

ANSWERED_AFTER_SECONDS = 3
LATEST_SECONDS = 75
"""So long after the last answer its ✅ comes: fifty of them take a minute of Slack's calls."""


class Watched(Pacing):
    """Knows who waits."""

    def __init__(self, day: Day) -> None:
        super().__init__(monotonic=lambda: day.now, sleep=day.sleep)
        self._waiting = day.waiting

    async def acquire_slot(self, method: str, channel: str | None = None) -> None:
        self._waiting[method] += 1
        try:
            await super().acquire_slot(method, channel)
        finally:
            self._waiting[method] -= 1


@dataclass
class Day:
    """A twin with Slack's limits and a coordinator's sender, on one clock that moves when all wait for it."""

    workspace: Workspace
    world: World
    waiting: Counter[str] = field(default_factory=Counter)  # calls that wait for Slack's limits, by method
    sleepers: list[tuple[float, int, asyncio.Future[None]]] = field(default_factory=list)  # one for each queue of them
    order: itertools.count[int] = field(default_factory=itertools.count)
    sender: OutboxSender = field(init=False)

    @property
    def now(self) -> float:
        return self.workspace.twin.workspace.clock.now()

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self.sleepers, (self.now + seconds, next(self.order), woken))
        await woken

    async def until(self, moment: float) -> None:
        """Let time pass, from one moment at which something is due to the next."""
        while True:
            await self._all_wait()
            soonest = self.sleepers[0][0] if self.sleepers else moment
            step = min(soonest, moment) - self.now
            self.world.clock.advance(step)
            self.workspace.twin.workspace.clock.advance(step)
            await self.world.database.write(reactions.expire_late)  # what the sender does every second
            if soonest > moment or not self.sleepers:
                return
            heapq.heappop(self.sleepers)[2].set_result(None)

    async def _all_wait(self) -> None:
        """Until nothing is under way, and what is due waits for Slack's limits: posts, and reactions."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                queues = sum(map(bool, self.waiting.values()))
                posts = await self.world.database.read(deliveries.lanes_due, 500)
                marks = await self.world.database.read(reactions.due, 1)
                under_way = await self.world.rows("SELECT id FROM deliveries WHERE status = 'sending'")
                due_wait = (
                    len(posts) <= self.waiting["chat.postMessage"] and len(marks) <= self.waiting["reactions.add"]
                )
                if not (under_way or self.sender._reactions) and due_wait and len(self.sleepers) == queues:
                    return
                await asyncio.sleep(0.002)

    async def hears(self) -> SlackMessage:
        ts = await self.workspace.say(f"{BOT} hello")
        return await self.world.hears(said(f"{BOT} hello", channel="C0GENERAL", ts=ts))

    async def answers(self, message: SlackMessage) -> None:
        await self.world.database.write(answer, message, self.world)

    async def hears_and_answers(self, count: int, every_seconds: float) -> None:
        """So many messages come, each is answered after a moment, and then it is quiet for a quarter of an hour."""
        began, heard = self.now, list[SlackMessage]()
        events = [(number * every_seconds, "message") for number in range(count)]
        events += [(moment + ANSWERED_AFTER_SECONDS, "answer") for moment, _ in events]
        for moment, what in sorted(events):
            await self.until(began + moment)
            if what == "message":
                heard.append(await self.hears())
            else:
                await self.answers(heard.pop(0))
        await self.until(self.now + 900)

    async def marks(self) -> list[set[str]]:
        """The reactions that each message of a person has."""
        messages = [message for message in await self.workspace.messages() if message["text"].endswith("hello")]
        return [{reaction["name"] for reaction in message.get("reactions", [])} for message in messages]


def answer(tx: Transaction, message: SlackMessage, world: World) -> None:
    thread = threads.at(tx, ME.team, message.channel, message.root_ts)
    assert isinstance(thread, Thread)
    post_message(tx, thread, "hi")
    show_answered(tx, thread, message.ts, world.operating_policy.reactions)


@pytest.fixture
async def day(sqlite_url: str) -> AsyncIterator[Day]:
    twin = build_twin(clock=still_clock())
    clock = ManualClock()
    async with (
        running(twin) as url,
        aiohttp.ClientSession() as http,
        Database(sqlite_url, clock=clock) as database,
    ):
        day = Day(Workspace(twin, url, http), World(database, clock))
        await day.world.lead()
        gateway = day.workspace.gateway(pacing=Watched(day))
        day.sender = OutboxSender(database, gateway, ME.team, http_timeout_seconds=10.0)
        sending = asyncio.create_task(day.sender.run())
        yield day
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        await gateway.close()


@pytest.mark.long
@pytest.mark.parametrize(
    ("count", "every_seconds"),
    [
        pytest.param(200, 1.5, id="40 a minute for five minutes", marks=pytest.mark.long),
        pytest.param(50, 0.12, id="50 in six seconds"),
    ],
)
async def test_every_answered_message_has_its_check_mark_in_the_end(day: Day, count: int, every_seconds: float) -> None:
    last_answer = day.now + (count - 1) * every_seconds + ANSWERED_AFTER_SECONDS
    await day.hears_and_answers(count, every_seconds)
    marks = await day.marks()
    assert len(marks) == count
    assert [marks_of for marks_of in marks if "white_check_mark" not in marks_of] == []
    calls = await day.workspace.calls("reactions.add")
    assert len([call for call in calls if call["ok"]]) == sum(map(len, marks)), "none is sent twice"
    assert [call["error"] for call in calls if not call["ok"]] == [], "within Slack's limits"
    last_call = max(float(call["at"]) for call in calls if call["args"]["name"] == "white_check_mark")
    assert last_call - last_answer < LATEST_SECONDS, "no call was spent on 👀 while ✅ waited"
