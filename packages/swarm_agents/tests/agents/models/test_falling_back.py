"""Where a model cannot answer, the next does; where there is no next, the same is asked once more."""

from __future__ import annotations

import asyncio
import time

import pytest
from pydantic_ai.exceptions import ContentFilterError, UnexpectedModelBehavior
from structlog.testing import capture_logs

from packages.swarm_agents.tests.agents.models.asking import ask, ask_whole, models
from swarm.domain.model.language_models import ModelSpec, Provider
from swarm_agents.models.served import RetryPolicy, is_for_another
from swarm_agents.models.troubles import label_of
from swarm_agents.models.usage import usage_of
from tests.support.providers import (
    SERVERS,
    Call,
    Cut,
    Ends,
    Fails,
    Raw,
    Reply,
    Say,
    Silent,
    anthropic_server,
    ollama_server,
    openai_server,
)

pytestmark = pytest.mark.req("AGENT-07")


@pytest.mark.parametrize(
    "reply",
    [
        Fails(401),
        Fails(403),
        Fails(404),
        Fails(429),
        Fails(400, kind="quota"),
        Fails(400, kind="context"),
        Fails(500),
        Fails(529),
        Cut(with_head=False),
        Cut(),
        [Raw(b""), Fails(529)],  # an error as the first thing in the stream
        Raw(b"<html>"),
    ],
    ids=repr,
)
async def test_the_next_model_answers_and_the_first_is_asked_only_once(reply: Reply) -> None:
    async with (
        anthropic_server([reply]) as first,
        openai_server([Say("I can.")]) as second,
        models(first.spec(), second.spec()) as asked,
    ):
        heard = await ask(asked)
    assert heard.answer == "I can."
    assert heard.response is not None
    assert label_of(heard.response) == "openai:gpt-5-mini"
    assert (len(first.requests), len(second.requests)) == (1, 1)


@pytest.mark.parametrize("provider", list(Provider))
async def test_each_provider_can_be_the_one_that_others_stand_in_for(provider: Provider) -> None:
    async with (
        SERVERS[provider]([Cut(), Fails(503)]) as first,
        ollama_server([Say("I can."), Say("So.")]) as second,
        models(first.spec(), second.spec("other")) as asked,
    ):
        assert (await ask(asked)).answer == "I can."
        assert (await ask_whole(asked)).answer == "So."
    assert (len(first.requests), len(second.requests)) == (2, 2)


async def test_it_is_said_in_the_log_which_model_did_not_answer() -> None:
    async with (
        anthropic_server([Fails(401)]) as first,
        openai_server([Say("I can.")]) as second,
        models(first.spec(), second.spec()) as asked,
    ):
        with capture_logs() as logs:
            await ask(asked)
    assert [(log["action"], log["model"], log["code"]) for log in logs if log["log_level"] == "warning"] == [
        ("model_fallback", "anthropic:claude-sonnet-5", "authentication")
    ]


async def test_a_model_that_cannot_be_reached_is_replaced() -> None:
    async with openai_server([]) as gone:
        nowhere = gone.spec()
    async with openai_server([Say("I can.")]) as second, models(nowhere, second.spec("other")) as asked:
        assert (await ask(asked)).answer == "I can."


async def test_a_model_that_keeps_silent_is_replaced_and_then_left_alone_for_a_while() -> None:
    async with (
        openai_server([Silent(), Say("Here I am.")]) as first,
        ollama_server([Say("A."), Say("B.")]) as second,
        models(first.spec(timeout_seconds=1), second.spec()) as asked,
    ):
        assert (await ask(asked)).answer == "A."
        assert (await ask(asked)).answer == "B."
        assert len(first.requests) == 1
    async with (
        openai_server([Silent(), Say("Here I am.")]) as first,
        ollama_server([Say("A.")]) as second,
        models(first.spec(timeout_seconds=1), second.spec(), retries=RetryPolicy(rest_seconds=0)) as asked,
    ):
        assert (await ask(asked)).answer == "A."
        assert (await ask(asked)).answer == "Here I am."


async def test_the_only_model_is_never_left_alone() -> None:
    async with (
        openai_server([Silent(), Say("Here I am.")]) as server,
        models(server.spec(timeout_seconds=1)) as asked,
    ):
        assert (await ask(asked)).code == "timeout"
        assert (await ask(asked)).answer == "Here I am."


@pytest.mark.parametrize("reply", [Ends("filter"), Fails(400, kind="filter")], ids=repr)
async def test_a_refusal_is_not_taken_to_somebody_less_strict(reply: Reply) -> None:
    async with (
        openai_server([reply]) as first,
        openai_server([Say("Gladly!")]) as second,
        models(first.spec(), second.spec("other")) as asked,
    ):
        heard = await ask(asked)
    assert heard.code == "refused"
    assert second.requests == []


def test_an_answer_that_a_providers_filter_held_back_is_not_asked_of_another_model() -> None:
    """The filter's word comes as the reason for the end of an answer, which pydantic-ai raises as this error."""
    assert not is_for_another(ContentFilterError("Content filter triggered. Finish reason: 'content_filter'"))
    assert is_for_another(UnexpectedModelBehavior("the answer is empty"))


