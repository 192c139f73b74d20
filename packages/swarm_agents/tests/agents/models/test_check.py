"""The question at the start."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from decimal import Decimal

import pytest
from structlog.testing import capture_logs
from structlog.typing import EventDict

from swarm.domain.errors import ConfigurationError
from swarm.domain.model.language_models import ModelSpec, Provider, RunLimits
from swarm_agents.models.check import QUESTION, check
from tests.support.providers import (
    SERVERS,
    Ends,
    Fails,
    Say,
    Silent,
    Used,
    anthropic_server,
    ollama_server,
    openai_server,
)

pytestmark = pytest.mark.req("AGENT-07")


async def warnings_of(*specs: ModelSpec, limits: RunLimits | None = None) -> list[EventDict]:
    """What the check warns of."""
    with capture_logs() as logs:
        await check(specs, limits=limits, within_seconds=5)
    return [log for log in logs if log["log_level"] != "info"]


@pytest.mark.parametrize("provider", list(Provider))
async def test_a_model_that_answers_is_asked_one_short_question(provider: Provider) -> None:
    async with SERVERS[provider]([Say("OK")]) as server:
        assert await warnings_of(server.spec()) == []
    assert [request.texts for request in server.requests] == [[QUESTION]]


@pytest.mark.parametrize(
    ("provider", "status", "hints"),
    [
        (Provider.OPENAI, 401, ["OPENAI_API_KEY", "providers.openai.api_key"]),
        (Provider.OPENAI, 404, ["LLM_MODEL", "model.name", "OPENAI_BASE_URL"]),
        (Provider.ANTHROPIC, 401, ["ANTHROPIC_API_KEY", "providers.anthropic.api_key"]),
        (Provider.ANTHROPIC, 404, ["LLM_MODEL", "ANTHROPIC_BASE_URL"]),
        (Provider.BEDROCK, 403, ["AWS_PROFILE", "AWS_REGION"]),
        (Provider.BEDROCK, 404, ["LLM_MODEL", "AWS_REGION"]),
        (Provider.OLLAMA, 401, ["providers.ollama.api_key"]),
        (Provider.OLLAMA, 404, ["LLM_MODEL", "ollama pull qwen3:8b", "OLLAMA_BASE_URL"]),
    ],
)
async def test_what_will_not_get_better_stops_the_start_and_says_what_to_change(
    provider: Provider, status: int, hints: list[str]
) -> None:
    async with SERVERS[provider](lambda request: Fails(status)) as server:
        with pytest.raises(ConfigurationError) as raised:
            await check([server.spec()])
    assert server.spec().label in raised.value.message
    assert raised.value.hint is not None
    assert [hint for hint in hints if hint not in raised.value.hint] == []
    assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("status", "code"), [(429, "rate_limit"), (500, "server"), (529, "overloaded"), (402, "quota")]
)
async def test_what_may_get_better_is_only_warned_of(status: int, code: str) -> None:
    async with anthropic_server(lambda request: Fails(status, retry_after=60)) as server:
        (warning,) = await warnings_of(server.spec())
    assert (warning["action"], warning["model"], warning["code"]) == ("model_check", server.spec().label, code)
    assert warning["log_level"] == "warning"


async def test_a_model_that_takes_its_time_does_not_hold_up_the_start() -> None:
    async with ollama_server([Silent()]) as server:
        with capture_logs() as logs:
            async with asyncio.timeout(5):
                await check([server.spec(timeout_seconds=60)], within_seconds=0.3)
    assert [(log["action"], log["code"], log["hint"]) for log in logs] == [
        ("model_check", "timeout", "Check OLLAMA_BASE_URL (providers.ollama.base_url).")
    ]


async def test_a_server_that_is_not_there_yet_is_only_warned_of() -> None:
    async with ollama_server([]) as server:
        spec = server.spec()
    (warning,) = await warnings_of(spec)
    assert (warning["code"], warning["hint"]) == ("connection", "Check OLLAMA_BASE_URL (providers.ollama.base_url).")
    (trouble,) = await check([spec])
    assert trouble.code == "connection"
    with pytest.raises(ConfigurationError, match="cannot be reached") as raised:
        await check([spec], waits=False)
    assert raised.value.hint == warning["hint"]


async def test_as_long_as_one_model_works_the_others_are_only_warned_of() -> None:
    async with openai_server([Fails(401)]) as first, ollama_server([Say("OK")]) as second:
        (warning,) = await warnings_of(first.spec(), second.spec())
    assert (warning["model"], warning["code"]) == (first.spec().label, "authentication")
    assert "OPENAI_API_KEY" in warning["hint"]


async def test_a_key_that_is_refused_is_named_with_its_place() -> None:
    async with openai_server([Fails(401)]) as server:
        spec = replace(server.spec(), key_from="OPENAI_API_KEY (.env, line 3)")
        with pytest.raises(
            ConfigurationError, match=r"refuses the key from OPENAI_API_KEY \(\.env, line 3\)\."
        ) as raised:
            await check([spec])
    assert raised.value.hint == "Put a valid key there."


async def test_if_none_works_what_will_not_get_better_stops_the_start() -> None:
    async with openai_server(lambda request: Fails(503)) as first, anthropic_server([Fails(401)]) as second:
        with pytest.raises(ConfigurationError, match="anthropic:claude-sonnet-5"):
            await check([first.spec(), second.spec()])


async def test_a_key_that_is_missing_stops_the_start_before_anything_is_sent() -> None:
    with pytest.raises(ConfigurationError) as raised:
        await check([ModelSpec(provider=Provider.OPENAI, name="gpt-5-mini")])
    assert raised.value.hint == "Set OPENAI_API_KEY (providers.openai.api_key)."


async def test_an_answer_is_an_answer_even_if_it_is_cut_short() -> None:
    async with openai_server([[Say(""), Ends("length")]]) as server:
        assert await warnings_of(server.spec()) == []


async def test_limits_that_cannot_hold_are_told() -> None:
    limits = RunLimits()
    async with openai_server([[Say("OK"), Used(None)], Say("OK")]) as server:
        (blind,) = await warnings_of(server.spec("our-own-7b"), limits=limits)
        assert (blind["action"], blind["limits"]) == ("model_limits", ["limits.tokens"])
        assert await warnings_of(server.spec("our-own-7b"), limits=limits) == []


async def test_a_limit_of_cost_without_a_price_is_told() -> None:
    limits = RunLimits(cost_dollars=Decimal(1))
    async with openai_server(lambda request: Say("OK")) as server:
        (unpriced,) = await warnings_of(server.spec("our-own-7b"), limits=limits)
        assert (unpriced["action"], unpriced["limits"]) == ("model_limits", ["limits.cost_dollars"])
        assert await warnings_of(server.spec("gpt-5-mini"), limits=limits) == []
    async with ollama_server(lambda request: Say("OK")) as server:
        assert await warnings_of(server.spec(), limits=limits) == []
