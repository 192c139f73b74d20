"""What a network and Slack do to events and calls: repeat, reorder, cut, refuse, overtake. One message, one answer."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.crash.scene import Scene
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.xdist_group("processes")]  # what they share is built once

BOTH_EVENTS = ("app_mention", "message")
"""A mention in a channel is told twice."""


@pytest.mark.req("LOOP-01")
async def test_events_that_come_twice_and_in_another_order_make_one_message_each(scene: Scene) -> None:
    for event in BOTH_EVENTS:
        await scene.twin.fault("reorder", event=event)
        await scene.twin.fault("duplicate", event=event, times=2)
    asked = [await scene.twin.say(f"@swarm question {n}") for n in range(3)]
    triggers = await _next_triggers(scene, len(asked))
    await asyncio.gather(*(scene.reply(trigger, f"answer to {_ts_of(trigger)}") for trigger in triggers))
    for ts in asked:
        await scene.answered_once(ts, f"answer to {ts}")
        told = await scene.twin.told(ts)
        assert min(told[event] for event in BOTH_EVENTS) >= 1


@pytest.mark.req("LOOP-01")
async def test_a_lost_ack_brings_the_event_again_and_changes_nothing(scene: Scene) -> None:
    for event in BOTH_EVENTS:
        await scene.twin.fault("drop_ack", event=event)
    ts = await scene.twin.say("@swarm hello")
    trigger = await scene.trigger(ts)
    await scene.reply(trigger, "first time")
    await scene.twin.advance(3)  # the time for the ack is over
    await scene.twin.until_told(ts, *BOTH_EVENTS)
    await scene.answered_once(ts, "first time")


@pytest.mark.req("LOOP-01")
@pytest.mark.parametrize("farewell", [None, "refresh_requested"])
async def test_a_socket_that_closes_in_the_middle_of_traffic_loses_nothing(scene: Scene, farewell: str | None) -> None:
    connections = await _connections(scene)
    asked = [await scene.twin.say("@swarm question 0")]
    await scene.twin.fault("close_socket", event="message", error=farewell)  # in the event's place
    asked += [await scene.twin.say(f"@swarm question {n}") for n in (1, 2)]
    await wait_until(lambda: _connections(scene), lambda count: count > connections, what="it asks for a connection")
    await scene.stage.until_ready()
    await scene.twin.redeliver()
    for trigger in await _next_triggers(scene, len(asked)):
        await scene.reply(trigger, f"answer to {_ts_of(trigger)}")
    for ts in asked:
        await scene.answered_once(ts, f"answer to {ts}")


@pytest.mark.req("LOOP-02", "LOOP-03")
async def test_a_mention_in_an_old_long_thread_brings_all_of_it(scene: Scene) -> None:
    since = await scene.twin.now()
    root = await scene.twin.say("root of a long thread")
    for n in range(250):
        await scene.twin.say(f"reply {n}", thread=root)
    ts = await scene.twin.say("@swarm what do you make of this?", thread=root)
    trigger = await scene.trigger(ts)
    texts = [message["text"] for message in trigger["thread_context"]]
    assert texts == ["root of a long thread", *(f"reply {n}" for n in range(250)), "@swarm what do you make of this?"]
    assert not trigger["context_incomplete"]
    assert len({read["args"].get("cursor") for read in await _reads_of(scene, root, since)}) == 2  # pages
    await scene.reply(trigger, "a lot")
    await scene.settled()

    since = await scene.twin.now()
    follow_up = await scene.twin.say("and now?", thread=root)
    trigger = await scene.trigger(follow_up)
    assert len(trigger["thread_context"]) == 254
    assert await _reads_of(scene, root, since) == []  # none for a follow-up
    await scene.reply(trigger, "the same")
    await scene.settled()
    assert (await scene.twin.conversation(root)).answers == ("a lot", "the same")


@pytest.mark.req("LOOP-01", "LOOP-03")
async def test_a_message_that_a_history_read_saw_before_its_event_came_is_answered_once(scene: Scene) -> None:
    root = await scene.twin.say("a thread that the swarm does not know")
    for event in BOTH_EVENTS:
        await scene.twin.fault("delay", event=event, seconds=30)
    late = await scene.twin.say("@swarm told late", thread=root)
    early = await scene.twin.say("@swarm told at once", thread=root)
    trigger = await scene.trigger(early)
    texts = [message["text"] for message in trigger["thread_context"]]
    assert texts == ["a thread that the swarm does not know", "@swarm told late", "@swarm told at once"]
    await scene.reply(trigger, "to the early one")
    await scene.twin.advance(30)
    await scene.reply(await scene.trigger(late), "to the late one")
    await scene.settled()
    assert (await scene.twin.conversation(root)).answers == ("to the early one", "to the late one")


@pytest.mark.req("OPS-10")
async def test_a_post_refused_for_its_rate_waits_as_long_as_slack_says(scene: Scene) -> None:
    ts = await scene.twin.say("@swarm hello")
    trigger = await scene.trigger(ts)
    await scene.twin.fault("http_429", method="chat.postMessage", seconds=2)
    await scene.reply(trigger, "patience")
    await scene.answered_once(ts, "patience")
    refused, taken = await scene.twin.posts(ts)
    assert (refused["status"], taken["status"]) == (429, 200)
    assert taken["at"] - refused["at"] >= 2


@pytest.mark.req("OPS-10")
async def test_a_post_that_failed_inside_slack_is_looked_up_and_then_sent_again(scene: Scene) -> None:
    ts = await scene.twin.say("@swarm hello")
    trigger = await scene.trigger(ts)
    await scene.twin.fault("http_500", method="chat.postMessage")
    await scene.reply(trigger, "second try")
    await scene.answered_once(ts, "second try")
    failed, taken = await scene.twin.posts(ts)
    assert any(failed["seq"] < look["seq"] < taken["seq"] for look in await _reads_of(scene, ts))


@pytest.mark.req("OPS-10")
async def test_a_post_that_was_taken_although_its_connection_broke_is_not_sent_again(scene: Scene) -> None:
    ts = await scene.twin.say("@swarm hello")
    trigger = await scene.trigger(ts)
    await scene.twin.fault("cut_after_accept", method="chat.postMessage")
    await scene.reply(trigger, "only try")
    await scene.answered_once(ts, "only try")
    assert len(await scene.twin.posts(ts)) == 1


async def _next_triggers(scene: Scene, count: int) -> list[dict[str, object]]:
    """So many triggers of the lead, each for a thread of its own."""
    found: list[dict[str, object]] = []
    async with asyncio.timeout(60):
        while len(found) < count:
            found += await scene.lea.poll(wait_seconds=20)
    return found


def _ts_of(trigger: dict[str, object]) -> str:
    inbox_messages = trigger["inbox_messages"]
    assert isinstance(inbox_messages, list)
    (inbox_message,) = inbox_messages
    return str(inbox_message["ts"])


async def _connections(scene: Scene) -> int:
    return len(await scene.twin.calls("apps.connections.open", ok=True))


async def _reads_of(scene: Scene, root: str, since: int = 0) -> list[dict[str, Any]]:
    calls = await scene.twin.calls("conversations.replies", since=since)
    return [call for call in calls if call["args"].get("ts") == root]
