"""SQLite behind one writing thread (`swarm.store.bridge.sqlite_writer`) and two reading ones.

Readers never wait for the writer nor it for them: the write-ahead log gives each reading transaction the state that was
committed when it began.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import structlog

from swarm.domain.errors import Unavailable
from swarm.store.bridge.clock_watch import ClockWatch
from swarm.store.bridge.engine import Deliver, QueryJob
from swarm.store.bridge.sqlite_driver import SqliteTransaction, connect, explain, sqlite3, warn_if_old
from swarm.store.bridge.sqlite_writer import Queue, SqliteWriter
from swarm.store.bridge.transaction import Dialect

READERS = 2

MOST_REWRITTEN_BYTES = 128 * 1024 * 1024
"""A larger file would take longer than writers wait (``busy_timeout_seconds``)."""

SCRUB_WAIT_MS = 200
"""So long the emptying of the write-ahead log waits for readers, and writers for it."""

_log = structlog.get_logger(__name__)


class SqliteEngine:
    """The file at ``path``, which must have been migrated or be empty; its folder must exist."""

    dialect: Dialect = "sqlite"

    def __init__(
        self,
        path: Path,
        deliver: Deliver,
        on_foreign_change: Callable[[], None],
        *,
        watch: ClockWatch,
        busy_timeout_seconds: float = 5.0,
        tick_seconds: float = 1.0,
    ) -> None:
        self._path = path
        self._deliver = deliver
        self._on_foreign_change = on_foreign_change
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
                    writing, self._writes, self._deliver, self._on_foreign_change, self._watch, self._tick_seconds
                )
            except sqlite3.Error as error:
                raise Unavailable(f"The database file {self._path} cannot be opened: {error}.") from error
            opened.pop_all()  # the threads close them
        self._start("swarm-writer", writer.serve)
        for number, connection in enumerate(reading):
            reader = Reader(connection, self._reads, self._deliver, self._watch)
            self._start(f"swarm-reader-{number}", reader.serve)

    def write(self, call: QueryJob[Any]) -> None:
        self._writes.put(call)

    def read(self, call: QueryJob[Any]) -> None:
        self._reads.put(call)

    def scrub(self, *, rewrite: bool) -> bool:
        try:
            with contextlib.closing(self._connect()) as connection:
                if rewrite and self._path.stat().st_size <= MOST_REWRITTEN_BYTES:
                    connection.execute("VACUUM")
                # Whoever reads from the log at this moment is not waited for: writers would have to wait as well.
                connection.execute(f"PRAGMA busy_timeout = {SCRUB_WAIT_MS}")
                (is_busy, _, _) = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        except sqlite3.Error as error:
            _log.warning("The database's files still have what was deleted.", action="scrub", error=str(error))
            return False
        return not is_busy

    def close(self) -> None:
        # Readers first: the writer can then empty the write-ahead log.
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

    def _start(self, name: str, serve: Callable[[], None]) -> None:
        thread = threading.Thread(target=serve, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()


class Reader:
    """Runs reading calls one by one, each on the state that was committed when it began."""

    def __init__(self, connection: sqlite3.Connection, queue: Queue, deliver: Deliver, watch: ClockWatch) -> None:
        self._connection = connection
        self._queue = queue
        self._deliver = deliver
        self._watch = watch

    def serve(self) -> None:
        """Answer calls until the queue ends, then disconnect."""
        while (call := self._queue.get()) is not None:
            if not call.abandoned:
                self._answer(call)
        self._connection.close()

    def _answer(self, call: QueryJob[Any]) -> None:
        try:
            self._connection.execute("BEGIN")
            moment = self._watch.moment(*self._watch.read())
            call.run(SqliteTransaction(self._connection, moment, read_only=True))
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
