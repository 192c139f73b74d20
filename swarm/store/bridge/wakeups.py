"""Wakeups notify the waiters in this process of a change in the database.

A topic is a string, for example an agent's id, with a generation that only increases. A waiter reads the generation,
then queries the database, then waits for a new generation. A change between the query and the wait is detected, because
the generation has already changed. Wakeups are hints: they may be spurious and, for a change by another process, up to
a second late. Polling is the guarantee.

All methods run on the event loop's thread.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable


class Wakeups:
    """The generations of all topics, and the waiters of each topic. A bump wakes only the waiters of its topic."""

    def __init__(self) -> None:
        self._for_all = 0
        self._generations: defaultdict[str, int] = defaultdict(int)
        self._waiters: dict[str, set[asyncio.Future[None]]] = {}
        self._closed = False

    @property
    def closed(self) -> bool:
        """Returns whether the process is shutting down. After that, no topic is bumped."""
        return self._closed

    @property
    def awaited(self) -> set[str]:
        """The topics that have waiters."""
        return set(self._waiters)

    def generation(self, topic: str) -> int:
        """Returns how often this topic was bumped. Callers read it before querying the database."""
        return self._for_all + self._generations.get(topic, 0)

    async def wait(
        self, topic: str, seen: int, timeout_seconds: float, waiter: asyncio.Future[None] | None = None
    ) -> bool:
        """Waits until the generation differs from ``seen``, or until somebody else resolves the ``waiter``.

        Returns False after ``timeout_seconds`` or at shutdown.
        """
        if self._closed or self.generation(topic) != seen:
            return self.generation(topic) != seen
        waiter = waiter or asyncio.get_running_loop().create_future()
        waiters = self._waiters.setdefault(topic, set())
        waiters.add(waiter)
        timer = waiter.get_loop().call_later(timeout_seconds, _resolve, waiter)
        try:
            await waiter
        finally:
            timer.cancel()
            self._forget(topic, waiter)
        return self.generation(topic) != seen

    def bump(self, topics: Iterable[str]) -> None:
        """Increments the generations of these topics and wakes their waiters."""
        for topic in topics:
            self._generations[topic] += 1
            self._wake(topic)

    def bump_all(self) -> None:
        """Increments every generation; used when the changed topics are unknown."""
        self._for_all += 1
        for topic in list(self._waiters):
            self._wake(topic)

    def close(self) -> None:
        """Wakes all waiters for the last time. Later waits return immediately."""
        self._closed = True
        for topic in list(self._waiters):
            self._wake(topic)

    def _wake(self, topic: str) -> None:
        for waiter in self._waiters.get(topic, ()):
            _resolve(waiter)

    def _forget(self, topic: str, waiter: asyncio.Future[None]) -> None:
        waiters = self._waiters[topic]
        waiters.discard(waiter)
        if not waiters:
            del self._waiters[topic]


def _resolve(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
