"""A twin for each test, and a gateway to it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import aiohttp
import pytest

from swarm.slack.gateway import Gateway
from swarm.twin.server import running
from swarm.twin.twin import build_twin
from tests.contract.slack.workspace import Workspace


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    twin = build_twin(rates=False)
    async with running(twin) as url, aiohttp.ClientSession() as http:
        yield Workspace(twin, url, http)


@pytest.fixture
async def gateway(workspace: Workspace) -> AsyncIterator[Gateway]:
    gateway = workspace.gateway()
    yield gateway
    await gateway.close()
