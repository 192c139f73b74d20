"""Channels that apps create, describe, fill and close, and the resulting events."""

from typing import Any

import pytest

from tests.world import Line, World

pytestmark = pytest.mark.req("TWIN-01", "TWIN-02")


async def other_app(world: World) -> Line:
    """Connects a second app, which receives the events of the first app's actions."""
    await world.ask("POST", "seed", {"apps": [{"name": "other", "channels": ["general"]}]})
    return await world.line("xapp-twin-other")


async def events(line: Line, count: int) -> list[dict[str, Any]]:
    return [(await line.next_acknowledged())["payload"]["event"] for _ in range(count)]


async def new_channel(world: World, name: str = "plans", **more: Any) -> str:
    return str((await world.client().conversations_create(name=name, **more))["channel"]["id"])


def kinds(heard: list[dict[str, Any]]) -> list[str]:
    return [event.get("subtype") or event["type"] for event in heard]


async def test_a_channel_is_opened_with_the_bot_as_its_only_member(world: World) -> None:
    other = await other_app(world)
    channel = (await world.client().conversations_create(name="plans"))["channel"]
    assert (channel["id"], channel["name"], channel["is_member"]) == ("C000PLANS", "plans", True)
    assert channel["creator"] == "U000SWARM"
    assert (await world.client().conversations_members(channel=channel["id"]))["members"] == ["U000SWARM"]
    (created,) = await events(other, 1)
    assert (created["type"], created["channel"]["name"]) == ("channel_created", "plans")


async def test_a_private_channel_is_opened_in_silence_and_seen_by_its_members_only(world: World) -> None:
    other = await other_app(world)
    vault = await new_channel(world, "vault", is_private=True)
    await world.client().conversations_setTopic(channel=vault, topic="secret")
    assert await world.error("conversations.info", token="xoxb-twin-other", json={"channel": vault}) == (
        "channel_not_found"
    )
    await world.say("alice", "done")
    assert kinds(await events(other, 1)) == ["message"]


NAMES = {
    "": "invalid_name_required",
    "x" * 81: "invalid_name_maxlength",
    "Plans": "invalid_name_specials",
    "our plans": "invalid_name_specials",
    "--": "invalid_name_punctuation",
    "general": "name_taken",
}


async def test_a_name_that_a_channel_cannot_have_is_refused(world: World) -> None:
    assert {name: await world.error("conversations.create", json={"name": name}) for name in NAMES} == NAMES
    assert (await world.client().conversations_create(name="größe-2_ü"))["ok"]


async def test_people_are_invited_and_removed(world: World) -> None:
    plans = await new_channel(world)
    other = await other_app(world)
    await world.client().conversations_invite(channel=plans, users="U000ALICE,U000OTHER")
    own, bobs, left = await invited_and_removed(world, plans, other)
    assert (own["type"], own["user"], own["inviter"]) == ("member_joined_channel", "U000OTHER", "U000SWARM")
    assert (bobs["type"], bobs["user"]) == ("member_joined_channel", "U00000BOB")
    assert (left["type"], left["user"], left["channel_type"]) == ("member_left_channel", "U00000BOB", "C")
    members = (await world.client().conversations_members(channel=plans))["members"]
    assert members == ["U000SWARM", "U000ALICE", "U000OTHER"]


async def invited_and_removed(world: World, channel: str, line: Line) -> list[dict[str, Any]]:
    """Returns the events of an app that is invited before bob is invited and removed, without the channel notices."""
    await world.client().conversations_invite(channel=channel, users=["U00000BOB"])
    await world.client().conversations_kick(channel=channel, user="U00000BOB")
    heard = await events(line, 6)
    assert [event["subtype"] for event in heard if event["type"] == "message"] == (
        ["channel_join", "channel_join", "channel_leave"]
    )
    return [event for event in heard if event["type"] != "message"]


async def test_an_app_that_is_removed_hears_that_it_left(world: World) -> None:
    plans, other = await new_channel(world), await other_app(world)
    await world.client().conversations_invite(channel=plans, users="U000OTHER")
    await events(other, 2)
    await world.client().conversations_kick(channel=plans, user="U000OTHER")
    *_, last = await events(other, 2)
    assert (last["type"], last["channel"], last["actor_id"]) == ("channel_left", plans, "U000SWARM")


