"""People, user groups and conversations, and apps with different scopes."""

from typing import Any

import pytest
from slack_sdk.errors import SlackApiError

from tests.test_shapes import differences, sample
from tests.world import World

pytestmark = pytest.mark.req("TWIN-01", "TWIN-02")


async def test_user_groups_come_from_the_seed(world: World) -> None:
    group = {"handle": "@writers", "name": "Writers", "members": ["alice", "bob"]}
    await world.ask("POST", "seed", {"user_groups": [group]})
    full = await world.client().usergroups_list(include_users=True, include_count=True)
    assert differences(full.data, sample("api/usergroups.list.json")) == []
    (found,) = full["usergroups"]
    assert (found["handle"], found["name"], found["users"]) == ("writers", "Writers", ["U000ALICE", "U00000BOB"])
    (plain,) = (await world.client().usergroups_list())["usergroups"]
    assert set(found) - set(plain) == {"users", "user_count"}
    await world.ask("POST", "seed", {"user_groups": [group | {"members": ["carol"]}]})
    (changed,) = (await world.client().usergroups_list(include_users=True))["usergroups"]
    assert (changed["id"], changed["users"]) == (found["id"], ["U000CAROL"])
    await world.ask("POST", "reset", {"seed": "default"})
    assert (await world.client().usergroups_list())["usergroups"] == []


async def test_a_conversation_of_several_people_is_private_to_them(world: World) -> None:
    await world.ask("POST", "seed", {"apps": [{"name": "other"}]})
    client, line = world.client(), await world.line()
    opened = (await client.conversations_open(users="U000ALICE,U00000BOB", return_im=True))["channel"]
    again = (await client.conversations_open(users=["U00000BOB", "U000ALICE"]))["channel"]
    assert (opened["is_mpim"], again["id"]) == (True, opened["id"])
    await client.chat_postMessage(channel=opened["id"], text="hello both")
    body = {"user": "alice", "channel": opened["id"], "text": "@swarm hi"}
    await world.ask("POST", "messages", body)
    event = (await line.next_acknowledged())["payload"]["event"]
    assert (event["type"], event["channel_type"], event["text"]) == ("message", "mpim", "<@U000SWARM> hi")
    assert (await world.control("POST", "messages", body | {"user": "carol"}))[0] == 403
    with pytest.raises(SlackApiError, match="channel_not_found"):
        await world.client("xoxb-twin-other").conversations_history(channel=opened["id"])
    listed = await client.conversations_list(types="mpim")
    assert [channel["id"] for channel in listed["channels"]] == [opened["id"]]


async def test_each_app_has_its_own_tokens_scopes_and_places(world: World) -> None:
    apps: list[dict[str, Any]] = [
        {"name": "reader", "scopes": ["channels:history", "channels:read"], "channels": ["general"]},
        {"name": "writer", "scopes": ["chat:write", "channels:history"], "channels": ["random"]},
    ]
    await world.ask("POST", "seed", {"apps": apps})
    reader, writer = world.client("xoxb-twin-reader"), world.client("xoxb-twin-writer")
    line = await world.line("xapp-twin-reader")
    with pytest.raises(SlackApiError) as refused:
        await reader.chat_postMessage(channel=world.general, text="x")
    answer = refused.value.response
    assert (answer["error"], answer["needed"], answer["provided"]) == (
        "missing_scope",
        "chat:write",
        "channels:history,channels:read",
    )
    with pytest.raises(SlackApiError, match="not_in_channel"):
        await writer.chat_postMessage(channel=world.general, text="x")
    posted = await world.client().chat_postMessage(channel=world.general, text="to everybody")
    event = (await line.next_acknowledged())["payload"]["event"]
    assert (event["ts"], event["bot_id"]) == (posted["ts"], "B000SWARM")


SCOPED = [
    ("chat.startStream", "chat:write"),
    ("chat.appendStream", "chat:write"),
    ("chat.stopStream", "chat:write"),
    ("files.getUploadURLExternal", "files:write"),
    ("files.completeUploadExternal", "files:write"),
    ("files.info", "files:read"),
    ("files.list", "files:read"),
    ("files.delete", "files:write"),
    ("assistant.threads.setTitle", "assistant:write"),
    ("assistant.threads.setSuggestedPrompts", "assistant:write"),
    ("agents.sessions.setStatus", "chat:write"),
    ("agents.sessions.rename", "chat:write"),
    ("usergroups.list", "usergroups:read"),
    ("reactions.add", "reactions:write"),
    ("users.lookupByEmail", "users:read.email"),
]


