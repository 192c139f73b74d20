"""A thread of the database that ends by an error makes the database unusable: it is said, and no call hangs."""

from __future__ import annotations

import asyncio

import pytest

from swarm.domain.errors import Unavailable
from swarm.store.bridge import postgres, sqlite
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction

pytestmark = pytest.mark.req("OPS-16")


def nothing(tx: Transaction) -> None:
    """Does nothing in a transaction."""


def broken(*_arguments: object) -> None:
    raise MemoryError("no memory")


async def test_the_death_of_the_thread_that_writes_is_said_and_every_call_refused(
    database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite.SqliteWriter, "_look_around", broken)
    monkeypatch.setattr(postgres.Worker, "_answer", broken)
    async with asyncio.timeout(30), Database(database_url, tick_seconds=0.01) as database:
        waiting = asyncio.gather(*(database.write(nothing) for _ in range(20)), return_exceptions=True)
        with pytest.raises(Unavailable, match=r"cannot be used any more: .*no memory"):
            await database.until_broken()
        if database.dialect == "sqlite":
            assert all(result is None or isinstance(result, Unavailable) for result in await waiting)
        with pytest.raises(Unavailable, match="no memory"):
            await database.write(nothing)
        waiting.cancel()
