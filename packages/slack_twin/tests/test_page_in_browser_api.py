"""The page's requests to its server: strict arguments, and the same results for every window."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import orjson
import pytest
from slack_twin.feed import Subscriber

from tests.twin_page import ALICE, BOB, GENERAL, SWARM, open_pages_are
from tests.world import PATIENCE_SECONDS, World, new_world

pytestmark = pytest.mark.req("TWIN-05")


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with new_world() as world:
        yield world


async def ask(world: World, verb: str, path: str, **request: Any) -> tuple[int, Any]:
    async with world.http.request(verb, f"{world.base}page/{path}", **request) as answer:
        return answer.status, await answer.json()


async def unread(world: World, user: str) -> dict[str, Any]:
    status, state = await ask(world, "GET", f"state?user={user}")
    assert status == 200
    return {one["channel"]: one for one in state["unread"]}


@pytest.mark.parametrize(
    ("verb", "path", "body", "status", "message"),
    [
        ("GET", "state?user=zed", None, 404, "no user 'zed'"),
        ("GET", "messages?channel=nowhere", None, 404, "no channel 'nowhere'"),
        ("POST", "messages", {"user": "alice", "channel": "general"}, 422, "'text' is missing"),
        ("POST", "messages", {"user": "alice", "channel": "general", "text": 1}, 422, "'text' must be a string"),
        ("POST", "messages", {"user": "alice", "channel": "general", "files": ["F1"]}, 404, "has not uploaded F1"),
        ("POST", "messages", {"user": "alice", "channel": "general", "text": "x", "thread_ts": "1"}, 404, "thread"),
        ("POST", "messages", [], 400, "must be a JSON object"),
        ("POST", "direct", {"user": "alice", "with": "zed"}, 404, "no user or app 'zed'"),
        ("POST", "read", {"user": "alice", "channel": "general"}, 422, "'ts' is missing"),
        ("POST", "files?user=alice", {}, 422, "'name'"),
        ("POST", "files?name=x", {}, 404, "no user"),
    ],
)
async def test_what_makes_no_sense_is_refused_with_a_reason(
    world: World, verb: str, path: str, body: object, status: int, message: str
) -> None:
    answered, answer = await ask(world, verb, path, json=body)
    assert (answered, message in answer["error"]["message"]) == (status, True), answer


async def test_a_file_is_shared_only_by_who_uploaded_it(world: World) -> None:
    status, file = await ask(world, "POST", "files?user=alice&name=a.txt", data=b"hello")
    assert (status, file["size"], file["mimetype"]) == (200, 5, "text/plain")
    said = {"channel": "general", "files": [file["id"]]}
    assert (await ask(world, "POST", "messages", json=said | {"user": "bob"}))[0] == 404
    assert (await ask(world, "POST", "messages", json=said | {"user": "alice"}))[0] == 200
    (message,) = await world.seen()
    assert [one["name"] for one in message["files"]] == ["a.txt"]


async def test_an_empty_file_and_one_that_is_too_large_are_refused(world: World) -> None:
    world.twin.workspace.files.cap_bytes = 1_000_000
    assert (await ask(world, "POST", "files?user=alice&name=a", data=b""))[0] == 422
    assert (await ask(world, "POST", "files?user=alice&name=a", data=b"x" * 1_000_001))[0] == 413


async def test_unread_counts_what_concerns_somebody(world: World) -> None:
    root = await world.say("alice", "a question")
    await world.say("bob", "@alice loud")
    await world.say("bob", "quiet")
    await world.client().chat_postMessage(channel=GENERAL, thread_ts=root, text="an answer")
    mine, carols = (await unread(world, "alice"))[GENERAL], (await unread(world, "carol"))[GENERAL]
    assert (mine["count"], mine["loud"], mine["threads"]) == (2, 1, {root: 1})
    assert (carols["count"], carols["loud"], carols["threads"]) == (3, 0, {})


async def test_everything_in_a_direct_conversation_is_loud(world: World) -> None:
    direct = (await world.client().conversations_open(users=ALICE))["channel"]["id"]
    await world.client().chat_postMessage(channel=direct, text="hello")
    assert (await unread(world, "alice"))[direct]["loud"] == 1
    assert direct not in await unread(world, "bob")


async def test_a_read_mark_never_goes_back(world: World) -> None:
    first, second = await world.say("bob", "one"), await world.say("bob", "two")
    for ts in (second, first):
        await ask(world, "POST", "read", json={"user": "alice", "channel": GENERAL, "ts": ts})
    assert (await unread(world, "alice"))[GENERAL]["count"] == 0
    await world.say("carol", "three")
    assert (await unread(world, "alice"))[GENERAL]["count"] == 1


async def test_a_channel_is_given_in_pages_from_its_end(world: World) -> None:
    said = [await world.say("bob", f"message {number}") for number in range(103)]
    _, latest = await ask(world, "GET", "messages?channel=general")
    assert ([one["ts"] for one in latest["messages"]], latest["has_earlier"]) == (said[3:], True)
    _, before = await ask(world, "GET", f"messages?channel=general&before={said[3]}")
    assert ([one["ts"] for one in before["messages"]], before["has_earlier"]) == (said[:3], False)


async def test_nobody_sees_a_conversation_they_are_not_in(world: World) -> None:
    direct = (await world.client().conversations_open(users=ALICE))["channel"]["id"]
    status, answer = await ask(world, "GET", f"messages?channel={direct}&user=bob")
    assert (status, answer["error"]["code"]) == (403, "not_in_channel")


async def test_a_message_for_one_person_is_loaded_by_them_alone(world: World) -> None:
    await world.client().chat_postEphemeral(channel=GENERAL, user=BOB, text="psst")
    assert len((await ask(world, "GET", "messages?channel=general&user=bob"))[1]["messages"]) == 1
    assert (await ask(world, "GET", "messages?channel=general&user=alice"))[1]["messages"] == []


async def test_the_state_tells_how_to_use_each_app(world: World) -> None:
    _, state = await ask(world, "GET", "state?user=alice")
    (app,) = state["apps"]
    assert (app["user"], [one["command"] for one in app["commands"]]) == (SWARM, ["/swarm"])


async def test_updates_are_for_pages_of_this_origin_and_people_of_this_workspace(world: World) -> None:
    address = f"{world.base}page/live?user=alice"
    for url, headers in (
        (address, {"Origin": "http://evil.example"}),
        (address, {"Origin": "null"}),
        (address.replace("alice", "zed"), {}),
    ):
        with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
            await world.http.ws_connect(url, headers=headers)
        assert refused.value.status == 403
    async with world.http.ws_connect(address, headers={"Origin": world.base.rstrip("/")}) as line:
        assert orjson.loads((await line.receive(timeout=PATIENCE_SECONDS)).data)["kind"] == "hello"
        ts = await world.say("bob", "hello")
        update = orjson.loads((await line.receive(timeout=PATIENCE_SECONDS)).data)
        assert (update["kind"], update["message"]["ts"]) == ("posted", ts)


async def test_a_page_that_does_not_read_is_hung_up_on_and_one_that_left_is_forgotten(world: World) -> None:
    reader = Subscriber("U")
    for _ in range(1_000):
        reader.tell(b"x")
    reader.tell(b"too much")
    received = [await reader.next() for _ in range(1_001)]
    assert received == [b"x"] * 1_000 + [None]

    async with world.http.ws_connect(f"{world.base}page/live?user=alice"):
        await open_pages_are(1, world)
    await open_pages_are(0, world)
