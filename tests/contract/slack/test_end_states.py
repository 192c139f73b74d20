"""How a message shows that it was answered, failed, was stopped or is worked on again: what people see in the twin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, cast

import pytest

from swarm.clock import ManualClock
from swarm.domain.answers.events import Broken, Finished, TextDelta, ToolEnded, ToolStarted
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.leases import MAX_MESSAGE_ATTEMPTS, FinishOutcome
from swarm.domain.model.threads import SlackMessage
from swarm.domain.requests.button_actions import RETRY_RUN_ACTION, ButtonPressed, PressResult
from swarm.services.outbox.deliver import OutboxSender
from swarm.services.runs.run_control import NO_RETRY_TEXT, RETRIED_TEXT
from swarm.slack.outgoing.gateway import Gateway
from swarm.store.bridge.database import Database
from tests.contract.slack.workspace import Workspace
from tests.support.live import FakeLive, Gate, Script, Scripted, ends, hired, playing
from tests.support.tasks import hand
from tests.support.waiting import PATIENCE_SECONDS
from tests.support.world import BOT, ME, World, holding, said

pytestmark = pytest.mark.req("LOOP-14", "CHAN-06")

GENERAL = "C0GENERAL"
FAILS = ends(
    ToolStarted(id="1", name="search"),
    ToolEnded(id="1"),
    TextDelta(text="I begin.\n", message_id="1"),
    Broken(reason="it broke"),
)
GOES_WELL = ends(TextDelta(text="It went well.", message_id="1"), Finished())
STORED, ANSWERED, FAILED, STOPPED = "eyes", "white_check_mark", "x", "octagonal_sign"


@dataclass
class Scene:
    """A coordinator's use cases over the twin."""

    workspace: Workspace
    world: World

    async def asks(self, text: str = f"{BOT} hello", thread: SlackMessage | None = None) -> SlackMessage:
        thread_ts = thread.root_ts if thread else None
        ts = await self.workspace.say(text, **({"thread_ts": thread_ts} if thread_ts else {}))
        return await self.world.hears(said(text, channel=GENERAL, ts=ts, thread_ts=thread_ts))

    async def marks(self, message: SlackMessage) -> list[str]:
        """The reactions of a message, when everything has left that is to leave."""
        await self.world.send()
        (root, *_) = await self.workspace.messages(message.root_ts)
        return [reaction["name"] for reaction in root.get("reactions", [])]

    async def answers(self, root: SlackMessage) -> list[dict[str, Any]]:
        await self.world.send()
        return (await self.workspace.messages(root.root_ts))[1:]

    async def buttons(self, root: SlackMessage) -> list[tuple[str, str]]:
        """The Retry buttons in a thread: the message, and the button's value."""
        return [
            (message["ts"], element["value"])
            for message in await self.answers(root)
            for block in message["blocks"]
            for element in block.get("elements", [])
            if element.get("action_id") == RETRY_RUN_ACTION
        ]

    async def presses(self, button: tuple[str, str], by: str = "U1") -> PressResult:
        ts, run_id = button
        press = ButtonPressed(
            key=f"press:{ts}:{by}",
            action_id=RETRY_RUN_ACTION,
            value=run_id,
            user_id=by,
            channel=GENERAL,
            message_ts=ts,
            thread_ts=None,
        )
        return await World(self.world.database, self.world.clock).buttons.press(press)  # of any process


@pytest.fixture
async def scene(workspace: Workspace, gateway: Gateway, sqlite_url: str) -> AsyncIterator[Scene]:
    clock = ManualClock()
    async with Database(sqlite_url, clock=clock) as database:
        world = World(database, clock)
        world.sender = OutboxSender(database, gateway, ME.team, http_timeout_seconds=10.0)
        yield Scene(workspace, world)


def lines_of(message: dict[str, Any]) -> list[str]:
    """What stands in the small print of a message."""
    return [
        element["text"] for block in message["blocks"] if block["type"] == "context" for element in block["elements"]
    ]


async def test_a_retry_takes_the_old_mark_and_the_button_away_and_only_the_new_end_stands(
    scene: Scene, gateway: Gateway
) -> None:
    ada = Scripted(GOES_WELL)
    ada.scripts.extend([FAILS, FAILS])
    async with playing(scene.world, hired("ada", ada), live=cast("FakeLive", gateway.streams)) as show:
        root = await scene.asks()
        await show.over(root)
        assert await scene.marks(root) == [STORED, FAILED]
        (first,) = await scene.buttons(root)

        assert [await scene.presses(first, by=person) for person in ("U1", "U2")] == [None, RETRIED_TEXT]
        await show.over(root, 2)
        assert await scene.marks(root) == [STORED, FAILED], "the same mark again"
        (second,) = await scene.buttons(root)
        assert second[0] != first[0]
        (before, _) = await scene.answers(root)
        assert lines_of(before) == ["🔁 Run again for <@U1>."]
        assert [block["type"] for block in before["blocks"]] == ["plan", "markdown", "markdown", "context"]
        assert before["text"] == "I begin.\n"

        await scene.presses(second)
        await show.over(root, 3)
        assert await scene.marks(root) == [STORED, ANSWERED]
        assert await scene.buttons(root) == []


