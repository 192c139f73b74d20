"""Both agents over the wire protocols of all providers, with the prompts that they really have."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import aclosing
from typing import Any

import pytest
import pytest_asyncio

from packages.swarm_agents.tests.agents.builtin.making import (
    Forgetful,
    RunsKept,
    agent,
    hear,
    multiply,
    remembering,
    run_input,
    texts,
)
from swarm.domain.answers.events import Failed, Finished, RunInput, TextDelta, ToolEnded, ToolStarted
from swarm.domain.model.language_models import Provider, UsageOutcome
from swarm.domain.model.sessions import MessageRole, SessionMessage
from swarm.store.bridge.database import Database
from swarm_agents.app.built_in import wordings
from swarm_agents.builtin.agent import BuiltinAgent
from swarm_agents.builtin.assistant import Assistant
from swarm_agents.models.building import Models
from swarm_agents.models.served import RetryPolicy
from swarm_agents.models.usage import usage_of
from swarm_agents.router.router import Router, Wordings
from swarm_agents.system_prompts.files import PromptFiles
from swarm_agents.system_prompts.renderer import Renderer
from swarm_agents.toolbox.tool import Tool
from tests.support.providers import AWS_ENVIRONMENT, SERVERS, Call, Cut, Fails, Reply, Say, Wait
from tests.support.quick import quick

ONCE = RetryPolicy(attempts=1)

pytestmark = [
    pytest.mark.req("AGENT-07"),
    pytest.mark.asyncio(loop_scope="module"),
    pytest.mark.xdist_group("providers"),
]

every_provider = pytest.mark.parametrize(
    "provider", quick(sorted(Provider, key=lambda provider: provider is not Provider.OPENAI))
)

SIX_SEVENS = {"a": 6, "b": 7}


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only credentials of nobody, for Bedrock."""
    for name in [name for name in os.environ if name.startswith(("OPENAI_", "ANTHROPIC_", "OLLAMA_", "AWS_"))]:
        monkeypatch.delenv(name)
    for name, value in AWS_ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def renderer() -> AsyncIterator[Renderer]:
    renderer = Renderer()
    yield renderer
    await renderer.aclose()


def assistant(models: Models, renderer: Renderer, memory: Any, *tools: Tool, runs: Any = None) -> BuiltinAgent:
    prompts = PromptFiles()

    async def prompt(run_input: RunInput, tools: Sequence[Tool]) -> str:
        named = [{"name": tool.name, "description": tool.description} for tool in tools]
        return await renderer.render(prompts.current().assistant, {"agent": "helper", "tools": named})

    works = Assistant(
        models.model,
        memory=memory,
        tools=lambda: tools,
        prompt=prompt,
        usage_of=usage_of,
    )
    return agent(works, memory, runs=runs)


def router(models: Models, renderer: Renderer, memory: Any, *tools: Tool, runs: Any = None) -> BuiltinAgent:
    prompts = PromptFiles()

    async def found(run_input: RunInput, tools: Sequence[Tool]) -> Wordings:
        return await wordings(prompts, renderer, "helper", run_input, tools)

    works = Router(models.model, memory=memory, tools=lambda: tools, wordings=found, usage_of=usage_of)
    return agent(works, memory, runs=runs)


@pytest.mark.req("AGENT-04")
@every_provider
async def test_the_assistant_uses_tools_and_remembers_them(
    provider: Provider, renderer: Renderer, sqlite_url: str
) -> None:
    tool, runs = multiply(), RunsKept()
    script: list[Reply] = [
        [Say("Let me see."), Call("multiply", SIX_SEVENS), Call("multiply", {"a": "1", "b": 1})],
        Say("That is 42."),
        Say("It was 6 times 7."),
    ]
    async with (
        Database(sqlite_url) as database,
        SERVERS[provider](script) as server,
        Models([server.spec()], retries=ONCE) as models,
    ):
        helper = assistant(models, renderer, remembering(database), tool.tool, runs=runs)
        assert texts(await hear(helper, run_input("6 times 7?"))) == ["Let me see.", "That is 42."]
        assert texts(await hear(helper, run_input("what was that?"))) == ["It was 6 times 7."]
        await helper.aclose()
        label = server.spec().label
    assert tool.calls == [{"a": 6, "b": 7}, {"a": 1, "b": 1}]
    first, second, third = server.requests
    assert "Call several tools in one turn" in first.system
    assert (first.tools, first.last_text, second.results) == (["multiply"], "6 times 7?", ["42", "1"])
    assert (sorted(third.results), third.last_text) == (["1", "42"], "what was that?")
    assert [text for text in third.texts if text in ("Let me see.", "That is 42.", "6 times 7?")]
    assert [(run.model, run.outcome, run.usage.requests) for run in runs.runs] == [
        (label, UsageOutcome.ANSWERED, 2),
        (label, UsageOutcome.ANSWERED, 1),
    ]


