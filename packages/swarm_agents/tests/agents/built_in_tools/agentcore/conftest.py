"""AgentCore on this machine, and its tools opened there. Opening takes half a second, so it is done once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping, MutableMapping
from typing import Any

import pytest
import pytest_asyncio
from structlog.testing import capture_logs

from swarm_agents.built_in_tools.agentcore import AgentCoreOptions
from swarm_agents.built_in_tools.agentcore.core import AgentCore
from swarm_agents.toolbox.tool import Tool
from tests.support.agentcore import MEMORY_ID, REGION, FakeAgentCore, environment, fake_agentcore

OPTIONS = AgentCoreOptions(region=REGION, memory_id=MEMORY_ID, most_characters=2_000)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def served() -> AsyncIterator[FakeAgentCore]:
    async with fake_agentcore() as aws:
        yield aws


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def opened(served: FakeAgentCore) -> AgentCore:
    with pytest.MonkeyPatch.context() as patch:
        environment(patch, served.url)
        core = await AgentCore.open(OPTIONS, automation=served.automation)
    assert core.why_absent() == ()
    return core


@pytest.fixture(autouse=True)
def logs() -> Iterator[list[MutableMapping[str, Any]]]:
    """What is logged. Left to itself, structlog writes tracebacks so fine that they take seconds."""
    with capture_logs() as lines:
        yield lines


@pytest.fixture
def aws(served: FakeAgentCore, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeAgentCore]:
    """The service, without anything scripted."""
    served.reset()
    environment(monkeypatch, served.url)
    yield served
    for hold in served.holds.values():
        hold.set()


@pytest.fixture
def tools(aws: FakeAgentCore, opened: AgentCore) -> Mapping[str, Tool]:
    """The tools by name, at that service."""
    return {tool.name: tool for tool in opened.tools()}
