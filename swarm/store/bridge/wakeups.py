"""Wakeups: how a change in the database reaches those who wait for it in this process.

A topic is a string, an agent's id for example, and has a generation that only grows. A waiter reads the generation,
then looks into the database, then waits for the generation to move: a change between the look and the wait is noticed,
because the generation has moved already. Wakeups are hints. They may come without a reason and, when another process
made the change, up to a second late; looking again is what guarantees.

Everything here happens on the event loop's thread.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable


class Wakeups:
    """The generations of all topics, and the waiters of each: a bump wakes only those who wait for its topic."""

    def __init__(self) -> None:
        self._for_all = 0
        self._generations: defaultdict[str, int] = defaultdict(int)
        self._waiters: dict[str, set[asyncio.Future[None]]] = {}
        self._closed = False

    @property
    def closed(self) -> bool:
        """Whether the process is shutting down, so that nothing will be bumped any more."""
        return self._closed

    @property
    def awaited(self) -> set[str]:
        """The topics that somebody waits for at this moment."""
        return set(self._waiters)

    def generation(self, topic: str) -> int:
        """How often this topic was bumped; read it before looking into the database."""
        return self._for_all + self._generations.get(topic, 0)

    async def wait(self, topic: str, seen: int, timeout_seconds: float) -> bool:
        """Wait until the generation differs from ``seen``; False after ``timeout_seconds`` or at shutdown."""
        if self._closed or self.generation(topic) != seen:
            return self.generation(topic) != seen
        waiter = asyncio.get_running_loop().create_future()
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
        """Move these topics on and wake their waiters."""
        for topic in topics:
            self._generations[topic] += 1
            self._wake(topic)

    def bump_all(self) -> None:
        """Move every topic on: what changed is not known."""
        self._for_all += 1
        for topic in list(self._waiters):
            self._wake(topic)

    def close(self) -> None:
        """Wake everybody for the last time; from now on a wait returns at once."""
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
