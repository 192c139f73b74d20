"""A real agent: pydantic-ai, served as it serves itself over AG-UI, with a model that does what the test says."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests
from pydantic_ai.messages import ModelMessage, ModelRequest, ToolReturnPart, UserPromptPart
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, DeltaToolCalls, FunctionModel
from pydantic_ai.ui.ag_ui import AGUIAdapter
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from swarm.domain.answers.events import (
    AgentEvent,
    Asked,
    Failed,
    Finished,
    InputMessage,
    Interrupted,
    Speaker,
    TextDelta,
    TextEnded,
    ToolEnded,
    ToolStarted,
)
from swarm.domain.model.requests import FieldType, HumanDecision, RequestStatus, ToolRequest
from tests.agents.asking import reached, run, run_input, text_of
from tests.support.deciding import decided, request
from tests.support.doors import serving

pytestmark = pytest.mark.req("STREAM-01", "STREAM-03")

D = HumanDecision
DELETED: list[str] = []


async def _model(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str | DeltaToolCalls]:
    """Adds up where it is asked to, deletes where it is asked to, and says what came of it; else it greets."""
    last = messages[-1].parts[-1]
    if isinstance(last, ToolReturnPart):
        yield f"The tool says: {last.content}"
    elif "add" in _asked(messages):
        yield {0: DeltaToolCall(name="add", json_args='{"a": 1, ', tool_call_id="call1")}
        yield {0: DeltaToolCall(json_args='"b": 2}')}
    elif "delete" in _asked(messages):
        yield {0: DeltaToolCall(name="delete", json_args='{"path": "notes.txt"}', tool_call_id="call2")}
        if "both" in _asked(messages):
            yield {1: DeltaToolCall(name="delete", json_args='{"path": "other.txt"}', tool_call_id="call3")}
    elif "fail" in _asked(messages):
        raise RuntimeError("the model is out of order")
    else:
        yield "Hello, "
        yield f"{len(messages)}"


def _asked(messages: list[ModelMessage]) -> str:
    prompts = [part for message in messages if isinstance(message, ModelRequest) for part in message.parts]
    return str(next((part.content for part in reversed(prompts) if isinstance(part, UserPromptPart)), ""))


def _agent() -> Agent[None, str | DeferredToolRequests]:
    agent = Agent(FunctionModel(stream_function=_model), output_type=[str, DeferredToolRequests])

    @agent.tool_plain
    def add(a: int, b: int) -> int:
        return a + b

    @agent.tool_plain(requires_approval=True)
    def delete(path: str) -> str:
        DELETED.append(path)
        return f"{path} is gone"

    return agent


@contextlib.asynccontextmanager
async def real_agent() -> AsyncIterator[str]:
    """The agent's address."""
    agent = _agent()

    async def runs(request: Request) -> Response:
        return await AGUIAdapter.dispatch_request(request, agent=agent)

    async with serving(Starlette(routes=[Route("/", runs, methods=["POST"])])) as url:
        yield url


@pytest.fixture
async def url() -> AsyncIterator[str]:
    DELETED.clear()
    async with real_agent() as address:
        yield address


async def test_it_answers(url: str) -> None:
    first, second, *rest = await run(url)
    assert isinstance(first, TextDelta)
    assert isinstance(second, TextDelta)
    assert (first.text, second.text) == ("Hello, ", "1")
    assert rest == [TextEnded(message_id=first.message_id), Finished()]


async def test_it_gets_what_was_said_before(url: str) -> None:
    history = (
        InputMessage(id="1", speaker=Speaker.USER, text="hello", author="Ada Lovelace"),
        InputMessage(id="2", speaker=Speaker.ASSISTANT, text="hello"),
    )
    assert text_of(await run(url, of=run_input(history=history))) == "Hello, 3"


async def test_its_tools_are_seen_running(url: str) -> None:
    events = await run(url, of=run_input("add 1 and 2"))
    assert events[:2] == [ToolStarted(id="call1", name="add"), ToolEnded(id="call1")]
    assert text_of(events) == "The tool says: 3"
    assert events[-1] == Finished()


