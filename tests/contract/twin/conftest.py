"""A twin on a free port, in the loop of the test."""

from collections.abc import AsyncIterator

import aiohttp
import pytest_asyncio

from swarm.twin import build_twin, running
from tests.contract.twin.world import World


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    twin = build_twin()
    async with running(twin) as base, aiohttp.ClientSession() as http:
        world = World(twin=twin, base=base, http=http)
        yield world
        for line in world.lines:
            await line.socket.close()