INVITED = {
    "": "no_user",
    "U404": "user_not_found",
    "U000SWARM": "cant_invite_self",
    "U00000BOB,U000ALICE": "already_in_channel",
}


async def test_who_cannot_be_invited_is_named_and_keeps_the_others_out(world: World) -> None:
    plans = await new_channel(world)
    await world.client().conversations_invite(channel=plans, users="U000ALICE")
    for users, error in INVITED.items():
        assert await world.error("conversations.invite", json={"channel": plans, "users": users}) == error
    _, refusal = await world.raw("conversations.invite", json={"channel": plans, "users": "U00000BOB,U000ALICE"})
    assert refusal["errors"] == [{"user": "U000ALICE", "ok": False, "error": "already_in_channel"}]
    assert "U00000BOB" not in (await world.client().conversations_members(channel=plans))["members"]
    await world.client().conversations_invite(channel=plans, users="U00000BOB,U000ALICE", force=True)
    assert "U00000BOB" in (await world.client().conversations_members(channel=plans))["members"]


async def test_topic_purpose_and_name_are_changed_and_said_in_the_channel(world: World) -> None:
    plans, other = await new_channel(world), await other_app(world)
    await world.client().conversations_invite(channel=plans, users="U000OTHER")
    await events(other, 2)
    await world.client().conversations_setTopic(channel=plans, topic="Spring")
    await world.client().conversations_setTopic(channel=plans, topic="Spring")
    await world.client().conversations_setPurpose(channel=plans, purpose="To plan")
    channel = (await world.client().conversations_rename(channel=plans, name="spring"))["channel"]
    assert (channel["topic"]["value"], channel["purpose"]["value"]) == ("Spring", "To plan")
    assert channel["topic"]["creator"] == "U000SWARM"
    assert (channel["name"], channel["previous_names"]) == ("spring", ["plans"])
    topic, purpose, name, renamed = await events(other, 4)
    assert kinds([topic, purpose, name, renamed]) == [
        "channel_topic",
        "channel_purpose",
        "channel_name",
        "channel_rename",
    ]
    assert (topic["topic"], purpose["purpose"]) == ("Spring", "To plan")
    assert (name["old_name"], name["name"], renamed["channel"]["name"]) == ("plans", "spring", "spring")
    assert await world.error("conversations.setTopic", json={"channel": plans, "topic": "x" * 251}) == "too_long"
    assert await world.error("conversations.create", json={"name": "spring"}) == "name_taken"
    assert await world.error("conversations.rename", json={"channel": world.general, "name": "all"}) == (
        "not_authorized"
    )


async def test_an_archived_channel_takes_nothing_until_it_is_taken_back(world: World) -> None:
    plans, other = await new_channel(world), await other_app(world)
    await world.client().conversations_archive(channel=plans)
    for method, args in ARCHIVED:
        assert await world.error(method, json={"channel": plans, **args}) == "is_archived", method
    assert await world.error("conversations.archive", json={"channel": plans}) == "already_archived"
    listed = await world.client().conversations_list(exclude_archived=True)
    assert [channel["name"] for channel in listed["channels"]] == ["general", "random"]
    await world.client().conversations_unarchive(channel=plans)
    assert await world.error("conversations.unarchive", json={"channel": plans}) == "not_archived"
    await world.client().chat_postMessage(channel=plans, text="back")
    assert kinds(await events(other, 2)) == ["channel_archive", "channel_unarchive"]


ARCHIVED: list[tuple[str, dict[str, str]]] = [
    ("chat.postMessage", {"text": "x"}),
    ("conversations.invite", {"users": "U000ALICE"}),
    ("conversations.setTopic", {"topic": "x"}),
    ("conversations.leave", {}),
    ("conversations.join", {}),
]


