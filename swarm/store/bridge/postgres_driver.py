"""PostgreSQL connections: a listener for wakeups from other processes (LISTEN and NOTIFY), and the session of a worker.

A notification contains the id of the sending process and the topic. A process skips its own notifications, because it
wakes its waiters at the commit. Notifications are lost while the connection is down, so each new connection bumps every
topic.

A session runs consecutive transactions at low cost. A claim runs dozens of short statements, and most of their cost is
psycopg's overhead. Statements without parameters are therefore sent directly to libpq, in as few messages as possible,
and one cursor runs all other statements.
"""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import psycopg
import structlog
from psycopg import errors, pq

from swarm.domain.errors import Unavailable
from swarm.store.bridge.engine import Died, start_thread

CHANNEL = "swarm_wakeups"
RECONNECT_SECONDS = 1.0

PostgresConnection = psycopg.Connection[tuple[Any, ...]]

_log = structlog.get_logger(__name__)


class Listener:
    """A thread that receives the notifications of other processes."""

    def __init__(
        self,
        connect: Callable[[], PostgresConnection],
        origin: str,
        bump: Callable[[str], None],
        bump_all: Callable[[], None],
        died: Died,
    ) -> None:
        self._died = died
        self._connect = connect
        self._origin = origin
        self._bump = bump
        self._bump_all = bump_all
        self._stopping = threading.Event()
        self._stop_signal, self._stop_sender = socket.socketpair()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Connects and listens. Raises `Unavailable` when the first connection fails."""
        try:
            connection = self._listening()
        except Unavailable:
            self._close_signal()
            raise
        self._thread = start_thread("swarm-listener", partial(self._serve, connection), self._died)

    def stop(self) -> None:
        """Stops listening. Returns when the thread has ended."""
        self._stopping.set()
        self._stop_sender.send(b"stop")
        if self._thread is not None:
            self._thread.join()
        self._close_signal()

    def _serve(self, connection: PostgresConnection | None) -> None:
        while not self._stopping.is_set():
            try:
                if connection is None:
                    connection = self._listening()
                    self._bump_all()
                self._hear(connection)
            except (psycopg.Error, Unavailable) as error:
                _log.warning(
                    "The connection for notifications of other processes broke; reconnecting.",
                    action="listener_down",
                    error=str(error),
                )
                _close(connection)
                connection = None
                self._stopping.wait(RECONNECT_SECONDS)
        _close(connection)

    def _listening(self) -> PostgresConnection:
        connection = self._connect()
        connection.execute(f"LISTEN {CHANNEL}")
        return connection

    def _hear(self, connection: PostgresConnection) -> None:
        """Bumps notified topics until the connection breaks or the listener stops."""
        with selectors.DefaultSelector() as selector:
            selector.register(self._stop_signal, selectors.EVENT_READ)
            selector.register(connection.fileno(), selectors.EVENT_READ)
            while not self._stopping.is_set():
                for notification in connection.notifies(timeout=0):
                    origin, _, topic = notification.payload.partition(" ")
                    if origin != self._origin:
                        self._bump(topic)
                selector.select()

    def _close_signal(self) -> None:
        self._stop_signal.close()
        self._stop_sender.close()


def _close(connection: PostgresConnection | None) -> None:
    if connection is not None:
        connection.close()


PostgresCursor = psycopg.Cursor[tuple[Any, ...]]

_NOW = b"SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_CLOCK_LOCK = int.from_bytes(b"swarm.cl")
# Moving the due times (`swarm.store.bridge.clock_changes`) waits for the current writes, and new writes wait for it.
BEGIN_WRITE = b"BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock_shared(%d); %b" % (_CLOCK_LOCK, _NOW)
BEGIN_ALONE = b"BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock(%d)" % _CLOCK_LOCK
BEGIN_READ = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; " + _NOW


COMMIT = b"COMMIT"
ROLLBACK = b"ROLLBACK"
_CHANNEL = f"'{CHANNEL}'".encode()
# The statements of sets find their rows by keys, so one plan serves all values; otherwise PostgreSQL plans most of them
# anew each time, which takes as long as to run them. It joins by keys only: by statistics from when a table was small,
# reading all of it seems cheaper. Other statements read the first rows of many: a plan that does not know their LIMIT
# reads and sorts all.
_BEGIN_SET = (
    b"SET LOCAL lock_timeout = %d; SET LOCAL plan_cache_mode = force_generic_plan; "
    b"SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; %b"
)


class PostgresSession:
    """A connection with its current transaction. Methods raise the same psycopg.Error as psycopg.

    ``limits`` are statements that each transaction begins with.
    """

    def __init__(self, connection: PostgresConnection, limits: str = "") -> None:
        self._limits = b"; " + limits.encode()
        self._connection = connection
        self._cursor = connection.cursor()
        self._libpq = connection.pgconn
        self._quoted = pq.Escaping(self._libpq).escape_literal

    @property
    def closed(self) -> bool:
        return self._connection.closed

    def cursor(self) -> PostgresCursor:
        """Returns the cursor shared by all statements. Each statement reads its rows before the next one runs."""
        return self._cursor

    def begin(self, writes: bool, lock_seconds: float | None = None) -> int:
        """Begins a transaction. Returns the server's time in microseconds since 1970.

        ``lock_seconds``, for a set, limits how long its statements wait for a lock, except while due times are moved;
        without it, the connection's limit applies.
        """
        text = BEGIN_WRITE if writes else BEGIN_READ
        if lock_seconds is not None:
            text = text.replace(_NOW, _BEGIN_SET % (int(lock_seconds * 1000), _NOW))
        return self._number(text.replace(b"; ", self._limits, 1))

    def begin_alone(self) -> None:
        """Begins a transaction that blocks all other writes."""
        self._send(BEGIN_ALONE.replace(b"; ", self._limits, 1))

    def now(self) -> int:
        """Returns the server's time in microseconds since 1970."""
        return self._number(_NOW)

    def commit(self, notifications: Iterable[str]) -> None:
        """Sends the notifications and COMMIT in one message."""
        notify = [b"SELECT pg_notify(%b, %b)" % (_CHANNEL, self._quoted(text.encode())) for text in notifications]
        self._send(b"; ".join([*notify, COMMIT]))

    def roll_back(self) -> None:
        self._send(ROLLBACK)

    def close(self) -> None:
        self._connection.close()

    def _number(self, text: bytes) -> int:
        return int(self._send(text).get_value(0, 0) or 0)

    def _send(self, text: bytes) -> pq.abc.PGresult:
        """Returns the result of the last statement in a text. Raises a psycopg.Error."""
        result = self._libpq.exec_(text)
        if result.status == pq.ExecStatus.FATAL_ERROR:
            if not result.error_field(pq.DiagnosticField.SQLSTATE):  # an error in libpq itself: the connection broke
                self.close()  # otherwise libpq may detect the break only at the next call
                raise psycopg.OperationalError(result.get_error_message())
            raise errors.error_from_result(result)
        return result
