"""Answers that are shown while they are given: Slack fails, we are cut off, or an agent knows no measure."""

from __future__ import annotations

import asyncio
import itertools
import time
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest
from structlog.testing import capture_logs

from swarm.domain.answers.agent_events import MAX_ANSWER_CHARACTERS, TOO_LONG
from swarm.domain.answers.calls import Closing
from swarm.domain.answers.events import (
    Answered,
    Finished,
    RunFailed,
    SourceChanged,
    StepNamed,
    TextDelta,
)
from swarm.domain.answers.reducer import AgentEventReceived, Input, step
from swarm.domain.answers.showing import AnswerLost
from swarm.domain.answers.state import Live
from swarm.slack.outgoing import live
from swarm.slack.outgoing.live import EVENTS_AHEAD
from swarm.slack.outgoing.pacing import Pacing
from tests.contract.live_scene import (
    LINES,
    PATIENCE_SECONDS,
    Events,
    Notes,
    Scene,
    blocks_of,
    endless,
    live_scene,
    saying,
    typing,
)
from tests.contract.slack.answers import place
from tests.support.quick import quick


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with live_scene() as scene:
        yield scene


# Whatever Slack answers

FAULTS: list[dict[str, Any]] = [
    {"kind": "http_429", "seconds": 1},
    {"kind": "http_500"},
    {"kind": "cut_after_accept"},
    {"kind": "error", "error": "msg_too_long"},
]
STREAM_METHODS = ["chat.startStream", "chat.appendStream", "chat.stopStream"]


@pytest.mark.req("STREAM-04", "STREAM-05")
@pytest.mark.parametrize("times", quick([1, 3]))
@pytest.mark.parametrize("method", STREAM_METHODS)
@pytest.mark.parametrize("fault", FAULTS[:3], ids=lambda fault: fault["kind"])
async def test_a_call_that_fails_loses_nothing_and_repeats_nothing(
    scene: Scene, fault: dict[str, Any], method: str, times: int
) -> None:
    await scene.workspace.fault(method=method, times=times, **fault)
    shown = await scene.show(typing(scene, *LINES))
    assert (shown.outcome, shown.leftover) == (Answered(), "")
    assert await scene.text() == "".join(LINES)
    messages = await scene.shown()
    assert len(blocks_of(messages, "context_actions")) + shown.closing.feedback == 1  # else the owner posts it
    assert not any(message["streaming"] for message in messages)


@pytest.mark.req("STREAM-05", "STREAM-06")
@pytest.mark.parametrize("method", STREAM_METHODS)
@pytest.mark.parametrize(
    "fault", [{"kind": "expire_stream"}, {"kind": "error", "error": "msg_too_long"}], ids=lambda fault: fault["kind"]
)
async def test_a_message_that_takes_no_more_is_followed_by_another(
    scene: Scene, fault: dict[str, Any], method: str
) -> None:
    if fault["kind"] != "expire_stream" or method != "chat.startStream":
        await scene.workspace.fault(method=method, **fault)
    shown = await scene.show(saying(*LINES))
    text = await scene.text() + shown.leftover
    assert text == "".join(LINES)
    messages = await scene.shown()
    assert not any(message["streaming"] for message in messages)
    below = len(blocks_of(messages, "context_actions")) + shown.closing.feedback
    assert below == 1


@pytest.mark.req("STREAM-05")
async def test_a_pause_that_ends_between_two_looks_is_not_slept_through(scene: Scene) -> None:
    ticks, looks = itertools.count(), itertools.count()

    async def no_sleep(seconds: float) -> None: ...

    pacing = Pacing(enforced=False, monotonic=lambda: float(next(ticks)), sleep=no_sleep)
    gateway = scene.workspace.gateway(pacing=pacing)
    scene = Scene(scene.workspace, gateway, scene.where)
    scene.make(clock=lambda: next(looks) * 0.3)  # however often it looks, time has passed since
    await scene.workspace.fault("http_429", method="chat.appendStream", seconds=1)
    assert (await scene.show(typing(scene, *LINES))).outcome == Answered()
    await gateway.close()


