"""A coordinator on SQLite whose doors are open."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from swarm.clock import ManualClock
from swarm.store.bridge.database import Database
from tests.support.doors import Doors, Visitor, WatchedWakeups, open_doors
from tests.support.world import World


@pytest.fixture
async def doors(sqlite_url: str) -> AsyncIterator[Doors]:
    wakeups = WatchedWakeups()
    clock = ManualClock()
    async with (
        Database(sqlite_url, clock=clock, wakeups=wakeups) as database,
        open_doors(World(database, clock), wakeups) as opened,
    ):
        yield opened


@pytest.fixture
async def lea(doors: Doors) -> Visitor:
    """A lead that is there."""
    return await doors.lead()
