"""The use cases: behaviour is proven on SQLite; races, locks and recovery on PostgreSQL too (`both_engines`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
from psycopg import sql

from swarm.clock import ManualClock
from swarm.store.bridge import postgres
from swarm.store.bridge.database import Database
from swarm.store.tables import metadata
from tests.support.postgres import fresh_database
from tests.support.world import World

EMPTIED = [table.name for table in reversed(metadata.sorted_tables)]


@pytest.fixture(scope="session")
def reused_postgres(postgres_server_url: str, migrated_postgres: str) -> Iterator[str]:
    """One PostgreSQL database for all tests of the use cases: emptying it is ten times faster than making one."""
    with fresh_database(postgres_server_url, template=migrated_postgres) as url:
        yield url


@pytest.fixture
def postgres_url(reused_postgres: str) -> str:
    """A migrated PostgreSQL database without a row."""
    return emptied(reused_postgres)


def emptied(url: str) -> str:
    """A database on PostgreSQL, after its rows are gone."""
    with psycopg.connect(url, autocommit=True) as connection:
        for table in map(sql.Identifier, EMPTIED):
            # TRUNCATE makes new files for each table and index, and what is only deleted stays in the way.
            if connection.execute(sql.SQL("DELETE FROM {}").format(table)).rowcount:
                connection.execute(sql.SQL("VACUUM {}").format(table))
    return url


@pytest.fixture(autouse=True)
def few_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enough for a race. Each new connection to PostgreSQL loads its catalogues anew, which takes most of a test."""
    monkeypatch.setattr(postgres, "MAX_CONNECTIONS", 3)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def world(database_url: str, clock: ManualClock) -> AsyncIterator[World]:
    """A coordinator without agents."""
    async with Database(database_url, clock=clock) as database:
        yield World(database, clock)
