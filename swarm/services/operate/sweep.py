"""The sweep and the ticker: two looks at the clock, each once a second.

The sweep writes the changes that time makes due: expired leases, ended delays, messages without an available agent,
stale ownership. The elected process sweeps (`swarm.services.outbox.elections`); two sweeps at once are harmless.

The ticker is the fallback for notifications between processes, one query for all polls that wait in this process. A
notification can be lost with its connection. The database still knows the due work, so the ticker asks for the agents
with due work that is not leased, and wakes the agents that wait here. If every notification arrived, no waiting agent
has due work, and no agent is woken. Writers need no extra writes for this. The sender, the backfill and the roster
query by themselves every few seconds. On SQLite the engine notices other processes' commits.
"""

from __future__ import annotations

import asyncio
from typing import Final

from swarm.domain.operating_policy import OperatingPolicy
from swarm.services.operate.retention import RetentionJob
from swarm.services.rules.failover import failover_offline_agents
from swarm.services.rules.guarded import attempt
from swarm.services.rules.leases import expire
from swarm.services.tasks.task_maintenance import tend_tasks
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import leases, queues
from swarm.store.inbox.leases import Lease
from swarm.store.threads import threads

SWEEP_SECONDS: Final = 1.0
RETENTION_SECONDS: Final = 60.0
LISTEN_SECONDS: Final = 1.0
BATCH: Final = 200
"""The number of rows per transaction, so that others do not have to wait long."""


class Sweeper:
    """The background task that sweeps."""

    def __init__(self, database: Database, conduct: OperatingPolicy) -> None:
        self._database = database
        self._conduct = conduct
        self._tidier = RetentionJob(database, conduct.retention)

    async def run(self) -> None:
        """Sweeps until cancelled; errors do not end the task. Waits while the database is unavailable."""
        loop = asyncio.get_running_loop()
        tidy_at = loop.time()
        while True:
            await self.sweep()
            if loop.time() >= tidy_at:
                tidy_at = loop.time() + RETENTION_SECONDS
                await self.tidy()
            await asyncio.sleep(SWEEP_SECONDS)

    async def sweep(self) -> None:
        """Makes one round.

        Each part, lease and thread has its own transaction, and a failure does not affect the others.
        """
        await attempt(self._end_expired(), "sweep", part="end_expired")
        await attempt(self._make_due(), "sweep", part="make_due")
        await attempt(tend_tasks(self._database, self._conduct), "sweep", part="tend_tasks")
        await attempt(failover_offline_agents(self._database, self._conduct), "sweep", part="look_after_offline")

    async def tidy(self) -> None:
        """Deletes data past its retention."""
        await self._tidier.tidy()

    async def _end_expired(self) -> None:
        """Ends leases one by one: a common transaction would lock rows in another order than other transactions."""
        last: Lease | None = None  # a failed lease is tried again in the next round, not in this one
        while expired := await self._database.read(leases.expired, last, BATCH):
            await asyncio.gather(*(self._end(lease) for lease in expired))
            last = expired[-1]

    async def _end(self, lease: Lease) -> None:
        ending = self._database.write(expire, lease.token, self._conduct)
        await attempt(ending, "end_expired", trigger=lease.trigger_id, thread=lease.thread_id)

    async def _make_due(self) -> None:
        """Makes messages due thread by thread, for the same reason."""
        over = await self._database.read(queues.ended_delays)
        for start in range(0, len(over), BATCH):
            await asyncio.gather(*(self._make_thread_due(thread_id) for thread_id in over[start : start + BATCH]))

    async def _make_thread_due(self, thread_id: str) -> None:
        await attempt(self._database.write(make_due, thread_id), "make_due", thread=thread_id)


async def listen(database: Database, lease_seconds: float) -> None:
    """Records once a second that this process hears agents, until cancelled.

    A suspended process (a closed laptop, SIGSTOP) hears no agents, so no agent counts as silent or offline for that
    time: after a sleep as long as agents take between two renewals, the process counts as listening only since its
    waking, as after a start.
    """
    while True:
        database.listens(asleep_seconds=LISTEN_SECONDS + lease_seconds / 3)
        await asyncio.sleep(LISTEN_SECONDS)


def make_due(tx: Transaction, thread_id: str) -> None:
    """Ends the expired holds of a thread."""
    threads.locked(tx, thread_id)
    queues.make_due(tx, thread_id)


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
