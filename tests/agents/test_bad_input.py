"""Agents that do what no agent should, one by one: each has one end, in words for people, and soon."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from typing import Any

import pytest
import stamina

from swarm.agents import failures
from swarm.agents.remote.exchange import BODY_BYTES, EVENT_BYTES
from swarm.domain.answers.events import Broken, Cancelled, Failed, Finished, TextDelta
from tests.agents.asking import reached, run, run_input, text_of
from tests.support.agui_server import (
    DROP,
    EOF,
    EVENT_STREAM,
    FINISHED,
    STALL,
    STARTED,
    AguiServer,
    Answer,
    Drip,
    Flood,
    Step,
    answer_json,
    answering,
    said,
    sse,
)
from tests.support.idle_time import time_passes

pytestmark = pytest.mark.req("STREAM-01", "STREAM-07")

MIB = 1024 * 1024
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
SAID = said("so far")
PLAIN = {"Content-Type": "text/plain"}

BROKEN: dict[str, tuple[tuple[Step, ...], str]] = {
    # the HTTP answer
    "400": ((Answer(400, PLAIN, b"?"),), "it does not understand our request (HTTP 400)"),
    "401": ((Answer(401, PLAIN, b"who are you?"),), "it refused our credentials (HTTP 401); its operator must look"),
    "403": ((Answer(403, PLAIN, b"no"),), "it refused our credentials (HTTP 403); its operator must look"),
    "404": ((Answer(404, PLAIN, b"gone"),), "there is no agent at its address (HTTP 404)"),
    "418": ((Answer(418, PLAIN, b"tea"),), "it rejected our request (HTTP 418)"),
    "429": ((Answer(429, PLAIN, b"slow"),), "it is overloaded (HTTP 429)"),
    "500": ((answer_json({"error": "Traceback"}, 500),), "it had an internal error (HTTP 500)"),
    "503": ((Answer(503, PLAIN, b""),), "it is not available (HTTP 503)"),
    "a redirect": (
        (Answer(307, {"Location": "/elsewhere"}, b""),),
        "it answered with a redirect, which is not followed",
    ),
    "an error that never ends": (
        (Answer(500, PLAIN), Flood(b"x" * 65536, 3200)),
        "it had an internal error (HTTP 500)",
    ),
    "a page": ((Answer(200, {"Content-Type": "text/html"}, b"<h1>hello</h1>"),), failures.NOT_A_STREAM),
    "no content": ((Answer(204, {}, b""),), failures.NOT_A_STREAM),
    "an answer without a kind": ((Answer(200, {}), *answering("hi")), failures.NOT_A_STREAM),
    "compression": ((Answer(200, {**EVENT_STREAM, "Content-Encoding": "gzip"}), b"\x1f\x8b"), failures.COMPRESSED),
    "no HTTP at all": ((Answer(0), b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), failures.NO_ANSWER),
    "half a head": ((Answer(0), HEAD), failures.NO_ANSWER),
    "a reset instead of an answer": ((Answer(0), DROP), failures.NO_ANSWER),
    "an end instead of an answer": ((Answer(0),), failures.NO_ANSWER),
    "a head without an end": ((Answer(0), HEAD, Flood(b"X-More: and more\r\n", 100_000)), failures.NO_ANSWER),
    # the body
    "an empty body": ((), "it disconnected without an answer"),
    "no end of the run": ((STARTED, *SAID), failures.BROKE_OFF),
    "half a line": ((STARTED, *SAID, b'data: {"type": "RUN_FIN', EOF), failures.BROKE_OFF),
    "an end that is not whole": (
        (STARTED, b'data: {"type":"RUN_FINISHED","threadId":"c","runId":"r"}\n'),
        failures.BROKE_OFF,
    ),
    "a reset in the middle": ((STARTED, *SAID, DROP), failures.BROKE_OFF),
    "an end without the end of the body": ((STARTED, *SAID, EOF), failures.BROKE_OFF),
    "a broken transfer": ((Answer(0), HEAD, b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"), failures.BROKE_OFF),
    "nothing but garbage": (
        (b"%PDF-1.7 \x00\xff\xfe\n\n" * 10, sse("garbage"), sse("[]")),
        "nothing that it sent could be understood",
    ),
    "a line without an end": ((STARTED, Flood(b"x" * 65536, 3200)), failures.EVENT_TOO_LARGE),
    "data without an end": ((STARTED, b"data: ", Flood(b"x" * 65536, 3200)), failures.EVENT_TOO_LARGE),
    "an event of many lines": ((STARTED, Flood(b"data: " + b"x" * 65530 + b"\n", 3200)), failures.EVENT_TOO_LARGE),
    "comments without an end": ((STARTED, Flood(b": " + b"x" * 65533 + b"\n", 3200)), "it sent more than 64 MiB"),
    "events without an end": ((STARTED, Flood(sse("x" * 65536), 3200)), "it sent more than 64 MiB"),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_a_broken_agent_has_one_end_in_words_for_people(name: str, server: AguiServer) -> None:
    steps, reason = BROKEN[name]
    server.on("/", *steps)
    server.on("/elsewhere", *answering("you should not be here"))
    events = await run(server.url)
    assert events[-1] == Broken(reason=reason, is_away=name == "503")
    assert not [event for event in events[:-1] if isinstance(event, Broken | Failed | Finished | Cancelled)]
    assert text_of(events) == ("so far" if steps[1 : 1 + len(SAID)] == SAID else "")
    assert [request.path for request in server.requests] == ["/"], "it is asked once, and nobody else is"


@pytest.mark.parametrize(
    "name", [name for name, (steps, _) in BROKEN.items() if any(isinstance(s, Flood) for s in steps)]
)
async def test_of_gigabytes_little_is_taken(name: str, server: AguiServer) -> None:
    """What the server got rid of lies in the buffers between us, beyond what we read: 200 MB would come."""
    steps, reason = BROKEN[name]
    server.on("/", *steps)
    await run(server.url)
    request = server.requests[0]
    await asyncio.wait_for(request.over.wait(), 5)
    limit = BODY_BYTES if reason == failures.more_than(BODY_BYTES) else EVENT_BYTES
    assert request.sent_bytes < limit + 12 * MIB


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((STALL,), id="after its head"),
        pytest.param((STARTED, *SAID, STALL), id="in the middle"),
        pytest.param((STARTED, b"data: {", STALL), id="in the middle of a line"),
    ],
)
async def test_silence_has_an_end(steps: tuple[Step, ...], server: AguiServer) -> None:
    server.on("/", *steps)
    events = await run(server.url, timeout_seconds=0.3)
    assert events[-1] == Broken(reason="it was silent for 0.3 s")
    await asyncio.wait_for(server.requests[0].left.wait(), 1)


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((Answer(0), STALL), id="no byte of it"),
        pytest.param((Answer(0), Drip(HEAD + b"X: y\r\n" * 1000, 0.05)), id="byte by byte"),
        pytest.param((Answer(0), Flood(b"HTTP/1.1 100 Continue\r\n\r\n", 10**9)), id="always soon"),
    ],
)
async def test_a_head_that_does_not_come_is_not_waited_for(steps: tuple[Step, ...], server: AguiServer) -> None:
    server.on("/", *steps)
    running = asyncio.create_task(run(server.url, timeout_seconds=60))
    await server.asked("/")
    time_passes(60)
    assert await running == [Broken(reason="it did not answer within 60 s")]


async def test_any_byte_is_a_sign_of_life(server: AguiServer) -> None:
    server.on("/", STARTED, Drip(b": wait\n", 0.1), *answering("hi"))
    events = await run(server.url, timeout_seconds=0.35)
    assert events[-1] == Finished()


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param((STARTED, Drip(b":\n" * 1000, 0.05)), id="comments"),
        pytest.param((STARTED, Drip(b"data: xxxxxxxxxxx" * 1000, 0.05)), id="a line"),
        pytest.param((Answer(0), STALL), id="no head"),
    ],
)
async def test_a_run_has_a_longest_time(steps: tuple[Step, ...], server: AguiServer) -> None:
    server.on("/", *steps)
    events = await run(server.url, longest_run_seconds=0.5)
    assert isinstance(events[-1], Broken)
    assert events[-1].reason in ("it did not finish within 0.5 s", "it did not answer within 0.5 s")


async def test_the_first_of_two_ends_counts(server: AguiServer) -> None:
    server.on("/", STARTED, FINISHED, *said("and another thing"), {"type": "RUN_ERROR", "message": "no"}, FINISHED)
    assert await run(server.url) == [Finished()]


async def test_after_its_end_a_run_is_not_listened_to(server: AguiServer) -> None:
    server.on("/", STARTED, FINISHED, STALL)
    assert await run(server.url) == [Finished()]
    await asyncio.wait_for(server.requests[0].left.wait(), 1)


@pytest.mark.parametrize("answer", [Answer(200, PLAIN), Answer(500, PLAIN), Answer(307, {"Location": "/"})])
async def test_an_answer_that_is_of_no_use_is_not_kept_waiting(answer: Answer, server: AguiServer) -> None:
    server.on("/", answer, b"x" * 5000, STALL)
    async with reached(server.url) as agent:
        await _all(agent)
        await asyncio.wait_for(server.requests[0].left.wait(), 1)


async def test_an_error_reported_after_text_shows_both(server: AguiServer) -> None:
    server.on("/", STARTED, *SAID, {"type": "RUN_ERROR", "message": "out of credit", "code": 402})
    events = await run(server.url)
    assert text_of(events) == "so far"
    assert events[-1] == Failed(message="out of credit", code="402")


async def test_nonsense_between_events_is_passed_over(server: AguiServer) -> None:
    nonsense: list[Step] = [
        sse("garbage"),
        sse("[1, 2]"),
        sse("{}"),
        sse('{"type": 7}'),
        sse("null"),
        b"data\n\n",
        b"\n\n\n",
        sse('{"type": "TELEPATHY", "thought": "hm"}'),
        sse('{"type": "STATE_DELTA", "delta": 7}'),
        sse("[" * 10000),
        b"id: \xff\xfe\n\n",
        b"retry: never\n\n",
        b"data: \xff\xff\n\n",
        sse('{"type":"RUN_STARTED"'),
    ]
    server.on("/", *(step for event in answering("hi") for step in (*nonsense, event)))
    events = await run(server.url)
    assert text_of(events) == "hi"
    assert events[-1] == Finished()


async def test_events_may_come_in_any_order(server: AguiServer) -> None:
    start, content, end = said("hi")
    server.on(
        "/",
        end,
        content,
        {"type": "TOOL_CALL_RESULT", "toolCallId": "x", "messageId": "y", "content": ""},
        start,
        {"type": "TOOL_CALL_END", "toolCallId": "z"},
        {"type": "STEP_FINISHED", "stepName": "s"},
        STARTED,
        FINISHED,
    )
    events = await run(server.url)
    assert text_of(events) == "hi"
    assert events[-1] == Finished()


async def test_a_body_without_chunks_ends_with_its_connection(server: AguiServer) -> None:
    server.on("/", Answer(chunked=False), *answering("hi"))
    assert (await run(server.url))[-1] == Finished()


async def test_nobody_at_the_address_is_tried_for_a_while() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        begun = asyncio.get_running_loop().time()
        assert await run(url) == [Broken(reason="it cannot be reached", is_away=True)]
        assert asyncio.get_running_loop().time() - begun > 0.2


async def test_an_agent_that_is_being_restarted_is_reached_in_the_end(failed_once: asyncio.Event) -> None:
    handled: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        handled.append(await reader.readuntil(b"\r\n\r\n"))
        body = b"".join(sse(event.model_dump_json(by_alias=True)) for event in answering("back"))
        writer.write(HEAD + b"Connection: close\r\n\r\n" + body)
        writer.close()

    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        async with reached(f"http://127.0.0.1:{place.getsockname()[1]}", patience_seconds=10) as agent:
            going = asyncio.ensure_future(_all(agent))
            await asyncio.wait_for(failed_once.wait(), 5)
            async with await asyncio.start_server(handle, sock=place):
                assert text_of(await going) == "back"
    assert len(handled) == 1


@pytest.fixture
def failed_once() -> Iterator[asyncio.Event]:
    """Set when a request has not arrived and will be sent again."""
    failed = asyncio.Event()
    stamina.instrumentation.set_on_retry_hooks([lambda details: failed.set()])
    yield failed
    stamina.instrumentation.set_on_retry_hooks(None)


async def _all(agent: Any) -> list[Any]:
    return [event async for event in agent.run(run_input())]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://no-such-host.invalid/", "its address is unknown"),
        ("ftp://127.0.0.1/", "its address is not valid"),
        ("nonsense", "its address is not valid"),
        ("", "its address is not valid"),
    ],
)
async def test_an_address_that_leads_nowhere(url: str, reason: str) -> None:
    assert await run(url) == [Broken(reason=reason, is_away="unknown" in reason)]


async def test_other_runs_do_not_notice_an_agent_that_floods(server: AguiServer) -> None:
    """One agent sends as fast as it can; another one, reached by the same process, is answered in time."""
    server.on("/flood", STARTED, Flood(sse('{"type":"TEXT_MESSAGE_CONTENT","messageId":"m","delta":"x"}') * 500, 10**6))
    server.on("/", *answering("hi"))
    flood = asyncio.create_task(run(f"{server.url}/flood"))
    await server.asked("/flood")
    try:
        for _ in range(5):
            async with asyncio.timeout(2):
                assert text_of(await run(server.url)) == "hi"
        assert not flood.done()
    finally:
        flood.cancel()
        await asyncio.gather(flood, return_exceptions=True)


async def test_what_an_agent_says_of_its_errors_is_not_shown_to_people(server: AguiServer) -> None:
    server.on("/", Answer(500, PLAIN, b"Traceback: token=sk-live-12345678"))
    assert "Traceback" not in str(await run(server.url))


async def test_a_fault_of_our_own_is_an_end_too(server: AguiServer) -> None:
    """A number that our JSON cannot hold: whoever waits for the run must still hear of its end."""
    server.on("/", *answering("hi"))
    events = await run(server.url, of=run_input(client_context={"cost": 2**64}))
    assert events == [Broken(reason=failures.OUR_FAULT)]
    assert not [event for event in events if isinstance(event, TextDelta)]
