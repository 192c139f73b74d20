"""Who there is to route to: read often, changed seldom, so it is kept for a moment."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from swarm.domain.model.agents import Role, is_online
from swarm.domain.operating_policy import OperatingPolicy
from swarm.domain.roster import Candidate, Roster
from swarm.store import agents
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction

AGENTS: Final = "agents"
"""The topic that tells that agents came, went or changed."""

KEPT_SECONDS: Final = 1.0


class Rosters:
    """The roster, at most a second old, and never older than a change that this process made or a reload."""

    def __init__(self, database: Database, conduct: OperatingPolicy, *, kept_seconds: float = KEPT_SECONDS) -> None:
        self._database = database
        self._conduct = conduct
        self._kept_seconds = kept_seconds
        self._roster = Roster(agents=())
        self._read_at: float | None = None
        self._generation = -1
        self._reading = asyncio.Lock()

    async def current(self) -> Roster:
        """Everybody, and who is online. However many ask at once, one looks, and the others take what it finds."""
        if not self._is_fresh():
            async with self._reading:
                if not self._is_fresh():
                    await self._read()
        return self._roster

    def _is_fresh(self) -> bool:
        is_young = self._read_at is not None and time.monotonic() - self._read_at < self._kept_seconds
        has_default = self._roster.default_name == self._conduct.default_agent  # which a reload may have changed
        return is_young and has_default and self._generation == self._database.wakeups.generation(AGENTS)

    async def _read(self) -> None:
        generation, now = self._database.wakeups.generation(AGENTS), time.monotonic()  # before looking
        self._roster = await self._database.read(read_roster, self._conduct)
        self._generation, self._read_at = generation, now


def read_roster(tx: Transaction, conduct: OperatingPolicy) -> Roster:
    """The roster as the database has it now."""
    found = tuple(
        Candidate(
            id=row["id"],
            name=row["name"],
            role=Role(row["role"]),
            online=is_online(row["last_seen_at"], tx.now, conduct.offline_after_seconds, began(tx, conduct)),
        )
        for row in agents.signs_of_life(tx)
    )
    return Roster(agents=found, default_name=conduct.default_agent)


def began(tx: Transaction, conduct: OperatingPolicy) -> int:
    """When this coordinator began to listen, by the database's clock as it is now: ours may differ, and be set."""
    return max(tx.opened_at, conduct.started_at)
