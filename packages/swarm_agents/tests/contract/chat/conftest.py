"""A coordinator's doors with built-in agents behind them, and a home in which its operator talks to them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path

import pytest

from packages.swarm_agents.tests.contract.agui_api.scene import HELLO, Place, Scripted, place
from packages.swarm_agents.tests.contract.chat.terminal import environment
from tests.support.doors import OPERATOR_TOKEN
from tests.support.idle_time import IdleTimeLoop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Time limits here are not about how busy the machine is."""
    return {"idle time": IdleTimeLoop}


@pytest.fixture
def tools() -> Scripted:
    """The coordinator's first agent."""
    return Scripted(*HELLO)


@pytest.fixture
def assistant() -> Scripted:
    return Scripted(*HELLO)


@pytest.fixture
async def here(sqlite_url: str, tools: Scripted, assistant: Scripted) -> AsyncIterator[Place]:
    async with place(sqlite_url, {"tools": tools, "assistant": assistant}) as opened:
        yield opened


@pytest.fixture
def env(here: Place, sqlite_url: str, tmp_path: Path) -> Mapping[str, str]:
    """What leads to that coordinator."""
    port = here.base.rpartition(":")[2]
    return environment(tmp_path, PORT=port, SWARM_OPERATOR_TOKEN=OPERATOR_TOKEN, SWARM_DATABASE_URL=sqlite_url)
