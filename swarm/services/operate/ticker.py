"""The ticker: behind the notifications between processes, one look a second for all polls that wait in this one.

A notification can be lost with the connection that should have brought it. Then the database still knows what is due,
so that is what the ticker asks: for which agents is there something that nobody works on? Of those it wakes the ones
that wait here. Where every notification arrived, nobody who waits has something due, and nobody is woken; no writer
writes anything for its sake, and it does not matter what was lost, or why. The sender, the backfill and the roster look
by themselves every few seconds. On SQLite the engine notices other processes' commits.
"""

from __future__ import annotations

import asyncio
from typing import Final

from swarm.services.rules.guarded import attempt
from swarm.store.bridge.database import Database
from swarm.store.inbox import queues

TICK_SECONDS: Final = 1.0


class Ticker:
    """The background task of each process that looks for what its polls were not told of."""

    def __init__(self, database: Database, *, tick_seconds: float = TICK_SECONDS) -> None:
        self._database = database
        self._tick_seconds = tick_seconds

    async def run(self) -> None:
        """Look until cancelled; a database that is away is waited for."""
        while True:
            await asyncio.sleep(self._tick_seconds)
            await attempt(self.tick(), "tick")

    async def tick(self) -> None:
        """One look."""
        found = await self._database.read(queues.agents_with_due_work)
        self._database.wakeups.bump(found & self._database.wakeups.awaited)
