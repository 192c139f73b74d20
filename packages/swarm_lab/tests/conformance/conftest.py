"""An agent's server, a workspace, and an examination that brings them together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping

import pytest

from tests.support.agui_server import AguiServer, agui_server
from tests.support.idle_time import IdleTimeLoop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Time limits here are not about how busy the machine is."""
    return {"idle time": IdleTimeLoop}


@pytest.fixture
async def server() -> AsyncIterator[AguiServer]:
    async with agui_server() as server:
        yield server
