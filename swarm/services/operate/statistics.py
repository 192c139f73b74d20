"""Figures of the whole swarm for gauges, cached between reads of the database."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final, Generic, TypeVar

from swarm.clock import SECOND
from swarm.domain.model.agents import Role
from swarm.domain.operating_policy import OperatingPolicy
from swarm.services.rules.participants import read_roster
from swarm.store.admin import open_counts
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction

KEPT_SECONDS: Final = 5.0
"""The time that a reading is cached, so that frequent requests cost no queries."""

DEAD_KEPT_SECONDS: Final = 5.0
"""The cache time of dead letters."""

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class Figures:
    """One reading. All processes on one database read the same."""

    inbox_unread: int
    oldest_unread_seconds: float  # 0 without unread messages
    tasks: Mapping[str, int]  # by status, open or dead
    deliveries: Mapping[str, int]  # by status, not final
    agents: Mapping[tuple[str, bool], int]  # by role and presence
    inbox_dead: int = 0


class FigureReader:
    """Reads the figures, each at most every few seconds."""

    def __init__(
        self,
        database: Database,
        conduct: OperatingPolicy,
        *,
        kept_seconds: float = KEPT_SECONDS,
        dead_kept_seconds: float = DEAD_KEPT_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._dead = _Kept(lambda: database.read(open_counts.dead), dead_kept_seconds, monotonic)
        self._rest = _Kept(lambda: database.read(read_figures, conduct), kept_seconds, monotonic)

    async def figures(self) -> Figures:
        """Returns the latest reading. Raises Unavailable without the database."""
        dead = await self._dead.get()
        return replace(await self._rest.get(), inbox_dead=dead)


class _Kept(Generic[T]):
    """A cached value, read again when old."""

    def __init__(self, read: Callable[[], Awaitable[T]], kept_seconds: float, monotonic: Callable[[], float]) -> None:
        self._read = read
        self._kept_seconds = kept_seconds
        self._monotonic = monotonic
        self._last: tuple[float, T] | None = None

    async def get(self) -> T:
        now = self._monotonic()
        if self._last is None or now - self._last[0] >= self._kept_seconds:
            self._last = now, await self._read()
        return self._last[1]


def read_figures(tx: Transaction, conduct: OperatingPolicy) -> Figures:
    """Reads the present figures, except dead letters."""
    unread, oldest = open_counts.unread(tx)
    agents = Counter({(role.value, online): 0 for role in Role for online in (True, False)})
    agents.update((agent.role.value, agent.online) for agent in read_roster(tx, conduct).agents)
    return Figures(
        inbox_unread=unread,
        oldest_unread_seconds=max(tx.now - oldest, 0) / SECOND if oldest is not None else 0.0,
        tasks=open_counts.tasks_by_status(tx),
        deliveries=open_counts.deliveries_by_status(tx),
        agents=agents,
    )