@pytest.mark.parametrize("reply", [[Say("Hello"), Cut()], [Say("Hello"), Fails(529)]], ids=["cut off", "refused"])
async def test_once_something_has_been_shown_nothing_is_repeated(reply: Reply) -> None:
    async with (
        openai_server([reply]) as first,
        openai_server([Say("Hello again.")]) as second,
        models(first.spec(), second.spec("other")) as asked,
    ):
        heard = await ask(asked)
    assert heard.trouble is not None
    assert "".join(heard.pieces) == "Hello"
    assert (len(first.requests), len(second.requests)) == (1, 0)


async def test_each_call_of_a_run_begins_with_the_first_model() -> None:
    async with (
        openai_server([Fails(503), Say("Three.")]) as first,
        ollama_server([Call("add", {"a": 1, "b": 2})]) as second,
        models(first.spec(), second.spec()) as asked,
    ):
        heard = await ask(asked)
    assert heard.answer == "Three."
    assert first.requests[1].results == ["3"]
    assert usage_of(heard.usage).cost_microdollars == 13  # Ollama's part is free


async def test_if_none_answers_each_is_told_of() -> None:
    async with (
        anthropic_server([Fails(401)]) as first,
        openai_server([Fails(404)]) as second,
        models(first.spec(), second.spec()) as asked,
    ):
        heard = await ask(asked)
    assert heard.trouble is not None
    assert heard.trouble.message == (
        "The model anthropic:claude-sonnet-5 refuses our key; the operator has to fix this. "
        "The model openai:gpt-5-mini is unknown at its address, or not available to us; the operator has to fix this."
    )
    assert heard.trouble.is_lasting
    assert heard.trouble.code == "not_found"


async def test_trouble_that_passes_at_one_of_them_is_not_lasting() -> None:
    async with (
        anthropic_server([Fails(401)]) as first,
        openai_server(lambda request: Fails(503)) as second,
        models(first.spec(), second.spec()) as asked,
    ):
        heard = await ask(asked)
    assert heard.trouble is not None
    assert (heard.trouble.code, heard.trouble.is_lasting) == ("overloaded", False)
    assert len(second.requests) == 3  # the last of the list is asked again


async def test_the_only_model_is_asked_again_after_a_pause() -> None:
    async with (
        openai_server([Fails(500), Fails(429), Say("Now.")]) as server,
        models(server.spec(), retries=RetryPolicy(pause_seconds=0.07)) as asked,
    ):
        begun = time.monotonic()
        heard = await ask(asked)
        assert time.monotonic() - begun >= 0.3
    assert heard.answer == "Now."
    assert len(server.requests) == 3


@pytest.mark.parametrize("provider", list(Provider))
async def test_a_provider_that_asks_us_to_wait_is_obeyed_by_all_runs(provider: Provider) -> None:
    script: list[Reply] = [Fails(429, retry_after=1), Say("Now."), Say("Now.")]
    async with SERVERS[provider](script) as server, models(server.spec()) as asked:
        begun = time.monotonic()
        first = asyncio.create_task(ask_whole(asked))
        await (await server.asked()).over.wait()
        second = asyncio.create_task(ask(asked))
        assert [(await first).answer, (await second).answer] == ["Now.", "Now."]
        assert time.monotonic() - begun >= 1
    assert len(server.requests) == 3


async def test_a_provider_that_wants_us_gone_for_long_is_not_waited_for() -> None:
    async with (
        openai_server([Fails(429, retry_after=30), Say("Too early.")]) as server,
        models(server.spec(), retries=RetryPolicy(pause_seconds=30)) as asked,
    ):
        async with asyncio.timeout(10):
            heard = await ask(asked)
    assert heard.trouble is not None
    assert heard.trouble.message.endswith("try again in 30 s.")
    assert len(server.requests) == 1


async def test_a_provider_that_forbids_a_repetition_is_obeyed() -> None:
    async with (
        openai_server([Fails(500, headers={"x-should-retry": "false"})]) as server,
        models(server.spec()) as asked,
    ):
        assert (await ask(asked)).code == "server"
    assert len(server.requests) == 1


async def test_a_run_that_is_cancelled_is_not_taken_to_the_next_model() -> None:
    async with (
        openai_server([Silent()]) as first,
        openai_server([Say("Hm?")]) as second,
        models(first.spec(timeout_seconds=30), second.spec("other")) as asked,
    ):
        asking = asyncio.create_task(ask(asked))
        await first.asked()
        asking.cancel()
        await asyncio.wait([asking], timeout=5)
        assert asking.cancelled()
    assert second.requests == []


async def test_two_models_of_one_name_are_told_apart() -> None:
    async with openai_server([Fails(401)]) as first, ollama_server([Fails(404)]) as second:
        specs: list[ModelSpec] = [first.spec("gpt-oss"), second.spec("gpt-oss")]
        async with models(*specs) as asked:
            heard = await ask(asked)
    assert heard.trouble is not None
    assert "openai:gpt-oss refuses our key" in heard.trouble.message
    assert "ollama:gpt-oss is unknown" in heard.trouble.message
