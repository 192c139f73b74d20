"""Database URLs, and the queue of calls shared by both engines.

Calls arrive from the event loop, run on a thread, and are delivered back to the event loop.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

import structlog
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from swarm.domain.errors import ConfigurationError, SwarmError
from swarm.domain.watchers import DatabaseCall, MetricEvent
from swarm.store.bridge.transaction import Dialect, Transaction

_log = structlog.get_logger(__name__)

_KEY = "database.url (SWARM_DATABASE_URL)"
_EXPECTED = "sqlite:///relative/path, sqlite:////absolute/path, or postgresql://user:password@host/name"


@dataclass(frozen=True, kw_only=True)
class SqliteUrl:
    path: Path

    def __str__(self) -> str:
        return f"sqlite:///{self.path}"


@dataclass(frozen=True, kw_only=True)
class PostgresUrl:
    conninfo: str = field(repr=False)  # in libpq's format, with the password: never log it
    shown: str  # the connection string with a masked password

    def __str__(self) -> str:
        return self.shown


def parse_url(text: str) -> SqliteUrl | PostgresUrl:
    """Returns the engine and location for a URL. Raises `ConfigurationError`, naming the expected forms, for any other
    URL.
    """
    try:
        url = make_url(text)
    except ArgumentError as error:
        raise ConfigurationError(f"{_KEY} cannot be read; expected {_EXPECTED}.") from error
    if url.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        plain = url.set(drivername="postgresql")
        return PostgresUrl(conninfo=plain.render_as_string(hide_password=False), shown=plain.render_as_string())
    if url.drivername == "sqlite":
        return _sqlite(url)
    raise ConfigurationError(f"{_KEY} begins with {url.drivername!r}; expected {_EXPECTED}.")


def _sqlite(url: URL) -> SqliteUrl:
    name = url.database or ""
    if not name or ":memory:" in name or url.query.get("mode") == "memory":
        raise ConfigurationError(
            f"{_KEY} is an in-memory SQLite database, but several connections must share one file; expected sqlite:///path."
        )
    return SqliteUrl(path=Path(name))


Died = Callable[[str], None]
"""Called on a thread of an engine that ends by an error, with a sentence about it: the database is of no use then."""


def start_thread(name: str, serve: Callable[[], None], died: Died) -> threading.Thread:
    """Runs ``serve`` on a thread. An error that ends it is logged, and reported to ``died``."""

    def run() -> None:
        try:
            serve()
        except BaseException as error:  # noqa: BLE001 - whatever it is, nobody does the work of the thread any more
            _log.exception("A thread of the database has ended.", action="database_thread", thread=name)
            reason = error.message if isinstance(error, SwarmError) else f"its thread {name} ended with {error!r}."
            died(reason)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    return thread


SetFunction = Callable[[Transaction, Sequence[Any]], Sequence[Any]]
"""A query function over a set of calls: ``fn(tx, items)`` returns one result for each item, in order.

