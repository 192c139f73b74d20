"""The one thread that writes to an SQLite file: group commit.

The writer takes all calls that wait at that moment into one transaction, each under a savepoint of its own, commits
once, and only then delivers the results: a hundred callers share one sync of the disk.

Who may act: only the writer writes in this process; other processes are kept out by ``BEGIN IMMEDIATE``.
What is guaranteed: a result means that the change is on the disk; a call runs once; a failing call is rolled back
alone, and its neighbours do not notice.
What happens on failure: when SQLite itself gives up the whole transaction (full disk, I/O error), or the commit fails,
everybody in it who had a result gets `Unavailable` instead; those whose turn had not come go on in a new transaction.

Between groups, and at least once a second, the writer looks whether another process changed the file. It asks on its
own connection, because ``data_version`` does not count what the asking connection changed itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from queue import Empty, SimpleQueue
from typing import Any

import structlog

from swarm.store.bridge import clock_steps
from swarm.store.bridge.clock_watch import ClockWatch
from swarm.store.bridge.engine import Deliver, QueryJob
from swarm.store.bridge.sqlite_driver import SqliteTransaction, explain, sqlite3, unavailable
from swarm.store.bridge.transaction import Moment

MAX_GROUP = 256
"""Calls in one transaction: the last one's results should not make the first one wait for long."""

Queue = SimpleQueue[QueryJob[Any] | None]
"""Calls in the order in which they came; None ends it."""

_log = structlog.get_logger(__name__)


class SqliteWriter:
    """The only one who writes; see the module's description."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        queue: Queue,
        deliver: Deliver,
        on_foreign_change: Callable[[], None],
        watch: ClockWatch,
        tick_seconds: float,
    ) -> None:
        self._connection = connection
        self._queue = queue
        self._deliver = deliver
        self._on_foreign_change = on_foreign_change
        self._watch = watch
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

    def _next_group(self) -> list[QueryJob[Any]]:
        """All calls that wait now, waiting for a first one until it is time to look around."""
        group: list[QueryJob[Any]] = []
        try:
            call = self._queue.get(timeout=max(0.0, self._next_look - time.monotonic()))
            while call is not None:
                group.append(call)
                if len(group) == MAX_GROUP:
                    return group
                call = self._queue.get_nowait()
            self._ended = True
        except Empty:
            pass  # nobody else waits at this moment
        return group

    def _commit_together(self, group: Sequence[QueryJob[Any]]) -> None:
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

    def _run_transaction(self, calls: Sequence[QueryJob[Any]]) -> Sequence[QueryJob[Any]]:
        """Run ``calls`` in one transaction and commit it; the calls whose turn did not come, because it broke."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
        except sqlite3.Error as error:
            self._roll_back()  # if an earlier one would not end, the next group can begin
            self._lose(calls, error)
            return ()
        for position, call in enumerate(calls, start=1):
            reading, step = self._watch.read()
            if step:
                self._commit(calls[: position - 1])
                return calls[position - 1 :] if self._settle(calls[position - 1 :]) else ()
            broken = self._run(call, self._watch.moment(reading))
            if not self._connection.in_transaction:
                self._lose(calls[:position], broken)
                return calls[position:]
        self._commit(calls)
        return ()

    def _settle(self, waiting: Sequence[QueryJob[Any]]) -> bool:
        """Move along what is due after a step of the clock, unless it was set right again meanwhile.

        False if that failed, and who waits has lost.
        """
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            reading, step = self._watch.read()
            if not step:
                self._connection.execute("ROLLBACK")
                return True
            tx = SqliteTransaction(self._connection, self._watch.moment(reading))
            moved = clock_steps.step(tx, step)
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            self._roll_back()
            self._lose(waiting, error)
            return False
        self._watch.settle(reading, step, moved)
        return True

    def _run(self, call: QueryJob[Any], moment: Moment) -> BaseException | None:
        """Run one call under its savepoint; what it was rolled back for."""
        if call.abandoned:
            return None
        try:
            self._connection.execute("SAVEPOINT call")
            call.run(SqliteTransaction(self._connection, moment))
            self._connection.execute("RELEASE call")
        except BaseException as error:  # noqa: BLE001 - an interrupt too belongs to the caller
            call.fail(explain(error, writes=True))
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

    def _commit(self, calls: Sequence[QueryJob[Any]]) -> None:
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

    def _lose(self, calls: Iterable[QueryJob[Any]], cause: BaseException | None) -> None:
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
