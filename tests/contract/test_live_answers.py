"""Answers that are shown while they are given, against the twin: what people see, and how an answer ends."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from structlog.testing import capture_logs

from swarm.agents.remote.agui import AguiAgent
from swarm.domain.answers.agents import RemoteAgent
from swarm.domain.answers.calls import Closing
from swarm.domain.answers.events import (
    Answered,
    Asked,
    Broken,
    Finished,
    Interrupted,
    NeedsInput,
    RunFailed,
    RunStopped,
    TextDelta,
    TextEnded,
    ToolEnded,
    ToolStarted,
    Warned,
)
from swarm.domain.answers.state import PageMode
from swarm.domain.model.deliveries import DeliveryAccepted
from tests.agents.asking import run_input
from tests.contract.live_scene import (
    LINES,
    PATIENCE_SECONDS,
    Events,
    Scene,
    blocks_of,
    endless,
    live_scene,
    saying,
    typing,
)
from tests.contract.slack.answers import place
from tests.contract.slack.workspace import delivery
from tests.support.agui_server import STALL, STARTED, agui_server, said


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    async with live_scene() as scene:
        yield scene


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


@pytest.mark.req("STREAM-03")
async def test_a_warning_is_logged_and_shown_to_nobody(scene: Scene) -> None:
    async def script() -> Events:
        yield TextDelta(text="Found it.", message_id="1")
        yield Warned(message="the index is old")
        yield Finished()

    with capture_logs() as logs:
        await scene.show(script)
    assert [line["warning"] for line in logs if line.get("action") == "agent_warning"] == ["the index is old"]
    assert await scene.text() == "Found it."
    assert "the index is old" not in str(await scene.workspace.all_calls())


@pytest.mark.req("HITL-12")
@pytest.mark.parametrize("has_streams", [True, False])
async def test_what_comes_after_a_card_begins_below_it(scene: Scene, has_streams: bool) -> None:
    """Also where messages grow by edits."""
    mode = PageMode.STREAM if has_streams else PageMode.POST
    scene.make(mode=mode)
    is_posted = asyncio.Event()

    async def script() -> Events:
        yield ToolStarted(id="1", name="edit")
        yield TextDelta(text="I have found the fault.", message_id="1")
        await is_posted.wait()
        yield ToolEnded(id="1")
        yield TextDelta(text="\n\nI have corrected it.", message_id="1")
        yield Finished()

    task = scene.begin(script)
    await scene.until_shown("found the fault")
    await scene.answer.seal()
    card = delivery(text="May I edit?", thread_ts=scene.where.thread_ts)
    assert isinstance(await scene.gateway.deliver(card), DeliveryAccepted)
    scene.answer.go_on()
    is_posted.set()
    await task
    above, between, below = await scene.shown()
    assert [message["text"] for message in (above, between, below)] == [
        "I have found the fault.", "May I edit?", "I have corrected it.",
    ]  # fmt: skip
    kinds = [[block["type"] for block in message["blocks"]] for message in (above, below)]
    assert [("context" in kind, "context_actions" in kind) for kind in kinds] == [(False, False), (True, True)]
    steps = [
        [(task["title"], task["status"]) for plan in blocks_of([message], "plan") for task in plan["tasks"]]
        for message in (above, below)
    ]
    assert steps == [[("edit", "pending")], [("edit", "complete")]]


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


async def test_posts_hold_what_streams_would(scene: Scene) -> None:
    scene.make(mode=PageMode.POST)
    await scene.show(saying(*(f"Paragraph {number}. {'Words. ' * 60}\n\n" for number in range(20))))
    messages = await scene.shown()
    assert len(messages) >= 2
    text = await scene.text()
    assert [number for number in range(20) if text.count(f"Paragraph {number}.") != 1] == []
    assert len(blocks_of(messages, "context_actions")) == 1


# Stop


@pytest.mark.req("STREAM-09")
async def test_a_stop_closes_the_agent_at_once_keeps_what_was_said_and_tells_who_stopped_it(scene: Scene) -> None:
    await scene.workspace.fault("delay", method="chat.stopStream", seconds=1_000)
    task = scene.begin(endless("Some words.\n"))
    await scene.until_shown("Some words.")
    scene.answer.stop("U00000BOB")
    await asyncio.wait_for(scene.closed.wait(), PATIENCE_SECONDS)
    await scene.until_called("chat.stopStream")
    assert not task.done()
    scene.workspace.twin.clock.advance(1_000)
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
        task = asyncio.create_task(scene.answer.show(agent.run(run_input())))
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


async def test_a_question_closes_the_message_and_has_a_card_of_its_own(scene: Scene) -> None:
    asked = (Asked(id="1", prompt="Which one?"),)
    shown = await scene.show(saying("I can do two things.", end=Interrupted(asked=asked)))
    assert shown.outcome == NeedsInput(asked=asked)
    [message] = await scene.shown()
    assert [block["type"] for block in message["blocks"]] == ["markdown"]  # the answer ends below the card


# What an agent must not show


@pytest.mark.req("SEC-04")
async def test_a_secret_and_a_link_that_deceives_are_no_less_so_in_pieces(scene: Scene) -> None:
    text = (
        "The key is sk-proj-4f9aQ2mX7bL0cV3nZ8kR, and\n-----BEGIN PRIVATE KEY-----\n"
        "MIIEpAIBAAKCAQEA7cV3nZ8kR4f9aQ2mX7bL0wJalrXUtnFEMIK7MDENGbPxRf9A\n-----END PRIVATE KEY-----\n"
        "Log in at [bank.example](https://evil.example)\u202e \U000e0041now.\n"
    )

    async def script() -> Events:
        for at in range(0, len(text), 5):
            yield TextDelta(text=text[at : at + 5], message_id="1")
            await asyncio.sleep(0)
        yield Finished()

    with capture_logs() as logged:
        shown = await scene.show(script)
    seen = await scene.text()
    assert seen == (
        "The key is sk-[secret removed], and\n-----BEGIN PRIVATE KEY-----\n[secret removed]\n"
        "Log in at bank.example (https://evil.example) now.\n"
    )
    assert shown.text.replace("[bank.example](https://evil.example)", "bank.example (https://evil.example)") == seen
    (line,) = [line for line in logged if line["action"] == "secret_removed"]
    assert "4f9a" not in repr(line)
