"""One engine is enough where agents are put together: what they store is tested on both elsewhere."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from swarm.store.bridge.database import Database


@pytest.fixture
async def database(sqlite_url: str) -> AsyncIterator[Database]:
    """A migrated SQLite file, open."""
    async with Database(sqlite_url) as opened:
        yield opened
