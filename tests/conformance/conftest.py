"""An agent's server, a workspace, and an examination that brings them together."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.agui_server import AguiServer, agui_server


@pytest.fixture
async def server() -> AsyncIterator[AguiServer]:
    async with agui_server() as server:
        yield server
