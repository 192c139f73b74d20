"""The bridge: what callers may rely on, on both engines."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
from sqlalchemy import select

from swarm.clock import SECOND, ManualClock, SystemClock
from swarm.domain.errors import ConfigurationError, Unavailable
from swarm.store.bridge import engine
from swarm.store.bridge.database import Database
from swarm.store.bridge.engine import PostgresUrl, parse_url
from swarm.store.bridge.sqlite_driver import sqlite3
from swarm.store.bridge.statements import Statement
from swarm.store.bridge.transaction import Transaction
from tests.store import items
from tests.store.items import PATIENCE_SECONDS, Gate, with_items

LOCK = Statement(select(items.items).with_for_update())

pytestmark = pytest.mark.req("OPS-03")


@pytest.fixture
async def db(database: Database) -> Database:
    return await with_items(database)


@pytest.fixture
async def neighbour(db: Database, database_url: str) -> AsyncIterator[Database]:
    """The same database, opened as another process would."""
    async with Database(database_url, tick_seconds=0.05) as opened:
        yield opened


def stored_ids(url: str) -> list[int]:
    """What is committed, seen through a connection that has nothing to do with ours."""
    where = parse_url(url)
    connection: Any = psycopg.connect(where.conninfo) if isinstance(where, PostgresUrl) else sqlite3.connect(where.path)
    try:
        return [row[0] for row in connection.execute("SELECT id FROM items ORDER BY id").fetchall()]
    finally:
        connection.close()


async def test_a_result_means_that_others_see_the_change(db: Database, database_url: str) -> None:
    assert await db.write(items.add, 1) == 1
    assert stored_ids(database_url) == [1]


async def test_a_failing_function_changes_nothing_and_its_own_exception_comes_back(db: Database) -> None:
    mine = ValueError("mine")

    def add_and_fail(tx: Transaction) -> None:
        items.add(tx, 1)
        raise mine

    with pytest.raises(ValueError, match="mine") as raised:
        await db.write(add_and_fail)
    assert raised.value is mine
    assert await db.read(items.ids) == []


async def test_even_an_exit_is_the_callers_alone(db: Database) -> None:
    def leave(tx: Transaction) -> None:
        items.add(tx, 1)
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        await db.write(leave)
    with pytest.raises(SystemExit):
        await db.read(lambda tx: sys.exit(3))
    assert await db.write(items.add, 2) == 2
    assert await db.read(items.ids) == [2]


async def test_a_stop_iteration_reaches_its_caller_and_hurts_nobody(db: Database) -> None:
    def run_out(tx: Transaction) -> object:
        return next(iter([]))

    outcomes = await asyncio.wait_for(
        asyncio.gather(db.write(items.add, 1), db.write(run_out), db.write(items.add, 2), return_exceptions=True),
        PATIENCE_SECONDS,
    )
    assert isinstance(outcomes[1], RuntimeError)
    assert await db.read(items.ids) == [1, 2]


async def test_a_database_error_that_a_function_swallows_still_fails_it(db: Database) -> None:
    def swallow(tx: Transaction) -> str:
        items.add(tx, 1)
        try:
            tx.execute("INSERT INTO nowhere VALUES (1)", {})
        except (sqlite3.Error, psycopg.Error):
            return "as if nothing had happened"
        return "never"

    with pytest.raises((sqlite3.Error, psycopg.Error), match="nowhere"):
        await db.write(swallow)
    assert await db.read(items.ids) == []


async def test_after_a_database_error_a_transaction_takes_no_more_statements(db: Database) -> None:
    def go_on(tx: Transaction) -> None:
        try:
            tx.execute("INSERT INTO nowhere VALUES (1)", {})
        except (sqlite3.Error, psycopg.Error):
            items.add(tx, 1)

    with pytest.raises(RuntimeError, match="accepts no others"):
        await db.write(go_on)
    assert await db.read(items.ids) == []


async def test_a_transaction_that_leaks_out_of_its_function_is_refused(db: Database) -> None:
    leaked = await db.write(lambda tx: tx)
    with pytest.raises(RuntimeError, match="has ended"):
        items.add(leaked, 1)


async def test_a_read_cannot_write(db: Database) -> None:
    with pytest.raises((sqlite3.Error, psycopg.Error), match=r"readonly|read-only"):
        await db.read(items.add, 1)
    with pytest.raises(RuntimeError, match="cannot wake"):
        await db.read(lambda tx: tx.wake("ada"))
    with pytest.raises(RuntimeError, match="cannot lock"):
        await db.read(LOCK.all)
    assert await db.read(items.ids) == []


async def test_a_read_sees_one_unchanging_view(db: Database) -> None:
    gate = Gate()

    def look_twice(tx: Transaction) -> list[list[int]]:
        before = items.ids(tx)
        gate.hold(tx)
        return [before, items.ids(tx)]

    reading = asyncio.ensure_future(db.read(look_twice))
    await asyncio.to_thread(gate.entered.wait, PATIENCE_SECONDS)
    await db.write(items.add, 1)
    gate.open()
    assert await reading == [[], []]


async def test_a_caller_cancelled_while_it_runs_is_committed_all_the_same_and_once(db: Database) -> None:
    gate = Gate()
    caller = asyncio.ensure_future(db.write(gate.hold, 1))
    neighbour = asyncio.ensure_future(db.write(items.add, 2))
    await asyncio.to_thread(gate.entered.wait, PATIENCE_SECONDS)
    caller.cancel()
    gate.open()
    assert await neighbour == 2
    with pytest.raises(asyncio.CancelledError):
        await caller
    await db.write(items.add, 3)
    while await db.read(items.ids) != [1, 2, 3]:  # on PostgreSQL the held one ends on its own connection
        await asyncio.sleep(0)


async def test_a_caller_cancelled_while_it_waits_is_not_run(db: Database) -> None:
    gates = [Gate() for _ in range(8)]  # enough to occupy every connection of either engine
    holders = [asyncio.ensure_future(db.write(gate.hold)) for gate in gates]
    await asyncio.to_thread(gates[0].entered.wait, PATIENCE_SECONDS)
    if db.dialect == "postgresql":
        for gate in gates:
            await asyncio.to_thread(gate.entered.wait, PATIENCE_SECONDS)
    queued = asyncio.ensure_future(db.write(items.add, 1))
    await asyncio.sleep(0)
    queued.cancel()
    for gate in gates:
        gate.open()
    await asyncio.gather(*holders)
    await db.write(items.add, 2)
    assert await db.read(items.ids) == [2]


async def test_the_moment_of_a_transaction_is_asked_once(database_url: str) -> None:
    clock = ManualClock()

    def twice(tx: Transaction) -> tuple[int, int]:
        first = tx.now
        clock.advance(1)
        return first, tx.now

    async with Database(database_url, clock=clock) as db:
        start = clock.now_us()
        assert await db.write(twice) == (start, start)
        assert await db.read(lambda tx: tx.now) == start + SECOND


async def test_without_a_clock_the_moment_is_the_present(db: Database) -> None:
    before = SystemClock().now_us()
    moment = await db.write(lambda tx: tx.now)
    assert before - SECOND <= moment <= SystemClock().now_us() + SECOND


async def test_a_wakeup_comes_after_the_commit_and_only_then(db: Database, database_url: str) -> None:
    gate = Gate()

    def add_and_hold(tx: Transaction) -> None:
        items.add(tx, 1, wake="ada")
        gate.hold(tx)

    seen = db.wakeups.generation("ada")
    writing = asyncio.ensure_future(db.write(add_and_hold))
    await asyncio.to_thread(gate.entered.wait, PATIENCE_SECONDS)
    assert db.wakeups.generation("ada") == seen
    waiting = asyncio.ensure_future(db.wakeups.wait("ada", seen, PATIENCE_SECONDS))
    gate.open()
    assert await waiting
    assert stored_ids(database_url) == [1]
    await writing


async def test_a_rolled_back_function_wakes_nobody(db: Database) -> None:
    def wake_and_fail(tx: Transaction) -> None:
        tx.wake("ada")
        raise ValueError

    with pytest.raises(ValueError):
        await db.write(wake_and_fail)
    assert db.wakeups.generation("ada") == 0


async def test_another_process_write_wakes_waiters_here(db: Database, neighbour: Database) -> None:
    seen = neighbour.wakeups.generation("ada")
    await db.write(items.add, 1, wake="ada")
    assert await neighbour.wakeups.wait("ada", seen, PATIENCE_SECONDS)
    assert await neighbour.read(items.ids) == [1]


async def test_our_own_writes_do_not_come_back_as_somebody_elses(db: Database, neighbour: Database) -> None:
    await neighbour.wakeups.wait("ada", neighbour.wakeups.generation("ada"), 0.2)  # what came before has arrived
    ada, bob = (neighbour.wakeups.generation(topic) for topic in ("ada", "bob"))
    await neighbour.write(items.add, 1, wake="ada")
    assert not await neighbour.wakeups.wait("bob", bob, 0.3)
    assert neighbour.wakeups.generation("ada") == ada + 1


async def test_closing_finishes_what_was_queued_and_refuses_the_rest(database_url: str) -> None:
    db = await with_items(await _opened(database_url))
    gate = Gate()
    first = asyncio.ensure_future(db.write(gate.hold, 1))
    others = [asyncio.ensure_future(db.write(items.add, number)) for number in range(2, 12)]
    await asyncio.to_thread(gate.entered.wait, PATIENCE_SECONDS)
    closing = asyncio.ensure_future(db.close())
    await asyncio.sleep(0)
    with pytest.raises(Unavailable, match="closed"):
        await db.write(items.add, 99)
    with pytest.raises(Unavailable, match="closed"):
        await db.read(items.ids)
    gate.open()
    await closing
    await asyncio.gather(first, *others)
    await db.close()
    assert stored_ids(database_url) == list(range(1, 12))


async def test_closing_ends_the_waits(database_url: str) -> None:
    db = await _opened(database_url)
    waiting = asyncio.ensure_future(db.wakeups.wait("ada", 0, PATIENCE_SECONDS))
    await asyncio.sleep(0)
    await db.close()
    assert not await waiting


async def test_a_database_that_was_never_opened_says_that_it_is_closed(database_url: str) -> None:
    with pytest.raises(Unavailable, match="closed"):
        await Database(database_url).read(items.ids)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("sqlite://", "in-memory"),
        ("sqlite:///:memory:", "in-memory"),
        ("sqlite:///file?mode=memory", "in-memory"),
        ("mysql://host/name", "mysql.*expected sqlite:///"),
        ("nonsense", "expected sqlite:///"),
        ("", "expected sqlite:///"),
    ],
)
def test_a_url_that_cannot_be_used_says_what_is_expected(url: str, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        Database(url)


def test_a_password_is_never_shown() -> None:
    assert "secret" not in str(parse_url("postgresql://ada:secret@host/name"))
    assert "secret" not in repr(parse_url("postgresql://ada:secret@host/name"))


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("sqlite:///{folder}/missing/swarm.db", "missing/swarm.db cannot be opened"),
        ("postgresql://ada:secret@/name?host={folder}", "cannot be reached"),
    ],
)
async def test_a_database_out_of_reach_says_so(url: str, says: str, tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=says) as raised:
        await _opened(url.format(folder=tmp_path))
    assert "secret" not in str(raised.value)


async def _opened(url: str) -> Database:
    db = Database(url)
    await db.open()
    return db


@pytest.mark.parametrize(
    ("arrived", "last", "waits"),
    [([1], 1, 0), ([1], 0, 0), ([8], 8, 0), ([1, 4, 8], 8, 2), ([1, 3, 3], 8, 2), ([1, 2, 3, 4, 5], 8, 3)],
    ids=["alone", "first", "all there", "until all are there", "until none arrives", "until the time is over"],
)
def test_a_group_waits_only_while_callers_of_the_last_one_arrive(
    monkeypatch: pytest.MonkeyPatch, arrived: list[int], last: int, waits: int
) -> None:
    there, slept = iter(arrived), list[float]()
    monkeypatch.setattr(engine, "time", SimpleNamespace(sleep=slept.append, monotonic=lambda: sum(slept)))
    engine.gather(lambda: next(there), last)
    assert slept == [engine.GATHER_STEP_SECONDS] * waits
