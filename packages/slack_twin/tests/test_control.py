"""The control API: people's messages, the journals, seeding and resetting."""

import pytest

from tests.world import World

pytestmark = pytest.mark.req("TWIN-01", "TWIN-04")


async def test_a_reader_sees_names_where_slack_stores_ids(world: World) -> None:
    ts = await world.say("alice", "@swarm look at #random: a < b & c", files=[{"name": "a.txt", "content": "hi"}])
    await world.say("bob", "a reply", channel="#general", thread_ts=ts)
    root, reply = await world.seen()
    assert root["text"] == "@swarm look at #random: a < b & c"
    assert (root["author"], root["kind"], root["thread_ts"]) == ("alice", "user", None)
    assert root["files"][0]["name"] == "a.txt"
    assert (reply["text"], reply["thread_ts"]) == ("a reply", ts)
    assert await world.seen(thread_ts=ts) == [root, reply]
    stored = (await world.client().conversations_history(channel=world.general))["messages"][0]["text"]
    assert stored == "<@U000SWARM> look at <#C00RANDOM>: a &lt; b &amp; c"


async def test_a_message_without_text_is_read_by_its_blocks(world: World) -> None:
    blocks = [{"type": "section", "text": {"type": "mrkdwn", "text": "*hi* <@U000ALICE>"}}, {"type": "divider"}]
    await world.client().api_call("chat.postMessage", json={"channel": world.general, "blocks": blocks})
    (message,) = await world.seen()
    assert (message["text"], message["kind"], message["author"]) == ("*hi* @alice", "bot", "swarm")


async def test_timestamps_grow_strictly_and_have_slacks_form(world: World) -> None:
    said = [await world.say("alice", str(number)) for number in range(20)]
    assert said == sorted(set(said))
    assert all(len(ts) == 17 and ts[10] == "." for ts in said)


async def test_people_change_and_delete_only_what_they_wrote(world: World) -> None:
    ts = await world.say("alice", "mine")
    mine = {"user": "alice", "channel": "general", "ts": ts}
    for verb in ("PATCH", "DELETE"):
        status, answer = await world.control(verb, "messages", mine | {"user": "bob", "text": "x"})
        assert (status, answer["error"]["message"]) == (403, "bob did not write that message")
    await world.ask("PATCH", "messages", mine | {"text": "changed"})
    assert [(message["text"], message["edited"]) for message in await world.seen()] == [("changed", True)]
    await world.ask("DELETE", f"messages?user=alice&channel=general&ts={ts}")
    assert await world.seen() == []


async def test_a_file_is_downloaded_with_a_bot_token_only(world: World) -> None:
    ts = await world.say("alice", "see", files=[{"name": "a b.txt", "content": "hallo ä"}])
    messages = (await world.client().conversations_history(channel=world.general))["messages"]
    url = next(message for message in messages if message["ts"] == ts)["files"][0]["url_private_download"]
    async with world.http.get(url) as refused:
        assert refused.status == 403
    async with world.http.get(url, headers={"Authorization": "Bearer xoxb-twin-swarm"}) as answer:
        assert (answer.status, await answer.text()) == (200, "hallo ä")


async def test_every_call_is_in_the_journal_without_its_token(world: World) -> None:
    await world.client().chat_postMessage(channel=world.general, text="x")
    await world.raw("auth.test", token=None, data={"token": "xoxb-wrong", "a": "b"})
    first, second = (await world.ask("GET", "calls"))["calls"]
    assert (first["seq"], first["app"], first["method"], first["ok"]) == (1, "swarm", "chat.postMessage", True)
    assert first["args"] == {"channel": world.general, "text": "x"}
    assert (second["app"], second["error"], second["args"]) == (None, "invalid_auth", {"a": "b"})
    assert (await world.ask("GET", "calls?since=1"))["calls"] == [second]
    assert (await world.ask("GET", "calls?since=99"))["calls"] == []


async def test_a_reset_goes_back_to_the_seed_and_keeps_connections(world: World) -> None:
    line = await world.line()
    await world.say("alice", "before")
    await line.next_acknowledged()
    await world.ask("POST", "seed", {"users": ["dora"]})
    await world.ask("POST", "reset")
    assert await world.seen() == []
    assert (await world.ask("GET", "calls"))["calls"] == []
    await world.say("dora", "after")
    assert (await line.next_acknowledged())["payload"]["event"]["text"] == "after"
    await world.ask("POST", "reset", {"seed": "default"})
    assert (await world.control("POST", "messages", {"user": "dora", "channel": "general", "text": "x"}))[0] == 404


async def test_a_seed_adds_people_channels_and_apps(world: World) -> None:
    seeded = await world.ask(
        "POST",
        "seed",
        {
            "users": [{"name": "dora", "real_name": "Dora D", "email": "dora@twin.test"}],
            "channels": [{"name": "ops", "members": ["dora", "helper"]}, "all"],
            "apps": [{"name": "helper", "bot_token": "xoxb-1", "app_token": "xapp-1", "signing_secret": "s"}],
        },
    )
    assert seeded["users"]["dora"] == "U0000DORA"
    helper = world.client("xoxb-1")
    assert (await helper.auth_test())["user"] == "helper"
    members = (await helper.conversations_members(channel=seeded["channels"]["ops"]))["members"]
    assert members == ["U0000DORA", "U00HELPER"]
    assert (await helper.users_lookupByEmail(email="dora@twin.test"))["user"]["real_name"] == "Dora D"


