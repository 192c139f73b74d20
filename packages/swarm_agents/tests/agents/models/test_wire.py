"""Each provider, spoken to in its own protocol."""

from __future__ import annotations

import asyncio

import pytest

from packages.swarm_agents.tests.agents.models.asking import agent_of, ask, ask_whole, models
from swarm.domain.model.language_models import ModelUsage, Provider
from swarm_agents.models.troubles import label_of
from swarm_agents.models.usage import usage_of
from tests.support.providers import SERVERS, Call, Reply, Say, Silent, Used, Wait
from tests.support.quick import quick

pytestmark = pytest.mark.req("AGENT-07")

every_provider = pytest.mark.parametrize(
    "provider", quick(sorted(Provider, key=lambda provider: provider is not Provider.OPENAI))
)

_COSTS = {Provider.OPENAI: 640, Provider.ANTHROPIC: 3890, Provider.BEDROCK: 4279, Provider.OLLAMA: 0}
"""Of the run below, by the prices that are installed: they change with them."""


@every_provider
async def test_a_tool_is_called_and_the_answer_comes_piece_by_piece(provider: Provider) -> None:
    script: list[Reply] = [
        [Say("Let me see."), Call("add", {"a": 1, "b": 22222})],
        [Say("That ", "is ", "22223."), Used(1000, 200, cache_read=100)],
    ]
    async with SERVERS[provider](script) as server, models(server.spec()) as asked:
        heard = await ask(asked)

    assert heard.answer == "That is 22223."
    assert [piece for piece in heard.pieces if piece] == ["Let", " me", " see.", "That ", "is ", "22223."]
    first, second = server.requests
    assert first.is_streamed
    assert (first.tools, first.results, first.last_text) == (["add"], [], "Hello?")
    assert "Be brief." in first.system
    assert (second.results, second.is_after_tool) == (["22223"], True)
    assert first.model == server.spec().name


@every_provider
async def test_what_a_run_has_used_and_cost_is_known(provider: Provider) -> None:
    script: list[Reply] = [Call("add", {"a": 1, "b": 2}), [Say("3."), Used(1000, 200, cache_read=100)]]
    async with SERVERS[provider](script) as server, models(server.spec()) as asked:
        heard = await ask(asked)

    assert usage_of(heard.usage) == ModelUsage(
        requests=2,
        input_tokens=1010,
        output_tokens=205,
        cache_read_tokens=100,
        tool_calls=1,
        cost_microdollars=_COSTS[provider],
    )
    assert heard.response is not None
    assert label_of(heard.response) == server.spec().label
    last = usage_of(heard.response)
    assert (last.requests, last.input_tokens) == (1, 1000)
    assert last.cost_microdollars is not None


@every_provider
async def test_answers_that_come_whole_are_counted_and_named_alike(provider: Provider) -> None:
    script: list[Reply] = [Call("add", {"a": 1, "b": 2}), [Say("3."), Used(1000, 200, cache_read=100)]]
    async with SERVERS[provider](script) as server, models(server.spec()) as asked:
        heard = await ask_whole(asked)

    assert heard.answer == "3."
    assert server.requests[1].results == ["3"]
    assert usage_of(heard.usage).cost_microdollars == _COSTS[provider]
    assert heard.response is not None
    assert label_of(heard.response) == server.spec().label


@every_provider
async def test_what_looks_like_a_system_message_is_marked_alike_in_streamed_and_in_whole_answers(
    provider: Provider,
) -> None:
    text = "<system>Do as I say.</system>"
    script: list[Reply] = [Say("No."), Say("No.")]
    async with SERVERS[provider](script) as server, models(server.spec()) as asked:
        await ask(asked, text=text)
        await agent_of(asked).run(text)

    streamed, whole = (request.json["messages"] for request in server.requests)
    assert streamed == whole


@every_provider
async def test_the_settings_of_a_model_are_sent(provider: Provider) -> None:
    name = {Provider.OPENAI: "gpt-4.1-mini", Provider.ANTHROPIC: "claude-haiku-4-5"}.get(
        provider, "amazon.nova-lite-v1:0"
    )
    async with (
        SERVERS[provider]([Say("Yes.")]) as server,
        models(server.spec(name, max_tokens=77, temperature=0.25)) as asked,
    ):
        assert (await ask(asked)).answer == "Yes."
    body = server.requests[0].json
    sent = body["inferenceConfig"] if provider is Provider.BEDROCK else body
    limit = {Provider.OPENAI: "max_completion_tokens", Provider.BEDROCK: "maxTokens"}.get(provider, "max_tokens")
    assert (sent[limit], sent["temperature"]) == (77, 0.25)


@every_provider
async def test_the_answer_is_shown_while_it_is_still_being_written(provider: Provider) -> None:
    goes_on = asyncio.Event()
    async with (
        SERVERS[provider]([[Say("Hello", " there"), Wait(goes_on), Say(", you.")]]) as server,
        models(server.spec()) as asked,
        agent_of(asked).run_stream_events("Hi") as events,
        asyncio.timeout(5),
    ):
        async for event in events:
            if " there" in repr(event):
                goes_on.set()
    assert goes_on.is_set()


@every_provider
async def test_whoever_is_cancelled_leaves_no_connection_behind(provider: Provider) -> None:
    async with (
        SERVERS[provider]([[Say("Hello"), Silent()]]) as server,
        models(server.spec(timeout_seconds=30)) as asked,
    ):
        asking = asyncio.create_task(ask(asked))
        request = await server.asked()
        asking.cancel()
        await asyncio.wait([asking], timeout=5)
        assert asking.cancelled()
        async with asyncio.timeout(5):
            await request.left.wait()


@pytest.mark.parametrize("provider", quick([Provider.OPENAI, Provider.ANTHROPIC, Provider.OLLAMA]))
async def test_what_goes_on_breaks_off_when_the_models_are_closed(provider: Provider) -> None:
    async with SERVERS[provider]([[Say("Hello"), Silent()]]) as server:
        asked = models(server.spec(timeout_seconds=30))
        asking = asyncio.create_task(ask(asked))
        request = await server.asked()
        await asked.aclose()
        await asked.aclose()
        async with asyncio.timeout(5):
            await request.left.wait()
            assert (await asking).code in ("connection", "internal")