@pytest.mark.req("AGENT-04", "AGENT-06")
@every_provider
async def test_a_conversation_that_begins_with_a_summary_can_be_told_to_every_provider(
    provider: Provider, renderer: Renderer
) -> None:
    class Summarised(Forgetful):
        async def get_messages(
            self, session_id: str, limit: int | None = None, *, run_id: str = ""
        ) -> list[SessionMessage]:
            said = ((MessageRole.SYSTEM, "They spoke of ships."), (MessageRole.ASSISTANT, "They float."))
            return [SessionMessage(role=role, text=text) for role, text in said]

    async with SERVERS[provider]([Say("Yes.")]) as server, Models([server.spec()], retries=ONCE) as models:
        assert texts(await hear(assistant(models, renderer, Summarised()), run_input("Really?"))) == ["Yes."]
    (asked,) = server.requests
    messages = [message for message in asked.json["messages"] if message["role"] != "system"]
    assert [message["role"] for message in messages] == ["user", "assistant", "user"]
    assert "They spoke of ships." in asked.body.decode()


@pytest.mark.req("AGENT-01")
@every_provider
async def test_the_router_has_the_model_choose_a_tool_and_word_its_result(
    provider: Provider, renderer: Renderer
) -> None:
    memory, tool, runs = Forgetful(), multiply(), RunsKept()
    script: list[Reply] = [Call("multiply", SIX_SEVENS), Say("It is 42."), Call("swarm_ask", {"question": "By what?"})]
    async with SERVERS[provider](script) as server, Models([server.spec()], retries=ONCE) as models:
        helper = router(models, renderer, memory, tool.tool, runs=runs)
        events = await hear(helper, run_input("6 times 7?"))
        assert texts(events) == ["It is 42."]
        assert [type(event) for event in events if not isinstance(event, TextDelta)][:2] == [ToolStarted, ToolEnded]
        assert texts(await hear(helper, run_input("multiply 6"))) == ["By what?"]
        label = server.spec().label
    decided, worded, _ = server.requests
    assert decided.tools == ["multiply", "swarm_ask", "swarm_refuse", "swarm_stop"]
    assert "you decide once what happens" in decided.system
    if provider in (Provider.OPENAI, Provider.OLLAMA):  # Claude cannot think and be made to choose at once
        assert decided.json["tool_choice"] == "required"
    assert worded.tools == []
    assert "Write the answer to the person's request" in worded.system
    assert "`multiply` with" in worded.last_text
    assert [(run.model, run.usage.requests, run.usage.tool_calls) for run in runs.runs] == [
        (label, 2, 1),
        (label, 1, 0),
    ]


@pytest.mark.req("AGENT-01")
@pytest.mark.parametrize("provider", quick([Provider.OPENAI, Provider.BEDROCK]))
async def test_a_result_whose_wording_breaks_off_is_told_as_it_is(provider: Provider, renderer: Renderer) -> None:
    script: list[Reply] = [Call("multiply", SIX_SEVENS), Cut(after="It is pro")]
    async with SERVERS[provider](script) as server, Models([server.spec()], retries=ONCE) as models:
        events = await hear(router(models, renderer, Forgetful(), multiply().tool), run_input("6 times 7?"))
    assert texts(events)[-1] == "`multiply` answered:\n42"
    assert events[-1] == Finished()


@pytest.mark.req("AGENT-04")
@pytest.mark.parametrize("provider", quick([Provider.OLLAMA, Provider.ANTHROPIC]))
async def test_an_assistants_model_that_breaks_off_in_the_middle_ends_the_run_in_words(
    provider: Provider, renderer: Renderer
) -> None:
    async with (
        SERVERS[provider]([Cut(after="It is pro")]) as server,
        Models([server.spec()], retries=ONCE) as models,
    ):
        events = await hear(assistant(models, renderer, Forgetful()), run_input("6 times 7?"))
    assert texts(events) in (["It is pro"], [])  # some clients have read ahead when the connection breaks
    assert isinstance(events[-1], Failed)
    assert events[-1].code in ("connection", "incomprehensible")
    assert server.spec().label in events[-1].message


@pytest.mark.parametrize("provider", [Provider.ANTHROPIC])
async def test_the_next_model_answers_where_the_first_cannot(provider: Provider, renderer: Renderer) -> None:
    tool, runs = multiply(), RunsKept()
    replies: list[Reply] = [Call("multiply", SIX_SEVENS), Say("It is 42.")]
    async with (
        SERVERS[Provider.OPENAI](lambda request: Fails(503)) as first,
        SERVERS[provider](replies) as second,
        Models([first.spec(), second.spec()], retries=ONCE) as models,
    ):
        events = await hear(assistant(models, renderer, Forgetful(), tool.tool, runs=runs), run_input("6 times 7?"))
        label = second.spec().label
    assert texts(events) == ["It is 42."]
    assert (runs.runs[0].model, runs.runs[0].usage.requests) == (label, 2)
    assert len(second.requests) == 2


async def test_a_reader_that_leaves_closes_the_connection_to_the_model(renderer: Renderer) -> None:
    memory, runs = Forgetful(), RunsKept()
    never = asyncio.Event()
    async with (
        SERVERS[Provider.OPENAI]([[Say("It ", "is "), Wait(never)]]) as server,
        Models([server.spec()], retries=ONCE) as models,
    ):
        helper = assistant(models, renderer, memory, runs=runs)
        async with aclosing(helper.run(run_input("6 times 7?"))) as events:
            async for event in events:
                if isinstance(event, TextDelta) and event.text == "is ":
                    break
        async with asyncio.timeout(5):
            await server.requests[0].left.wait()
        await helper.aclose()
    assert runs.runs[0].outcome is UsageOutcome.STOPPED
    assert [message.text for message in memory.blocks[0]][1:] == ["It is ", "[This answer broke off: it was stopped]"]
