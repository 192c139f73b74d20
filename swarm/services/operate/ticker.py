"""The ticker: a fallback for notifications between processes, one query a second for all polls waiting in this process.

A notification can be lost with its connection. The database still knows the due work, so the ticker asks for the agents
with due work that is not leased, and wakes the agents that wait here. If every notification arrived, no waiting agent
has due work, and no agent is woken. Writers need no extra writes for this. The sender, the backfill and the roster
query by themselves every few seconds. On SQLite the engine notices other processes' commits.
"""

from __future__ import annotations

import asyncio
from typing import Final

from swarm.services.rules.guarded import attempt
from swarm.store.bridge.database import Database
from swarm.store.inbox import queues

TICK_SECONDS: Final = 1.0


class Ticker:
    """The background task of each process that looks for work whose notification was lost."""

    def __init__(self, database: Database, *, tick_seconds: float = TICK_SECONDS) -> None:
        self._database = database
        self._tick_seconds = tick_seconds

    async def run(self) -> None:
        """Looks until cancelled; waits while the database is unavailable."""
        while True:
            await asyncio.sleep(self._tick_seconds)
            await attempt(self.tick(), "tick")

    async def tick(self) -> None:
        """Looks once."""
        found = await self._database.read(queues.agents_with_due_work)
        self._database.wakeups.bump(found & self._database.wakeups.awaited)
