"""Runs calls on SQLite with one writing thread and two reading threads.

Readers and the writer never wait for each other: the write-ahead log gives each read transaction the state that was
committed when it started.

The writer runs all waiting calls in one transaction (group commit), commits once, and only then delivers the results: a
hundred callers share a single disk sync. A group briefly waits for the callers of the last one (`gather`). Calls with
the same function form a set, which runs as one under its own savepoint; after an error, each call of the set runs
alone.

Who may act: only the writer writes in this process; ``BEGIN IMMEDIATE`` excludes other processes. Guarantee: a result
means that the change is on disk; a call runs once; a failing call is rolled back without affecting the other calls. On
failure: if SQLite itself rolls back the transaction (full disk, I/O error), or the commit fails, each call in the
transaction that had a result gets `Unavailable` instead; calls that had not started continue in a new transaction.

Between groups, and at least once a second, the writer checks whether another process changed the file. The check uses
the writer's own connection, because ``data_version`` ignores changes made by the connection that queries it. Before
each transaction it checks that the file is still there: if it was removed or replaced, the thread ends, and with it the
process.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from queue import Empty, SimpleQueue

import structlog

from swarm.domain.errors import Unavailable
from swarm.store.bridge import clock_changes
from swarm.store.bridge.clock_changes import ClockWatch
from swarm.store.bridge.engine import (
    Deliver,
    Died,
    HandOver,
    HandOverFailed,
    QueryJob,
    gather,
    run_together,
    sets_of,
    start_thread,
)
from swarm.store.bridge.sqlite_driver import SqliteTransaction, connect, explain, sqlite3, unavailable, warn_if_old
from swarm.store.bridge.transaction import Dialect, Moment

READERS = 2

MOST_REWRITTEN_BYTES = 128 * 1024 * 1024
"""Rewriting a larger file would take longer than other writers wait (``busy_timeout_seconds``)."""

SCRUB_WAIT_MS = 200
"""How long emptying the write-ahead log waits for readers. Writers wait for the same time."""

_log = structlog.get_logger(__name__)


class SqliteEngine:
    """The engine for the file at ``path``, migrated or empty. The file's folder must exist."""

    dialect: Dialect = "sqlite"

    def __init__(
        self,
        path: Path,
        deliver: Deliver,
        on_foreign_change: Callable[[], None],
        hand_over: HandOver,
        *,
        died: Died,
        watch: ClockWatch,
        busy_timeout_seconds: float,
        tick_seconds: float,
    ) -> None:
        self._path = path
        self._died = died
        self._deliver = deliver
        self._on_foreign_change = on_foreign_change
        self._hand_over = hand_over
        self._watch = watch
        self._busy_timeout_seconds = busy_timeout_seconds
        self._tick_seconds = tick_seconds
        self._writes: Queue = SimpleQueue()
        self._reads: Queue = SimpleQueue()
        self._threads: list[threading.Thread] = []

    def open(self) -> None:
        warn_if_old()
        with contextlib.ExitStack() as opened:
            try:
                writing = opened.enter_context(contextlib.closing(self._connect()))
                reading = [
                    opened.enter_context(contextlib.closing(self._connect(read_only=True))) for _ in range(READERS)
                ]
                writer = SqliteWriter(
                    self._path,
                    writing,
                    self._writes,
                    self._deliver,
                    self._on_foreign_change,
                    self._watch,
                    self._tick_seconds,
                    self._hand_over,
                )
            except sqlite3.Error as error:
                raise Unavailable(f"The database file {self._path} cannot be opened: {error}.") from error
            opened.pop_all()  # the threads close them
        self._start("swarm-writer", writer.serve, self._writes)
        for number, connection in enumerate(reading):
            reader = _Reader(connection, self._reads, self._deliver, self._watch)
            self._start(f"swarm-reader-{number}", reader.serve, self._reads)

    def write(self, call: QueryJob) -> None:
        self._writes.put(call)

    def read(self, call: QueryJob) -> None:
        self._reads.put(call)

    def scrub(self, *, rewrite: bool) -> bool:
        try:
            with contextlib.closing(self._connect()) as connection:
                if rewrite and self._path.stat().st_size <= MOST_REWRITTEN_BYTES:
                    connection.execute("VACUUM")
                # Does not wait for long reads of the log, because writers would have to wait as well.
                connection.execute(f"PRAGMA busy_timeout = {SCRUB_WAIT_MS}")
                (is_busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as error:
            _log.warning("The database files still contain deleted data.", action="scrub", error=str(error))
            return False
        return not is_busy

    def close(self) -> None:
        # Readers are closed first, so that the writer can empty the write-ahead log.
        for _ in range(READERS):
            self._reads.put(None)
        for reader in self._threads[1:]:
            reader.join()
        self._writes.put(None)
        for writer in self._threads[:1]:
            writer.join()
        self._threads.clear()

    def _connect(self, *, read_only: bool = False) -> sqlite3.Connection:
        connection = connect(self._path, busy_timeout_seconds=self._busy_timeout_seconds)
        if read_only:
            connection.execute("PRAGMA query_only = ON")
        return connection

    def _start(self, name: str, serve: Callable[[], None], queue: Queue) -> None:
        def died(reason: str) -> None:
            self._died(reason)  # from now on no call is queued
            with contextlib.suppress(Empty):
                while True:
                    if call := queue.get_nowait():
                        call.fail(Unavailable(reason))
                        self._deliver([call])

        self._threads.append(start_thread(name, serve, died))


class _Reader:
    """A thread that runs read calls one at a time, each on the state that was committed when it started."""

    def __init__(self, connection: sqlite3.Connection, queue: Queue, deliver: Deliver, watch: ClockWatch) -> None:
        self._connection = connection
        self._queue = queue
        self._deliver = deliver
        self._watch = watch

    def serve(self) -> None:
        """Runs queued calls until the queue ends, then disconnects."""
        while (call := self._queue.get()) is not None:
            if not call.abandoned:
                self._answer(call)
        self._connection.close()

    def _answer(self, call: QueryJob) -> None:
        try:
            self._connection.execute("BEGIN")
            moment = self._watch.moment(*self._watch.read())
            run_together([call], SqliteTransaction(self._connection, moment, read_only=True))
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


MAX_GROUP = 256
"""The maximum number of calls in one transaction. A larger group would delay its first result."""

_Set = Sequence[QueryJob]  # calls with the same function

Queue = SimpleQueue[QueryJob | None]
"""Calls in order of arrival; None ends the queue."""

_log = structlog.get_logger(__name__)


class SqliteWriter:
    """The only writer of this process; see the module docstring."""

    def __init__(
        self,
        path: Path,
        connection: sqlite3.Connection,
        queue: Queue,
        deliver: Deliver,
        on_foreign_change: Callable[[], None],
        watch: ClockWatch,
        tick_seconds: float,
        hand_over: HandOver,
    ) -> None:
        self._path = path
        self._identity = _identity(path)
        self._hand_over = hand_over
        self._connection = connection
        self._queue = queue
        self._deliver = deliver
        self._on_foreign_change = on_foreign_change
        self._watch = watch
        self._tick_seconds = tick_seconds
        self._ended = False
        self._last_size = 1
        self._next_look = time.monotonic() + tick_seconds
        self._seen_version = self._data_version()

    def serve(self) -> None:
        """Commits groups until the queue ends, then empties the write-ahead log and disconnects."""
        while not self._ended:
            group = self._next_group()
            if group:
                self._commit_together(group)
            self._look_around()
        try:
            self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        except sqlite3.Error as error:
            _log.warning(
                "The write-ahead log was kept; the next start will read it.", action="checkpoint", error=str(error)
            )
        self._connection.close()

    def _next_group(self) -> list[QueryJob]:
        """Returns all waiting calls. Waits for the first call until the next check for changes by other processes."""
        group: list[QueryJob] = []
        try:
            call = self._queue.get(timeout=max(0.0, self._next_look - time.monotonic()))
            gather(lambda: self._queue.qsize() + 1, self._last_size)
            while call is not None:
                group.append(call)
                if len(group) == MAX_GROUP:
                    break
                call = self._queue.get_nowait()
            else:
                self._ended = True
        except Empty:
            pass  # no other call is waiting
        self._last_size = len(group)
        return group

    def _commit_together(self, group: Sequence[QueryJob]) -> None:
        rest: Sequence[_Set] = sets_of(group)
        try:
            while rest:
                rest = self._run_transaction(rest)
        except BaseException as error:  # noqa: BLE001 - the writer survives, and its callers get the error
            self._roll_back()
            self._lose([group], error)
            _log.exception("The writer failed outside a call.", action="writer_failed")
        finally:
            self._deliver(group)

    def _run_transaction(self, sets: Sequence[_Set]) -> Sequence[_Set]:
        """Runs ``sets`` in one transaction and commits it.

        Returns the sets that did not start because the transaction was rolled back.
        """
        self._check_file()
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            self._roll_back()  # if an earlier transaction could not be ended, this allows the next group to begin
            self._lose(sets, error)
            return ()
        for position, calls in enumerate(sets, start=1):
            reading, step = self._watch.read()
            if step:
                self._commit(sets[: position - 1])
                return sets[position - 1 :] if self._settle(sets[position - 1 :]) else ()
            broken = self._run(calls, self._watch.moment(reading))
            if not self._connection.in_transaction:
                self._lose(sets[:position], broken)
                return sets[position:]
        self._commit(sets)
        return ()

    def _settle(self, waiting: Sequence[_Set]) -> bool:
        """Moves the due times after a clock step, unless the clock was corrected in the meantime.

        Returns False on failure; the ``waiting`` calls have then failed with `Unavailable`.
        """
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            reading, step = self._watch.read()
            if not step:
                self._connection.execute("ROLLBACK")
                return True
            tx = SqliteTransaction(self._connection, self._watch.moment(reading))
            moved = clock_changes.step(tx, step)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            self._lose(waiting, error)
            return False
        self._watch.settle(reading, step, moved)
        return True

    def _run(self, calls: _Set, moment: Moment) -> BaseException | None:
        """Runs a set under its savepoint, and after an error each of its calls alone. Returns the last error."""
        try:
            self._connection.execute("SAVEPOINT calls")
            run_together(calls, SqliteTransaction(self._connection, moment), self._hand_over)
            self._connection.execute("RELEASE calls")
        except BaseException as error:  # noqa: BLE001 - an interrupt too belongs to the caller
            self._undo_calls()
            if self._connection.in_transaction and isinstance(error, HandOverFailed):
                return self._run(calls, moment)
            if self._connection.in_transaction and len(calls) > 1:
                return self._run_each(calls, moment)
            broken = error.__cause__ or error if isinstance(error, HandOverFailed) else error
            for call in calls:
                call.fail(explain(broken, writes=True))
            return broken
        return None

    def _run_each(self, calls: _Set, moment: Moment) -> BaseException | None:
        for call in calls:
            broken = self._run([call], moment)
            if not self._connection.in_transaction:
                return broken
        return None

    def _undo_calls(self) -> None:
        if not self._connection.in_transaction:
            return
        try:
            self._connection.execute("ROLLBACK TO calls")
            self._connection.execute("RELEASE calls")
        except sqlite3.Error:
            _log.exception("Calls could not be rolled back separately.", action="savepoint_lost")
            self._roll_back()

    def _commit(self, sets: Sequence[_Set]) -> None:
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            self._lose(sets, error)

    def _roll_back(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            _log.exception("The transaction could not be rolled back.", action="rollback_failed")

    def _lose(self, sets: Iterable[Sequence[QueryJob]], cause: BaseException | None) -> None:
        """Fails the calls of a transaction that did not become durable. A call that already has an error keeps it."""
        for call in chain.from_iterable(sets):
            call.fail(unavailable(cause or RuntimeError("its transaction ended early")))

    def _look_around(self) -> None:
        if time.monotonic() < self._next_look:
            return
        self._next_look = time.monotonic() + self._tick_seconds
        self._check_file()
        try:
            version = self._data_version()
        except sqlite3.Error as error:
            _log.warning("Cannot determine whether the file changed.", action="data_version", error=str(error))
            return
        if version != self._seen_version:
            self._seen_version = version
            self._on_foreign_change()

    def _check_file(self) -> None:
        """Raises Unavailable if the file is no longer the one that is open, which would lose everything written."""
        if (now := _identity(self._path)) != self._identity:
            what = "replaced" if now else "removed"
            raise Unavailable(
                f"the file {self._path} was {what} while it was in use, and nothing can be stored in it any more."
            )

    def _data_version(self) -> int:
        (version,) = self._connection.execute("PRAGMA data_version").fetchone()
        return int(version)


def _identity(path: Path) -> tuple[int, int] | None:
    """Returns what tells a file from others of the same name; None if there is none."""
    try:
        found = path.stat()
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino
