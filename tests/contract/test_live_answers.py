"""Answers that are shown while they are given, against the twin: what people see, whatever Slack or the agent does."""

from __future__ import annotations

import asyncio
import itertools
import tracemalloc
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import Any

import aiohttp
import pytest

from swarm.agents.agui import AguiAgent
from swarm.domain.streaming.calls import Closing, Place
from swarm.domain.streaming.events import (
    AgentEvent,
    Asked,
    Broken,
    Finished,
    Interrupted,
    SourceChanged,
    StepNamed,
    TextDelta,
    TextEnded,
    ToolEnded,
    ToolStarted,
)
from swarm.domain.streaming.hearing import MAX_ANSWER_CHARACTERS, TOO_LONG
from swarm.domain.streaming.outcomes import Answered, Asks, Outcome, RunFailed, RunStopped
from swarm.domain.streaming.pages import Mode
from swarm.domain.streaming.reducer import Pace
from swarm.domain.streaming.remote import RemoteAgent
from swarm.domain.streaming.showing import Last, LostRight, Shown
from swarm.slack.gateway import Gateway
from swarm.slack.live import EVENTS_AHEAD, LiveAnswer
from swarm.slack.pacing import Pacing
from swarm.twin.server import running
from swarm.twin.twin import build_twin
from tests.agents.asking import turn
from tests.contract.slack.answers import place
from tests.contract.slack.workspace import Workspace
from tests.support.agui_server import STALL, STARTED, agui_server, said

PATIENCE_SECONDS = 20.0
FAST = Pace(append=0.03, line=0.01, update=0.03, line_update=0.01)

Events = AsyncGenerator[AgentEvent, None]
Script = Callable[[], Events]


@pytest.fixture
async def workspace() -> AsyncIterator[Workspace]:
    async with running(twin := build_twin(rates=False)) as url, aiohttp.ClientSession() as http:
        yield Workspace(twin, url, http)


@pytest.fixture
async def gateway(workspace: Workspace) -> AsyncIterator[Gateway]:
    gateway = workspace.gateway()
    yield gateway
    await gateway.close()


@pytest.fixture
async def where(workspace: Workspace) -> Place:
    return place(await workspace.say("@swarm hello"))


