"""PostgreSQL: conflicts are run again, and a connection that breaks leaves nobody in doubt without saying so."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import threading
from collections.abc import AsyncIterator, Callable

import psycopg
import pytest

from swarm.domain.errors import OutcomeUnknown, Unavailable
from swarm.store.bridge.database import Database
from swarm.store.bridge.postgres import MAX_RUNS
from swarm.store.bridge.postgres_driver import PostgresSession
from swarm.store.bridge.transaction import ConstraintViolated, Transaction
from tests.store import items
from tests.store.items import PATIENCE_SECONDS, look, with_items

pytestmark = [pytest.mark.req("OPS-03")]

DIE_AT_COMMIT = """
CREATE FUNCTION die() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END $$;
CREATE CONSTRAINT TRIGGER die_at_commit AFTER INSERT ON items
    DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION die();
"""


@pytest.fixture
async def db(postgres_url: str) -> AsyncIterator[Database]:
    async with Database(postgres_url) as opened:
        yield await with_items(opened)


@pytest.fixture
def kill(postgres_url: str) -> Callable[[int], None]:
    """Ends a server process, and with it a connection, from outside."""

    def end(pid: int) -> None:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(%s, 5000)", [pid])

    return end


async def test_two_that_lock_each_other_out_both_succeed_in_the_end(db: Database) -> None:
    for item in (1, 2):
        await db.write(items.add, item)
    both_hold_one = threading.Barrier(2)
    runs: list[int] = []

    def count_both(tx: Transaction, first: int, second: int) -> None:
        items.COUNT_UP.run(tx, the_id=first)
        runs.append(first)
        if runs.count(first) == 1:
            both_hold_one.wait(PATIENCE_SECONDS)
        items.COUNT_UP.run(tx, the_id=second)

    await asyncio.gather(db.write(count_both, 1, 2), db.write(count_both, 2, 1))
    assert len(runs) > 2  # the one that was given up ran again
    for item in (1, 2):
        assert await db.read(items.count_of, item) == 2


async def test_a_serialization_failure_is_run_again(db: Database) -> None:
    await db.write(items.add, 1)
    both_have_read = threading.Barrier(2)
    runs: list[int] = []

    def count_what_was_read(tx: Transaction, who: int) -> None:
        tx.execute("ROLLBACK", {})
        tx.execute("BEGIN ISOLATION LEVEL SERIALIZABLE", {})
        items.BY_ID.first(tx, id=1)
        runs.append(who)
        if runs.count(who) == 1:
            both_have_read.wait(PATIENCE_SECONDS)
        items.COUNT_UP.run(tx, the_id=1)

    await asyncio.gather(db.write(count_what_was_read, 1), db.write(count_what_was_read, 2))
    assert len(runs) == 3
    assert await db.read(items.count_of, 1) == 2


async def test_work_that_cannot_be_handed_over_is_stored_even_in_the_last_run(db: Database) -> None:
    runs: list[int] = []

    def conflicts_at_first(tx: Transaction) -> None:
        runs.append(items.add(tx, 1, wake="ada"))
        if len(runs) < MAX_RUNS:
            raise psycopg.errors.SerializationFailure

    def fails(tx: Transaction) -> None:
        raise ValueError("a bug")

    db.hand_over = fails
    await db.write(conflicts_at_first)
    assert len(runs) == MAX_RUNS + 1
    assert await db.read(items.ids) == [1]


async def test_a_conflict_that_never_ends_is_given_up(db: Database) -> None:
    runs: list[int] = []

    def always_conflicts(tx: Transaction) -> None:
        runs.append(1)
        items.add(tx, 1, wake="ada")
        tx.execute("DO $$ BEGIN RAISE 'no' USING ERRCODE = 'serialization_failure'; END $$", {})

    with pytest.raises(Unavailable):
        await db.write(always_conflicts)
    assert len(runs) == MAX_RUNS
    assert db.wakeups.generation("ada") == 0
    assert await db.read(items.ids) == []


async def test_a_connection_that_breaks_before_the_commit_is_replaced_once(
    db: Database, kill: Callable[[int], None]
) -> None:
    runs: list[int] = []

    def dies_the_first_time(tx: Transaction) -> None:
        runs.append(1)
        items.add(tx, 1)
        if len(runs) == 1:
            kill(look(tx, "SELECT pg_backend_pid()"))
        items.add(tx, 2)

    await db.write(dies_the_first_time)
    assert len(runs) == 2
    assert await db.read(items.ids) == [1, 2]


async def test_a_connection_that_breaks_again_is_unavailable_and_nothing_was_changed(
    db: Database, kill: Callable[[int], None]
) -> None:
    runs: list[int] = []

    def always_dies(tx: Transaction) -> None:
        runs.append(1)
        items.add(tx, 1)
        kill(look(tx, "SELECT pg_backend_pid()"))
        items.add(tx, 2)

    with pytest.raises(Unavailable) as raised:
        await db.write(always_dies)
    assert not isinstance(raised.value, OutcomeUnknown)
    assert len(runs) == 2
    assert await db.read(items.ids) == []


async def test_idle_connections_that_broke_are_not_noticed_by_callers(db: Database, postgres_url: str) -> None:
    await asyncio.gather(*(db.write(items.add, item) for item in range(20)))
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    await asyncio.gather(*(db.write(items.add, item) for item in range(20, 40)))
    assert await db.read(items.ids) == list(range(40))


async def test_a_connection_that_breaks_during_the_commit_leaves_the_outcome_unknown(db: Database) -> None:
    await db.write(lambda tx: tx.execute(DIE_AT_COMMIT, {}))
    with pytest.raises(OutcomeUnknown) as raised:
        await db.write(items.add, 1, wake="ada")
    assert isinstance(raised.value.__cause__, psycopg.OperationalError)
    assert db.wakeups.generation("ada") == 1  # it may have happened, so whoever waits looks
    assert await db.read(items.ids) == []


@pytest.mark.req("LOOP-01")
def test_a_server_that_says_farewell_and_goes_leaves_a_broken_connection(postgres_url: str) -> None:
    """As all servers do beside one that was killed. Then libpq calls the connection bad only the next time."""
    session = PostgresSession(psycopg.connect(postgres_url, autocommit=True))
    ours, theirs = socket.socketpair()
    with ours, theirs:
        os.dup2(ours.fileno(), session.cursor().connection.fileno())
        farewell = b"SWARNING\0C57P02\0Mterminating connection because of crash of another server process\0\0"
        theirs.sendall(b"N" + struct.pack("!I", len(farewell) + 4) + farewell)
    with pytest.raises(psycopg.OperationalError, match="closed the connection"):
        session.begin(writes=True)
    assert session.closed


async def test_a_constraint_broken_at_the_commit_is_known_to_have_failed(db: Database) -> None:
    await db.write(
        lambda tx: tx.execute(
            "CREATE TABLE children (parent bigint REFERENCES items DEFERRABLE INITIALLY DEFERRED)", {}
        )
    )
    with pytest.raises(ConstraintViolated):
        await db.write(lambda tx: tx.execute("INSERT INTO children VALUES (1)", {}))
    assert await db.write(items.add, 1) == 1


async def test_a_row_locked_for_too_long_is_unavailable(db: Database, postgres_url: str) -> None:
    await db.write(items.add, 1)

    def briefly(tx: Transaction) -> None:
        tx.execute("SET LOCAL lock_timeout = 50", {})
        items.COUNT_UP.run(tx, the_id=1)

    assert await db.read(lambda tx: look(tx, "SHOW lock_timeout")) == "5s"
    with psycopg.connect(postgres_url) as other:
        other.execute("SELECT * FROM items FOR UPDATE")
        with pytest.raises(Unavailable, match="lock timeout"):
            await db.write(briefly)


async def test_a_process_that_is_suspended_in_a_transaction_does_not_keep_its_locks_for_ever(
    db: Database, postgres_url: str
) -> None:
    await db.write(items.add, 1)
    is_locked, others_are_done = threading.Event(), threading.Event()
    runs: list[int] = []

    def suspended(tx: Transaction) -> None:
        runs.append(1)
        if len(runs) == 1:
            items.COUNT_UP.run(tx, the_id=1)
            tx.execute("SET LOCAL idle_in_transaction_session_timeout = 50", {})  # counts from here
            is_locked.set()
            others_are_done.wait(PATIENCE_SECONDS)
        items.COUNT_UP.run(tx, the_id=1)

    assert await db.read(lambda tx: look(tx, "SHOW idle_in_transaction_session_timeout")) == "10s"
    coming_to_itself = asyncio.ensure_future(db.write(suspended))
    assert await asyncio.to_thread(is_locked.wait, PATIENCE_SECONDS)
    async with Database(postgres_url) as other:
        await other.write(items.COUNT_UP.run, the_id=1)
    others_are_done.set()
    await coming_to_itself  # it is told that nothing of it was done, and runs again
    assert len(runs) == 2
    assert await db.read(items.count_of, 1) == 2


async def test_each_call_is_read_committed_and_reads_are_read_only(db: Database) -> None:
    def isolation(tx: Transaction) -> str:
        level: str = look(tx, "SHOW transaction_isolation")
        return level

    assert await db.write(isolation) == "read committed"
    assert await db.read(isolation) == "repeatable read"
    assert await db.read(lambda tx: look(tx, "SHOW transaction_read_only")) == "on"


async def test_a_notification_wakes_only_its_own_topic_in_other_processes(db: Database, postgres_url: str) -> None:
    async with Database(postgres_url) as other:
        await db.write(items.add, 1, wake="ada")
        assert await other.wakeups.wait("ada", 0, PATIENCE_SECONDS)
        assert other.wakeups.generation("bob") == 0
        await db.write(items.add, 2, wake="it's \\ a 'topic'")
        assert await other.wakeups.wait("it's \\ a 'topic'", 0, PATIENCE_SECONDS)


async def test_a_listener_that_lost_its_connection_wakes_everybody_once_it_has_another(
    db: Database, postgres_url: str, kill: Callable[[int], None]
) -> None:
    listening = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND starts_with(query, 'LISTEN')"
    kill(await db.read(look, listening))
    assert await db.wakeups.wait("anybody", 0, PATIENCE_SECONDS)
    async with Database(postgres_url) as other:
        await other.write(items.add, 1, wake="ada")
        assert await db.wakeups.wait("ada", 1, PATIENCE_SECONDS)


async def test_a_commit_that_the_server_refuses_leaves_the_connections_usable(db: Database) -> None:
    too_long_to_notify = "x" * 9000
    for _ in range(10):
        with pytest.raises(psycopg.Error, match="payload string too long"):
            await db.write(items.add, 1, wake=too_long_to_notify)
    assert db.wakeups.generation(too_long_to_notify) == 0
    assert await asyncio.gather(*(db.write(items.add, item) for item in range(20))) == list(range(20))
