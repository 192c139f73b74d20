"""Small methods: connection tests, profiles, members of groups, `/me`."""

import pytest
from slack_sdk.errors import SlackApiError

from tests.world import World

pytestmark = pytest.mark.req("TWIN-02")


async def test_the_api_is_tested_without_a_token(world: World) -> None:
    assert (await world.client(None).api_test(foo="bar"))["args"] == {"foo": "bar"}
    with pytest.raises(SlackApiError) as refused:
        await world.client(None).api_test(error="my_error")
    assert refused.value.response.data == {"ok": False, "error": "my_error", "args": {"error": "my_error"}}


async def test_the_profile_of_a_person_and_of_the_bot_itself(world: World) -> None:
    alice = (await world.client().users_profile_get(user="U000ALICE"))["profile"]
    assert (alice["real_name"], alice["email"]) == ("Alice Archer", "alice@twin.test")
    assert (await world.client().users_profile_get())["profile"]["api_app_id"] == "A000SWARM"
    assert await world.error("users.profile.get", json={"user": "U404"}) == "user_not_found"


async def test_the_members_of_a_user_group(world: World) -> None:
    await world.ask("POST", "seed", {"user_groups": [{"handle": "ops", "members": ["alice", "bob"]}]})
    assert (await world.client().usergroups_users_list(usergroup="S00000OPS"))["users"] == ["U000ALICE", "U00000BOB"]
    assert await world.error("usergroups.users.list", json={"usergroup": "S404"}) == "no_such_subteam"


async def test_a_bot_says_what_it_does(world: World) -> None:
    ts = (await world.client().chat_meMessage(channel=world.general, text="is <thinking>"))["ts"]
    (said,) = (await world.client().conversations_history(channel=world.general))["messages"]
    assert (said["ts"], said["subtype"], said["text"]) == (ts, "me_message", "is &lt;thinking&gt;")
    assert await world.error("chat.meMessage", json={"channel": world.general}) == "no_text"


async def test_the_sdk_calls_the_methods_of_common_bots(world: World) -> None:
    client, general = world.client(), world.general
    await world.ask("POST", "seed", {"emoji": {"shipit": "https://x.test/s.png", "squirrel": "alias:shipit"}})
    assert (await client.emoji_list())["emoji"]["squirrel"] == "alias:shipit"
    ts = await world.say("alice", "see https://x.test/1")
    await client.reactions_add(channel=general, timestamp=ts, name="squirrel")
    assert [item["message"]["ts"] for item in (await client.reactions_list())["items"]] == [ts]
    await client.users_setPresence(presence="away")
    assert [(await client.users_getPresence(user=user))["presence"] for user in ("U000SWARM", "U000ALICE")] == [
        "away",
        "active",
    ]
    mark = (await client.bookmarks_add(channel_id=general, title="t", type="link", link="https://x.test"))["bookmark"]
    edited = await client.bookmarks_edit(channel_id=general, bookmark_id=mark["id"], title="u")
    assert (edited["bookmark"]["title"], edited["bookmark"]["link"]) == ("u", "https://x.test")
    assert (await client.bookmarks_list(channel_id=general))["bookmarks"] == [edited["bookmark"]]
    await client.bookmarks_remove(channel_id=general, bookmark_id=mark["id"])
    assert (await client.bookmarks_list(channel_id=general))["bookmarks"] == []
    assert (await client.blocks_validate(blocks=[{"type": "divider"}]))["ok"] is True
    assert (await client.auth_revoke(test=True))["revoked"] is False


async def test_a_preview_is_attached_to_a_link_and_replaced_by_the_next(world: World) -> None:
    line = await world.line()
    ts = await world.say("alice", "see https://x.test/1")
    await line.next_acknowledged()
    for text in ("first", "second"):
        await world.client().chat_unfurl(channel=world.general, ts=ts, unfurls={"https://x.test/1": {"text": text}})
        event = (await line.next_acknowledged())["payload"]["event"]
        (preview,) = event["message"]["attachments"]
        assert (event["subtype"], preview["text"], preview["is_app_unfurl"]) == ("message_changed", text, True)
    assert "edited" not in event["message"]


async def test_an_app_reads_its_own_clock_again_after_a_reset(world: World) -> None:
    before = await world.say("alice", "now")
    await world.advance(86_400)
    assert float(await world.say("alice", "tomorrow")) > float(before) + 86_000
    await world.ask("POST", "reset")
    assert float(before) < float(await world.say("alice", "now again")) < float(before) + 60


async def test_links_of_markdown_are_read_as_slack_shows_them(world: World) -> None:
    link = "https://x.test/?a=1&amp;b=2"
    await world.client().chat_postMessage(channel=world.general, markdown_text=f"R&amp;D [here]({link})")
    await world.client().chat_postMessage(channel=world.general, text=f"R&amp;D <{link}>")
    assert [said["text"] for said in await world.seen()] == [f"R&D [here]({link})", "R&D https://x.test/?a=1&b=2"]
