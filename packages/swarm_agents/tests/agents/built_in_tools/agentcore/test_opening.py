"""AgentCore is there with its package, credentials and a region; else one line says what is missing."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import pytest

from packages.swarm_agents.tests.agents.built_in_tools.agentcore.conftest import OPTIONS
from swarm_agents.built_in_tools.agentcore.core import NAMES, AgentCore
from tests.support.agentcore import REGION, FakeAgentCore, environment

pytestmark = [pytest.mark.req("TOOL-04"), pytest.mark.asyncio(loop_scope="session")]

ALL = ", ".join(NAMES)


async def test_with_everything_there_are_all_tools(aws: FakeAgentCore, opened: AgentCore) -> None:
    assert tuple(tool.name for tool in opened.tools()) == NAMES
    assert opened.why_absent() == ()
    assert aws.requests == []


async def test_the_parameters_are_the_promised_ones(opened: AgentCore) -> None:
    schemas = {tool.name: tool.parameters for tool in opened.tools()}
    defaults = {
        name: {key: value.get("default") for key, value in schema["properties"].items()}
        for name, schema in schemas.items()
    }
    assert defaults == {
        "web-browse": {"url": None, "task": "extract content"},
        "memory-store": {"key": None, "value": None, "category": "general"},
        "memory-recall": {"query": None, "limit": 5},
        "code-execute": {"code": None, "language": "python"},
    }


async def test_without_the_package_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    core = await AgentCore.open(OPTIONS)
    assert core.tools() == ()
    assert core.why_absent() == (f"{ALL}: the package bedrock-agentcore is missing; install swarm-agents[agentcore].",)


async def test_without_credentials_there_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    environment(monkeypatch, "http://127.0.0.1:9", has_credentials=False)
    core = await AgentCore.open(OPTIONS)
    assert core.tools() == ()
    (line,) = core.why_absent()
    assert line.startswith(f"{ALL}: there are no AWS credentials; set AWS_ACCESS_KEY_ID")


async def test_a_profile_that_there_is_not_is_named(aws: FakeAgentCore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    core = await AgentCore.open(OPTIONS)
    assert core.tools() == ()
    (line,) = core.why_absent()
    assert "nobody" in line


@pytest.mark.parametrize(
    ("region", "says"), [(None, "no AWS region is set"), ("x@evil.example:443/#", "is not an AWS region")]
)
async def test_without_a_region_there_is_none(aws: FakeAgentCore, region: str | None, says: str) -> None:
    core = await AgentCore.open(replace(OPTIONS, region=region))
    assert core.tools() == ()
    assert says in core.why_absent()[0]


@pytest.mark.parametrize("variable", ["AWS_REGION", "AWS_DEFAULT_REGION"])
async def test_the_environment_may_name_the_region(
    aws: FakeAgentCore, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    monkeypatch.setenv(variable, REGION)
    core = await AgentCore.open(replace(OPTIONS, region=None))
    assert core.why_absent() == ()
    assert "code-execute" in {tool.name for tool in core.tools()}


@pytest.mark.parametrize(
    ("memory_id", "says"), [(None, "no memory is set"), ("notes", "'notes' is not the id of a memory")]
)
async def test_without_a_memory_the_other_tools_are_there(aws: FakeAgentCore, memory_id: str | None, says: str) -> None:
    core = await AgentCore.open(replace(OPTIONS, memory_id=memory_id))
    assert [tool.name for tool in core.tools()] == ["web-browse", "code-execute"]
    (line,) = core.why_absent()
    assert line.startswith("memory-store, memory-recall: ")
    assert says in line
