"""Delivery of events to apps: selection, recipients, acknowledgements and retries."""

import asyncio
import hashlib
import hmac
from typing import Any

import orjson
import pytest
from aiohttp import web

from tests.world import PATIENCE_SECONDS, Line, World

pytestmark = pytest.mark.req("TWIN-01", "TWIN-03")


async def test_a_mention_arrives_twice_with_two_ids_and_one_timestamp(world: World) -> None:
    line = await world.line()
    ts = await world.say("alice", "@swarm hello")
    mention, message = [(await line.next_acknowledged())["payload"] for _ in range(2)]
    assert (mention["event"]["type"], message["event"]["type"]) == ("app_mention", "message")
    assert mention["event"]["ts"] == message["event"]["ts"] == ts
    assert mention["event_id"] != message["event_id"]
    assert message["event"]["text"] == "<@U000SWARM> hello"


async def test_a_direct_message_is_a_message_of_type_im_even_with_a_mention(world: World) -> None:
    line = await world.line()
    await world.say("alice", "@swarm hello", channel="@swarm")
    event = (await line.next_acknowledged())["payload"]["event"]
    assert (event["type"], event["channel_type"], event["channel"][0]) == ("message", "im", "D")
    assert len(await world.deliveries()) == 1


async def test_posts_of_a_bot_reach_other_apps_and_never_its_own(world: World) -> None:
    await world.ask("POST", "seed", {"apps": [{"name": "other"}]})
    own, other = await world.line(), await world.line("xapp-twin-other")
    await world.client().chat_postMessage(channel=world.general, text="from a bot")
    event = (await other.next_acknowledged())["payload"]["event"]
    assert (event["bot_id"], event["app_id"]) == ("B000SWARM", "A000SWARM")
    assert event["bot_profile"]["name"] == "swarm"
    await world.say("alice", "from a person")
    assert (await own.next_acknowledged())["payload"]["event"]["text"] == "from a person"


async def test_an_app_gets_its_own_messages_if_the_twin_is_to_send_them_as_slack_does(world: World) -> None:
    world.twin.workspace.own_events = True
    line, client, general = await world.line(), world.client(), world.general
    ts = (await client.chat_postMessage(channel=general, text="<@U000SWARM> one"))["ts"]
    await client.reactions_add(channel=general, timestamp=ts, name="eyes")
    await client.chat_update(channel=general, ts=ts, text="two")
    await client.chat_delete(channel=general, ts=ts)
    events = [(await line.next_acknowledged())["payload"]["event"] for _ in range(3)]
    assert [event.get("subtype", event["type"]) for event in events] == [
        "message",
        "message_changed",
        "message_deleted",
    ]
    assert {(event.get("message") or event.get("previous_message") or event)["bot_id"] for event in events} == {
        "B000SWARM"
    }


async def test_changes_reactions_and_files_arrive_as_slack_sends_them(world: World) -> None:
    line = await world.line()
    ts = await world.say("alice", "one", files=[{"name": "notes.txt", "content": "hello"}])
    await world.ask("PATCH", "messages", {"user": "alice", "channel": "general", "ts": ts, "text": "two"})
    await world.ask("POST", "reactions", {"user": "bob", "channel": "general", "ts": ts, "name": "tada"})
    await world.ask("DELETE", "messages", {"user": "alice", "channel": "general", "ts": ts})
    events = [(await line.next_acknowledged())["payload"]["event"] for _ in range(5)]
    shared, named, changed, reacted, deleted = events
    assert (shared["subtype"], shared["files"][0]["name"]) == ("file_share", "notes.txt")
    assert (named["type"], named["file_id"]) == ("file_shared", shared["files"][0]["id"])
    assert changed["subtype"] == "message_changed"
    assert (changed["message"]["text"], changed["previous_message"]["text"]) == ("two", "one")
    assert (reacted["type"], reacted["reaction"], reacted["item"]["ts"]) == ("reaction_added", "tada", ts)
    assert (deleted["subtype"], deleted["deleted_ts"]) == ("message_deleted", ts)


