"""The fakes themselves, where tests of models do not prove them anyway."""

from __future__ import annotations

import httpx2
import pytest

from packages.swarm_agents.tests.agents.models.asking import ask, models
from swarm.domain.model.language_models import Provider
from tests.support.providers import SERVERS, Call, Fails, Reply, Request, Say, openai_server

pytestmark = pytest.mark.req("AGENT-07")


@pytest.mark.parametrize("provider", list(Provider))
async def test_a_script_may_be_a_function_of_what_is_asked(provider: Provider) -> None:
    async def reply(request: Request) -> Reply:
        return Say(f"It is {request.results[-1]}.") if request.is_after_tool else Call("add", {"a": 2, "b": 3})

    async with SERVERS[provider](reply) as server, models(server.spec()) as asked:
        assert (await ask(asked)).answer == "It is 5."
        assert (await ask(asked)).answer == "It is 5."


async def test_a_script_that_is_used_up_says_so() -> None:
    async with openai_server([Say("Yes.")]) as server, models(server.spec()) as asked, httpx2.AsyncClient() as client:
        await ask(asked)
        body = {"model": "x", "messages": [], "stream": False}
        answer = await client.post(f"{server.base_url}/chat/completions", json=body)
    assert answer.status_code == 418
    assert "no more answers" in answer.text


async def test_there_is_nothing_elsewhere() -> None:
    async with openai_server([Say("Yes.")]) as server, httpx2.AsyncClient() as client:
        assert (await client.get(f"{server.base_url}/models")).status_code == 404
        assert (await server.asked()).path == "/v1/models"


@pytest.mark.parametrize("provider", list(Provider))
async def test_calls_of_several_tools_come_in_one_answer(provider: Provider) -> None:
    calls = [Say("Both."), Call("add", {"a": 1, "b": 1}), Call("add", {"a": 2, "b": 2})]
    async with SERVERS[provider]([calls, Say("2 and 4.")]) as server, models(server.spec()) as asked:
        assert (await ask(asked)).answer == "2 and 4."
    assert server.requests[1].results == ["2", "4"]


async def test_the_body_of_a_failure_may_be_anything() -> None:
    async with (
        openai_server([Fails(500, b"\xff\xfe", {"Content-Type": "text/html"})]) as server,
        httpx2.AsyncClient() as client,
    ):
        answer = await client.post(f"{server.base_url}/chat/completions", json={"stream": True})
    assert (answer.status_code, answer.content, answer.headers["content-type"]) == (500, b"\xff\xfe", "text/html")
