"""What the tests of prompts need: renderers that last for a module, since each has a process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace

import pytest_asyncio

from swarm_agents.system_prompts.limits import LIMITS, RenderLimits
from swarm_agents.system_prompts.renderer import Renderer

IMPATIENT = RenderLimits(seconds=0.4)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def renderer() -> AsyncIterator[Renderer]:
    """One that gives a template all the time that it needs on a busy machine, and otherwise no more than usual."""
    renderer = Renderer(replace(LIMITS, seconds=60))
    yield renderer
    await renderer.aclose()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def usual() -> AsyncIterator[Renderer]:
    """One with the limits that a coordinator has."""
    renderer = Renderer()
    yield renderer
    await renderer.aclose()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def impatient() -> AsyncIterator[Renderer]:
    """One that gives a template less time."""
    renderer = Renderer(IMPATIENT)
    yield renderer
    await renderer.aclose()
