"""Processes of a test's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest

from tests.support.groups import with_processes
from tests.support.http import client as http_client
from tests.support.processes import Processes, processes_in


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    with_processes(items, Path(__file__).parent)


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    with processes_in(tmp_path) as processes:
        yield processes
        processes.show_logs()


@pytest.fixture
async def http() -> AsyncIterator[httpx2.AsyncClient]:
    async with http_client(timeout=60) as http:
        yield http