class Scene:
    """One answer in #general, and what people see of it."""

    def __init__(self, workspace: Workspace, gateway: Gateway, where: Place) -> None:
        self.workspace = workspace
        self.gateway = gateway
        self.where = where
        self.closed = asyncio.Event()  # the agent's generator came to its end
        self.answer = self.make()

    def make(self, where: Place | None = None, **more: Any) -> LiveAnswer:
        settings: dict[str, Any] = {"pace": FAST, "doubt_seconds": 0.05, **more}
        self.answer = LiveAnswer(where or self.where, self.gateway.streams, **settings)
        return self.answer

    async def show(self, script: Script) -> Shown:
        """Show a run to its end."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.answer.show(self.events(script))

    def begin(self, script: Script) -> asyncio.Task[Shown]:
        return asyncio.create_task(self.show(script))

    async def events(self, script: Script) -> Events:
        """What the script yields; says when it is closed."""
        try:
            async for event in script():
                yield event
        finally:
            self.closed.set()

    async def shown(self) -> list[dict[str, Any]]:
        """The answer's messages."""
        return (await self.workspace.messages(self.where.thread_ts))[1:]

    async def text(self) -> str:
        return "".join(str(message["text"]) for message in await self.shown())

    async def until(self, is_so: Callable[[], Awaitable[bool]]) -> None:
        """Look after every change of the workspace."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await is_so():
                await asyncio.sleep(0.01)

    async def until_shown(self, piece: str) -> None:
        async def is_shown() -> bool:
            return piece in await self.text()

        await self.until(is_shown)

    async def until_called(self, method: str, count: int = 1) -> None:
        async def are_called() -> bool:
            return len(await self.workspace.calls(method)) >= count

        await self.until(are_called)

    async def methods(self) -> list[str]:
        """The calls that were made, but for those that look or set a status."""
        return [call["method"] for call in await self.workspace.all_calls() if call["method"].startswith("chat.")]


@pytest.fixture
def scene(workspace: Workspace, gateway: Gateway, where: Place) -> Scene:
    return Scene(workspace, gateway, where)


def saying(*deltas: str, end: AgentEvent | None = None) -> Script:
    """An agent that says this at once."""

    async def script() -> Events:
        for delta in deltas:
            yield TextDelta(text=delta, message_id="1")
        yield end or Finished()

    return script


def typing(scene: Scene, *lines: str, end: AgentEvent | None = None) -> Script:
    """An agent that goes on only when people see what it has said."""

    async def script() -> Events:
        for line in lines:
            yield TextDelta(text=line, message_id="1")
            await scene.until_shown(line.strip())
        yield end or Finished()

    return script


LINES = tuple(f"This is line {number}.\n" for number in range(1, 7))


def blocks_of(messages: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [block for message in messages for block in message["blocks"] if block["type"] == kind]


# While it is given


@pytest.mark.req("STREAM-03", "STREAM-04", "STREAM-12")
async def test_people_see_each_line_before_the_agent_says_the_next(scene: Scene) -> None:
    shown = await scene.show(typing(scene, *LINES))
    assert (shown.outcome, shown.text, shown.leftover, shown.closing) == (Answered(), "".join(LINES), "", Closing())
    [message] = await scene.shown()
    assert (message["text"], message["streaming"]) == ("".join(LINES), False)
    assert [block["type"] for block in message["blocks"]] == ["markdown", "context", "context_actions"]
    methods = await scene.methods()
    assert (methods[0], methods[-1]) == ("chat.startStream", "chat.stopStream")
    assert methods.count("chat.appendStream") >= len(LINES) - 1


@pytest.mark.req("STREAM-05")
async def test_what_waits_for_slack_goes_out_together(scene: Scene) -> None:
    said_all = asyncio.Event()

    async def script() -> Events:
        yield TextDelta(text="first\n", message_id="1")
        await scene.until_called("chat.startStream")
        for number in range(500):
            yield TextDelta(text=f"word{number} ", message_id="1")
        yield TextDelta(text="\n", message_id="1")
        said_all.set()
        yield Finished()

    await scene.workspace.fault("delay", method="chat.startStream", seconds=1_000)
    task = scene.begin(script)
    await asyncio.wait_for(said_all.wait(), PATIENCE_SECONDS)
    scene.workspace.twin.clock.advance(1_000)
    await task
    assert await scene.text() == "first\n" + "".join(f"word{number} " for number in range(500)) + "\n"
    assert len(await scene.methods()) <= 4


@pytest.mark.req("STREAM-03", "STREAM-09")
async def test_tools_are_shown_as_cards_and_the_status_line_comes_and_goes(scene: Scene) -> None:
    async def script() -> Events:
        await scene.until_called("assistant.threads.setStatus")
        yield ToolStarted(id="1", name="search")
        await scene.until_called("chat.startStream")
        yield ToolEnded(id="1")
        yield TextDelta(text="Found it.", message_id="1")
        yield Finished()

    await scene.show(script)
    [plan] = blocks_of(await scene.shown(), "plan")
    assert [(task["title"], task["status"]) for task in plan["tasks"]] == [("search", "complete")]
    statuses = [call["args"]["status"] for call in await scene.workspace.calls("assistant.threads.setStatus")]
    assert (statuses[0], statuses[-1]) == ("is thinking…", "")
    assert (await scene.workspace.assistant())["statuses"] == []


@pytest.mark.req("STREAM-09")
@pytest.mark.parametrize("end", [Broken(reason="it hung up"), Finished()])
async def test_the_status_is_cleared_however_the_run_ends(scene: Scene, end: AgentEvent) -> None:
    await scene.show(saying(end=end))
    assert (await scene.workspace.assistant())["statuses"] == []
    assert (await scene.workspace.calls("assistant.threads.setStatus"))[-1]["args"]["status"] == ""


@pytest.mark.req("STREAM-04")
async def test_a_final_result_is_shown_if_no_delta_came_and_not_again_if_they_said_it(scene: Scene) -> None:
    await scene.show(saying(end=Finished(result="Only at the end.")))
    assert await scene.text() == "Only at the end."
    scene.make()
    await scene.show(saying("Said ", "before.", end=Finished(result="Said before.")))
    assert await scene.text() == "Only at the end.Said before."


@pytest.mark.req("STREAM-06")
async def test_a_long_answer_goes_on_in_further_messages_with_its_code_in_blocks(scene: Scene) -> None:
    code = "".join(f"line_{number} = {number}\n" for number in range(900))
    paragraph = "A paragraph of some words that says little. " * 12
    prose = f"{paragraph}\n\n" * 20
    shown = await scene.show(saying(prose, f"```python\n{code}```\n", "The end.", end=Finished()))
    assert isinstance(shown.outcome, Answered)
    messages = await scene.shown()
    assert len(messages) >= 3
    assert all(len(message["text"].encode()) < 10_000 for message in messages)
    assert all(message["text"].count("```") % 2 == 0 for message in messages)
    seen = "".join(message["text"] for message in messages)
    assert [line for line in seen.splitlines() if line.startswith("line_")] == code.splitlines()
    assert seen.count(paragraph.strip()) == 20
    assert len(blocks_of(messages, "context_actions")) == 1
    assert not any(message["streaming"] for message in messages)


@pytest.mark.req("STREAM-06")
async def test_before_slack_ends_a_stream_for_its_age_the_answer_goes_on_in_another(scene: Scene) -> None:
    ahead = 0.0
    answer = scene.make(clock=lambda: asyncio.get_running_loop().time() + ahead)
    assert answer is scene.answer

    async def script() -> Events:
        nonlocal ahead
        yield TextDelta(text="Early words.\n", message_id="1")
        await scene.until_shown("Early words.")
        ahead = 270.0
        scene.workspace.twin.clock.advance(270)
        yield TextDelta(text="Late words.\n", message_id="1")
        await scene.until_shown("Late words.")
        yield Finished()

    await scene.show(script)
    assert [message["text"] for message in await scene.shown()] == ["Early words.\n", "Late words.\n"]
    assert await scene.workspace.calls("chat.update") == []


@pytest.mark.req("STREAM-08")
async def test_where_slack_takes_no_streams_a_post_is_updated(scene: Scene) -> None:
    scene.make(place(scene.where.thread_ts, requester=None))  # a bot in a channel
    await scene.show(typing(scene, *LINES))
    [message] = await scene.shown()
    assert message["text"].strip() == "".join(LINES).strip()
    methods = await scene.methods()
    assert methods[:2] == ["chat.startStream", "chat.postMessage"]
    assert set(methods[2:]) == {"chat.update"}
    assert len(methods) >= 4


# Whatever Slack answers

FAULTS: list[dict[str, Any]] = [
    {"kind": "http_429", "seconds": 1},
    {"kind": "http_500"},
    {"kind": "cut_after_accept"},
    {"kind": "error", "error": "msg_too_long"},
]
STREAM_METHODS = ["chat.startStream", "chat.appendStream", "chat.stopStream"]


@pytest.mark.req("STREAM-04", "STREAM-05")
@pytest.mark.parametrize("times", [1, 3])
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
async def test_a_pause_that_ends_between_two_looks_is_not_slept_through(workspace: Workspace, where: Place) -> None:
    ticks = itertools.count()

    async def no_sleep(seconds: float) -> None: ...

    gateway = workspace.gateway(pacing=Pacing(enforced=False, monotonic=lambda: float(next(ticks)), sleep=no_sleep))
    scene = Scene(workspace, gateway, where)
    scene.make(clock=lambda: next(ticks) * 0.3)  # however often it looks, time has passed since
    await workspace.fault("http_429", method="chat.appendStream", seconds=1)
    assert (await scene.show(typing(scene, *LINES))).outcome == Answered()
    await gateway.close()


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


# Stop


def endless(*deltas: str) -> Script:
    """An agent that says something, and then works on without a word."""

    async def script() -> Events:
        for delta in deltas:
            yield TextDelta(text=delta, message_id="1")
        await asyncio.Event().wait()

    return script


@pytest.mark.req("STREAM-09")
async def test_a_stop_keeps_what_was_said_and_tells_who_stopped_it(scene: Scene) -> None:
    task = scene.begin(endless("Some words.\n"))
    await scene.until_shown("Some words.")
    scene.answer.stop("U00000BOB")
    await asyncio.wait_for(scene.closed.wait(), PATIENCE_SECONDS)
    shown = await task
    assert shown.outcome == RunStopped(by="U00000BOB")
    [message] = await scene.shown()
    assert [block["text"] for block in message["blocks"] if block["type"] == "markdown"] == [
        "Some words.\n",
        "🛑 Stopped by <@U00000BOB>.",
    ]
    assert not message["streaming"]


@pytest.mark.req("STREAM-09")
async def test_slacks_own_stop_ends_the_run_with_the_next_call(scene: Scene) -> None:
    go_on = asyncio.Event()

    async def script() -> Events:
        yield TextDelta(text="Some words.\n", message_id="1")
        await go_on.wait()
        yield TextDelta(text="More.\n", message_id="1")
        await asyncio.Event().wait()

    task = scene.begin(script)
    await scene.until_shown("Some words.")
    await scene.workspace.stop(scene.where.thread_ts)
    go_on.set()
    shown = await task
    assert shown.outcome == RunStopped(by=None)
    assert scene.closed.is_set()
    assert await scene.text() == "Some words.\n"
    [message] = await scene.shown()
    assert "🛑 Stopped." in [block.get("text") for block in message["blocks"]]


@pytest.mark.req("STREAM-09")
async def test_a_message_that_somebody_deletes_while_it_grows_stops_the_run(scene: Scene) -> None:
    go_on = asyncio.Event()

    async def script() -> Events:
        yield TextDelta(text="Some words.\n", message_id="1")
        await go_on.wait()
        yield TextDelta(text="More.\n", message_id="1")
        await asyncio.Event().wait()

    task = scene.begin(script)
    await scene.until_shown("Some words.")
    [message] = await scene.shown()
    inside = scene.workspace.twin.workspace
    channel = inside.directory.channels[scene.where.channel]
    inside.delete(channel, inside.message(channel, message["ts"]))
    go_on.set()
    shown = await task
    assert isinstance(shown.outcome, RunStopped)
    assert scene.closed.is_set()
    assert "More." not in await scene.text()


@pytest.mark.req("STREAM-09")
async def test_a_stop_closes_the_connection_to_a_remote_agent(scene: Scene) -> None:
    async with agui_server() as server:
        server.on("/", STARTED, *said("Some words.\n"), STALL)
        agent = AguiAgent(RemoteAgent(name="remote", url=f"{server.url}/"))
        task = asyncio.create_task(scene.answer.show(agent.run(turn())))
        await scene.until_shown("Some words.")
        scene.answer.stop("U000ALICE")
        await asyncio.wait_for(server.requests[0].left.wait(), PATIENCE_SECONDS)
        assert (await task).outcome == RunStopped(by="U000ALICE")
        await agent.aclose()


@pytest.mark.req("STREAM-09")
async def test_a_stop_before_the_first_word_is_told_too(scene: Scene) -> None:
    task = scene.begin(endless())
    await scene.until_called("assistant.threads.setStatus")
    scene.answer.stop("U000ALICE")
    shown = await task
    assert shown.outcome == RunStopped(by="U000ALICE")
    assert shown.closing.note == "🛑 Stopped by <@U000ALICE>."
    assert (await scene.workspace.assistant())["statuses"] == []


# However the run ends


@pytest.mark.req("STREAM-07")
async def test_an_agent_that_breaks_off_leaves_what_it_said_with_a_note_and_a_retry(scene: Scene) -> None:
    shown = await scene.show(saying("Half of it", end=Broken(reason="it hung up")))
    assert shown.outcome == RunFailed(reason="it hung up")
    [message] = await scene.shown()
    assert message["text"] == "Half of it"
    assert [block["type"] for block in message["blocks"]] == ["markdown", "markdown", "actions"]
    assert message["blocks"][1]["text"] == "⚠️ This answer is not complete: it hung up."


@pytest.mark.req("STREAM-07")
async def test_an_agent_that_fails_inside_or_ends_without_a_word_is_no_success(scene: Scene) -> None:
    async def crashing() -> Events:
        yield TextDelta(text="Half of it", message_id="1")
        raise ValueError("a secret detail")

    shown = await scene.show(crashing)
    assert isinstance(shown.outcome, RunFailed)
    assert "secret" not in shown.outcome.reason

    async def ending() -> Events:
        yield TextEnded(message_id="1")

    scene.make()
    outcome = (await scene.show(ending)).outcome
    assert outcome == RunFailed(reason="it stopped in the middle of its answer")


async def test_questions_close_the_message_and_stand_below_it(scene: Scene) -> None:
    asked = (Asked(id="1", prompt="Which one?"),)
    shown = await scene.show(saying("I can do two things.", end=Interrupted(asked=asked)))
    assert shown.outcome == Asks(asked=asked)
    [message] = await scene.shown()
    assert message["blocks"][1]["text"] == "✋ Which one?"


# Cut off from outside


class Notes:
    """What a record was told, in order; ``hold`` keeps it from taking the next beginning."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.hold = asyncio.Event()
        self.hold.set()

    async def beginning(self, page: int, *, is_post: bool) -> None:
        self.told.append(f"beginning {page}")
        await self.hold.wait()

    async def began(self, page: int, ts: str) -> None:
        self.told.append(f"began {page} {ts}")

    async def ending(self, call: Last, outcome: Outcome) -> None:
        self.told.append("ending")

    async def ended(self, page: int, text: str) -> None:
        self.told.append(f"ended {page} {text}")


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
    monkeypatch.setattr("swarm.slack.live.LANDING_SECONDS", 1_000.0)
    await scene.workspace.fault("cut_after_accept", method="chat.startStream")
    await scene.workspace.fault("delay", method="conversations.replies", seconds=1_000, times=100)
    task = scene.begin(endless("Hello.\n"))
    await scene.until_called("conversations.replies")
    task.cancel()
    await asyncio.wait([task], timeout=PATIENCE_SECONDS)
    assert task.cancelled()