@pytest.mark.req("STREAM-05")
async def test_a_closing_stream_whose_connection_is_cut_is_not_repeated_without_a_pause(scene: Scene) -> None:
    await scene.workspace.fault("cut_after_accept", method="chat.stopStream", times=100_000)
    with capture_logs() as lines:
        task = scene.begin(saying(*LINES))
        await scene.until_called("chat.stopStream")
        began = time.monotonic()
        await scene.until_called("chat.stopStream", 4)
        took = time.monotonic() - began
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert took > 0.5, "after 0.1, 0.2 and 0.4 seconds, of which the look at the first call misses some"
    assert [line["call"] for line in lines if line["action"] == "stream_call"] == ["CloseStream"], "told once"


@pytest.mark.req("STREAM-05")
async def test_what_slack_never_takes_live_is_left_to_posts_that_wait(scene: Scene) -> None:
    await scene.workspace.fault("error", method="chat.startStream", error="fatal_error", times=100)
    shown = await scene.show(saying(*LINES))
    assert (shown.leftover, shown.closing) == ("".join(LINES), Closing(feedback=True, footer=True))
    assert await scene.shown() == []


async def test_an_answer_whose_thread_is_gone_closes_the_agent(scene: Scene) -> None:
    scene.make(place("1700000000.000100"))

    async def endless() -> Events:
        yield TextDelta(text="Hello.\n", message_id="1")
        await asyncio.Event().wait()

    shown = await scene.show(endless)
    assert isinstance(shown.outcome, RunFailed)
    assert (shown.leftover, shown.closing) == ("", Closing())
    assert scene.closed.is_set()


# Cut off from outside


@pytest.mark.req("STREAM-10")
async def test_a_record_is_told_before_a_message_begins_and_before_the_last_one_ends(scene: Scene) -> None:
    notes = Notes()
    scene.make(record=notes)
    await scene.show(saying("Hello."))
    [message] = await scene.shown()
    assert notes.told == ["beginning 1", f"began 1 {message['ts']}", "ending", "ended 1 Hello."]


@pytest.mark.req("STREAM-10")
async def test_cancelled_it_still_hears_what_became_of_the_call_that_is_under_way(scene: Scene) -> None:
    notes = Notes()
    scene.make(record=notes)
    await scene.workspace.fault("delay", method="chat.startStream", seconds=1_000)
    task = scene.begin(endless("Hello.\n"))
    await scene.until_called("chat.startStream")
    task.cancel()
    await asyncio.wait_for(scene.closed.wait(), PATIENCE_SECONDS)  # the agent is let go at once
    assert not task.done()
    scene.workspace.twin.clock.advance(1_000)
    with suppress(asyncio.CancelledError):
        await task
    assert task.cancelled()
    [message] = await scene.shown()
    assert notes.told == ["beginning 1", f"began 1 {message['ts']}"]