@pytest.mark.parametrize("failing", [FAILS, ends(Broken(reason="it broke"))], ids=["streamed", "posted"])
async def test_what_an_operator_hands_out_again_has_neither_mark_nor_button(
    scene: Scene, gateway: Gateway, failing: Script
) -> None:
    ada, gate = Scripted(), Gate(before="")
    ada.scripts.extend([failing, gate])
    async with playing(scene.world, hired("ada", ada), live=cast("FakeLive", gateway.streams)) as show:
        root = await scene.asks()
        await show.over(root)
        assert (await scene.marks(root), len(await scene.buttons(root))) == ([STORED, FAILED], 1)
        await scene.world.services.inbox.redrive((await scene.world.inbox_message(root)).id)
        assert (await scene.marks(root), await scene.buttons(root)) == ([STORED], [])
        assert lines_of((await scene.answers(root))[0]) == ["🔁 An operator is running this again."]
        gate.opened.set()
        await show.over(root, 2)
        assert await scene.marks(root) == [STORED, ANSWERED]


async def test_a_button_of_work_that_cannot_be_done_any_more_goes_when_it_is_pressed(
    scene: Scene, gateway: Gateway
) -> None:
    async with playing(scene.world, hired("ada", Scripted(FAILS)), live=cast("FakeLive", gateway.streams)) as show:
        root = await scene.asks()
        await show.over(root)
        (button,) = await scene.buttons(root)
        await scene.world.change("UPDATE inbox_messages SET status = 'withdrawn'")
        assert await scene.presses(button) == NO_RETRY_TEXT
        assert await scene.buttons(root) == []


async def test_a_stopped_message_says_so(scene: Scene, gateway: Gateway) -> None:
    gate = Gate()
    async with playing(scene.world, hired("ada", Scripted(gate)), live=cast("FakeLive", gateway.streams)) as show:
        root = await scene.asks()
        await asyncio.wait_for(gate.arrived.wait(), PATIENCE_SECONDS)
        await scene.asks("!stop", thread=root)
        await show.over(root)
        assert await scene.marks(root) == [STORED, STOPPED]


@pytest.mark.req("LOOP-13", "LOOP-14")
async def test_a_stop_shows_on_each_message_that_waits_and_is_told_once(scene: Scene) -> None:
    lead = await scene.world.lead()
    root = await scene.asks()
    await scene.world.only(lead)
    waiting = await scene.asks("and this", thread=root)
    stop = await scene.asks("!stop", thread=root)
    answers = await scene.answers(root)
    found = {one["ts"]: [mark["name"] for mark in one.get("reactions", [])] for one in answers}
    assert await scene.marks(root) == [STORED, STOPPED]
    assert (found.pop(waiting.ts), found.pop(stop.ts)) == ([STORED, STOPPED], [ANSWERED])
    assert [one["text"] for one in answers if one["ts"] in found] == ["🛑 Stopped by @U1."]
    assert await scene.world.poll(lead) == []


async def test_a_message_whose_task_is_cancelled_shows_it_and_the_thread_reads_a_sentence(scene: Scene) -> None:
    world = scene.world
    lead, worker = await world.lead(), await world.worker()
    root = await scene.asks()
    trigger = await world.only(lead, hold=True)
    task_id = await hand(world, lead, trigger, worker)
    await world.services.tasks.cancel(holding(trigger, lead), task_id, "Alice asked for it")
    assert await scene.marks(root) == [STORED, STOPPED]
    assert [message["text"] for message in await scene.answers(root)] == [
        "The task “Count.” was cancelled by lead: Alice asked for it."
    ]


async def test_a_message_whose_answer_is_lost_shows_no_check_mark(scene: Scene) -> None:
    lead = await scene.world.lead()
    root = await scene.asks()
    await scene.world.answers(lead, await scene.world.only(lead), "hello")
    await scene.workspace.fault("error", method="chat.postMessage", error="msg_too_long")
    assert await scene.marks(root) == [STORED, FAILED]


async def test_a_mark_of_another_agent_stays(scene: Scene) -> None:
    world = scene.world
    agents = [await world.lead(), await world.lead("second")]
    root = await scene.asks("swarm#all hello")
    await world.answers(agents[0], await world.only(agents[0]), "done")
    assert await scene.marks(root) == [STORED, ANSWERED]
    for _ in range(MAX_MESSAGE_ATTEMPTS):
        trigger = await world.only(agents[1])
        await world.services.work.finish(agents[1], [trigger.lease_token], FinishOutcome.FAILED, "it broke")
        await world.later(60)
        await world.is_here(agents[1])
    assert await scene.marks(root) == [STORED, ANSWERED, FAILED]
    (dead,) = [entry for entry in await world.inbox_messages(root) if entry.status is InboxStatus.DEAD]
    await world.services.inbox.redrive(dead.id)
    assert await scene.marks(root) == [STORED, ANSWERED]
