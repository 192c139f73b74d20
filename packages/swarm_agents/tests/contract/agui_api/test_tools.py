"""What clients are told of tools: that one is called and how it went, by a setting with what; and none is theirs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from packages.swarm_agents.tests.contract.agui_api.scene import EVERYBODY, START, Scripted, agui_input, place, start
from swarm.domain.answers.events import AgentEvent, Finished, TextDelta, ToolEnded, ToolStarted
from swarm_base import secrets

pytestmark = pytest.mark.req("AGENT-09")

SECRET = "of-nobody-else-4711"
DID: list[AgentEvent] = [
    ToolStarted(id="t1", name="search", arguments='{"query": "the bill"}'),
    ToolEnded(id="t1", result=f"17 and {SECRET}"),
    ToolStarted(id="t2", name="search", arguments=f'{{"query": "{SECRET}"}}'),
    ToolEnded(id="t2", failed=True, result='no "bill"'),
    TextDelta(text="17"),
    Finished(),
]


@pytest.mark.parametrize("tool_details", [False, True])
@pytest.mark.parametrize("path", [START, "/agui/ada"])
async def test_arguments_and_results_are_told_where_the_settings_say_so(
    tool_details: bool, path: str, sqlite_url: str
) -> None:
    agents = {"ada": Scripted()}
    agents["ada"].script = lambda run_input: DID
    async with place(sqlite_url, agents, callers=replace(EVERYBODY, tool_details=tool_details)) as here:
        wim = await here.client()
        secrets.hide([SECRET])
        told = await wim.said(path, start() if path == START else agui_input(tools=[]))
    arguments = [event["delta"] for event in told if event["type"] == "TOOL_CALL_ARGS"]
    results = [event["content"] for event in told if event["type"] == "TOOL_CALL_RESULT"]
    if tool_details:
        assert arguments == ['{"query": "the bill"}', f'{{"query": "{secrets.REMOVED}"}}']
        assert results == [f"17 and {secrets.REMOVED}", '{"error": "no \\"bill\\""}']
    else:
        assert arguments == ["{}", "{}"]
        assert results == ["done", '{"error": "The tool failed."}']


async def test_a_clients_own_tools_are_refused_with_a_sentence(sqlite_url: str) -> None:
    tool = {"name": "show_map", "description": "Shows a map.", "parameters": {"type": "object", "properties": {}}}
    async with place(sqlite_url, {"ada": Scripted()}) as here:
        wim = await here.client()
        status, error = await wim.refusal("/agui/ada", agui_input(tools=[tool]))
    assert (status, error["code"], error["fields"]) == (422, "invalid", {"tools": "[]"})
    assert "a client's tools would never be called" in error["message"]
