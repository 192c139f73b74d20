"""A connection that looks healthy and brings nothing is found, and replaced."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from swarm.clock import SystemClock, us_to_slack_ts
from swarm.domain.errors import Unavailable
from swarm.domain.model.deliveries import Delivery, DeliveryAccepted, DeliveryKind
from swarm.domain.model.threads import ChannelMessage, SlackMessage
from swarm.services.intake.event_watchdog import ECHO_SECONDS, SILENCE_SECONDS, EventWatchdog
from swarm.store.threads import watermarks
from tests.support.waiting import PATIENCE_SECONDS
from tests.support.world import BOT, ME, World, said

pytestmark = pytest.mark.req("OPS-08")

POST = Delivery(
    id="1", kind=DeliveryKind.POST, channel="C1", thread_ts=None, target_ts=None, text="hello", broadcast=False,
    agent_name="lead", attempts=1,
)  # fmt: skip


@dataclass
class Socket:
    """A connection that can be replaced."""

    hearing: EventWatchdog
    connected: bool = True
    is_only_one: bool = True
    replaced: int = 0

    async def replace(self) -> None:
        self.replaced += 1
        await self.hearing.connected()


@dataclass
class Time:
    now: float = 0.0
    until: float = 0.0
    is_over: asyncio.Event = field(default_factory=asyncio.Event)

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        if self.now + seconds > self.until:
            self.is_over.set()
            await asyncio.Event().wait()
        self.now += seconds


@dataclass
class Scene:
    world: World
    time: Time
    hearing: EventWatchdog
    socket: Socket

    async def passes(self, seconds: float) -> None:
        """Time goes by, in ticks of the hearing."""
        self.time.until = self.time.now + seconds
        self.time.is_over.clear()
        listening = asyncio.create_task(self.hearing.run(self.socket))
        await asyncio.wait_for(self.time.is_over.wait(), PATIENCE_SECONDS)
        listening.cancel()
        await asyncio.gather(listening, return_exceptions=True)

    def says(self, text: str, *, heard: bool = True) -> SlackMessage:
        """Somebody says something just now, by Slack's clock."""
        message = said(text, ts=us_to_slack_ts(SystemClock().now_us()))
        self.world.slack.channels.setdefault("C1", []).append(ChannelMessage(message=message))
        if heard:
            self.hearing.came(message.channel, message.ts)
        return message

    @property
    def looks(self) -> int:
        return len(self.world.slack.reads)


@pytest.fixture
async def scene(world: World) -> Scene:
    time = Time()
    hearing = EventWatchdog(world.database, world.slack, ME, monotonic=time.monotonic, sleep=time.sleep)
    await hearing.connected()
    return Scene(world, time, hearing, Socket(hearing))


async def test_a_message_that_came_to_nobody_means_deaf_and_a_gap_since_the_last_that_did(scene: Scene) -> None:
    last = scene.says("heard")
    await scene.passes(15)
    scene.says("missed", heard=False)
    await scene.passes(SILENCE_SECONDS + 10)
    assert scene.socket.replaced == 1
    gap = await scene.world.database.read(watermarks.gap, ME.team)
    assert gap
    assert gap.since == last.ts


@pytest.mark.req("OPS-16")
async def test_it_tells_how_long_ago_the_last_event_came_also_while_it_is_deaf(scene: Scene) -> None:
    assert scene.hearing.last_event_seconds() is None  # a connection is no event
    scene.says("heard")
    assert scene.hearing.last_event_seconds() == 0
    scene.says("missed", heard=False)
    await scene.passes(SILENCE_SECONDS + 10)
    assert SILENCE_SECONDS < (scene.hearing.last_event_seconds() or 0) <= SILENCE_SECONDS + 10


async def test_a_quiet_hour_costs_one_look_a_minute_and_replaces_nothing(scene: Scene) -> None:
    scene.says("heard")
    await scene.passes(3600)
    assert scene.socket.replaced == 0
    assert 50 <= scene.looks <= 60


async def test_each_second_look_is_at_the_latest_conversation_and_the_others_come_in_turn(scene: Scene) -> None:
    scene.world.slack.channels = {f"C{number}": [] for number in range(4)}
    for channel in ("C3", "C2", "C1", "C0"):
        scene.hearing.came(channel, "1.0")
    await scene.passes(9 * SILENCE_SECONDS + 20)
    looked = [channel for channel, _ in scene.world.slack.reads]
    assert looked == ["C0", "C1", "C0", "C2", "C0", "C3", "C0", "C1", "C0"]