async def test_a_bot_leaves_but_for_general(world: World) -> None:
    plans = await new_channel(world)
    await world.client().conversations_leave(channel=plans)
    assert (await world.client().conversations_leave(channel=plans))["not_in_channel"] is True
    assert await world.error("conversations.leave", json={"channel": world.general}) == "cant_leave_general"
    assert await world.error("conversations.archive", json={"channel": world.general}) == "cant_archive_general"
    kick = {"channel": world.general, "user": "U000ALICE"}
    assert await world.error("conversations.kick", json=kick) == "cant_kick_from_general"
    vault = await new_channel(world, "vault", is_private=True)
    assert await world.error("conversations.leave", json={"channel": vault}) == "last_member"


async def test_a_direct_conversation_is_closed_and_opened_again(world: World) -> None:
    client = world.client()
    direct = (await client.conversations_open(users="U000ALICE"))["channel"]["id"]
    assert "already_closed" not in await client.conversations_close(channel=direct)
    assert (await client.conversations_close(channel=direct))["already_closed"] is True
    assert (await client.conversations_info(channel=direct))["channel"]["is_open"] is False
    await client.conversations_open(channel=direct)
    assert (await client.conversations_info(channel=direct))["channel"]["is_open"] is True
    wrong = "method_not_supported_for_channel_type"
    assert await world.error("conversations.close", json={"channel": world.general}) == wrong
    assert await world.error("conversations.kick", json={"channel": direct, "user": "U000ALICE"}) == wrong


async def test_a_bot_says_up_to_where_it_has_read(world: World) -> None:
    ts = await world.say("alice", "hi")
    await world.client().conversations_mark(channel=world.general, ts=ts)
    assert (await world.client().conversations_info(channel=world.general))["channel"]["last_read"] == ts
    assert await world.error("conversations.mark", json={"channel": world.general, "ts": "soon"}) == "invalid_timestamp"


async def test_each_kind_of_channel_has_its_own_scope(world: World) -> None:
    scopes = ["channels:manage", "channels:read", "groups:write.topic", "groups:read"]
    await world.ask("POST", "seed", {"apps": [{"name": "clerk", "scopes": scopes}]})
    await world.ask("POST", "seed", {"channels": [{"name": "vault", "members": ["clerk"], "is_private": True}]})

    async def refusal(method: str, **args: str | bool) -> Any:
        _, answer = await world.raw(method, token="xoxb-twin-clerk", json=args)
        return answer.get("needed")

    assert await refusal("conversations.create", name="open") is None
    assert await refusal("conversations.create", name="closed", is_private=True) == "groups:write"
    assert await refusal("conversations.setTopic", channel="C000VAULT", topic="x") is None
    assert await refusal("conversations.archive", channel="C000VAULT") == "groups:write"


async def test_messages_are_pinned_listed_and_taken_off(world: World) -> None:
    other, client = await other_app(world), world.client()
    ts = await world.say("alice", "remember")
    await client.pins_add(channel=world.general, timestamp=ts)
    target = {"channel": world.general, "timestamp": ts}
    assert await world.error("pins.add", json=target) == "already_pinned"
    (item,) = (await client.pins_list(channel=world.general))["items"]
    assert (item["created_by"], item["message"]["text"]) == ("U000SWARM", "remember")
    assert (
        item["message"]["permalink"]
        == (await client.chat_getPermalink(channel=world.general, message_ts=ts))["permalink"]
    )
    history = await client.conversations_history(channel=world.general)
    assert (history["pin_count"], history["messages"][0]["pinned_to"]) == (1, [world.general])
    await client.pins_remove(channel=world.general, timestamp=ts)
    assert await world.error("pins.remove", json=target) == "no_pin"
    assert await world.error("pins.add", json={"channel": world.general}) == "no_item_specified"
    _, added, removed = await events(other, 3)
    assert (added["type"], added["pin_count"], removed["type"]) == ("pin_added", 1, "pin_removed")
    assert removed["has_pins"] is False


async def test_a_deleted_message_is_not_pinned_any_more(world: World) -> None:
    ts = await world.say("alice", "remember")
    await world.client().pins_add(channel=world.general, timestamp=ts)
    await world.ask("DELETE", "messages", {"user": "alice", "channel": "general", "ts": ts})
    assert (await world.client().pins_list(channel=world.general))["items"] == []