async def test_it_asks_before_it_does_something_dangerous(url: str) -> None:
    asked = await _asked_by(url)
    assert asked.prompt == 'Approve delete({"path":"notes.txt"})?'
    assert (asked.tool, asked.reason) == (
        ToolRequest(name="delete", arguments={"path": "notes.txt"}, schema={"type": "object"}),
        "tool_call",
    )
    assert (asked.fields[0].name, asked.fields[0].type, asked.fields[0].required) == (
        "approved",
        FieldType.BOOLEAN,
        True,
    )
    assert DELETED == []


@pytest.mark.req("HITL-01", "HITL-02", "HITL-03", "HITL-04")
@pytest.mark.parametrize(
    ("decision", "arguments", "said", "deleted"),
    [
        pytest.param(D.APPROVE, None, "The tool says: notes.txt is gone", ["notes.txt"], id="approved"),
        pytest.param(D.APPROVE_THREAD, None, "The tool says: notes.txt is gone", ["notes.txt"], id="in the thread"),
        pytest.param(D.EDIT, {"path": "old.txt"}, "The tool says: old.txt is gone", ["old.txt"], id="edited"),
        pytest.param(D.REJECT, None, "The tool says: A person has rejected this call.", [], id="rejected"),
        pytest.param(None, None, "The tool says: Nobody decided in time.", [], id="expired"),
    ],
)
async def test_it_goes_on_with_what_people_decided(
    decision: HumanDecision | None, arguments: dict[str, Any] | None, said: str, deleted: list[str], url: str
) -> None:
    asked = await _asked_by(url)
    told = decided(asked, decision, arguments=arguments)
    events = await run(url, of=run_input("delete my notes", decided=(told,)))
    assert text_of(events) == said
    assert events[-1] == Finished()
    assert deleted == DELETED


@pytest.mark.req("HITL-01", "HITL-03")
async def test_a_withdrawn_question_is_no_approval(url: str) -> None:
    told = decided(await _asked_by(url), None, status=RequestStatus.CANCELLED)
    events = await run(url, of=run_input("delete my notes", decided=(told,)))
    assert text_of(events) == "The tool says: Cancelled by user."
    assert DELETED == []


@pytest.mark.req("HITL-01", "HITL-04")
async def test_people_see_the_call_and_buttons_in_place_of_the_fields_of_an_approval(url: str) -> None:
    stored = request(await _asked_by(url))
    assert (stored.title, stored.fields) == ("May I delete `notes.txt`?", ())
    assert stored.tool == ToolRequest(name="delete", arguments={"path": "notes.txt"}, schema={"type": "object"})
    assert stored.decisions == (D.APPROVE, D.EDIT, D.REJECT, D.APPROVE_THREAD, D.APPROVE_ALWAYS)


@pytest.mark.req("HITL-05")
async def test_several_calls_are_decided_one_by_one_and_resumed_once(url: str) -> None:
    events = await run(url, of=run_input("delete both"))
    end = events[-1]
    assert isinstance(end, Interrupted)
    notes, other = end.asked
    told = (decided(other, D.APPROVE), decided(notes, D.REJECT))
    events = await run(url, of=run_input("delete both", decided=told))
    assert events[-1] == Finished()
    assert DELETED == ["other.txt"]


async def test_its_errors_are_told(url: str) -> None:
    (*_, last) = await run(url, of=run_input("fail"))
    assert last == Failed(message="the model is out of order")


async def test_a_whole_answer_is_collected(url: str) -> None:
    async with reached(url) as agent:
        assert await agent.invoke(run_input("add 1 and 2")) == Finished(result="The tool says: 3")
        assert (await agent.health()).reachable


async def _asked_by(url: str) -> Asked:
    events: list[AgentEvent] = await run(url, of=run_input("delete my notes"))
    last = events[-1]
    assert isinstance(last, Interrupted)
    (asked,) = last.asked
    return asked
