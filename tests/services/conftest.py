"""Every test of the use cases runs on SQLite and on PostgreSQL."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import psycopg
import pytest

from swarm.clock import ManualClock
from swarm.store.database import Database
from swarm.store.tables import metadata
from tests.support.postgres import fresh_database
from tests.support.world import World

EMPTY = ";".join(f'DELETE FROM "{table.name}"' for table in reversed(metadata.sorted_tables))
"""Ten times faster than TRUNCATE, which makes new files for each table and index."""


@pytest.fixture(scope="session")
def reused_postgres(postgres_server_url: str, migrated_postgres: str) -> Iterator[str]:
    """One PostgreSQL database for all tests of the use cases: emptying it is ten times faster than making one."""
    with fresh_database(postgres_server_url, template=migrated_postgres) as url:
        yield url


@pytest.fixture
def postgres_url(reused_postgres: str) -> str:
    """A migrated PostgreSQL database without a row."""
    with psycopg.connect(reused_postgres, autocommit=True) as connection:
        connection.execute(EMPTY)
    return reused_postgres


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def world(database_url: str, clock: ManualClock) -> AsyncIterator[World]:
    """A coordinator without agents."""
    async with Database(database_url, clock=clock) as database:
        yield World(database, clock)
