"""A twin on a free port, in the loop of the test."""

from collections.abc import AsyncIterator

import pytest_asyncio

from tests.world import World, new_world


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    async with new_world() as world:
        yield world