async def test_a_missing_scope_is_named(world: World) -> None:
    await world.ask("POST", "seed", {"apps": [{"name": "poor", "scopes": ["team:read"]}]})
    for method, needed in SCOPED:
        _, answer = await world.raw(method, token="xoxb-twin-poor", json={})
        assert (answer["error"], answer["needed"], answer["provided"]) == ("missing_scope", needed, "team:read")


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("conversations.history", {"oldest": "yesterday"}, "invalid_ts_oldest"),
    ("conversations.history", {"latest": "tomorrow"}, "invalid_ts_latest"),
    ("conversations.replies", {"ts": "soon"}, "thread_not_found"),
    ("conversations.replies", {}, "thread_not_found"),
    ("conversations.members", {"cursor": "!"}, "invalid_cursor"),
    ("conversations.members", {"limit": "x"}, "invalid_limit"),
    ("conversations.list", {"cursor": "b2Zmc2V0Ojk5"}, "invalid_cursor"),
    ("conversations.join", {"channel": "C404"}, "channel_not_found"),
    ("conversations.open", {"channel": "D404"}, "channel_not_found"),
    ("conversations.open", {"channel": None, "users": ",".join(["U000ALICE"] * 9)}, "too_many_users"),
    ("conversations.info", {"channel": "C404"}, "channel_not_found"),
    ("users.conversations", {"user": "U404"}, "user_not_found"),
    ("users.conversations", {"types": "all"}, "invalid_types"),
    ("users.list", {"limit": 0}, "invalid_limit"),
    ("team.info", {"team": "T404"}, "team_not_found"),
    ("chat.getPermalink", {"channel": "C404", "message_ts": "1"}, "channel_not_found"),
    ("chat.postEphemeral", {"user": "U000ALICE"}, "no_text"),
    ("reactions.get", {"timestamp": "1000000000.000100"}, "message_not_found"),
]


async def test_what_does_not_exist_or_makes_no_sense_is_refused_with_slacks_code(world: World) -> None:
    answers = [
        (method, args, await world.error(method, json={"channel": world.general} | args)) for method, args, _ in WRONG
    ]
    assert answers == WRONG


async def test_an_update_takes_less_text_than_a_post(world: World) -> None:
    """https://docs.slack.dev/reference/methods/chat.update documents this limit under msg_too_long."""
    own = await world.client().chat_postMessage(channel=world.general, text="x" * 5_000)
    target = {"channel": world.general, "ts": own["ts"]}
    assert await world.error("chat.update", json=target | {"text": "x" * 4_001}) == "msg_too_long"
    await world.client().chat_update(**target, text="y" * 4_000)
    await world.client().chat_update(**target, markdown_text="z" * 12_000)
    assert (await world.seen())[0]["text"] == "z" * 12_000


async def test_guests_are_in_their_channels_only_and_known_as_guests(world: World) -> None:
    guests: list[Any] = ["gina", {"name": "gus", "channels": ["random"], "single_channel": True}]
    await world.ask("POST", "seed", {"guests": guests})
    client = world.client()
    gina = (await client.users_info(user="U0000GINA"))["user"]
    gus = (await client.users_info(user="U00000GUS"))["user"]
    assert (gina["is_restricted"], gina["is_ultra_restricted"], gina["team_id"]) == (True, False, "T0TWIN")
    assert (gus["is_restricted"], gus["is_ultra_restricted"]) == (True, True)
    assert "U0000GINA" in (await client.conversations_members(channel="C0GENERAL"))["members"]
    assert "U0000GINA" not in (await client.conversations_members(channel="C00RANDOM"))["members"]
    alice = (await client.users_info(user="U000ALICE"))["user"]
    assert not alice["is_restricted"]
    assert "is_stranger" not in alice


async def test_another_workspace_shares_channels_and_its_people_are_strangers(world: World) -> None:
    await world.ask("POST", "seed", {"teams": [{"name": "umbrella", "users": ["eve"], "channels": ["general"]}]})
    client, line = world.client(), await world.line()
    eve = (await client.users_info(user="U00000EVE"))["user"]
    assert (eve["team_id"], eve["is_stranger"]) == ("TUMBRELLA", True)
    assert "U00000EVE" in {member["id"] for member in (await client.users_list())["members"]}
    general = (await client.conversations_info(channel="C0GENERAL"))["channel"]
    assert (general["is_ext_shared"], general["connected_team_ids"]) == (True, ["TUMBRELLA"])
    assert not (await client.conversations_info(channel="C00RANDOM"))["channel"]["is_ext_shared"]
    for user, channel, team, is_shared in (
        ("eve", "general", "TUMBRELLA", True),
        ("alice", "general", "T0TWIN", True),
        ("eve", "@swarm", "TUMBRELLA", True),
        ("alice", "random", None, False),
    ):
        await world.ask("POST", "messages", {"user": user, "channel": channel, "text": "hi"})
        payload = (await line.next_acknowledged())["payload"]
        event = payload["event"]
        assert (event.get("user_team"), event.get("source_team"), payload["is_ext_shared_channel"]) == (
            team, team, is_shared,
        )  # fmt: skip
    (of_eve,) = (
        message
        for message in (await client.conversations_history(channel="C0GENERAL"))["messages"]
        if message["user"] == "U00000EVE"
    )
    assert of_eve["user_team"] == "TUMBRELLA"
