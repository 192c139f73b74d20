"""Every test of the use cases runs on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from swarm.clock import ManualClock
from swarm.store.database import Database
from tests.support.world import World


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def world(database_url: str, clock: ManualClock) -> AsyncIterator[World]:
    """A coordinator without agents."""
    async with Database(database_url, clock=clock) as database:
        yield World(database, clock)
