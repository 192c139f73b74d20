"""SQLite behind one writing thread and two reading ones.

**Group commit.** The writer takes all calls that wait at that moment into one transaction, each under a savepoint of
its own, commits once, and only then delivers the results: a hundred callers share one sync of the disk.

Who may act: only the writer writes in this process; other processes are kept out by ``BEGIN IMMEDIATE``.
What is guaranteed: a result means that the change is on the disk; a call runs once; a failing call is rolled back
alone, and its neighbours do not notice.
What happens on failure: when SQLite itself gives up the whole transaction (full disk, I/O error), or the commit fails,
everybody in it who had a result gets `Unavailable` instead; those whose turn had not come go on in a new transaction.

Between groups, and at least once a second, the writer looks whether another process changed the file. It asks on its
own connection, because ``data_version`` does not count what the asking connection changed itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import structlog

from swarm.clock import Clock, SystemClock
from swarm.domain.errors import ConfigurationError, Unavailable
from swarm.store.engine import Call, Deliver
from swarm.store.sqlite_driver import connect, explain, sqlite3, unavailable, warn_if_old
from swarm.store.transaction import Dialect, Transaction

MAX_GROUP = 256
"""Calls in one transaction: the last one's results should not make the first one wait for long."""

READERS = 2

_END = None  # in a queue: nothing comes after this
_Queue = SimpleQueue[Call[Any] | None]

_log = structlog.get_logger(__name__)


class SqliteTransaction(Transaction):
    dialect = "sqlite"
    driver_error = sqlite3.Error

    def _database_now(self) -> int:
        return SystemClock().now_us()  # SQLite has no clock of its own


