"""Faults on demand, as seen by the client or the app."""

import asyncio

import aiohttp
import pytest
from slack_sdk.errors import SlackApiError

from tests.world import PATIENCE_SECONDS, World

pytestmark = pytest.mark.req("TWIN-04")


async def plan(world: World, **fault: object) -> None:
    await world.ask("POST", "faults", fault)


async def test_a_cut_connection_hides_a_call_that_was_performed(world: World) -> None:
    await plan(world, kind="cut_after_accept", method="chat.postMessage")
    with pytest.raises(aiohttp.ClientConnectionError):
        await world.client().chat_postMessage(channel=world.general, text="once")
    assert [message["text"] for message in await world.seen()] == ["once"]
    (call,) = (await world.ask("GET", "calls"))["calls"]
    assert (call["method"], call["ok"], call["status"]) == ("chat.postMessage", True, 0)
    await world.client().chat_postMessage(channel=world.general, text="twice")


async def test_a_server_error_means_that_nothing_was_performed(world: World) -> None:
    await plan(world, kind="http_500", method="chat.postMessage", times=2)
    for _ in range(2):
        with pytest.raises(SlackApiError) as refused:
            await world.client().chat_postMessage(channel=world.general, text="never")
        assert refused.value.response.status_code == 500
    assert await world.seen() == []
    await world.client().chat_postMessage(channel=world.general, text="now")


async def test_a_planned_429_carries_the_seconds_to_wait(world: World) -> None:
    await plan(world, kind="http_429", method="chat.postMessage", seconds=7)
    with pytest.raises(SlackApiError, match="ratelimited") as refused:
        await world.client().chat_postMessage(channel=world.general, text="later")
    assert refused.value.response.headers["Retry-After"] == "7"
    assert await world.seen() == []


async def test_a_planned_error_is_answered_instead_of_the_call(world: World) -> None:
    await plan(world, kind="error", error="is_archived", method="chat.postMessage", app="swarm")
    assert await world.error("chat.postMessage", json={"channel": world.general, "text": "x"}) == "is_archived"
    assert await world.seen() == []


async def test_a_delayed_answer_comes_when_the_clock_reaches_it_and_the_call_was_performed_before(world: World) -> None:
    await plan(world, kind="delay", seconds=30, method="chat.postMessage")
    posting = asyncio.create_task(world.client().chat_postMessage(channel=world.general, text="slow"))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not await world.seen():
            pass
    await world.client().auth_test()  # a complete round trip, during which the answer would have arrived
    assert not posting.done()
    await world.advance(30)
    assert (await asyncio.wait_for(posting, PATIENCE_SECONDS))["ok"]


async def test_a_dropped_ack_brings_the_event_again(world: World) -> None:
    line = await world.line()
    await plan(world, kind="drop_ack", event="message")
    await world.say("alice", "hello")
    await line.next_acknowledged()
    await world.advance(3)
    assert (await line.next_acknowledged())["retry_attempt"] == 1


async def test_a_duplicate_has_the_same_event_id_in_another_envelope(world: World) -> None:
    line = await world.line()
    await plan(world, kind="duplicate", event="message")
    await world.say("alice", "hello")
    first, second = await line.next_acknowledged(), await line.next_acknowledged()
    assert first["payload"]["event_id"] == second["payload"]["event_id"]
    assert first["envelope_id"] != second["envelope_id"]


async def test_reordered_events_change_places(world: World) -> None:
    line = await world.line()
    await plan(world, kind="reorder", event="app_mention")
    await world.say("alice", "@swarm hello")
    assert [(await line.next_acknowledged())["payload"]["event"]["type"] for _ in range(2)] == [
        "message",
        "app_mention",
    ]


async def test_a_held_event_that_nothing_overtakes_comes_by_the_clock(world: World) -> None:
    line = await world.line()
    await plan(world, kind="reorder")
    await world.say("alice", "alone")
    await world.advance(3)
    assert (await line.next_acknowledged())["payload"]["event"]["text"] == "alone"


async def test_a_delayed_event_comes_by_the_clock(world: World) -> None:
    line = await world.line()
    await plan(world, kind="delay", event="message", seconds=20)
    await world.say("alice", "late")
    await world.say("alice", "soon")
    assert (await line.next_acknowledged())["payload"]["event"]["text"] == "soon"
    await world.advance(20)
    assert (await line.next_acknowledged())["payload"]["event"]["text"] == "late"


async def test_open_sockets_are_closed_at_once_with_or_without_a_word(world: World) -> None:
    line = await world.line()
    await plan(world, kind="close_socket")
    assert (await line.socket.receive(PATIENCE_SECONDS)).type is aiohttp.WSMsgType.CLOSE
    line = await world.line()
    await plan(world, kind="close_socket", error="refresh_requested")
    assert (await line.next())["type"] == "disconnect"
    await world.advance(10)
    assert (await line.socket.receive(PATIENCE_SECONDS)).type is aiohttp.WSMsgType.CLOSE


async def test_a_socket_closed_in_place_of_an_event_loses_nothing(world: World) -> None:
    first, second = await world.line(), await world.line()
    await plan(world, kind="close_socket", event="message")
    await world.say("alice", "hello")
    assert (await first.socket.receive(PATIENCE_SECONDS)).type is aiohttp.WSMsgType.CLOSE
    assert (await second.next_acknowledged())["payload"]["event"]["text"] == "hello"


async def test_a_silent_socket_stays_open_and_hears_nothing_until_faults_are_cleared(world: World) -> None:
    line = await world.line()
    await plan(world, kind="silent_socket")
    await world.say("alice", "unheard")
    await line.socket.ping()
    await world.advance(3)
    await world.advance(3)
    await world.ask("DELETE", "faults")
    await world.advance(60)
    envelope = await line.next_acknowledged()
    assert (envelope["payload"]["event"]["text"], envelope["retry_attempt"]) == ("unheard", 2)


async def test_cleared_faults_do_not_happen(world: World) -> None:
    await plan(world, kind="http_500", times=9)
    await world.ask("DELETE", "faults")
    await world.client().auth_test()


async def test_a_fault_that_could_never_happen_is_refused(world: World) -> None:
    refused: dict[int, list[dict[str, object]]] = {
        422: [
            {},
            {"kind": "earthquake"},
            {"kind": "drop_ack", "method": "chat.postMessage"},
            {"kind": "http_500", "event": "message"},
            {"kind": "delay", "event": "message", "method": "auth.test"},
            {"kind": "delay", "seconds": -1},
            {"kind": "delay", "seconds": "1"},
            {"kind": "delay", "times": 0},
            {"kind": "delay", "colour": "red"},
            {"kind": "expire_stream", "method": "chat.update"},
        ],
        404: [{"kind": "delay", "method": "chat.postTelegram"}, {"kind": "delay", "app": "nobody"}],
    }
    for status, faults in refused.items():
        assert [(await world.control("POST", "faults", fault))[0] for fault in faults] == [status] * len(faults)
