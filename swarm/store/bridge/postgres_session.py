"""A connection to PostgreSQL as a worker uses it: transactions one after another, at little cost.

With dozens of short statements to a claim, psycopg's work around each of them is most of what it costs. So what has no
parameters goes straight to libpq, as little as possible in messages of its own, and one cursor serves all statements.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import psycopg
from psycopg import errors, pq

from swarm.store.bridge.postgres_listener import CHANNEL, PostgresConnection

PostgresCursor = psycopg.Cursor[tuple[Any, ...]]

_NOW = b"SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
_CLOCK_LOCK = int.from_bytes(b"swarm.cl")
# Whoever moves along what is due (`swarm.store.bridge.clock_steps`) waits for the writes under way, and new ones wait
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
