"""The use cases: behaviour is proven on SQLite; races, locks and recovery on PostgreSQL too (`both_engines`)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest
from psycopg import sql

from swarm.clock import ManualClock
from swarm.store.bridge import postgres
from swarm.store.bridge.database import Database
from swarm.store.tables.schema import metadata
from tests.support.postgres import fresh_database
from tests.support.world import World

EMPTIED = [sql.Identifier(table.name) for table in reversed(metadata.sorted_tables)]
HAVE_ROWS = sql.SQL("SELECT {}").format(
    sql.SQL(", ").join(map(sql.SQL("EXISTS (SELECT FROM {})").format, EMPTIED)),
)


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
        there = connection.execute(HAVE_ROWS).fetchone()
        assert there is not None
        if used := [table for table, has_rows in zip(EMPTIED, there, strict=True) if has_rows]:
            # TRUNCATE makes new files for each table and index, and what is only deleted stays in the way.
            connection.execute(sql.SQL("; ").join(map(sql.SQL("DELETE FROM {}").format, used)))
            connection.execute(sql.SQL("VACUUM {}").format(sql.SQL(", ").join(used)))
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