async def test_a_conversation_of_which_no_event_ever_told_is_found(scene: Scene) -> None:
    scene.world.slack.channels = {"C1": []}
    scene.hearing.came("C1", "1.0")
    scene.world.slack.channels["D7"] = [ChannelMessage(message=said("psst", channel="D7"))]
    await scene.passes(12 * SILENCE_SECONDS)
    assert scene.socket.replaced == 1


async def test_a_fresh_start_looks_at_the_first_conversation_first(scene: Scene) -> None:
    scene.world.slack.channels = {"C1": [], "C2": []}
    await scene.passes(SILENCE_SECONDS + 10)
    assert [channel for channel, _ in scene.world.slack.reads] == ["C1"]


async def test_what_another_process_was_told_is_no_sign(scene: Scene) -> None:
    await scene.world.lead()
    scene.hearing.came("C1", "1.0")
    await scene.world.hears(scene.says(f"{BOT} help", heard=False))
    await scene.world.hears(scene.says("nobody's business", heard=False))
    await scene.passes(2 * SILENCE_SECONDS)
    assert scene.looks >= 1
    assert scene.socket.replaced == 0


async def test_an_event_that_is_only_late_is_no_sign(scene: Scene) -> None:
    scene.hearing.came("C1", "1.0")
    message = scene.says("late", heard=False)
    sleep = scene.time.sleep

    async def comes_meanwhile(seconds: float) -> None:
        await sleep(seconds)
        if scene.looks:
            scene.hearing.came(message.channel, message.ts)

    scene.hearing._sleep = comes_meanwhile
    await scene.passes(SILENCE_SECONDS + 10)
    assert scene.looks == 1
    assert scene.socket.replaced == 0


@pytest.mark.parametrize("is_only_one", [True, False])
async def test_a_post_of_ours_that_does_not_come_back_tells_sooner(scene: Scene, is_only_one: bool) -> None:
    scene.socket.is_only_one = is_only_one
    scene.hearing.came("C1", "1.0", is_own=True)  # posts come back here
    scene.hearing.delivery_tried(POST, DeliveryAccepted(ts="2.0"), 0.1)
    await scene.passes(ECHO_SECONDS + 5)
    assert scene.socket.replaced == is_only_one


async def test_posts_that_never_come_back_tell_nothing(scene: Scene) -> None:
    scene.hearing.delivery_tried(POST, DeliveryAccepted(ts="2.0"), 0.1)
    await scene.passes(ECHO_SECONDS + 5)
    scene.hearing.came("C1", "3.0", is_own=True)
    scene.hearing.delivery_tried(POST, DeliveryAccepted(ts="3.0"), 0.1)  # its event overtook the answer
    await scene.passes(ECHO_SECONDS + 5)
    assert scene.socket.replaced == 0


async def test_a_look_that_slack_refuses_is_tried_again_a_minute_later(scene: Scene) -> None:
    scene.world.slack.reads_fail.append(Unavailable("ratelimited"))
    scene.world.slack.channels["C1"] = []
    await scene.passes(SILENCE_SECONDS + 10)
    assert scene.looks == 0
    await scene.passes(SILENCE_SECONDS)
    assert scene.looks == 1


async def test_an_event_that_could_not_be_stored_opens_a_gap_as_soon_as_that_works(scene: Scene) -> None:
    scene.hearing.missed("1600000000.000100")
    write, fails = scene.world.database.write, [1, 1]

    async def fails_at_first(*args: object, **kwargs: object) -> object:
        if fails:
            fails.pop()
            raise Unavailable("the disk is full")
        return await write(*args, **kwargs)  # type: ignore[arg-type]

    scene.world.database.write = fails_at_first  # type: ignore[method-assign, assignment]
    await scene.passes(10)
    gap = await scene.world.database.read(watermarks.gap, ME.team)
    assert gap
    assert gap.since == "1600000000.000100"


async def test_an_event_that_is_missed_while_two_tasks_open_a_gap_is_not_forgotten(scene: Scene) -> None:
    write, first, second = scene.world.database.write, asyncio.Event(), asyncio.Event()
    runs = [first, second]

    async def waits(*args: object, **kwargs: object) -> object:
        if runs:
            await runs.pop(0).wait()
        return await write(*args, **kwargs)  # type: ignore[arg-type]

    scene.world.database.write = waits  # type: ignore[method-assign, assignment]
    connecting = asyncio.create_task(scene.hearing.connected())
    noting = asyncio.create_task(scene.hearing._note())
    await asyncio.sleep(0)
    first.set()
    await connecting
    scene.hearing.missed("1600000000.000100")
    second.set()
    await noting
    await scene.hearing._note()
    gap = await scene.world.database.read(watermarks.gap, ME.team)
    assert gap
    assert gap.since == "1600000000.000100"