@pytest.mark.req("STREAM-10")
async def test_cancelled_it_does_not_wait_for_a_search(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm.slack.outgoing.live.LANDING_SECONDS", 1_000.0)
    await scene.workspace.fault("cut_after_accept", method="chat.startStream")
    await scene.workspace.fault("delay", method="conversations.replies", seconds=1_000, times=100)
    task = asyncio.create_task(scene.answer.show(scene.events(endless("Hello.\n"))))
    await scene.until_called("conversations.replies")
    task.cancel()
    await asyncio.wait([task], timeout=PATIENCE_SECONDS)
    assert task.cancelled()
    scene.workspace.twin.clock.advance(1_000)  # for the twin, which would wait for what it has not answered


@pytest.mark.req("STREAM-15")
async def test_a_stream_that_may_have_been_opened_is_looked_for_although_others_have_begun_to_read_along(
    scene: Scene,
) -> None:
    async def script() -> Events:
        yield TextDelta(text=LINES[0], message_id="1")
        await scene.until_called("chat.startStream")
        scene.answer.grow_for_all()
        await scene.until_called("chat.stopStream")
        yield TextDelta(text=LINES[1], message_id="1")
        yield Finished()

    await scene.workspace.fault("cut_after_accept", method="chat.startStream")
    assert (await scene.show(script)).outcome == Answered()
    assert [message["text"] for message in await scene.shown()] == [*LINES[:2]]


@pytest.mark.req("STREAM-10")
async def test_who_has_lost_the_right_makes_no_further_call_and_closes_the_agent(scene: Scene) -> None:
    has_right = True

    async def may_call() -> bool:
        return has_right

    scene.make(may_call=may_call)
    go_on = asyncio.Event()

    async def script() -> Events:
        yield TextDelta(text="Hello.\n", message_id="1")
        await go_on.wait()
        yield TextDelta(text="More.\n", message_id="1")
        await asyncio.Event().wait()

    task = scene.begin(script)
    await scene.until_shown("Hello.")
    has_right = False
    go_on.set()
    with pytest.raises(AnswerLost):
        await task
    assert scene.closed.is_set()
    [message] = await scene.shown()
    assert (message["text"], message["streaming"]) == ("Hello.\n", True)


# Agents without measure


@pytest.mark.req("STREAM-05")
async def test_an_agent_is_read_no_further_than_a_bound_while_nobody_looks(scene: Scene) -> None:
    notes = Notes()
    notes.hold.clear()
    scene.make(record=notes)
    read = 0

    async def flood() -> Events:
        nonlocal read
        yield TextDelta(text="Hello.\n", message_id="1")
        while not notes.told:
            await asyncio.sleep(0)
        while read < 10_000:
            read += 1
            yield StepNamed(name="working")
        yield Finished()

    task = scene.begin(flood)
    await scene.until_called("assistant.threads.setStatus")
    for _ in range(50):
        await scene.workspace.assistant()  # others have their run, and the agent all the time it wants
    assert read <= EVENTS_AHEAD + 1
    notes.hold.set()
    await task
    assert read == 10_000


@pytest.mark.req("STREAM-05")
@pytest.mark.parametrize("is_hidden", quick([False, True]))
async def test_an_agent_that_says_thirty_megabytes_while_slack_is_slow_fills_no_memory(
    scene: Scene, *, is_hidden: bool
) -> None:
    piece = "Words without end. " * 3_500  # about 64 kB
    said_bytes = 0

    async def flood() -> Events:
        nonlocal said_bytes
        yield TextDelta(text="Hello.\n", message_id="1")
        if is_hidden:
            yield SourceChanged(sub_agent="other")
        while said_bytes < 30_000_000:
            said_bytes += len(piece)
            yield TextDelta(text=f"{said_bytes} {piece}", message_id="1")
        yield Finished()

    await scene.workspace.fault("delay", method="chat.startStream", seconds=1_000)
    tracemalloc.start()
    try:
        task = scene.begin(flood)
        await scene.until_called("chat.startStream")
        await asyncio.wait_for(scene.closed.wait(), PATIENCE_SECONDS)
        scene.workspace.twin.clock.advance(1_000)
        shown = await task
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 10_000_000
    assert scene.closed.is_set()
    if is_hidden:
        assert (shown.outcome, shown.text) == (Answered(), "Hello.\n")
    else:
        assert shown.outcome == RunFailed(reason=TOO_LONG)
        assert len(shown.text) <= MAX_ANSWER_CHARACTERS
        assert said_bytes < 30_000_000


@pytest.mark.req("SEC-09")
async def test_while_a_long_answer_is_read_others_have_their_turns(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn, sizes, turns = 0, list[int](), list[int]()

    async def others() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    def noted(before: Live, taken: Input, now: float) -> Any:
        if isinstance(taken, AgentEventReceived) and isinstance(taken.event, TextDelta):
            sizes.append(len(taken.event.text))
            turns.append(turn)
        return step(before, taken, now)

    async def long() -> Events:
        yield TextDelta(text="sk-" * 10_000, message_id="1")
        yield Finished()

    monkeypatch.setattr(live, "step", noted)
    waiting = asyncio.create_task(others())
    await scene.show(long)
    waiting.cancel()
    assert sum(sizes) == 30_000
    assert max(sizes) <= 2 * live.PIECE_CHARACTERS
    assert len(set(turns)) == len(turns)
