"""Answers that come whole, and the agent's health."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from swarm.agents import failures
from swarm.domain.answers.agents import Health
from swarm.domain.answers.events import Asked, Broken, Cancelled, Failed, Finished, Interrupted
from tests.agents.asking import CAIPE, reached, run_input
from tests.support.agui_server import (
    DROP,
    FINISHED,
    STALL,
    STARTED,
    AguiServer,
    Answer,
    Drip,
    Flood,
    answer_json,
    said,
)

INVOKE = "/api/v1/chat/invoke"
RUN_FINISHED = {"type": "RUN_FINISHED", "threadId": "c1", "runId": "r1"}


async def invoked(url: str, **settings: Any) -> Any:
    async with reached(url, **settings) as agent:
        return await agent.invoke(run_input())


@pytest.mark.req("STREAM-01", "STREAM-08")
@pytest.mark.parametrize(
    ("answer", "end"),
    [
        ({"success": True, "content": "42"}, Finished(result="42")),
        ({"content": "42"}, Finished(result="42")),
        ({"success": True, "content": "42", "error": "a little one"}, Finished(result="42")),
        ({"success": False, "error": "out of credit"}, Failed(message="out of credit")),
        ({"success": False, "content": "42"}, Failed(message="no reason was given")),
        ({"error": {"message": "out of credit"}}, Failed(message="out of credit")),
        (
            {"success": True, "content": "4", "finish_reason": "length"},
            Failed(message="Its answer is cut short: it reached the model's limit of length."),
        ),
        ({"success": True}, Broken(reason=failures.NOT_AN_ANSWER)),
        ({"success": True, "content": ["4", "2"]}, Broken(reason=failures.NOT_AN_ANSWER)),
        (["42"], Broken(reason=failures.NOT_AN_ANSWER)),
        ("42", Broken(reason=failures.NOT_AN_ANSWER)),
    ],
)
async def test_caipe_answers_an_invoke_with_json(answer: object, end: object, server: AguiServer) -> None:
    server.on(INVOKE, answer_json(answer))
    assert await invoked(server.url, dialect=CAIPE) == end
    (request,) = server.requests
    assert request.json == {"message": "hello", "conversation_id": "c1", "protocol": "agui", "trace_id": "trace1"}
    assert request.headers["x-client-source"] == "slack-bot"


@pytest.mark.req("STREAM-01", "STREAM-07")
@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        pytest.param((Answer(200, {}, b"<html>"),), failures.NOT_AN_ANSWER, id="a page"),
        pytest.param((Answer(200, {}, b"[" * 100_000),), failures.NOT_AN_ANSWER, id="nested"),
        pytest.param((Answer(500, {}, b""),), "it had an internal error (HTTP 500)", id="500"),
        pytest.param((Answer(200, {}), Flood(b"x" * 65536, 3200)), "it sent more than 1 MiB", id="a flood"),
        pytest.param((Answer(200, {}), b'{"success"', DROP), failures.BROKE_OFF, id="half of it"),
        pytest.param((Answer(0), STALL), "it did not answer within 0.5 s", id="silence"),
        pytest.param((Answer(200, {}), Drip(b" " * 1000, 0.05)), "it did not answer within 0.5 s", id="slowness"),
    ],
)
async def test_an_invoke_that_goes_wrong(steps: Any, reason: str, server: AguiServer) -> None:
    server.on(INVOKE, *steps)
    assert await invoked(server.url, dialect=CAIPE, invoke_seconds=0.5) == Broken(reason=reason)


@pytest.mark.req("STREAM-08")
@pytest.mark.parametrize(
    ("steps", "end"),
    [
        pytest.param((*said("4", "2"), FINISHED), Finished(result="42"), id="a message"),
        pytest.param((*said("a"), *said("b", id="m2"), FINISHED), Finished(result="a\n\nb"), id="two messages"),
        pytest.param((*said("It is 42."), {**RUN_FINISHED, "result": "42"}), Finished(result="It is 42."), id="said"),
        pytest.param((*said("Hm."), {**RUN_FINISHED, "result": "42"}), Finished(result="Hm.\n\n42"), id="not said"),
        pytest.param(({**RUN_FINISHED, "result": "42"},), Finished(result="42"), id="a result alone"),
        pytest.param((FINISHED,), Finished(result=None), id="nothing"),
        pytest.param(
            (
                {"type": "CUSTOM", "name": "NAMESPACE_CONTEXT", "value": "sub"},
                *said("thinking"),
                {"type": "CUSTOM", "name": "NAMESPACE_CONTEXT", "value": ""},
                *said("42", id="m2"),
                FINISHED,
            ),
            Finished(result="42"),
            id="a sub-agent",
        ),
        pytest.param(({"type": "RUN_ERROR", "message": "no"},), Failed(message="no"), id="an error"),
        pytest.param(({**RUN_FINISHED, "outcome": "cancelled"},), Cancelled(), id="cancelled"),
        pytest.param((*said("4"), DROP), Broken(reason=failures.BROKE_OFF), id="a break"),
        pytest.param((*said("4"), STALL), Broken(reason="it did not finish within 0.5 s"), id="no end"),
        pytest.param((Answer(0), STALL), Broken(reason="it did not answer within 0.5 s"), id="no answer"),
    ],
)
async def test_of_other_agents_the_stream_is_collected(steps: Any, end: object, server: AguiServer) -> None:
    server.on("/", *((*steps,) if isinstance(steps[0], Answer) else (STARTED, *steps)))
    assert await invoked(server.url, invoke_seconds=0.5) == end


@pytest.mark.req("STREAM-08")
async def test_an_invoke_may_find_that_a_person_is_asked(server: AguiServer) -> None:
    outcome = {"type": "interrupt", "interrupts": [{"id": "i1", "reason": "input", "message": "sure?"}]}
    server.on("/", STARTED, {**RUN_FINISHED, "outcome": outcome})
    match await invoked(server.url):
        case Interrupted(asked=(Asked(id="i1", prompt="sure?"),)):
            pass
        case other:
            pytest.fail(f"not an interrupt: {other}")


@pytest.mark.req("STREAM-01")
@pytest.mark.parametrize(
    ("status", "health"),
    [
        (200, Health(reachable=True, detail="it answers (HTTP 200)")),
        (401, Health(reachable=False, detail="it refused our credentials (HTTP 401); its operator must look")),
        (404, Health(reachable=False, detail="there is no agent at its address (HTTP 404)")),
        (503, Health(reachable=False, detail="it is not available (HTTP 503)")),
    ],
)
async def test_caipe_has_a_health_check(status: int, health: Health, server: AguiServer) -> None:
    server.on("/healthz", Answer(status, {}, b"ok"))
    async with reached(server.url, dialect=CAIPE, token="t") as agent:
        assert await agent.health() == health
    assert server.requests[0].headers["authorization"] == "Bearer t"


@pytest.mark.req("STREAM-01")
@pytest.mark.parametrize(("status", "reachable"), [(200, True), (404, True), (405, True), (401, False), (500, False)])
async def test_of_other_agents_any_answer_is_a_sign_of_life(status: int, reachable: bool, server: AguiServer) -> None:
    server.on("/", Answer(status, {}, b""))
    async with reached(server.url) as agent:
        assert (await agent.health()).reachable is reachable
    assert server.requests[0].method == "GET"


@pytest.mark.req("STREAM-01")
async def test_an_agent_that_is_not_there_is_not_healthy() -> None:
    async with reached("http://127.0.0.1:1") as agent:
        assert await agent.health() == Health(reachable=False, detail="it cannot be reached")


@pytest.mark.req("STREAM-01")
async def test_a_health_check_leaves_an_answer_without_an_end(server: AguiServer) -> None:
    server.on("/", STARTED, STALL)
    async with reached(server.url) as agent, asyncio.timeout(1):
        assert (await agent.health()).reachable
        await server.requests[0].left.wait()