@pytest.mark.req("STREAM-10")
async def test_who_has_lost_the_right_makes_no_further_call_and_closes_the_agent(scene: Scene) -> None:
    has_right = True
    scene.make(may_call=lambda: has_right)
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
    with pytest.raises(LostRight):
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
        for read in range(1, 10_000):
            yield StepNamed(name="working")
        yield Finished()

    task = scene.begin(flood)
    await scene.until_called("assistant.threads.setStatus")
    for _ in range(50):
        await scene.workspace.assistant()  # others have their turn, and the agent all the time it wants
    assert read <= EVENTS_AHEAD + 1
    notes.hold.set()
    await task
    assert read == 9_999


@pytest.mark.req("STREAM-05")
@pytest.mark.parametrize("is_hidden", [False, True])
async def test_an_agent_that_says_a_hundred_megabytes_while_slack_is_slow_fills_no_memory(
    scene: Scene, *, is_hidden: bool
) -> None:
    piece = "Words without end. " * 3_500  # about 64 kB
    said_bytes = 0

    async def flood() -> Events:
        nonlocal said_bytes
        yield TextDelta(text="Hello.\n", message_id="1")
        if is_hidden:
            yield SourceChanged(sub_agent="other")
        while said_bytes < 100_000_000:
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
        assert said_bytes < 100_000_000


async def test_posts_hold_what_streams_would(scene: Scene) -> None:
    scene.make(mode=Mode.POST)
    await scene.show(saying(*(f"Paragraph {number}. {'Words. ' * 60}\n\n" for number in range(20))))
    messages = await scene.shown()
    assert len(messages) >= 2
    text = await scene.text()
    assert [number for number in range(20) if text.count(f"Paragraph {number}.") != 1] == []
    assert len(blocks_of(messages, "context_actions")) == 1
