"""What people press reaches the door: our buttons, and Slack's own Stop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from swarm.domain.answers.calls import Closing
from swarm.domain.model.deliveries import DeliveryAccepted
from swarm.domain.model.threads import SlackEvent
from swarm.domain.requests.button_actions import (
    FEEDBACK_ACTION,
    RETRY_RUN_ACTION,
    STOP_RUN_ACTION,
    ButtonPressed,
    Feedback,
    SessionStopped,
    feedback_of,
    feedback_value,
)
from swarm.entrypoints.slack.slack_events import SlackEntryPoint, ignore_press
from swarm.slack.outgoing.gateway import Gateway
from tests.contract.slack.answers import GENERAL, RUN, begun, closing, place
from tests.contract.slack.test_door import acked
from tests.contract.slack.workspace import Workspace, delivery

BOUND_SECONDS = 20
BELOW = Closing(note="It broke off.", retry=True, feedback=True, footer=True)


class People:
    """What they pressed, as the door tells; a press of Stop can be refused."""

    def __init__(self) -> None:
        self.presses: list[ButtonPressed] = []
        self.refusals = 0
        self._stops: asyncio.Queue[SessionStopped] = asyncio.Queue()

    async def handle(self, event: SlackEvent) -> None:
        """Messages do not matter here."""

    async def press(self, press: ButtonPressed) -> str | None:
        self.presses.append(press)
        return None

    async def stopped(self, stop: SessionStopped) -> None:
        self._stops.put_nowait(stop)
        if self.refusals:
            self.refusals -= 1
            raise RuntimeError("the disk is full")

    async def next_stop(self) -> SessionStopped:
        return await asyncio.wait_for(self._stops.get(), BOUND_SECONDS)


@pytest.fixture
def people() -> People:
    return People()


@pytest.fixture
async def door(gateway: Gateway, workspace: Workspace, people: People) -> AsyncIterator[SlackEntryPoint]:
    token = workspace.app.app_token
    door = SlackEntryPoint(gateway, people.handle, people.press, stopped=people.stopped, app_token=token)
    await door.start()
    yield door
    await door.close()


@pytest.mark.req("CHAN-05", "CHAN-06")
async def test_the_buttons_below_an_answer_reach_the_door_with_its_run(
    door: SlackEntryPoint, gateway: Gateway, workspace: Workspace, people: People
) -> None:
    where = place(await workspace.say("@swarm hello"))
    ts = await begun(gateway, where)
    await gateway.streams.call(where, closing(ts, closing=BELOW))
    thumbs = [Feedback(answer_id=RUN, is_good=is_good) for is_good in (True, False)]
    await workspace.press(ts, RETRY_RUN_ACTION)
    for thumb in thumbs:
        await workspace.press(ts, FEEDBACK_ACTION, value=feedback_value(thumb))
    retry, *feedback = people.presses
    assert (retry.action_id, retry.value, retry.user_id) == (RETRY_RUN_ACTION, RUN, "U000ALICE")
    assert (retry.channel, retry.message_ts, retry.thread_ts) == (GENERAL, ts, where.thread_ts)
    assert [press.action_id for press in feedback] == [FEEDBACK_ACTION] * 2
    assert [feedback_of(press.value) for press in feedback] == thumbs
    assert len({press.key for press in people.presses}) == 3


@pytest.mark.req("STREAM-07", "STREAM-09", "STREAM-12")
async def test_a_delivery_shows_what_stands_below_an_answer_and_a_button_that_stops_its_run(
    door: SlackEntryPoint, gateway: Gateway, workspace: Workspace, people: People
) -> None:
    where = place(await workspace.say("@swarm hello"))
    wanted = delivery(thread_ts=where.thread_ts, text="Partial", closing=BELOW, place=where, stops_run_id=RUN)
    answer = await gateway.deliver(wanted)
    assert isinstance(answer, DeliveryAccepted)
    shown = (await workspace.messages(where.thread_ts))[-1]
    types = [block["type"] for block in shown["blocks"]]
    assert types == ["markdown", "actions", "markdown", "actions", "context", "context_actions"]
    await workspace.press(answer.ts or "", STOP_RUN_ACTION)
    assert [(press.action_id, press.value) for press in people.presses] == [(STOP_RUN_ACTION, RUN)]


@pytest.mark.req("STREAM-09")
async def test_slacks_own_stop_reaches_the_door_with_the_messages_that_it_stopped(
    door: SlackEntryPoint, gateway: Gateway, workspace: Workspace, people: People
) -> None:
    where = place(await workspace.say("@swarm hello"))
    ts = await begun(gateway, where)
    await workspace.stop(where.thread_ts, user="bob")
    stop = await people.next_stop()
    assert (stop.channel, stop.thread_ts, stop.user_id) == (GENERAL, where.thread_ts, "U00000BOB")
    assert stop.message_ts == (ts,)
    assert stop.key.startswith("stop:Ev")


@pytest.mark.req("STREAM-09")
async def test_a_stop_that_comes_twice_has_one_key_and_one_that_was_not_stored_comes_again(
    door: SlackEntryPoint, gateway: Gateway, workspace: Workspace, people: People
) -> None:
    where = place(await workspace.say("@swarm hello"))
    await begun(gateway, where)
    await workspace.fault("duplicate", event="agent_session_stopped")
    await workspace.stop(where.thread_ts)
    first, second = await people.next_stop(), await people.next_stop()
    assert first == second
    people.refusals = 1
    await begun(gateway, where, page=2)
    await workspace.stop(where.thread_ts)
    refused = await people.next_stop()
    workspace.twin.clock.advance(3)
    assert await people.next_stop() == refused
    assert refused.key != first.key


async def test_without_anybody_to_tell_a_stop_is_acknowledged(gateway: Gateway, workspace: Workspace) -> None:
    door = SlackEntryPoint(gateway, People().handle, ignore_press, app_token=workspace.app.app_token)
    await door.start()
    where = place(await workspace.say("hello"))
    await begun(gateway, where)
    await workspace.stop(where.thread_ts)
    await acked(workspace, 2)
    await door.close()
