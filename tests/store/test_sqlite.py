"""SQLite: group commit, and what happens to whom when a disk is full, a file is locked or a commit fails."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import structlog

from swarm.domain.errors import ConfigurationError, Unavailable
from swarm.store.bridge import sqlite_driver
from swarm.store.bridge.database import Database
from swarm.store.bridge.engine import SqliteUrl, parse_url
from swarm.store.bridge.sqlite import MAX_GROUP
from swarm.store.bridge.sqlite_driver import sqlite3
from swarm.store.bridge.transaction import Transaction
from tests.store import items
from tests.store.items import PATIENCE_SECONDS, Gate, with_items
from tests.support.scan import files_with

pytestmark = [pytest.mark.req("OPS-03"), pytest.mark.req("LOOP-01")]

BUSY_SECONDS = 0.1

LOCK_THE_FILE = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.readline()
connection.execute("ROLLBACK")
"""


@pytest.fixture
def path(sqlite_url: str) -> Path:
    where = parse_url(sqlite_url)
    assert isinstance(where, SqliteUrl)
    return where.path


@pytest.fixture
async def db(sqlite_url: str) -> AsyncIterator[Database]:
    async with Database(sqlite_url, busy_timeout_seconds=BUSY_SECONDS) as opened:
        yield await with_items(opened)


@contextlib.asynccontextmanager
async def writer_held(db: Database) -> AsyncIterator[None]:
    """While this lasts the writer is busy: everything that is called meanwhile forms the next group."""
    gate = Gate()
    holder = asyncio.ensure_future(db.write(gate.hold))
    await asyncio.to_thread(gate.entered.wait, PATIENCE_SECONDS)
    try:
        yield
        await asyncio.sleep(0)  # lets the calls made meanwhile enter the queue
    finally:
        gate.open()
    await holder


async def together(db: Database, *functions: Callable[[Transaction], Any]) -> list[Any]:
    """The outcomes of functions that run in one group."""
    async with writer_held(db):
        calls = [asyncio.ensure_future(db.write(function)) for function in functions]
    return await asyncio.gather(*calls, return_exceptions=True)


def adding(item: int, wake: str | None = None) -> Callable[[Transaction], int]:
    return lambda tx: items.add(tx, item, wake=wake)


def failing(tx: Transaction) -> None:
    items.add(tx, 1000)
    items.COUNT_UP.run(tx, the_id=1)
    raise ValueError("mine")


def connection_of(tx: Transaction) -> sqlite3.Connection:
    """The writer's own connection, to break or to watch it."""
    connection: Any = tx._connection
    return connection  # type: ignore[no-any-return]


async def traced(db: Database) -> list[str]:
    """A list to which every statement of the writer is added from now on."""
    seen: list[str] = []
    await db.write(lambda tx: connection_of(tx).set_trace_callback(seen.append))
    seen.clear()
    return seen


async def stored(path: Path) -> list[int]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return [row[0] for row in connection.execute("SELECT id FROM items ORDER BY id")]


async def test_writes_that_wait_at_the_same_moment_share_one_commit(db: Database, path: Path) -> None:
    seen = await traced(db)
    outcomes = await together(db, *(adding(item) for item in range(20)))
    assert outcomes == list(range(20))
    assert seen.count("BEGIN IMMEDIATE") == seen.count("COMMIT") == 2  # the holder's, and one for all twenty
    assert await stored(path) == list(range(20))


async def test_a_group_has_an_upper_limit(db: Database) -> None:
    seen = await traced(db)
    outcomes = await together(db, *(adding(item) for item in range(MAX_GROUP + 1)))
    assert outcomes == list(range(MAX_GROUP + 1))
    assert seen.count("COMMIT") == 3


async def test_a_failing_call_does_not_hurt_its_neighbours(db: Database) -> None:
    outcomes = await together(db, adding(1), failing, adding(2))
    assert (outcomes[0], outcomes[2]) == (1, 2)
    assert isinstance(outcomes[1], ValueError)
    assert await db.read(items.ids) == [1, 2]
    assert await db.read(items.count_of, 1) == 0


async def test_no_result_leaves_before_the_groups_commit(db: Database, path: Path) -> None:
    gate = Gate()
    async with writer_held(db):
        early = asyncio.ensure_future(db.write(items.add, 1, wake="ada"))
        late = asyncio.ensure_future(db.write(gate.hold, 2))
    await asyncio.to_thread(gate.entered.wait, PATIENCE_SECONDS)
    assert not early.done()
    assert db.wakeups.generation("ada") == 0
    assert await stored(path) == []
    gate.open()
    assert await early == 1
    await late
    assert await stored(path) == [1, 2]


