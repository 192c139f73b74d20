"""Calls to Slack keep to its limits, in order, and stop when it says so."""

from __future__ import annotations

import asyncio
import heapq
import itertools

import pytest
from slack_twin.limits import Tier
from slack_twin.methods import METHODS

from swarm.domain.answers.calls import Slot
from swarm.slack.outgoing.pacing import FORGET_ABOVE, METHOD_LIMITS, TIER_2, TIER_3, TIER_4, UNLIMITED, Limit, Pacing
from tests.support.every import every

pytestmark = pytest.mark.req("OPS-10")

POST = "chat.postMessage"


class FakeTime:
    """A time source that passes only when told to, waking its sleepers in order."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def monotonic(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        wake: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self.now + seconds, next(self._order), wake))
        await wake

    async def advance(self, seconds: float) -> None:
        end = self.now + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            moment, _, wake = heapq.heappop(self._sleepers)
            self.now = max(self.now, moment)
            if not wake.done():
                wake.set_result(None)
            await settle()
        self.now = end


async def settle() -> None:
    """Let every task run until it waits for time."""
    for _ in range(20):
        await asyncio.sleep(0)


class Callers:
    """Tasks that wait for their turn and note when it came."""

    def __init__(self, pacing: Pacing, time: FakeTime) -> None:
        self._pacing = pacing
        self._time = time
        self.turns: list[tuple[str, float]] = []
        self.tasks: list[asyncio.Task[None]] = []

    def start(self, name: str, method: str, channel: str | None = None) -> asyncio.Task[None]:
        task = asyncio.create_task(self._call(name, method, channel))
        self.tasks.append(task)
        return task

    async def _call(self, name: str, method: str, channel: str | None) -> None:
        began = self._time.now
        await self._pacing.acquire_slot(method, channel)
        self.turns.append((name, self._time.now - began))

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.turns]


@pytest.fixture
def time() -> FakeTime:
    return FakeTime()


@pytest.fixture
def pacing(time: FakeTime) -> Pacing:
    return Pacing(monotonic=time.monotonic, sleep=time.sleep)


@pytest.fixture
def callers(pacing: Pacing, time: FakeTime) -> Callers:
    return Callers(pacing, time)


async def test_a_channel_takes_a_short_burst_and_then_one_post_a_second(callers: Callers, time: FakeTime) -> None:
    for number in range(5):
        callers.start(str(number), POST, "C1")
    await time.advance(10)
    assert callers.turns == [("0", 0), ("1", 0), ("2", 0), ("3", 1), ("4", 2)]


async def test_a_busy_channel_does_not_hold_up_another(callers: Callers, time: FakeTime) -> None:
    for number in range(10):
        callers.start(f"busy {number}", POST, "C1")
    callers.start("other", POST, "C2")
    await settle()
    assert "other" in callers.names
    assert len(callers.names) == 4


async def test_no_minute_sees_more_calls_than_the_tier_allows(callers: Callers, time: FakeTime) -> None:
    for number in range(150):
        callers.start(str(number), "reactions.add")
    await time.advance(600)
    moments = [moment for _, moment in callers.turns]
    assert len(moments) == 150
    busiest = max(sum(1 for m in moments if start <= m < start + 60) for start in moments)
    assert busiest <= 50
    assert moments[49] <= 60  # and the tier is used


async def test_who_asks_first_goes_first(callers: Callers, time: FakeTime) -> None:
    wanted = [str(number) for number in range(40)]
    for name in wanted:
        callers.start(name, "reactions.add")
    await time.advance(120)
    assert callers.names == wanted


async def test_a_pause_stops_its_method_and_no_other(pacing: Pacing, callers: Callers, time: FakeTime) -> None:
    pacing.pause("reactions.add", 30)
    callers.start("reaction", "reactions.add")
    callers.start("update", "chat.update")
    await time.advance(29)
    assert callers.names == ["update"]
    await time.advance(1)
    assert callers.turns[-1] == ("reaction", 30)


async def test_a_pause_holds_those_who_wait_already(pacing: Pacing, callers: Callers, time: FakeTime) -> None:
    for number in range(5):
        callers.start(str(number), POST, "C1")
    await settle()
    pacing.pause(POST, 20, "C1")
    await time.advance(19)
    assert callers.names == ["0", "1", "2"]
    await time.advance(10)
    assert [waited for _, waited in callers.turns[3:]] == [20, 20]  # what the bucket gained meanwhile


async def test_a_refused_channel_waits_alone_until_a_second_one_is_refused(
    pacing: Pacing, callers: Callers, time: FakeTime
) -> None:
    pacing.pause(POST, 10, "C1")
    callers.start("C2 first", POST, "C2")
    await settle()
    assert callers.names == ["C2 first"]
    pacing.pause(POST, 10, "C2")
    callers.start("C3", POST, "C3")
    await time.advance(9)
    assert callers.names == ["C2 first"]
    await time.advance(1)
    assert callers.turns[-1] == ("C3", 10)


async def test_a_shorter_pause_does_not_cut_a_longer_one(pacing: Pacing, callers: Callers, time: FakeTime) -> None:
    pacing.pause("users.info", 30)
    pacing.pause("users.info", 5)
    callers.start("name", "users.info")
    await time.advance(60)
    assert callers.turns == [("name", 30)]


async def test_who_gives_up_waiting_uses_up_no_turn(callers: Callers, time: FakeTime) -> None:
    for number in range(3):
        callers.start(f"burst {number}", POST, "C1")
    quitter = callers.start("quitter", POST, "C1")
    callers.start("next", POST, "C1")
    await settle()
    quitter.cancel()
    await time.advance(1)
    assert callers.turns[-1] == ("next", 1)


async def test_a_wait_can_be_foreseen(pacing: Pacing, callers: Callers, time: FakeTime) -> None:
    assert pacing.expected_wait_seconds(POST, "C1") == 0
    for number in range(5):
        callers.start(str(number), POST, "C1")
    await settle()
    assert pacing.expected_wait_seconds(POST, "C1") == 3  # behind the two who still wait
    assert pacing.expected_wait_seconds(POST, "C2") == 0
    for task in callers.tasks:
        task.cancel()


async def test_idle_channels_are_forgotten_and_busy_ones_are_not(
    pacing: Pacing, callers: Callers, time: FakeTime
) -> None:
    pacing.pause(POST, 1_000, "C-paused")
    for number in range(FORGET_ABOVE):
        await pacing.acquire_slot(POST, f"C{number}")
        await time.advance(0.2)
    await time.advance(60)
    await pacing.acquire_slot(POST, "C-new")
    assert pacing.queues < 10
    assert pacing.expected_wait_seconds(POST, "C-paused") > 800


async def test_without_limits_only_pauses_count(time: FakeTime) -> None:
    pacing = Pacing(enforced=False, monotonic=time.monotonic, sleep=time.sleep)
    callers = Callers(pacing, time)
    for number in range(1_000):
        callers.start(str(number), POST, "C1")
    await settle()
    assert len(callers.turns) == 1_000
    pacing.pause(POST, 3, "C1")
    callers.start("paused", POST, "C1")
    await time.advance(3)
    assert callers.turns[-1] == ("paused", 3)


@every("calls", [1, 20, 50, 100, 600])
def test_a_tier_is_a_burst_and_a_rate_that_fit_into_a_minute(calls: int) -> None:
    limit = Limit.per_minute(calls)
    assert limit.burst >= 1
    assert limit.burst + 60 * limit.per_second == pytest.approx(calls)


def test_the_tiers_of_the_methods_are_slacks() -> None:
    assert METHOD_LIMITS["reactions.add"] == METHOD_LIMITS["conversations.replies"] == TIER_3


@pytest.mark.req("OPS-03")
async def test_whoever_takes_over_begins_with_a_pause_and_without_a_burst(
    pacing: Pacing, callers: Callers, time: FakeTime
) -> None:
    await pacing.acquire_slot(POST, "C1")
    pacing.take_over()
    for number in range(3):
        callers.start(f"known {number}", POST, "C1")
    callers.start("new", POST, "C2")
    await time.advance(10)
    assert callers.turns == [("known 0", 1), ("new", 1), ("known 1", 2), ("known 2", 3)]


@pytest.mark.req("OPS-03")
async def test_a_channel_that_is_used_first_a_while_after_taking_over_need_not_wait(
    pacing: Pacing, callers: Callers, time: FakeTime
) -> None:
    pacing.take_over()
    await time.advance(2)
    for number in range(3):
        callers.start(str(number), POST, "C1")
    await time.advance(10)
    assert callers.turns == [("0", 0), ("1", 0), ("2", 1)]


@pytest.mark.req("OPS-03")
async def test_no_minute_sees_more_calls_than_the_tier_allows_when_another_process_takes_over(time: FakeTime) -> None:
    predecessor, successor = [Pacing(monotonic=time.monotonic, sleep=time.sleep) for _ in range(2)]
    await time.advance(60)
    before, after = Callers(predecessor, time), Callers(successor, time)
    for number in range(100):
        before.start(str(number), "reactions.add")
    await time.advance(20)
    for task in before.tasks:
        task.cancel()
    successor.take_over()
    for number in range(100):
        after.start(str(number), "reactions.add")
    await time.advance(40)
    assert 45 <= len(before.turns) + len(after.turns) <= 50
    for task in after.tasks:
        task.cancel()


@pytest.mark.req("OPS-03")
async def test_what_every_process_asks_of_slack_does_not_wait_for_a_change_of_office(
    pacing: Pacing, callers: Callers
) -> None:
    await pacing.acquire_slot("users.info")
    pacing.take_over()
    callers.start("a person", "users.info")
    callers.start("a bot", "bots.info")
    await settle()
    assert callers.turns == [("a person", 0), ("a bot", 0)]


@pytest.mark.req("OPS-03")
async def test_without_limits_there_is_nothing_to_wait_for_after_taking_over(time: FakeTime) -> None:
    pacing = Pacing(enforced=False, monotonic=time.monotonic, sleep=time.sleep)
    pacing.take_over()
    assert pacing.expected_wait_seconds(POST, "C1") == 0


@pytest.mark.req("STREAM-05")
def test_streams_have_the_tiers_that_slack_gives_them() -> None:
    tiers = {slot: METHOD_LIMITS[slot.value] for slot in Slot if slot is not Slot.POST}
    assert tiers == {Slot.OPEN: TIER_2, Slot.APPEND: TIER_4, Slot.CLOSE: TIER_2, Slot.UPDATE: TIER_3}
    assert METHOD_LIMITS["agents.sessions.setStatus"] == TIER_3


@every("method", sorted(name for name, limit in METHOD_LIMITS.items() if limit != UNLIMITED))
def test_no_minute_of_ours_sees_more_calls_than_slack_allows(method: str) -> None:
    limit, tier = METHOD_LIMITS[method], METHODS[method].tier
    assert limit.burst + 60 * limit.per_second <= tier.value
    assert tier is not Tier.SPECIAL or limit == Limit.per_minute(300)


@pytest.mark.req("STREAM-05")
async def test_a_new_process_begins_as_if_its_predecessor_had_just_used_up_the_streams() -> None:
    time = FakeTime()
    pacing = Pacing(monotonic=time.monotonic, sleep=time.sleep)
    assert pacing.expected_wait_seconds(Slot.APPEND.value) == 0
    pacing.take_over()
    for slot in (Slot.OPEN, Slot.APPEND, Slot.CLOSE):
        assert pacing.expected_wait_seconds(slot.value) > 0
