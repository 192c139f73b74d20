"""The transaction: the first argument of every query function, ``fn(tx, *args)``.

A query function reads and writes through statements (`swarm.store.bridge.statements`) and returns plain values. It may
run again after a rollback, so it changes nothing outside the database. It does not catch database errors: after one,
the transaction refuses every further statement, as PostgreSQL does, and the complete function is rolled back.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Protocol, TypeVar

from swarm.domain.errors import SwarmError
from swarm.domain.watchers import MetricEvent

Dialect = Literal["sqlite", "postgresql"]

E = TypeVar("E", bound=BaseException)


class ConstraintViolated(SwarmError):
    """A violated constraint of the schema."""


class Cursor(Protocol):
    """The common interface of both drivers' cursors."""

    @property
    def description(self) -> Sequence[Sequence[Any]] | None: ...
    @property
    def rowcount(self) -> int: ...
    def execute(self, query: str, params: Mapping[str, object], /) -> object: ...
    def executemany(self, query: str, rows: Sequence[Mapping[str, object]], /) -> object: ...
    def fetchall(self) -> list[Any]: ...


class DriverConnection(Protocol):
    """The common interface of both drivers' connections."""

    def cursor(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class Moment:
    """The time of a transaction, and the time since which its process has listened to agents without a break, or has
    opened the database if it does not listen; in microseconds since 1970 UTC.
    """

    now: int
    opened_at: int


class Transaction:
    """A transaction on either engine, valid while its query function runs."""

    dialect: ClassVar[Dialect]
    driver_error: ClassVar[type[Exception]]

    def __init__(self, connection: DriverConnection, moment: Moment, *, read_only: bool = False) -> None:
        self._connection: DriverConnection | None = connection
        self._moment = moment
        self._read_only = read_only
        self.failure: Exception | None = None  # the first database error, even if the function swallowed it
        self.topics: dict[str, None] = {}  # an ordered set
        self.facts: list[MetricEvent] = []
        self.committed: list[Callable[[bool], None]] = []
        self.numbers = itertools.count()  # of the messages that are added, which all have the same time

    @property
    def now(self) -> int:
        """The time of this transaction in microseconds since 1970 UTC, constant until its end."""
        return self._moment.now

    @property
    def opened_at(self) -> int:
        """The time since which this process has listened to agents, in microseconds since 1970 UTC by the current
        clock; see `Moment`.
        """
        return self._moment.opened_at

    def wake(self, topic: str) -> None:
        """Bumps ``topic`` after the commit; does nothing on a rollback."""
        if self._read_only:
            raise RuntimeError(f"A reading transaction cannot wake {topic!r}.")
        self.topics[topic] = None

    def check_may_lock(self) -> None:
        """Raises RuntimeError in a reading transaction, in which PostgreSQL refuses locks and SQLite has none."""
        if self._read_only:
            raise RuntimeError("A reading transaction cannot lock rows.")

    def note(self, fact: MetricEvent) -> None:
        """Reports a metric event to the watchers after the commit; does nothing on a rollback."""
        self.facts.append(fact)

    def after_commit(self, act: Callable[[bool], None]) -> None:
        """Calls ``act(True)`` on the event loop after the commit, or ``act(False)`` after a commit of unknown outcome;
        does nothing on a rollback.
        """
        self.committed.append(act)

    def fetch(self, sql: str, params: Mapping[str, object]) -> tuple[Cursor, list[Any]]:
        """Runs one statement in the driver's own SQL. Returns its cursor and all rows as tuples."""
        cursor = self._cursor()
        try:
            cursor.execute(sql, params)
            return cursor, cursor.fetchall()
        except self.driver_error as error:
            self.failure = error
            raise

    def execute(self, sql: str, params: Mapping[str, object]) -> int:
        """Runs one statement without result rows, in the driver's own SQL. Returns the number of changed rows."""
        cursor = self._cursor()
        try:
            cursor.execute(sql, params)
        except self.driver_error as error:
            self.failure = error
            raise
        return cursor.rowcount

    def execute_many(self, sql: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Runs one statement, in the driver's own SQL, once for each of ``rows``."""
        cursor = self._cursor()
        try:
            cursor.executemany(sql, rows)
        except self.driver_error as error:
            self.failure = error
            raise

    def end(self) -> None:
        """Makes the transaction unusable, because a leaked transaction would run statements inside another one."""
        self._connection = None

    def _cursor(self) -> Cursor:
        if self._connection is None:
            raise RuntimeError("This transaction has ended; it is valid only while its query function runs.")
        if self.failure is not None:
            raise RuntimeError("A statement in this transaction failed, so it accepts no others.") from self.failure
        cursor: Cursor = self._connection.cursor()
        return cursor


def caused_by(error: E, cause: BaseException) -> E:
    """Returns ``error`` chained to its cause, without raising it."""
    error.__cause__ = cause
    return error