async def test_a_failed_commit_is_unavailable_for_all_and_leaves_nothing(db: Database, path: Path) -> None:
    # The released savepoints of the group must go with the outer transaction, not stay committed.
    await db.write(lambda tx: tx.execute("CREATE TABLE parents (id INTEGER PRIMARY KEY)", {}))
    await db.write(
        lambda tx: tx.execute(
            "CREATE TABLE children (parent REFERENCES parents (id) DEFERRABLE INITIALLY DEFERRED)", {}
        )
    )

    def break_the_commit(tx: Transaction) -> str:
        tx.execute("INSERT INTO children VALUES (1)", {})
        return "as if it were fine"

    outcomes = await together(db, adding(1, wake="ada"), failing, break_the_commit, adding(2))
    assert [type(outcome) for outcome in outcomes] == [Unavailable, ValueError, Unavailable, Unavailable]
    assert isinstance(outcomes[0].__cause__, sqlite3.IntegrityError)
    assert outcomes[0] is not outcomes[2]
    assert db.wakeups.generation("ada") == 0
    assert await stored(path) == []
    assert await db.write(items.add, 3) == 3
    assert await stored(path) == [3]


@contextlib.asynccontextmanager
async def nearly_full_disk(db: Database) -> AsyncIterator[None]:
    def limit(tx: Transaction) -> None:
        pages = items.look(tx, "PRAGMA page_count")
        items.look(tx, f"PRAGMA max_page_count = {pages + 3}")

    await db.write(limit)
    yield
    await db.write(lambda tx: items.look(tx, "PRAGMA max_page_count = 1000000"))


async def test_a_full_disk_is_unavailable_for_everybody_whose_write_is_not_durable(db: Database, path: Path) -> None:
    def too_much(tx: Transaction) -> None:
        items.add(tx, 3, "x" * 1_000_000)

    async with nearly_full_disk(db):
        outcomes = await together(db, adding(1, wake="ada"), too_much, adding(2))
    assert isinstance(outcomes[1], Unavailable)
    assert "full" in str(outcomes[1])
    # SQLite gave up the whole transaction, so the first is lost; the last, whose run had not come, went on.
    assert isinstance(outcomes[0], Unavailable)
    assert outcomes[2] == 2
    assert db.wakeups.generation("ada") == 0
    assert await stored(path) == [2]
    assert await db.write(items.add, 4) == 4


async def test_a_full_disk_while_work_is_handed_over_leaves_nothing_behind(db: Database, path: Path) -> None:
    def too_much(tx: Transaction) -> None:
        items.add(tx, 3, "x" * 1_000_000)

    db.hand_over = too_much
    async with nearly_full_disk(db):
        outcomes = await together(db, adding(1, wake="ada"), adding(2))
    assert isinstance(outcomes[0], Unavailable)
    assert outcomes[1] == 2
    assert await stored(path) == [2], "a write that was reported as not done is on disk"


async def test_a_function_cannot_slip_a_write_past_a_transaction_that_broke(db: Database, path: Path) -> None:
    def swallow_and_go_on(tx: Transaction) -> None:
        with contextlib.suppress(sqlite3.Error):
            items.add(tx, 1, "x" * 1_000_000)
        items.add(tx, 2)

    async with nearly_full_disk(db):
        with pytest.raises(RuntimeError, match="accepts no others"):
            await db.write(swallow_and_go_on)
    assert await stored(path) == []


