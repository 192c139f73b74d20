"""One run of a remote agent, when all goes well, and when somebody does not want to wait for its end."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest
from ag_ui.core import BaseEvent
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from swarm.agents.remote.translation.translator import Translator
from swarm.domain.answers.events import AgentEvent, Broken, Finished, TextDelta, TextEnded, ToolEnded, ToolStarted
from tests.agents.asking import CAIPE, reached, run, run_input, text_of
from tests.support.agui_server import (
    EVENT_STREAM,
    FINISHED,
    STALL,
    STARTED,
    AguiServer,
    Answer,
    agui_server,
    answering,
    said,
    sse,
)

pytestmark = pytest.mark.req("STREAM-01")

START = "/api/v1/chat/stream/start"
CANCEL = "/api/v1/chat/stream/cancel"
TOOL = (
    {"type": "TOOL_CALL_START", "toolCallId": "t1", "toolCallName": "search"},
    {"type": "TOOL_CALL_ARGS", "toolCallId": "t1", "delta": '{"q": "grüße"}'},
    {"type": "TOOL_CALL_END", "toolCallId": "t1"},
    {"type": "TOOL_CALL_RESULT", "toolCallId": "t1", "messageId": "m2", "content": "17"},
)


async def test_what_the_agent_does_comes_in_its_order(server: AguiServer) -> None:
    server.on("/", STARTED, *said("Let me ", "look."), *TOOL, *said("It is 17.", id="m3"), FINISHED)
    assert await run(server.url) == [
        TextDelta(text="Let me ", message_id="m1"),
        TextDelta(text="look.", message_id="m1"),
        TextEnded(message_id="m1"),
        ToolStarted(id="t1", name="search"),
        ToolEnded(id="t1"),
        TextDelta(text="It is 17.", message_id="m3"),
        TextEnded(message_id="m3"),
        Finished(),
    ]


@pytest.mark.req("STREAM-04")
async def test_a_delta_is_told_before_the_next_one_comes(server: AguiServer) -> None:
    go_on = asyncio.Event()
    server.on("/", STARTED, *said("first"), go_on, *said("second", id="m2"), FINISHED)
    async with reached(server.url) as agent:
        events = agent.run(run_input())
        assert await asyncio.wait_for(anext(events), 1) == TextDelta(text="first", message_id="m1")
        go_on.set()
        assert [event async for event in events][-1] == Finished()


_EVENTS: tuple[BaseEvent, ...] = (STARTED, *said("Grüße 🙂 ", "\u2028 und\r\nso"), FINISHED)
_BODY = b'data: {"type":"CUSTOM",\ndata: "name":"x","value":1}\n\n' + b"".join(
    b": hello\r\n" + sse(event.model_dump_json(by_alias=True)) for event in _EVENTS
)


def _whole() -> list[AgentEvent]:
    return [
        TextDelta(text="Grüße 🙂 ", message_id="m1"),
        TextDelta(text="\u2028 und\r\nso", message_id="m1"),
        TextEnded(message_id="m1"),
        Finished(),
    ]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(
    cuts=st.lists(st.integers(0, len(_BODY)), max_size=40),
    line_end=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    mark=st.sampled_from([b"", b"\xef\xbb\xbf"]),
)
def test_however_the_body_is_cut_the_events_are_the_same(cuts: list[int], line_end: bytes, mark: bytes) -> None:
    body = mark + _BODY.replace(b"\r\n", b"\n").replace(b"\n", line_end)
    places = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    pieces = [body[begin:end] for begin, end in itertools.pairwise(places)]
    assert asyncio.run(_events_of(pieces)) == _whole()


async def test_a_body_of_single_bytes_is_read_like_any_other() -> None:
    assert await _events_of([_BODY[at : at + 1] for at in range(len(_BODY))]) == _whole()


async def _events_of(pieces: list[bytes]) -> list[AgentEvent]:
    async with agui_server() as server:
        server.on("/", Answer(headers={"Content-Type": "text/event-stream; charset=latin-1"}), *pieces)
        return await run(server.url)


async def test_a_run_that_is_left_is_cut_off_within_a_second(server: AguiServer) -> None:
    server.on("/", STARTED, *said("so far"), STALL)
    async with reached(server.url) as agent:
        events = agent.run(run_input())
        await anext(events)
        await events.aclose()
        await asyncio.wait_for(server.requests[0].left.wait(), 1)


@pytest.mark.req("STREAM-09")
@pytest.mark.parametrize("steps", [(STARTED, *said("so far"), STALL), (Answer(0), STALL)], ids=["speaking", "thinking"])
async def test_a_run_whose_reader_is_cancelled_is_cut_off_within_a_second(steps: Any, server: AguiServer) -> None:
    server.on("/", *steps)
    async with reached(server.url) as agent:
        reader = asyncio.create_task(_read(agent))
        request = await server.asked("/")
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader
        await asyncio.wait_for(request.left.wait(), 1)


@pytest.mark.req("STREAM-09")
async def test_a_caipe_agent_is_told_that_its_run_was_left(server: AguiServer) -> None:
    server.on(START, STARTED, *said("so far"), STALL)
    server.on(CANCEL, Answer(200, {}, b"{}"))
    async with reached(server.url, dialect=CAIPE, agent_id="a1") as agent:
        events = agent.run(run_input())
        await anext(events)
        await events.aclose()
        request = await server.asked(CANCEL)
    assert request.json == {"conversation_id": "c1", "agent_id": "a1"}
    assert request.headers["x-client-source"] == "slack-bot"


@pytest.mark.parametrize(
    ("steps", "count"),
    [
        pytest.param(answering("hi"), 0, id="a run that ended"),
        pytest.param((STARTED, {"type": "RUN_ERROR", "message": "no"}), 0, id="a run that failed"),
        pytest.param((Answer(404, {}, b""),), 0, id="a request that was refused"),
        pytest.param((STARTED, STALL), 1, id="silence"),
    ],
)
async def test_only_an_agent_that_may_still_run_is_told(steps: Any, count: int, server: AguiServer) -> None:
    server.on(START, *steps)
    await run(server.url, dialect=CAIPE, timeout_seconds=0.3)
    assert len(server.to(CANCEL)) == count


async def test_an_agent_that_will_not_hear_does_not_hold_anybody_up(server: AguiServer) -> None:
    server.on(START, STARTED, *said("so far"), STALL)
    server.on(CANCEL, Answer(0), STALL)
    async with reached(server.url, dialect=CAIPE) as agent:
        events = agent.run(run_input())
        await anext(events)
        async with asyncio.timeout(1):
            await events.aclose()


async def test_closing_the_agent_ends_its_runs(server: AguiServer) -> None:
    server.on("/", STARTED, *said("so far"), STALL)
    async with reached(server.url) as agent:
        reader = asyncio.create_task(_read(agent))
        request = await server.asked("/")
        await agent.aclose()
        events = await asyncio.wait_for(reader, 1)
        await asyncio.wait_for(request.left.wait(), 1)
    assert isinstance(events[-1], Broken)


async def test_many_runs_at_once_do_not_wait_for_each_other(server: AguiServer) -> None:
    go_on = asyncio.Event()
    server.on("/", STARTED, *said("hi"), go_on, FINISHED)
    async with reached(server.url) as agent:
        readers = [asyncio.create_task(_read(agent)) for _ in range(150)]
        await server.asked("/", 150)
        go_on.set()
        assert {text_of(events) for events in await asyncio.gather(*readers)} == {"hi"}


@pytest.mark.parametrize("text", ["", "data: x", "{}"])
def test_a_translator_that_was_fed_nothing_useful_still_has_an_end(text: str) -> None:
    translator = Translator()
    assert translator.feed(text) == ()
    assert len(translator.end()) == 1
    assert translator.end() == ()


async def _read(agent: Any) -> list[AgentEvent]:
    return [event async for event in agent.run(run_input())]


async def test_an_answer_with_a_charset_of_its_own_is_read_as_utf_8(server: AguiServer) -> None:
    server.on(
        "/", Answer(headers={**EVENT_STREAM, "Content-Type": "text/event-stream;charset=utf-16"}), *answering("ü")
    )
    assert text_of(await run(server.url)) == "ü"