async def test_a_deleted_root_with_replies_arrives_as_changed_into_a_tombstone(world: World) -> None:
    root = await world.say("alice", "root")
    await world.say("bob", "reply", thread_ts=root)
    line = await world.line()
    await world.ask("DELETE", "messages", {"user": "alice", "channel": "general", "ts": root})
    event = (await line.next_acknowledged())["payload"]["event"]
    assert (event["subtype"], event["message"]["subtype"]) == ("message_changed", "tombstone")


async def test_a_reply_sent_to_the_channel_too_carries_its_root(world: World) -> None:
    line = await world.line()
    root = await world.say("alice", "root")
    await world.say("bob", "for all", thread_ts=root, broadcast=True)
    await line.next_acknowledged()
    event = (await line.next_acknowledged())["payload"]["event"]
    assert (event["subtype"], event["thread_ts"], event["root"]["text"]) == ("thread_broadcast", root, "root")


async def test_an_app_gets_nothing_from_where_it_is_not_or_what_it_may_not_read(world: World) -> None:
    await world.ask(
        "POST",
        "seed",
        {
            "apps": [
                {"name": "deaf", "scopes": ["app_mentions:read"]},
                {"name": "absent", "channels": ["random"]},
            ]
        },
    )
    deaf, absent = await world.line("xapp-twin-deaf"), await world.line("xapp-twin-absent")
    await world.say("alice", "to @deaf and @absent")
    await world.say("alice", "done", channel="random")
    assert (await deaf.next_acknowledged())["payload"]["event"]["type"] == "app_mention"
    assert (await absent.next_acknowledged())["payload"]["event"]["text"] == "done"
    assert {(entry["app"], entry["kind"]) for entry in await world.deliveries() if entry["app"] == "deaf"} == {
        ("deaf", "app_mention")
    }


async def test_each_event_goes_to_one_of_the_connections_of_an_app(world: World) -> None:
    lines = [await world.line(), await world.line()]
    said = {await world.say("alice", f"number {number}") for number in range(4)}
    heard = [[(await line.next_acknowledged())["payload"]["event"]["ts"] for _ in range(2)] for line in lines]
    assert {ts for part in heard for ts in part} == said


async def test_events_leave_in_the_order_in_which_things_happened(world: World) -> None:
    line = await world.line()
    for number in range(50):
        await world.say("alice", str(number))
    texts = [(await line.next_acknowledged())["payload"]["event"]["text"] for _ in range(50)]
    assert texts == [str(number) for number in range(50)]


async def next_attempt(line: Line, world: World, seconds: float) -> dict[str, Any]:
    await world.advance(seconds)
    return await line.next()


async def test_what_is_not_acknowledged_comes_again_at_once_after_a_minute_and_after_five(world: World) -> None:
    line = await world.line()
    await world.say("alice", "hello")
    first = await line.next()
    again = await next_attempt(line, world, 3)
    await world.advance(3)
    later = await next_attempt(line, world, 60)
    await world.advance(3)
    last = await next_attempt(line, world, 300)
    attempts = [first, again, later, last]
    assert [attempt["retry_attempt"] for attempt in attempts] == [0, 1, 2, 3]
    assert [attempt["retry_reason"] for attempt in attempts] == ["", "timeout", "timeout", "timeout"]
    assert len({attempt["payload"]["event_id"] for attempt in attempts}) == 1
    assert len({attempt["envelope_id"] for attempt in attempts}) == 4
    await world.advance(3)
    await world.say("alice", "next")
    assert (await line.next_acknowledged())["payload"]["event"]["text"] == "next"
    *old, _ = await world.deliveries()
    assert [(entry["acked"], entry["dropped"]) for entry in old] == [(False, False)] * 3 + [(False, True)]


async def test_an_acknowledged_retry_ends_the_retries(world: World) -> None:
    line = await world.line()
    await world.say("alice", "hello")
    await line.next()
    await world.advance(3)
    await line.next_acknowledged()
    await settled(world, 2)
    await world.advance(1_000)
    assert [entry["acked"] for entry in await world.deliveries()] == [False, True]


