"""A demo as a newcomer starts it, shared by the tests until one of them ends it; and processes of a test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import httpx2
import pytest

from packages.swarm_lab.tests.e2e.demo import Demo
from tests.e2e.conftest import http, processes
from tests.support.groups import with_processes
from tests.support.postgres import fresh_database
from tests.support.processes import processes_in
from tests.support.twin_client import TwinClient

__all__ = ["http", "processes"]

TALKATIVE: Final = {"SWARM_MESSAGES_PER_MINUTE": "0"}
"""The tests that share a demo are one person, who says more within a minute than a person may."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    with_processes(items, Path(__file__).parent)


@pytest.fixture(scope="session")
def sqlite_demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with processes_in(tmp_path_factory.mktemp("demo")) as processes:
        yield Demo(processes, TALKATIVE)


@pytest.fixture(scope="session")
def postgresql_demo(
    tmp_path_factory: pytest.TempPathFactory, postgres_server_url: str, migrated_postgres: str
) -> Iterator[Demo]:
    with (
        fresh_database(postgres_server_url, template=migrated_postgres) as url,
        processes_in(tmp_path_factory.mktemp("demo-pg")) as processes,
    ):
        yield Demo(processes, {**TALKATIVE, "SWARM_DATABASE_URL": url})


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> str:
    """SQLite, unless a test asks for others."""
    return str(getattr(request, "param", "sqlite"))


@pytest.fixture
async def demo(request: pytest.FixtureRequest, engine: str) -> AsyncIterator[Demo]:
    """A demo that has said where to look."""
    demo: Demo = request.getfixturevalue(f"{engine}_demo")
    await demo.open()
    yield demo
    demo.processes.show_logs()


@pytest.fixture
def twin(demo: Demo, http: httpx2.AsyncClient) -> TwinClient:
    return TwinClient(demo.url, http)
