"""Databases for tests of what is the same on every engine."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from swarm.store.bridge.database import Database


@pytest.fixture
async def db(sqlite_url: str) -> AsyncIterator[Database]:
    """A database of the test's own, on SQLite."""
    async with Database(sqlite_url) as opened:
        yield opened
