"""The sweep: what time makes due, it makes due by a write, once a second.

Leases that expired, delays that passed, messages that wait for nobody, ownership that went stale. Harmless if done
twice, so several processes may sweep.
"""

from __future__ import annotations

import asyncio
from typing import Final

from swarm.clock import SECOND
from swarm.domain.conduct import Conduct
from swarm.domain.leases import LeaseEnd
from swarm.domain.routing import Roster
from swarm.services.attempt import attempt
from swarm.services.leases import lose
from swarm.services.roster import read_roster
from swarm.services.speak import tell_queued
from swarm.services.tidy import Tidier
from swarm.store import heads, holds, inbox, leases, threads
from swarm.store.database import Database
from swarm.store.leases import Lease
from swarm.store.transaction import Transaction

SWEEP_SECONDS: Final = 1.0
TIDY_SECONDS: Final = 60.0
BATCH: Final = 200
"""So many things are treated in one transaction, so that nobody else has to wait long."""


class Sweeper:
    """The background task that sweeps."""

    def __init__(self, database: Database, conduct: Conduct) -> None:
        self._database = database
        self._conduct = conduct
        self._tidier = Tidier(database)

    async def run(self) -> None:
        """Sweep until cancelled, whatever goes wrong meanwhile. A database that is away is waited for."""
        loop = asyncio.get_running_loop()
        tidy_at = loop.time()
        while True:
            await self.sweep()
            if loop.time() >= tidy_at:
                tidy_at = loop.time() + TIDY_SECONDS
                await self.tidy()
            await asyncio.sleep(SWEEP_SECONDS)

    async def sweep(self) -> None:
        """One round; each part, lease and thread in a transaction of its own, and none fails for another's sake."""
        await attempt(self._end_expired(), "sweep", part="end_expired")
        await attempt(self._make_due(), "sweep", part="make_due")
        await attempt(self._database.write(look_after_offline, self._conduct), "sweep", part="look_after_offline")

    async def tidy(self) -> None:
        """Drop what nobody will ask for."""
        await self._tidier.tidy()

    async def _end_expired(self) -> None:
        """One by one: a transaction that ended many would lock what others lock in another order."""
        last: Lease | None = None  # one that cannot be ended is tried again in the next round, not in this one
        while expired := await self._database.read(leases.expired, last, BATCH):
            await asyncio.gather(*(self._end(lease) for lease in expired))
            last = expired[-1]

    async def _end(self, lease: Lease) -> None:
        ending = self._database.write(end_expired, lease.token, self._conduct)
        await attempt(ending, "end_expired", trigger=lease.trigger_id, thread=lease.thread_id)

    async def _make_due(self) -> None:
        """Thread by thread, for the same reason."""
        over = await self._database.read(holds.over)
        for start in range(0, len(over), BATCH):
            await asyncio.gather(*(self._make_thread_due(thread_id) for thread_id in over[start : start + BATCH]))

    async def _make_thread_due(self, thread_id: str) -> None:
        await attempt(self._database.write(make_due, thread_id), "make_due", thread=thread_id)


def end_expired(tx: Transaction, token: str, conduct: Conduct) -> None:
    """End a lease that was not renewed in time, unless that has changed meanwhile."""
    lease = leases.by_token(tx, token)
    if lease and lease.expires_at <= tx.now:
        lose(tx, lease, LeaseEnd.EXPIRED, "the agent fell silent", conduct.reactions)


def make_due(tx: Transaction, thread_id: str) -> None:
    """End the holds of a thread whose time is over."""
    threads.locked(tx, thread_id)
    holds.make_due(tx, thread_id)


def look_after_offline(tx: Transaction, conduct: Conduct) -> None:
    """Give what waits for an offline or missing agent to a lead that is there; else tell the thread that it waits.

    A batch of it; the next sweep does the rest.
    """
    roster = read_roster(tx, conduct)
    stand_in = roster.default_lead
    unaddressed = inbox.unaddressed(tx, BATCH) if stand_in else []
    offline_since = tx.now - int(conduct.offline_after_seconds * SECOND)
    waiting = heads.waiting(
        tx,
        offline_since,
        lead_exists=stand_in is not None,
        lead_is_online=stand_in is not None and stand_in.online,
        limit=BATCH,
    )
    for thread_id in sorted({entry.thread_id for entry in unaddressed} | {thread_id for thread_id, _ in waiting}):
        threads.locked(tx, thread_id)  # all in one order, so that two who do this cannot wait for each other
    if stand_in:
        for entry in unaddressed:
            give_to(tx, entry, stand_in.id, "a lead is registered now")
    for thread_id, agent_id in waiting:
        agent = roster.by_id(agent_id)
        if agent is None or not agent.online:
            _move_on(tx, roster, thread_id, agent_id)


def give_to(tx: Transaction, entry: inbox.Entry, agent_id: str, reason: str) -> None:
    """Address an unread entry to an agent, which owns the thread if nobody else does."""
    thread = threads.locked(tx, entry.thread_id)
    inbox.readdress(tx, entry, agent_id, reason)
    if thread.owner_id in (None, entry.agent_id):
        threads.hand_over(tx, thread, agent_id, reason)


def _move_on(tx: Transaction, roster: Roster, thread_id: str, agent_id: str) -> None:
    """Its agent is not there: the default lead gets the thread's unread messages, if that one is there."""
    thread = threads.locked(tx, thread_id)
    lead = roster.default_lead
    gone = roster.by_id(agent_id)
    if lead is None or lead.id == agent_id or not (lead.online or gone is None):
        tell_queued(tx, thread)
        return
    reason = f"{gone.name} is offline" if gone else "its agent was removed"
    for entry in inbox.unread_in_thread(tx, agent_id, thread_id):
        give_to(tx, entry, lead.id, f"{reason}, so the default lead gets it")
    if not lead.online:
        tell_queued(tx, thread)
