"""How a commit in one process wakes waiters in another: LISTEN and NOTIFY.

A notification carries the id of the process that sent it and the topic; our own are skipped, since our waiters were
woken at the commit. While the connection is down notifications are lost, so every new connection bumps everything.
"""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable, Iterable
from typing import Any

import psycopg
import structlog
from psycopg import errors, pq

from swarm.domain.errors import Unavailable

CHANNEL = "swarm_wakeups"
RECONNECT_SECONDS = 1.0

PostgresConnection = psycopg.Connection[tuple[Any, ...]]

_log = structlog.get_logger(__name__)


class Listener:
    """A thread that hears what other processes committed."""

    def __init__(
        self,
        connect: Callable[[], PostgresConnection],
        origin: str,
        bump: Callable[[str], None],
        bump_all: Callable[[], None],
    ) -> None:
        self._connect = connect
        self._origin = origin
        self._bump = bump
        self._bump_all = bump_all
        self._stopping = threading.Event()
        self._stop_signal, self._stop_sender = socket.socketpair()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Connect and listen. Raises `Unavailable` when there is no first connection."""
        try:
            connection = self._listening()
        except Unavailable:
            self._close_signal()
            raise
        self._thread = threading.Thread(target=self._serve, args=[connection], name="swarm-listener", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop listening; returns when the thread has ended."""
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
                _log.warning("Not hearing other processes; trying again.", action="listener_down", error=str(error))
                _close(connection)
                connection = None
                self._stopping.wait(RECONNECT_SECONDS)
        _close(connection)

    def _listening(self) -> PostgresConnection:
        connection = self._connect()
        connection.execute(f"LISTEN {CHANNEL}")
        return connection

    def _hear(self, connection: PostgresConnection) -> None:
        """Bump what others notify, until the connection breaks or we stop."""
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
# Whoever moves along what is due (`swarm.store.bridge.clock_changes`) waits for the writes under way, and new ones wait
# for it.
BEGIN_WRITE = b"BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock_shared(%d); %b" % (_CLOCK_LOCK, _NOW)
BEGIN_ALONE = b"BEGIN ISOLATION LEVEL READ COMMITTED; SELECT pg_advisory_xact_lock(%d)" % _CLOCK_LOCK
BEGIN_READ = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; " + _NOW
COMMIT = b"COMMIT"
ROLLBACK = b"ROLLBACK"
_CHANNEL = f"'{CHANNEL}'".encode()


class PostgresSession:
    """A connection with its transaction, one after another. Methods raise a psycopg.Error as psycopg would."""

    def __init__(self, connection: PostgresConnection) -> None:
        self._connection = connection
        self._cursor = connection.cursor()
        self._libpq = connection.pgconn
        self._quoted = pq.Escaping(self._libpq).escape_literal

    @property
    def closed(self) -> bool:
        return self._connection.closed

    def cursor(self) -> PostgresCursor:
        """The one for this transaction's statements, of which each has read its rows before the next."""
        return self._cursor

    def begin(self, read_only: bool) -> int:
        """Begin a transaction; the server's time in microseconds since 1970."""
        return self._number(BEGIN_READ if read_only else BEGIN_WRITE)

    def begin_alone(self) -> None:
        """Begin a transaction beside which no other writes."""
        self._send(BEGIN_ALONE)

    def now(self) -> int:
        """The server's time."""
        return self._number(_NOW)

    def commit(self, notifications: Iterable[str]) -> None:
        """COMMIT, and before it in the same message to the server the notifications."""
        notify = [b"SELECT pg_notify(%b, %b)" % (_CHANNEL, self._quoted(text.encode())) for text in notifications]
        self._send(b"; ".join([*notify, COMMIT]))

    def roll_back(self) -> None:
        self._send(ROLLBACK)

    def close(self) -> None:
        self._connection.close()

    def _number(self, text: bytes) -> int:
        return int(self._send(text).get_value(0, 0) or 0)

    def _send(self, text: bytes) -> pq.abc.PGresult:
        """What the last statement of a text answers. Raises a psycopg.Error as psycopg would."""
        result = self._libpq.exec_(text)
        if result.status == pq.ExecStatus.FATAL_ERROR:
            if not result.error_field(pq.DiagnosticField.SQLSTATE):  # libpq's own word: the connection broke
                self.close()  # which libpq may notice no sooner than with the next call
                raise psycopg.OperationalError(result.get_error_message())
            raise errors.error_from_result(result)
        return result
