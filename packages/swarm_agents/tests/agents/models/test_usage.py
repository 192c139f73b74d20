"""What runs have used, what that costs, and what they may."""

from __future__ import annotations

from decimal import Decimal

import pytest
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.usage import RequestUsage, RunUsage

from packages.swarm_agents.tests.agents.models.asking import ask, ask_whole, models
from swarm.domain.model.language_models import ModelSpec, ModelUsage, Provider, RunLimits
from swarm_agents.models.usage import is_free, limits_of, usage_of
from tests.support.providers import Call, Cut, Reply, Say, Used, anthropic_server, ollama_server, openai_server

pytestmark = pytest.mark.req("AGENT-07")


async def test_a_model_that_nobody_has_a_price_for_costs_nobody_knows_what() -> None:
    async with openai_server([Say("Yes."), Say("Yes.")]) as server, models(server.spec("our-own-7b")) as asked:
        for heard in (await ask(asked), await ask_whole(asked)):
            assert usage_of(heard.usage) == ModelUsage(
                requests=1, input_tokens=10, output_tokens=5, cost_microdollars=None
            )


async def test_one_answer_without_a_price_makes_the_whole_run_unknown() -> None:
    script: list[Reply] = [Call("add", {"a": 1, "b": 2}), Cut(with_head=False)]
    async with (
        anthropic_server(script) as first,
        openai_server([Say("3.")]) as second,
        models(first.spec(), second.spec("our-own-7b")) as asked,
    ):
        heard = await ask(asked)
    assert heard.usage.cost is not None  # what pydantic-ai knows of
    assert usage_of(heard.usage).cost_microdollars is None


async def test_tokens_that_are_not_told_make_the_cost_unknown() -> None:
    async with openai_server([[Say("Yes."), Used(None)]]) as server, models(server.spec()) as asked:
        heard = await ask(asked, limits=limits_of(RunLimits(cost_dollars=Decimal(1))))
    assert heard.answer == "Yes."
    assert usage_of(heard.usage).cost_microdollars is None


async def test_a_run_that_was_never_answered_has_cost_nothing() -> None:
    async with openai_server([Cut(with_head=False)] * 3) as server, models(server.spec()) as asked:
        heard = await ask(asked)
    assert usage_of(heard.usage) == ModelUsage()


async def test_what_is_used_is_known_when_a_run_breaks_off() -> None:
    script: list[Reply] = [[Call("add", {"a": 1, "b": 2}), Used(1000, 200)], Cut(with_head=False)]
    async with anthropic_server([*script, *[Cut(with_head=False)] * 2]) as server, models(server.spec()) as asked:
        heard = await ask(asked)
    assert heard.code == "connection"
    used = usage_of(heard.usage)
    assert (used.requests, used.input_tokens, used.tool_calls) == (1, 1000, 1)
    assert used.cost_microdollars


async def test_a_free_answer_that_breaks_off_is_free() -> None:
    async with ollama_server([[Say("Hello"), Cut()]]) as server, models(server.spec()) as asked:
        heard = await ask(asked)
    assert heard.code == "connection"
    assert usage_of(heard.usage).cost_microdollars == 0


async def test_a_limit_of_cost_ends_a_run_before_the_call_that_would_go_on() -> None:
    async with (
        anthropic_server(lambda request: [Call("add", {"a": 1, "b": 2}), Used(1_000_000, 1000)]) as server,
        models(server.spec()) as asked,
    ):
        heard = await ask(asked, limits=limits_of(RunLimits(tokens=None, cost_dollars=Decimal("0.50"))))
    assert heard.trouble is not None
    assert heard.trouble.is_limit
    assert heard.trouble.limit == "cost_dollars"
    assert len(server.requests) == 1


async def test_a_limit_of_cost_does_not_stop_a_model_that_is_free_or_unknown() -> None:
    limits = limits_of(RunLimits(tokens=None, cost_dollars=Decimal("0.000001")))
    async with ollama_server([[Say("Yes."), Used(10**6, 10**6)]]) as server, models(server.spec()) as asked:
        assert (await ask(asked, limits=limits)).code == ""
    async with openai_server([Say("Yes.")]) as server, models(server.spec("our-own-7b")) as asked:
        assert (await ask(asked, limits=limits)).answer == "Yes."


@pytest.mark.parametrize(
    ("name", "base_url", "free"),
    [
        ("qwen3:8b", None, True),
        ("qwen3:8b", "http://gpu.example.org:11434", True),
        ("gpt-oss:120b-cloud", None, False),
        ("gpt-oss:cloud", None, False),
        ("gpt-oss:120b", "https://ollama.com", False),
        ("gpt-oss:120b", "https://api.ollama.com/", False),
    ],
)
def test_only_the_operators_own_ollama_is_free(name: str, base_url: str | None, free: bool) -> None:
    assert is_free(ModelSpec(provider=Provider.OLLAMA, name=name, base_url=base_url)) is free


def test_no_other_provider_is_free() -> None:
    for provider in set(Provider) - {Provider.OLLAMA}:
        assert not is_free(ModelSpec(provider=provider, name="x", base_url="http://127.0.0.1:1"))


def test_dollars_are_put_into_whole_millionths() -> None:
    def cost(dollars: str) -> int | None:
        return usage_of(RequestUsage(input_tokens=1, cost=Decimal(dollars))).cost_microdollars

    assert [cost("0"), cost("0.0000004"), cost("0.0000005"), cost("1.2345678")] == [0, 0, 1, 1_234_568]


def test_a_usage_of_one_call_is_one_request() -> None:
    used = usage_of(RequestUsage(input_tokens=7, output_tokens=3, cache_read_tokens=2, cache_write_tokens=1))
    assert used == ModelUsage(
        requests=1,
        input_tokens=7,
        output_tokens=3,
        cache_read_tokens=2,
        cache_write_tokens=1,
        cost_microdollars=None,
    )
    assert usage_of(RunUsage()) == ModelUsage()


def test_an_answer_of_which_nothing_is_known_has_no_price() -> None:
    response = ModelResponse(parts=[TextPart("x")], usage=RequestUsage(input_tokens=1))
    assert usage_of(response).cost_microdollars is None


def test_all_limits_but_the_time_are_pydantic_ais() -> None:
    limits = limits_of(RunLimits(requests=1, tokens=2, tool_calls=3, cost_dollars=Decimal(4)))
    assert (limits.request_limit, limits.total_tokens_limit) == (1, 2)
    assert (limits.tool_calls_limit, limits.cost_limit) == (3, Decimal(4))
    unlimited = limits_of(RunLimits(requests=None, tokens=None, tool_calls=None))
    assert (unlimited.request_limit, unlimited.total_tokens_limit) == (None, None)
    assert (unlimited.tool_calls_limit, unlimited.cost_limit) == (None, None)