@contextlib.contextmanager
def locked_by_another_process(path: Path) -> Iterator[None]:
    command = [sys.executable, "-c", LOCK_THE_FILE, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "locked\n"
        yield
        process.stdin.write("\n")


async def test_a_file_locked_for_too_long_is_unavailable_for_the_whole_group(db: Database, path: Path) -> None:
    gate = Gate()
    holder = asyncio.ensure_future(db.write(gate.hold))
    await asyncio.to_thread(gate.entered.wait, PATIENCE_SECONDS)
    gate.open()
    await holder
    with locked_by_another_process(path):
        outcomes = await asyncio.gather(*(db.write(items.add, item) for item in range(3)), return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [Unavailable] * 3
        assert "locked" in str(outcomes[0])
        assert await db.read(items.ids) == []  # readers are not kept out
    assert await db.write(items.add, 7) == 7


async def test_a_short_lock_of_another_process_only_delays(sqlite_url: str, path: Path) -> None:
    async with Database(sqlite_url, busy_timeout_seconds=PATIENCE_SECONDS) as patient:
        await with_items(patient)
        with locked_by_another_process(path):
            waiting = asyncio.ensure_future(patient.write(items.add, 1))
            assert await patient.read(items.ids) == []
        assert await waiting == 1


async def test_a_cancelled_caller_in_a_group_is_not_run_and_its_neighbours_are(db: Database) -> None:
    async with writer_held(db):
        calls = [asyncio.ensure_future(db.write(items.add, item)) for item in range(3)]
        await asyncio.sleep(0)
        calls[1].cancel()
    assert await calls[0] == 0
    assert await calls[2] == 2
    assert await db.read(items.ids) == [0, 2]


async def test_a_write_that_changes_nothing_costs_no_disk(db: Database, path: Path) -> None:
    await db.write(items.add, 1)
    log = path.with_name(path.name + "-wal")
    size = log.stat().st_size
    for _ in range(3):
        await db.write(lambda tx: items.COUNT_UP.run(tx, the_id=99))
    assert log.stat().st_size == size


async def test_another_process_write_wakes_everybody_with_the_next_look_which_comes_every_second(
    db: Database, path: Path
) -> None:
    assert inspect.signature(Database).parameters["tick_seconds"].default == 1
    seen = db.wakeups.generation("anybody")
    command = [sys.executable, "-c", "import sqlite3, sys; sqlite3.connect(sys.argv[1]).executescript(sys.argv[2])"]
    done = await asyncio.create_subprocess_exec(*command, str(path), "INSERT INTO items VALUES (5, 'five', 0)")
    assert await done.wait() == 0
    assert await db.wakeups.wait("anybody", seen, PATIENCE_SECONDS)
    assert await db.read(items.ids) == [5]


async def test_every_commit_reaches_the_disk_and_references_are_checked(db: Database) -> None:
    def settings(tx: Transaction) -> list[Any]:
        return [items.look(tx, f"PRAGMA {name}") for name in ("journal_mode", "synchronous", "foreign_keys")]

    full = 2
    assert await db.write(settings) == ["wal", full, 1]
    assert await db.write(lambda tx: connection_of(tx).isolation_level) is None  # the driver begins nothing by itself


async def test_closing_empties_the_write_ahead_log(sqlite_url: str, path: Path) -> None:
    async with Database(sqlite_url) as db:
        await with_items(db)
        await db.write(items.add, 1)
    assert not path.with_name(path.name + "-wal").exists()
    assert await stored(path) == [1]


async def test_a_writer_that_breaks_outside_a_call_tells_its_callers_and_goes_on(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: object, calls: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr("swarm.store.bridge.sqlite.SqliteWriter._commit", broken)
        with pytest.raises(Unavailable):
            await db.write(items.add, 1)
    assert await db.write(items.add, 2) == 2
    assert await db.read(items.ids) == [2]


def test_opening_a_new_file_while_another_process_sets_it_up_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, refused = tmp_path / "new.db", threading.Event()
    monkeypatch.setattr(sqlite_driver, "time", SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: refused.set()))
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other, ThreadPoolExecutor(1) as pool:
        other.execute("BEGIN IMMEDIATE")
        other.execute("CREATE TABLE first (n INTEGER)")
        opening = pool.submit(sqlite_driver.connect, path, busy_timeout_seconds=PATIENCE_SECONDS)
        assert refused.wait(PATIENCE_SECONDS)
        other.execute("COMMIT")
        opening.result(PATIENCE_SECONDS).close()


def test_a_place_without_a_write_ahead_log_is_a_configuration_error() -> None:
    with pytest.raises(ConfigurationError, match="write-ahead log"):
        sqlite_driver.connect(Path(":memory:"), busy_timeout_seconds=0)


def test_an_old_sqlite_is_warned_about_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_driver, "SOUND_VERSION", (99, 0, 0))
    sqlite_driver.warn_if_old.cache_clear()
    with structlog.testing.capture_logs() as logs:
        sqlite_driver.warn_if_old()
        sqlite_driver.warn_if_old()
    assert [inbox_message["action"] for inbox_message in logs] == ["sqlite_old"]


def forget_all(tx: Transaction) -> None:
    tx.execute("DELETE FROM items", {})


@pytest.mark.req("SEC-06")
@pytest.mark.parametrize("rewrite", [False, True])
async def test_what_is_deleted_is_in_no_file_after_a_scrub(path: Path, rewrite: bool) -> None:
    """Also while others read, who are not waited for."""
    async with Database(f"sqlite:///{path}") as database:
        await with_items(database)
        await database.write(items.add, 1, "zebra-4711" * 1_000)
        await database.write(forget_all)
        assert files_with(f"sqlite:///{path}", "zebra-4711") == [f"{path.name}-wal"]
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as reader:
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM items").fetchone()
            assert not await database.scrub(rewrite=False), "it says that it is to be tried again"
        assert await database.scrub(rewrite=rewrite)
        assert files_with(f"sqlite:///{path}", "zebra-4711") == []
