"""A coordinator with two built-in agents."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from packages.swarm_agents.tests.contract.agui_api.scene import HELLO, Client, Place, Scripted, place
from tests.support.idle_time import IdleTimeLoop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Time limits here are not about how busy the machine is."""
    return {"idle time": IdleTimeLoop}


@pytest.fixture
def router() -> Scripted:
    """The default, whose script a test may change."""
    return Scripted(*HELLO)


@pytest.fixture
def assistant() -> Scripted:
    return Scripted(*HELLO)


@pytest.fixture
async def here(sqlite_url: str, router: Scripted, assistant: Scripted) -> AsyncIterator[Place]:
    async with place(sqlite_url, {"router": router, "assistant": assistant}) as opened:
        yield opened


@pytest.fixture
async def wim(here: Place) -> Client:
    """A registered agent."""
    return await here.client()
