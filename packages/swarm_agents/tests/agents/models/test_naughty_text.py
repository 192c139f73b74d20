"""What a provider is sent is what a person could have read, wherever it comes from."""

from __future__ import annotations

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.tools import Tool

from packages.swarm_agents.tests.agents.models.asking import models
from swarm.domain.model.language_models import Provider
from tests.support.naughty import NAME, TEXT, hidden_anywhere
from tests.support.providers import SERVERS, Call, Say

pytestmark = pytest.mark.req("SEC-04")


@pytest.mark.parametrize("provider", list(Provider))
async def test_instructions_history_tools_and_results_are_cleaned_on_the_way_to_the_model(provider: Provider) -> None:
    def look(word: str = NAME) -> str:
        return TEXT

    schema = {"type": "object", "properties": {"word": {"type": "string", "description": NAME, "enum": ["a", NAME]}}}
    tool = Tool.from_schema(look, name="look", description=TEXT, json_schema=schema)
    history: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart(content=TEXT)]),
        ModelResponse(parts=[TextPart(content=TEXT), ToolCallPart("look", {"word": NAME}, tool_call_id="c1")]),
        ModelRequest(parts=[ToolReturnPart(tool_name="look", content=TEXT, tool_call_id="c1")]),
        ModelResponse(parts=[TextPart(content=NAME)]),
    ]
    async with SERVERS[provider]([Call("look", {"word": "a"}), Say("So.")]) as server, models(server.spec()) as asked:
        agent: Agent[None, str] = Agent(asked.model, instructions=TEXT, tools=[tool])
        async with agent.run_stream_events(TEXT, message_history=history) as events:
            _ = [event async for event in events]
    assert len(server.requests) == 2
    for request in server.requests:
        assert hidden_anywhere(request.json) == {}
        assert "asleep" in str(request.json)
