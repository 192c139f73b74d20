"""The bridge between asynchronous callers and the database, with the same interface for both engines.

Query functions are synchronous, ``fn(tx, *args)``, and run on a thread; ``await db.write(fn, *args)`` returns their
result after the commit. Only migrations and backups open their own connections.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar, cast

import structlog

from swarm.clock import Clock, SystemClock
from swarm.domain.errors import ConfigurationError, SwarmError, Unavailable
from swarm.domain.watchers import NO_WATCHERS, Watcher
from swarm.store.bridge.clock_changes import ClockWatch
from swarm.store.bridge.engine import Engine, HandOver, PostgresUrl, QueryJob, SetFunction, parse_url
from swarm.store.bridge.transaction import Dialect, Transaction
from swarm.store.bridge.wakeups import Wakeups

P = ParamSpec("P")
Item = TypeVar("Item")
T = TypeVar("T")

_log = structlog.get_logger(__name__)


class Database:
    """A migrated database, bound to the event loop that opens it.

    ``url`` is ``sqlite:///relative/path``, ``sqlite:////absolute/path`` or ``postgresql://…``; any other URL, including
    in-memory SQLite, raises `ConfigurationError`. ``pooler_url`` leads to the same PostgreSQL through a pooler in
    transaction mode, which all queries then use; notifications arrive over ``url``. Without ``clock``, the time comes
    from PostgreSQL or, for SQLite, from the machine. ``busy_timeout_seconds`` limits how long SQLite waits for another
    process's lock.
    """

    def __init__(
        self,
        url: str,
        *,
        pooler_url: str | None = None,
        clock: Clock | None = None,
        wakeups: Wakeups | None = None,
        busy_timeout_seconds: float = 5.0,
        tick_seconds: float = 1.0,
        watcher: Watcher = NO_WATCHERS,
    ) -> None:
        self._watcher = watcher
        self.wakeups = wakeups or Wakeups()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_open = False
        self._broken: str | None = None  # why it can never be used again
        self._breaks = asyncio.Event()
        self.hand_over: HandOver | None = None  # called at the end of each write that wakes a topic
        self._engine = self._make_engine(url, pooler_url, clock, busy_timeout_seconds, tick_seconds)

    @property
    def dialect(self) -> Dialect:
        return self._engine.dialect

    async def open(self) -> None:
        """Connects. Raises `Unavailable` with the reason."""
        self._loop = asyncio.get_running_loop()
        await asyncio.to_thread(self._engine.open)
        self._is_open = True

    async def close(self) -> None:
        """Refuses new calls, finishes the queued ones and disconnects. Idempotent."""
        self.wakeups.close()
        if self._is_open:
            self._is_open = False
            await asyncio.to_thread(self._engine.close)

    async def until_broken(self) -> None:
        """Waits until a thread of the engine has ended by an error, and raises `Unavailable` with the reason."""
        await self._breaks.wait()
        raise Unavailable(f"The database cannot be used any more: {self._broken}")

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def write(self, fn: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs ``fn(tx, *args)`` in a transaction. Returns its result once it is durable, or raises its exception.

        ``fn`` may run again after a rollback. If the caller is cancelled before ``fn`` starts, ``fn`` does not run;
        after that, ``fn`` commits or rolls back regardless. Raises `Unavailable` if nothing was changed,
        `OutcomeUnknown` if the connection broke during the commit, and `ConstraintViolated`.
        """
        return cast(T, await self._through(lambda tx, _: [fn(tx, *args, **kwargs)]))

    def write_together(
        self, fn: Callable[[Transaction, Sequence[Item]], Sequence[T | SwarmError]], item: Item
    ) -> Awaitable[T]:
        """Like `write`, for a function over a set: ``fn(tx, items)`` runs once for all concurrent calls with this
        function, and returns one result for each item, in order.

        The call is queued at once. The returned future has the result for ``item``, or raises it if it is a
        `SwarmError`. An exception in ``fn`` does not affect the other callers: ``fn`` then runs again for each item
        alone.
        """
        return self._through(fn, item, is_alone=False)

    async def read(self, fn: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Runs ``fn(tx, *args)`` on one consistent snapshot. Returns its result or raises its exception.

        A write in ``fn`` fails. Raises `Unavailable` if the database cannot answer.
        """
        return cast(T, await self._through(lambda tx, _: [fn(tx, *args, **kwargs)], writes=False))

    async def scrub(self, *, rewrite: bool) -> bool:
        """Removes deleted data from the database files. Returns whether it succeeded; if not, the caller tries again.

        SQLite empties its write-ahead log, which contains old pages. With ``rewrite`` it also rewrites the complete
        file, because a page may keep a stale copy of a moved row (`PRAGMA secure_delete` clears only the row itself). A
        rewrite blocks writers for about a second per 50 MB. On PostgreSQL its own vacuum is sufficient.
        """
        return await asyncio.to_thread(self._engine.scrub, rewrite=rewrite)

    def listens(self, *, asleep_seconds: float) -> None:
        """Records that this process listens to agents, and has just written. If two calls are more than
        ``asleep_seconds`` apart, it was suspended, or could not write.

        From the next transaction on, `Transaction.opened_at` is the time since which the process has listened.
        """
        self._watch.listens(asleep_seconds)

    def _through(
        self, fn: SetFunction, item: object = None, *, writes: bool = True, is_alone: bool = True
    ) -> asyncio.Future[Any]:
        """Queues a call. Cancelling its future cancels the call unless it has started."""
        if not self._is_open or self._loop is None:
            raise Unavailable("The database is closed.")
        if self._broken is not None:
            raise Unavailable(f"The database cannot be used any more: {self._broken}")
        job = QueryJob(fn, item, self._loop.create_future(), writes=writes, is_alone=is_alone)
        (self._engine.write if writes else self._engine.read)(job)
        return job.future

    def _hand_work_over(self, tx: Transaction) -> None:
        if self.hand_over:
            self.hand_over(tx)

    def _deliver(self, calls: Sequence[QueryJob]) -> None:
        self._on_loop(self._settle, calls)

    def _settle(self, calls: Sequence[QueryJob]) -> None:
        for call in calls:
            self.wakeups.bump(call.topics)
            call.settle()
        self._tell(calls)

    def _tell(self, calls: Sequence[QueryJob]) -> None:
        if calls and calls[0].writes:
            self._watcher.committed_together(len(calls))
        for call in calls:
            self._watcher.database_called(call.seen())

    def _died(self, reason: str) -> None:
        self._broken = reason
        self._on_loop(self._breaks.set)

    def _bump_all(self) -> None:
        self._on_loop(self.wakeups.bump_all)

    def _bump(self, topic: str) -> None:
        self._on_loop(self.wakeups.bump, [topic])

    def _stepped(self, seconds: float) -> None:
        self._on_loop(self._watcher.clock_stepped, seconds)
        self._bump_all()  # tasks that wait for a deadline must check the clock again

    def _on_loop(self, act: Callable[..., None], *args: object) -> None:
        """Calls ``act`` on the event loop; called from a thread of the engine."""
        if self._loop is None:
            return
        try:
            self._loop.call_soon_threadsafe(act, *args)
        except RuntimeError:  # the loop was closed without closing the database
            _log.exception("The event loop is closed; a database result is lost.", action="loop_closed")

    def _make_engine(
        self,
        url: str,
        pooler_url: str | None,
        clock: Clock | None,
        busy_timeout_seconds: float,
        tick_seconds: float,
    ) -> Engine:
        where, pooler = parse_url(url), parse_url(pooler_url) if pooler_url else None
        if not isinstance(pooler, PostgresUrl | None) or (pooler and not isinstance(where, PostgresUrl)):
            raise ConfigurationError(
                "database.pooler_url (SWARM_DATABASE_POOLER_URL) and database.url (SWARM_DATABASE_URL) must both be "
                "PostgreSQL; expected postgresql://user:password@host/name."
            )
        # Each engine is imported, with its driver, only if it is used.
        if isinstance(where, PostgresUrl):
            from swarm.store.bridge.postgres import PostgresEngine

            self._watch = ClockWatch(clock, self._stepped)
            return PostgresEngine(
                where,
                self._deliver,
                self._bump,
                self._bump_all,
                self._hand_work_over,
                self._watch,
                died=self._died,
                pooler=pooler,
            )
        from swarm.store.bridge.sqlite import SqliteEngine

        self._watch = ClockWatch(clock or SystemClock(), self._stepped)  # SQLite has no server clock
        return SqliteEngine(
            where.path,
            self._deliver,
            self._bump_all,
            self._hand_work_over,
            died=self._died,
            watch=self._watch,
            busy_timeout_seconds=busy_timeout_seconds,
            tick_seconds=tick_seconds,
        )