async def settled(world: World, count: int) -> None:
    """Waits until the last of `count` attempts is acknowledged."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not ((entries := await world.deliveries()) and len(entries) == count and entries[-1]["acked"]):
            pass


async def test_without_a_connection_an_event_waits_for_its_next_attempt(world: World) -> None:
    await world.say("alice", "anybody there?")
    line = await world.line()
    await world.advance(60)
    envelope = await line.next_acknowledged()
    assert (envelope["retry_attempt"], envelope["payload"]["event"]["text"]) == (2, "anybody there?")
    assert [entry["error"] for entry in await world.deliveries()][:2] == ["no_connection", "no_connection"]


async def test_an_event_on_a_connection_that_is_lost_goes_to_the_next_one_at_once(world: World) -> None:
    first = await world.line()
    await world.say("alice", "hello")
    await first.next()
    second = await world.line()
    await first.socket.close()
    envelope = await second.next_acknowledged()
    assert (envelope["retry_attempt"], envelope["retry_reason"]) == (1, "socket_closed")


async def test_an_eleventh_connection_is_told_that_it_is_one_too_many(world: World) -> None:
    for _ in range(10):
        await world.line()
    opened = await world.client().apps_connections_open(app_token="xapp-twin-swarm")
    socket = await world.http.ws_connect(opened["url"])
    assert (await socket.receive_json())["reason"] == "too_many_websockets"
    await socket.close()


async def test_the_first_connection_of_a_new_workspace_says_hello_in_slacks_shape(world: World) -> None:
    opened = await world.client().apps_connections_open(app_token="xapp-twin-swarm")
    socket = await world.http.ws_connect(opened["url"])
    hello = await socket.receive_json()
    assert (hello["type"], hello["num_connections"]) == ("hello", 1)
    assert hello["connection_info"] == {"app_id": "A000SWARM"}
    await socket.close()


class Receiver:
    """A small web server that acts as an app."""

    def __init__(self, *statuses: int) -> None:
        self.statuses = list(statuses)
        self.heard: asyncio.Queue[tuple[Any, bytes]] = asyncio.Queue()

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        if b'"url_verification"' in body:
            return web.json_response({"challenge": orjson.loads(body)["challenge"]})
        self.heard.put_nowait((request.headers, body))
        return web.Response(status=self.statuses.pop(0) if self.statuses else 200)

    async def next(self) -> tuple[Any, bytes]:
        return await asyncio.wait_for(self.heard.get(), PATIENCE_SECONDS)


async def test_an_app_with_a_request_url_gets_signed_posts_and_retries_with_headers(world: World) -> None:
    receiver = Receiver(500, 404)
    application = web.Application()
    application.router.add_post("/slack/events", receiver.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    url = f"http://127.0.0.1:{port}/slack/events"
    await world.ask("POST", "seed", {"apps": [{"name": "web", "signing_secret": "s3cret", "request_url": url}]})
    await world.say("alice", "hello")
    headers, body = await receiver.next()
    timestamp = headers["X-Slack-Request-Timestamp"]
    digest = hmac.new(b"s3cret", f"v0:{timestamp}:".encode() + body, hashlib.sha256).hexdigest()
    assert headers["X-Slack-Signature"] == f"v0={digest}"
    assert "X-Slack-Retry-Num" not in headers
    again, same_body = await receiver.next()
    assert (again["X-Slack-Retry-Num"], again["X-Slack-Retry-Reason"]) == ("1", "http_error")
    assert same_body == body
    await attempted(world, 2, app="web")
    await world.advance(60)
    last, _ = await receiver.next()
    assert last["X-Slack-Retry-Num"] == "2"
    await attempted(world, 3, app="web")
    mine = [entry for entry in await world.deliveries() if (entry["app"], entry["kind"]) == ("web", "message")]
    assert [entry["error"] for entry in mine] == ["http_500", "http_404", None]
    await runner.cleanup()


async def attempted(world: World, count: int, *, app: str) -> None:
    """Waits until `count` attempts for an app are complete."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            entries = await world.deliveries()
            mine = [entry for entry in entries if entry["app"] == app and entry["kind"] == "message"]
            if len(mine) == count and (mine[-1]["acked"] or mine[-1]["error"]):
                return
