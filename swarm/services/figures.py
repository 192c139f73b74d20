"""The state of the whole swarm in figures, for gauges: read from the database now and then, however often asked."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from swarm.clock import SECOND
from swarm.domain.agents import Role
from swarm.domain.conduct import Conduct
from swarm.services.roster import read_roster
from swarm.store import figures
from swarm.store.database import Database
from swarm.store.transaction import Transaction

KEPT_SECONDS: Final = 5.0
"""So long a reading is good, so that nobody who asks every moment costs the database anything."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """One reading. All processes on one database read the same."""

    inbox_unread: int
    inbox_dead: int
    oldest_unread_seconds: float  # 0 while there is none
    tasks: Mapping[str, int]  # by status, those that are open or dead
    deliveries: Mapping[str, int]  # by status, those that are not over
    agents: Mapping[tuple[str, bool], int]  # by role, and whether they are online


class FigureReader:
    """Reads the figures, at most every few seconds."""

    def __init__(
        self,
        database: Database,
        conduct: Conduct,
        *,
        kept_seconds: float = KEPT_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._conduct = conduct
        self._kept_seconds = kept_seconds
        self._monotonic = monotonic
        self._read: Figures | None = None
        self._read_at = 0.0

    async def figures(self) -> Figures:
        """The latest reading. Raises Unavailable when the database cannot say."""
        now = self._monotonic()
        if self._read is None or now - self._read_at >= self._kept_seconds:
            self._read = await self._database.read(read_figures, self._conduct)
            self._read_at = now
        return self._read


def read_figures(tx: Transaction, conduct: Conduct) -> Figures:
    """The figures as they are now."""
    unread, oldest = figures.unread(tx)
    everyone: Counter[tuple[str, bool]] = Counter(
        {(role.value, online): 0 for role in Role for online in (True, False)}
    )
    everyone.update((agent.role.value, agent.online) for agent in read_roster(tx, conduct).agents)
    return Figures(
        inbox_unread=unread,
        inbox_dead=figures.dead(tx),
        oldest_unread_seconds=max(tx.now - oldest, 0) / SECOND if oldest is not None else 0.0,
        tasks=figures.tasks_by_status(tx),
        deliveries=figures.deliveries_by_status(tx),
        agents=everyone,
    )
