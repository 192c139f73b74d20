"""The database's clock is set while transactions go by it: what is due keeps its distance from now."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Final

import pytest
from sqlalchemy import BigInteger
from structlog.testing import capture_logs

from swarm.clock import SECOND, ManualClock
from swarm.domain.model.leases import LockKind
from swarm.domain.watchers import Watcher
from swarm.store import locks
from swarm.store.bridge import clock_changes
from swarm.store.bridge.clock_changes import MOVED, ClockWatch
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables.schema import metadata

pytestmark = pytest.mark.req("OPS-03")

HOUR: Final = 3600.0
OFFICE: Final = (LockKind.OFFICE, "upkeep")

both_ways = pytest.mark.parametrize("seconds", [HOUR, -HOUR])

KEPT: Final = {
    "agent_message_addressees.read_at",
    "agent_tokens.created_at",
    "agent_tokens.revoked_at",
    "agents.created_at",
    "alerts.last_at",  # of Slack's timestamps, as the next
    "alerts.posted_at",
    "agents.revoked_at",
    "deliveries.ended_at",
    "early_messages.stored_at",
    "feedback.created_at",
    "remarks.created_at",
    "forgotten.forgotten_at",
    "history.at",
    "inbox_messages.resolved_at",
    "webhooks.ended_at",
    "audit.at",
    "budget_raises.raised_at",
    "grants.created_at",
    "grants.revoked_at",
    "escalations.created_at",
    "requests.created_at",
    "requests.ended_at",
    "request_answers.at",
    "leases.ended_at",
    "model_usage.ended_at",
    "model_usage.started_at",
    "idempotency_keys.created_at",
    "session_messages.created_at",
    "session_messages.replaced_at",
    "sessions.created_at",
    "sessions.summarised_at",
    "tasks.ended_at",
    "tasks.started_at",
    "thread_messages.deleted_at",
    "thread_messages.routed_at",
    "threads.active_at",
    "threads.created_at",
    "threads.queued_notice_at",
    "run_events.created_at",
    "run_log_pieces.created_at",
    "runs.ended_at",
    "runs.retried_at",
    "runs.stop_requested_at",
}
"""Moments that tell when something was, and decide nothing but for how many days it is kept."""


class Told(Watcher):
    def __init__(self) -> None:
        self.steps: list[float] = []

    def clock_stepped(self, seconds: float) -> None:
        self.steps.append(seconds)


class Wavering(ManualClock):
    """A clock that is an hour ahead when it is looked at once, and right again afterwards."""

    wavers = False

    def now_us(self) -> int:
        ahead, self.wavers = self.wavers, False
        return super().now_us() + (int(HOUR * SECOND) if ahead else 0)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
async def db(database_url: str, clock: ManualClock, told: Told) -> AsyncIterator[Database]:
    async with Database(database_url, clock=clock, watcher=told) as opened:
        yield opened


def now(tx: Transaction) -> int:
    return tx.now


async def office_left(db: Database) -> float:
    """For how many seconds the office is still held; negative: it has been over for so long."""

    def left(tx: Transaction) -> float:
        _, rows = tx.fetch("SELECT expires_at FROM locks", {})
        return float(rows[0][0] - tx.now) / SECOND

    return await db.read(left)


async def elect(db: Database, holder: str = "ann") -> int | None:
    return (await db.write(locks.take, *OFFICE, holder, 10.0)).term


def test_every_moment_in_the_tables_moves_or_is_known_to_decide_nothing() -> None:
    moments = {
        f"{table.name}.{column.name}"
        for table in metadata.sorted_tables
        for column in table.columns
        if isinstance(column.type, BigInteger)
        and (column.name.endswith("_at") or column.name in ("at", "since", "order_key"))
    }
    moved = {f"{one.table.name}.{name}" for one in MOVED for name in one.columns}
    assert moments - moved == KEPT - moved
    assert moved <= moments


@both_ways
async def test_what_is_due_moves_with_the_clock_in_both_directions(
    db: Database, clock: ManualClock, told: Told, seconds: float
) -> None:
    await elect(db)
    clock.advance(4)
    clock.step(seconds)
    assert await elect(db, "bob") is None, "the office is still Ann's"
    assert await office_left(db) == pytest.approx(6)
    assert await db.write(now) == clock.now_us(), "from then on the clock is believed"
    assert told.steps == [seconds]


@both_ways
async def test_reading_goes_by_the_clock_as_it_was_until_somebody_writes(
    db: Database, clock: ManualClock, seconds: float
) -> None:
    await elect(db)
    clock.step(seconds)
    assert await office_left(db) == pytest.approx(10)
    assert await db.read(now) == clock.now_us() - int(seconds * SECOND)


async def test_time_that_passes_and_small_steps_are_no_steps(db: Database, clock: ManualClock, told: Told) -> None:
    await elect(db)
    clock.advance(86_400)
    clock.step(9)
    clock.step(-9)
    assert await elect(db, "bob") == 2
    assert told.steps == []


@pytest.mark.parametrize("seconds", [9.5, -9.5])
async def test_a_step_too_small_to_be_noticed_takes_nobody_out_of_office(
    db: Database, clock: ManualClock, seconds: float
) -> None:
    term = await elect(db)
    assert term
    clock.advance(3)
    clock.step(seconds)
    assert await db.write(locks.renew, *OFFICE, "ann", term, 10.0)
    assert await elect(db, "bob") is None


async def test_a_clock_that_is_right_again_before_anything_is_moved_was_not_set(database_url: str, told: Told) -> None:
    clock = Wavering()
    async with Database(database_url, clock=clock, watcher=told) as db:
        await elect(db)
        clock.wavers = True
        with capture_logs() as logs:
            assert await db.write(now) == clock.now_us()
        assert not clock.wavers
        assert await office_left(db) == pytest.approx(10)
        assert (told.steps, [log for log in logs if log.get("action") == "clock_stepped"]) == ([], [])


@both_ways
async def test_of_two_processes_one_moves_what_is_due(
    database_url: str, db: Database, clock: ManualClock, seconds: float
) -> None:
    async with Database(database_url, clock=clock) as other:
        await elect(db)
        await other.write(now)
        clock.step(seconds)
        await db.write(now)
        await other.write(now)
        assert await office_left(other) == pytest.approx(10)
        clock.step(-seconds)
        await other.write(now)
        await db.write(now)
        assert await office_left(db) == pytest.approx(10)


@both_ways
async def test_several_steps_between_two_looks_of_a_process_count_as_their_sum(
    database_url: str, db: Database, clock: ManualClock, seconds: float
) -> None:
    async with Database(database_url, clock=clock) as other:
        await elect(db)
        await other.write(now)
        clock.step(seconds)
        await db.write(now)
        clock.step(seconds)
        await db.write(now)
        await other.write(now)
        assert await office_left(other) == pytest.approx(10)


async def test_a_process_that_starts_after_a_step_back_finds_it(database_url: str, clock: ManualClock) -> None:
    async with Database(database_url, clock=clock) as before:
        await elect(before)
    clock.advance(60)
    clock.step(-HOUR)
    clock = ManualClock(clock.now_us())  # of another process: it has seen no step
    async with Database(database_url, clock=clock) as after:
        assert await after.write(clock_changes.started) == pytest.approx((HOUR - 60) * SECOND)
        assert await office_left(after) == pytest.approx(10)
        assert await after.write(clock_changes.started) == 0


async def test_a_process_that_starts_later_finds_nothing(database_url: str, clock: ManualClock) -> None:
    async with Database(database_url, clock=clock) as db:
        await elect(db)
        clock.advance(HOUR)
        assert await db.write(clock_changes.started) == 0
        assert await office_left(db) == pytest.approx(10 - HOUR)


def test_a_long_answer_is_no_step() -> None:
    """The server was asked, and the process suspended before it had the answer: or the server was slow."""
    clock = ManualClock()
    watch = ClockWatch(None, lambda _: None)
    watch._elapsed_us = clock.elapsed_us  # the server's clock is played here
    assert watch.read(clock.now_us(), watch.asked())[1] == 0
    asked_at, early = watch.asked(), clock.now_us()
    clock.advance(HOUR)
    assert watch.read(early, asked_at)[1] == 0
    assert watch.read(clock.now_us(), asked_at)[1] == 0
    assert watch.read(clock.now_us(), watch.asked())[1] == 0
    clock.step(HOUR)
    assert watch.read(clock.now_us(), watch.asked())[1] == HOUR * SECOND