A result that is a `SwarmError` is the refusal of its item alone: the function has changed nothing for this item.
"""


class QueryJob:
    """One call of a query function: queued on the event loop, run on a thread, settled on the event loop.

    Jobs with the same ``fn`` form a set and may run together (`run_together`). The thread owns a job while it runs. Its
    caller may be cancelled at any time; then nothing receives the result, but the call may still be committed.
    """

    __slots__ = (
        "_begun",
        "_committed",
        "_error",
        "_facts",
        "_maybe_done",
        "_topics",
        "_value",
        "fn",
        "future",
        "hands_over",
        "is_alone",
        "item",
        "writes",
    )

    def __init__(
        self,
        fn: SetFunction,
        item: object,
        future: asyncio.Future[Any],
        *,
        writes: bool = True,
        is_alone: bool = True,
    ) -> None:
        self.fn = fn
        self.item = item
        self.future = future
        self._value: object = None
        self._error: BaseException | None = None
        self._topics: Iterable[str] = ()
        self._facts: Sequence[MetricEvent] = ()
        self._committed: Sequence[Callable[[bool], None]] = ()
        self._maybe_done = False
        self._begun = time.perf_counter()
        self.writes = writes
        self.is_alone = is_alone  # no other job has this function
        self.hands_over = writes

    @property
    def abandoned(self) -> bool:
        """Returns whether the caller was cancelled. A cancelled job that has not started is skipped."""
        return self.future.cancelled()

    @property
    def topics(self) -> Iterable[str]:
        """The topics to bump. Empty unless the call succeeded or may have succeeded."""
        return self._topics

    def keep(self, result: object) -> None:
        """Keeps the result of the function, or its refusal."""
        self._value, self._error = (None, result) if isinstance(result, SwarmError) else (result, None)

    def keep_effects(self, tx: Transaction) -> None:
        """Keeps the effects of the transaction outside the database until the commit."""
        self._topics, self._facts, self._committed = tx.topics, tx.facts, tx.committed

    def fail(self, error: BaseException, *, maybe_done: bool = False) -> None:
        """Replaces the result with ``error``; an earlier error stays. Wakes no waiters unless the change may have been
        committed (``maybe_done``).
        """
        self._error, self._facts, self._maybe_done = self._error or error, (), maybe_done
        if not maybe_done:
            self._topics, self._committed = (), ()

    def seen(self) -> DatabaseCall:
        """Returns a record of the finished call for watchers."""
        seconds = time.perf_counter() - self._begun
        return DatabaseCall(writes=self.writes, seconds=seconds, error=self._error, facts=self._facts)

    def settle(self) -> None:
        """Passes the result or error to the caller. Runs on the event loop."""
        for act in self._committed:
            act(not self._maybe_done)
        if self.future.done():
            return
        if self._error is None:
            self.future.set_result(self._value)
        elif isinstance(self._error, StopIteration):  # a future cannot contain this exception
            self.future.set_exception(_escaped(self._error))
        else:
            self.future.set_exception(self._error)


HandOver = Callable[[Transaction], None]
"""Hands work that a write has made due to the callers waiting for it, in the same transaction."""


class HandOverFailed(Exception):
    """A hand-over failed: the write must run again, without a hand-over."""


def run_together(jobs: Sequence[QueryJob], tx: Transaction, hand_over: HandOver | None = None) -> None:
    """Runs the function of ``jobs`` once for all their items, and keeps the results.

    Raises the function's exception, or a database error that the function swallowed; then no job has a result. Raises
    HandOverFailed if ``hand_over`` failed; the next run of these jobs does not hand over.
    """
    try:
        results = jobs[0].fn(tx, [job.item for job in jobs])
        if tx.failure is not None:
            raise tx.failure
        if hand_over and tx.topics and jobs[0].hands_over:
            try:
                hand_over(tx)
            except Exception as error:
                _log.warning("Work was not handed over.", action="hand_over", exc_info=error)
                for job in jobs:
                    job.hands_over = False
                raise HandOverFailed from error
        for job, result in zip(jobs, results, strict=True):
            job.keep(result)
        jobs[0].keep_effects(tx)
    finally:
        tx.end()


def sets_of(jobs: Iterable[QueryJob]) -> list[list[QueryJob]]:
    """Returns the jobs whose callers still wait, in sets with the same function, by their first members."""
    sets: dict[SetFunction, list[QueryJob]] = {}
    for job in jobs:
        if not job.abandoned:
            sets.setdefault(job.fn, []).append(job)
    return list(sets.values())


GATHER_SECONDS: Final = 0.003
GATHER_STEP_SECONDS: Final = 0.001


def gather(waiting: Callable[[], int], last: int) -> None:
    """Waits until as many calls are ``waiting`` as ran together the ``last`` time, but only while calls keep arriving.

    Callers that got their results together usually call again at nearly the same time, and most of the cost of a
    transaction does not depend on the number of its calls. A single caller never waits.
    """
    before, until = 0, time.monotonic() + GATHER_SECONDS
    while before < (now := waiting()) < last and time.monotonic() < until:
        before = now
        time.sleep(GATHER_STEP_SECONDS)


Deliver = Callable[[Sequence[QueryJob]], None]
"""Delivers a batch of finished calls to the event loop; callable from any thread."""


class Engine(Protocol):
    """One kind of database. ``open`` and ``close`` block; ``write`` and ``read`` only queue."""

    dialect: Dialect

    def open(self) -> None:
        """Connects. Raises `Unavailable` with the reason."""

    def write(self, call: QueryJob) -> None:
        """Queues a call that runs in its own or a shared transaction, and is delivered after the commit."""

    def read(self, call: QueryJob) -> None:
        """Queues a call that runs on one consistent snapshot."""

    def scrub(self, *, rewrite: bool) -> bool:
        """Blocks the caller; see `swarm.store.bridge.database.Database.scrub`."""

    def close(self) -> None:
        """Finishes the queued calls, then disconnects. No further calls are allowed."""


def _escaped(error: StopIteration) -> RuntimeError:
    escaped = RuntimeError("A query function raised StopIteration.")
    escaped.__cause__ = error
    return escaped
