"""What the two engines have in common: calls come in from the event loop and are delivered back to it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Protocol, TypeVar

from swarm.domain.watchers import DatabaseCall, MetricEvent
from swarm.store.bridge.transaction import Dialect, Transaction

T = TypeVar("T")


class QueryJob(Generic[T]):
    """One query function on its way: queued on the event loop, run on a thread, settled on the event loop.

    Between the two the thread owns it. Its caller may be cancelled at any time; the call then has nobody to tell, and
    whether it was committed is its own matter.
    """

    __slots__ = ("_begun", "_error", "_facts", "_future", "_topics", "_value", "_work", "writes")

    def __init__(self, work: Callable[[Transaction], T], future: asyncio.Future[T], *, writes: bool = True) -> None:
        self._work = work
        self._future = future
        self._value: T | None = None
        self._error: BaseException | None = None
        self._topics: Iterable[str] = ()
        self._facts: Sequence[MetricEvent] = ()
        self._begun = time.perf_counter()
        self.writes = writes

    @property
    def abandoned(self) -> bool:
        """Nobody waits for it any more: if it has not begun, it need not."""
        return self._future.cancelled()

    @property
    def failed(self) -> bool:
        return self._error is not None

    @property
    def topics(self) -> Iterable[str]:
        """What to bump: empty unless the call succeeded, or may have."""
        return self._topics

    def run(self, tx: Transaction) -> None:
        """Run the function and keep its result; raises what the function raises, and a database error it swallowed."""
        try:
            self._value = self._work(tx)
            if tx.failure is not None:
                raise tx.failure
            self._topics, self._facts = tx.topics, tx.facts
        finally:
            tx.end()

    def fail(self, error: BaseException, *, maybe_done: bool = False) -> None:
        """Give the caller ``error`` instead of a result, and wake nobody unless the change may have happened."""
        self._error, self._facts = error, ()
        if not maybe_done:
            self._topics = ()

    def seen(self) -> DatabaseCall:
        """What a watcher is told of it, once it has ended."""
        seconds = time.perf_counter() - self._begun
        return DatabaseCall(writes=self.writes, seconds=seconds, error=self._error, facts=self._facts)

    def settle(self) -> None:
        """Tell the caller; on the event loop's thread."""
        if self._future.done():
            return
        if self._error is None:
            self._future.set_result(self._value)  # type: ignore[arg-type]  # set by run(), which may well return None
        elif isinstance(self._error, StopIteration):  # a future cannot carry it
            self._future.set_exception(_escaped(self._error))
        else:
            self._future.set_exception(self._error)


Deliver = Callable[[Sequence[QueryJob[Any]]], None]
"""Hands finished calls to the event loop, all at once; callable from any thread."""


class Engine(Protocol):
    """One kind of database. ``open`` and ``close`` block; ``write`` and ``read`` only queue."""

    dialect: Dialect

    def open(self) -> None:
        """Connect, or raise `Unavailable` saying why not."""

    def write(self, call: QueryJob[Any]) -> None:
        """Run it in a transaction of its own or a shared one, and deliver it after the commit."""

    def read(self, call: QueryJob[Any]) -> None:
        """Run it on one unchanging view of the database."""

    def scrub(self, *, rewrite: bool) -> bool:
        """Blocks; see `swarm.store.bridge.database.Database.scrub`."""

    def close(self) -> None:
        """Finish what is queued, then disconnect. Nothing may be queued any more."""


def _escaped(error: StopIteration) -> RuntimeError:
    escaped = RuntimeError("A query function raised StopIteration.")
    escaped.__cause__ = error
    return escaped
