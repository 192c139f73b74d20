"""Transactions that meet, on PostgreSQL. In SQLite there is one writer: nothing ever waits for a lock."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from tests.support.world import look

PATIENCE_SECONDS = 20.0


@asynccontextmanager
async def held(database: Database, fn: Callable[..., Any], *args: object) -> AsyncIterator[None]:
    """A transaction that has run ``fn(tx, *args)`` and commits at the end of the block."""
    ran, go_on = threading.Event(), threading.Event()

    def hold(tx: Transaction) -> None:
        fn(tx, *args)
        ran.set()
        assert go_on.wait(PATIENCE_SECONDS)

    transaction = asyncio.ensure_future(database.write(hold))
    try:
        assert await asyncio.to_thread(ran.wait, PATIENCE_SECONDS)
        yield
    finally:
        go_on.set()
        await transaction


async def somebody_waits(database: Database) -> None:
    """Until a transaction waits for another's lock."""
    blocked = "SELECT pid FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = current_database()"
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await database.read(look, blocked, {}):
            pass
