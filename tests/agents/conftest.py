"""What the tests of agents need: a scripted server, and agents that are reached at it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.agui_server import AguiServer, agui_server


@pytest.fixture
async def server() -> AsyncIterator[AguiServer]:
    """A remote agent that does what the test says."""
    async with agui_server() as scripted:
        yield scripted