async def test_a_changed_token_replaces_the_old_one(world: World) -> None:
    await world.ask("POST", "seed", {"apps": [{"name": "swarm", "bot_token": "xoxb-new"}]})
    assert await world.error("auth.test") == "invalid_auth"
    assert (await world.client("xoxb-new").auth_test())["user_id"] == "U000SWARM"


async def test_the_clock_tells_its_time_and_moves_forward(world: World) -> None:
    now = (await world.ask("POST", "clock"))["now"]
    assert (await world.ask("POST", "clock", {"advance_seconds": 3600}))["now"] >= now + 3600
    assert float(await world.say("alice", "later")) >= now + 3600
    assert (await world.control("POST", "clock", {"advance_seconds": -1}))[0] == 422


async def test_unknown_names_are_answered_with_those_that_exist(world: World) -> None:
    status, answer = await world.control("POST", "messages", {"user": "zed", "channel": "general", "text": "x"})
    assert (status, answer["error"]["hint"]) == (404, "available: alice, bob, carol")
    status, answer = await world.control("POST", "messages", {"user": "bob", "channel": "nowhere", "text": "x"})
    assert (status, answer["error"]["message"]) == (404, "no channel 'nowhere'")
    assert "#general, #random" in answer["error"]["hint"]


MESSAGE = {"user": "alice", "channel": "general", "text": "x"}
REFUSED: list[tuple[str, str, object, int]] = [
    ("POST", "messages", {"channel": "general", "text": "x"}, 422),
    ("POST", "messages", MESSAGE | {"text": ""}, 422),
    ("POST", "messages", MESSAGE | {"text": 7}, 422),
    ("POST", "messages", MESSAGE | {"text": "a\x00b"}, 422),
    ("POST", "messages", MESSAGE | {"text": "x" * 40_001}, 413),
    ("POST", "messages", MESSAGE | {"texts": "x"}, 422),
    ("POST", "messages", MESSAGE | {"files": "a.txt"}, 422),
    ("POST", "messages", MESSAGE | {"files": [7]}, 422),
    ("POST", "messages", MESSAGE | {"files": [{"content": "x"}]}, 422),
    ("POST", "messages", MESSAGE | {"thread_ts": "1.2"}, 404),
    ("POST", "messages", MESSAGE | {"user": "swarm"}, 404),
    ("POST", "messages", MESSAGE | {"channel": "@nobody"}, 404),
    ("POST", "messages", [], 400),
    ("PATCH", "messages", MESSAGE | {"ts": "1.2"}, 404),
    ("DELETE", "messages", {"user": "alice", "channel": "general"}, 422),
    ("GET", "messages", None, 422),
    ("GET", "messages?channel=nowhere", None, 404),
    ("GET", "messages?channel=@swarm", None, 422),
    ("POST", "reactions", {"user": "alice", "channel": "general", "ts": "1.2", "name": "eyes"}, 404),
    ("GET", "calls?since=x", None, 422),
    ("GET", "deliveries?since=-1", None, 422),
    ("POST", "clock", {"advance_seconds": "1"}, 422),
    ("POST", "clock", {"advance_seconds": 1e300}, 422),
    ("POST", "seed", {"users": 7}, 422),
    ("POST", "seed", {"users": [7]}, 422),
    ("POST", "seed", {"apps": [{"name": "a", "scopes": "chat:write"}]}, 422),
    ("POST", "seed", {"channels": [{"name": "c", "members": ["nobody"]}]}, 404),
    ("POST", "reset", {"seed": "other"}, 422),
    ("POST", "actions", {}, 422),
    ("POST", "commands", {}, 422),
]


async def test_a_request_that_makes_no_sense_is_refused_with_a_reason(world: World) -> None:
    for verb, path, body, expected in REFUSED:
        status, answer = await world.control(verb, path, body)
        assert (verb, path, body, status) == (verb, path, body, expected)
        assert answer["error"]["message"]
    assert await world.seen() == []


async def test_a_body_that_is_no_json_is_refused(world: World) -> None:
    for body in (b"{", b"\xff", b'"\\ud800"', b"[" * 5_000, b'{"user": ' + b"[" * 200 + b"]" * 200 + b"}"):
        async with world.http.post(f"{world.base}twin/messages", data=body) as answer:
            assert (body, answer.status) == (body, 400)
            assert (await answer.json())["error"]["code"] == "bad_request"


async def test_a_person_outside_a_private_channel_neither_speaks_nor_reads_there(world: World) -> None:
    await world.ask("POST", "seed", {"channels": [{"name": "vault", "is_private": True, "members": ["alice"]}]})
    await world.say("alice", "secret", channel="vault")
    status, answer = await world.control("POST", "messages", {"user": "bob", "channel": "vault", "text": "x"})
    assert (status, answer["error"]["code"]) == (403, "not_in_channel")
    assert (await world.control("GET", "messages?channel=vault&user=bob"))[0] == 403