class SqliteEngine:
    """The file at ``path``, which must have been migrated or be empty; its folder must exist."""

    dialect: Dialect = "sqlite"

    def __init__(
        self,
        path: Path,
        deliver: Deliver,
        on_foreign_change: Callable[[], None],
        *,
        clock: Clock | None = None,
        busy_timeout_seconds: float = 5.0,
        tick_seconds: float = 1.0,
    ) -> None:
        self._path = path
        self._deliver = deliver
        self._on_foreign_change = on_foreign_change
        self._clock = clock
        self._busy_timeout_seconds = busy_timeout_seconds
        self._tick_seconds = tick_seconds
        self._writes: _Queue = SimpleQueue()
        self._reads: _Queue = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def open(self) -> None:
        warn_if_old()
        try:
            writing = self._connect()
            reading = [self._connect(read_only=True) for _ in range(READERS)]
            writer = Writer(
                writing, self._writes, self._deliver, self._on_foreign_change, self._clock, self._tick_seconds
            )
        except sqlite3.Error as error:
            raise Unavailable(f"The database file {self._path} cannot be opened: {error}.") from error
        self._start("swarm-writer", writer.serve)
        for number, connection in enumerate(reading):
            reader = Reader(connection, self._reads, self._deliver, self._clock)
            self._start(f"swarm-reader-{number}", reader.serve)

    def write(self, call: Call[Any]) -> None:
        self._writes.put(call)

    def read(self, call: Call[Any]) -> None:
        self._reads.put(call)

    def close(self) -> None:
        # Readers first: the writer can then empty the write-ahead log.
        for _ in range(READERS):
            self._reads.put(_END)
        for reader in self._threads[1:]:
            reader.join()
        self._writes.put(_END)
        for writer in self._threads[:1]:
            writer.join()
        self._threads.clear()

    def _connect(self, *, read_only: bool = False) -> sqlite3.Connection:
        connection = connect(self._path, busy_timeout_seconds=self._busy_timeout_seconds)
        (mode,) = connection.execute("PRAGMA journal_mode").fetchone()
        if mode != "wal":
            connection.close()
            raise ConfigurationError(f"{self._path} lies where SQLite cannot keep a write-ahead log; it offers {mode}.")
        if read_only:
            connection.execute("PRAGMA query_only = ON")
        return connection

    def _start(self, name: str, serve: Callable[[], None]) -> None:
        thread = threading.Thread(target=serve, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()


class Writer:
    """The only one who writes; see the module's description."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        queue: _Queue,
        deliver: Deliver,
        on_foreign_change: Callable[[], None],
        clock: Clock | None,
        tick_seconds: float,
    ) -> None:
        self._connection = connection
        self._queue = queue
        self._deliver = deliver
        self._on_foreign_change = on_foreign_change
        self._clock = clock
        self._tick_seconds = tick_seconds
        self._ended = False
        self._next_look = time.monotonic() + tick_seconds
        self._seen_version = self._data_version()

    def serve(self) -> None:
        """Commit groups until the queue ends; then empty the write-ahead log and disconnect."""
        while not self._ended:
            group = self._next_group()
            if group:
                self._commit_together(group)
            self._look_around()
        try:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            _log.warning("The write-ahead log stays; the next start reads it.", action="checkpoint", error=str(error))
        self._connection.close()

    def _next_group(self) -> list[Call[Any]]:
        """All calls that wait now, waiting for a first one until it is time to look around."""
        group: list[Call[Any]] = []
        try:
            call = self._queue.get(timeout=max(0.0, self._next_look - time.monotonic()))
            while call is not _END:
                group.append(call)
                if len(group) == MAX_GROUP:
                    return group
                call = self._queue.get_nowait()
            self._ended = True
        except Empty:
            pass  # nobody else waits at this moment
        return group

    def _commit_together(self, group: Sequence[Call[Any]]) -> None:
        rest = group
        try:
            while rest:
                rest = self._run_transaction(rest)
        except BaseException as error:  # noqa: BLE001 - the writer outlives everything, and tells its callers
            self._roll_back()
            self._lose(group, error)
            _log.exception("The writer failed outside a call.", action="writer_failed")
        finally:
            self._deliver(group)

    def _run_transaction(self, calls: Sequence[Call[Any]]) -> Sequence[Call[Any]]:
        """Run ``calls`` in one transaction and commit it; the calls whose turn did not come, because it broke."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            self._lose(calls, error)
            return ()
        for position, call in enumerate(calls, start=1):
            broken = self._run(call)
            if not self._connection.in_transaction:
                self._lose(calls[:position], broken)
                return calls[position:]
        self._commit(calls)
        return ()

    def _run(self, call: Call[Any]) -> BaseException | None:
        """Run one call under its savepoint; what it was rolled back for."""
        if call.abandoned:
            return None
        try:
            self._connection.execute("SAVEPOINT call")
            call.run(SqliteTransaction(self._connection, self._clock))
            self._connection.execute("RELEASE call")
        except BaseException as error:  # noqa: BLE001 - an interrupt too belongs to the caller
            call.fail(explain(error))
            self._undo_call()
            return error
        return None

    def _undo_call(self) -> None:
        if not self._connection.in_transaction:
            return
        try:
            self._connection.execute("ROLLBACK TO call")
            self._connection.execute("RELEASE call")
        except sqlite3.Error:
            _log.exception("A call could not be rolled back alone.", action="savepoint_lost")
            self._roll_back()

    def _commit(self, calls: Sequence[Call[Any]]) -> None:
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            self._lose(calls, error)

    def _roll_back(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            _log.exception("The transaction could not be rolled back.", action="rollback_failed")

    def _lose(self, calls: Iterable[Call[Any]], cause: BaseException | None) -> None:
        """Nothing of this became durable: who had a result gets `Unavailable`; who has an error keeps it."""
        for call in calls:
            if not call.failed:
                call.fail(unavailable(cause or RuntimeError("its transaction ended early")))

    def _look_around(self) -> None:
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + self._tick_seconds
        try:
            version = self._data_version()
        except sqlite3.Error as error:
            _log.warning("Cannot see whether the file changed.", action="data_version", error=str(error))
            return
        if version != self._seen_version:
            self._seen_version = version
            self._on_foreign_change()

    def _data_version(self) -> int:
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        return int(version)


class Reader:
    """Runs reading calls one by one, each on the state that was committed when it began."""

    def __init__(self, connection: sqlite3.Connection, queue: _Queue, deliver: Deliver, clock: Clock | None) -> None:
        self._connection = connection
        self._queue = queue
        self._deliver = deliver
        self._clock = clock

    def serve(self) -> None:
        """Answer calls until the queue ends, then disconnect."""
        while (call := self._queue.get()) is not _END:
            if not call.abandoned:
                self._answer(call)
        self._connection.close()

    def _answer(self, call: Call[Any]) -> None:
        try:
            self._connection.execute("BEGIN")
            call.run(SqliteTransaction(self._connection, self._clock, read_only=True))
        except BaseException as error:  # noqa: BLE001 - an interrupt too belongs to the caller
            call.fail(explain(error))
        finally:
            self._end()
            self._deliver([call])

    def _end(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            _log.exception("A reading transaction did not end.", action="rollback_failed")
