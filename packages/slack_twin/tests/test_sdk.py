"""The unmodified slack_sdk, sync and async, against the twin by its base URL alone."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from slack_sdk.errors import SlackApiError
from slack_sdk.models.blocks import MarkdownBlock, SectionBlock
from slack_sdk.models.metadata import Metadata

from tests.world import APP_TOKEN, World

pytestmark = pytest.mark.req("TWIN-01", "TWIN-02")

Caller = Callable[..., Awaitable[Any]]


@pytest.fixture(params=["async", "sync"])
def call(request: pytest.FixtureRequest, world: World) -> Caller:
    """Calls a method of the SDK by name, with the async client, or with the sync client in a thread."""

    async def call_async(method: str, **arguments: Any) -> Any:
        return (await getattr(world.client(), method)(**arguments)).data

    async def call_sync(method: str, **arguments: Any) -> Any:
        return (await asyncio.to_thread(lambda: getattr(world.sync_client(), method)(**arguments))).data

    return call_async if request.param == "async" else call_sync


async def test_the_sdk_learns_who_it_is(call: Caller) -> None:
    me = await call("auth_test")
    assert (me["team_id"], me["user"], me["user_id"], me["bot_id"]) == ("T0TWIN", "swarm", "U000SWARM", "B000SWARM")


async def test_posts_are_read_back_in_a_thread_with_their_metadata(call: Caller, world: World) -> None:
    root = await world.say("alice", "@swarm hello")
    mark = {"event_type": "swarm_delivery", "event_payload": {"key": "k1", "n": 1}}
    posted = await call(
        "chat_postMessage", channel=world.general, thread_ts=root, text="hi", metadata=mark, unfurl_links=False
    )
    for flag in (True, "true", 1, "1"):
        read = await call("conversations_replies", channel=world.general, ts=root, include_all_metadata=flag)
        assert [message["ts"] for message in read["messages"]] == [root, posted["ts"]]
        assert read["messages"][1]["metadata"] == mark
    plain = await call("conversations_replies", channel=world.general, ts=root)
    assert "event_payload" not in plain["messages"][1]["metadata"]


async def test_metadata_and_blocks_as_objects_of_the_sdk_are_understood(call: Caller, world: World) -> None:
    posted = await call(
        "chat_postMessage",
        channel="#general",
        text="fallback",
        blocks=[SectionBlock(text="*bold*"), MarkdownBlock(text="# title")],
        metadata=Metadata(event_type="t", event_payload={"a": "b"}),
    )
    history = await call("conversations_history", channel=world.general, include_all_metadata=True, limit=1)
    (message,) = history["messages"]
    assert message["ts"] == posted["ts"]
    assert [block["type"] for block in message["blocks"]] == ["section", "markdown"]
    assert message["metadata"] == {"event_type": "t", "event_payload": {"a": "b"}}


async def test_messages_are_updated_and_deleted(call: Caller, world: World) -> None:
    ts = (await call("chat_postMessage", channel=world.general, text="one"))["ts"]
    assert (await call("chat_update", channel=world.general, ts=ts, text="two"))["text"] == "two"
    (message,) = await world.seen()
    assert (message["text"], message["edited"]) == ("two", True)
    assert (await call("chat_delete", channel=world.general, ts=ts))["ts"] == ts
    assert await world.seen() == []


async def test_an_update_keeps_the_blocks_that_it_does_not_name(call: Caller, world: World) -> None:
    ts = (await call("chat_postMessage", channel=world.general, markdown_text="**hi**"))["ts"]
    kept = await call("chat_update", channel=world.general, ts=ts, text="two")
    assert kept["message"]["blocks"][0]["type"] == "markdown"
    cleared = await call("chat_update", channel=world.general, ts=ts, text="two", blocks=[])
    assert "blocks" not in cleared["message"]


async def test_reactions_come_and_go(call: Caller, world: World) -> None:
    ts = await world.say("alice", "hello")
    await call("reactions_add", channel=world.general, name="eyes", timestamp=ts)
    shown = await call("reactions_get", channel=world.general, timestamp=ts)
    assert shown["message"]["reactions"] == [{"name": "eyes", "users": ["U000SWARM"], "count": 1}]
    assert (await world.seen())[0]["reactions"] == [{"name": "eyes", "users": ["swarm"]}]
    await call("reactions_remove", channel=world.general, name="eyes", timestamp=ts)
    assert (await world.seen())[0]["reactions"] == []


async def test_people_are_found_by_id_and_by_address(call: Caller) -> None:
    people = await call("users_list")
    assert [person["name"] for person in people["members"]] == ["slackbot", "alice", "bob", "carol", "swarm"]
    alice = await call("users_info", user="U000ALICE")
    found = await call("users_lookupByEmail", email="ALICE@twin.test")
    assert alice["user"] == found["user"]
    assert alice["user"]["profile"]["display_name"] == "Alice"


async def test_channels_are_listed_with_their_members(call: Caller, world: World) -> None:
    listed = await call("conversations_list", types="public_channel,im")
    assert [channel["name"] for channel in listed["channels"]] == ["general", "random"]
    assert (await call("conversations_info", channel=world.general))["channel"]["is_member"] is True
    members = await call("conversations_members", channel=world.general)
    assert members["members"] == ["U000ALICE", "U00000BOB", "U000CAROL", "U000SWARM"]
    joined = await call("users_conversations", user="U00000BOB")
    assert len(joined["channels"]) == 2


async def test_a_direct_conversation_is_opened_once(call: Caller, world: World) -> None:
    opened = await call("conversations_open", users=["U000ALICE"])
    again = await call("conversations_open", users="U000ALICE", return_im=True)
    assert opened["channel"]["id"] == again["channel"]["id"]
    assert (again["channel"]["is_im"], again["channel"]["user"]) == (True, "U000ALICE")
    await call("chat_postMessage", channel="U000ALICE", text="hello alice")
    assert [message["text"] for message in await world.seen("@swarm", user="alice")] == ["hello alice"]


async def test_long_lists_come_in_pages_until_the_cursor_is_empty(call: Caller, world: World) -> None:
    said = [await world.say("alice", f"number {number}") for number in range(5)]
    collected, cursor = [], None
    while cursor != "":
        page = await call("conversations_history", channel=world.general, limit=2, cursor=cursor)
        collected += [message["ts"] for message in page["messages"]]
        cursor = page.get("response_metadata", {}).get("next_cursor", "")
        assert page["has_more"] is bool(cursor)
    assert collected == said[::-1]


async def test_a_thread_comes_oldest_first_and_its_replies_are_not_in_the_history(call: Caller, world: World) -> None:
    root = await world.say("alice", "root")
    replies = [await world.say("bob", f"reply {number}", thread_ts=root) for number in range(3)]
    shown = await world.say("bob", "for all", thread_ts=root, broadcast=True)
    pages, cursor = [], None
    while cursor != "":
        page = await call("conversations_replies", channel=world.general, ts=root, limit=2, cursor=cursor)
        pages.append([message["ts"] for message in page["messages"]])
        cursor = page.get("response_metadata", {}).get("next_cursor", "")
    assert pages == [[root, replies[0]], replies[1:], [shown]]
    history = await call("conversations_history", channel=world.general)
    assert [message["ts"] for message in history["messages"]] == [shown, root]
    assert history["messages"][1]["reply_count"] == 4


async def test_oldest_and_latest_bound_a_history_exclusively_unless_asked(call: Caller, world: World) -> None:
    said = [await world.say("alice", f"number {number}") for number in range(4)]
    bounds = {"channel": world.general, "oldest": said[0], "latest": said[3]}
    inner = await call("conversations_history", **bounds)
    assert [message["ts"] for message in inner["messages"]] == [said[2], said[1]]
    whole = await call("conversations_history", **bounds, inclusive=True)
    assert [message["ts"] for message in whole["messages"]] == said[::-1]


async def test_the_remaining_methods_answer(call: Caller, world: World) -> None:
    ts = await world.say("alice", "hello")
    link = (await call("chat_getPermalink", channel=world.general, message_ts=ts))["permalink"]
    assert link == f"{world.base}archives/C0GENERAL/p{ts.replace('.', '')}"
    assert (await call("bots_info", bot="B000SWARM"))["bot"]["app_id"] == "A000SWARM"
    assert (await call("team_info"))["team"]["id"] == "T0TWIN"
    assert (await call("usergroups_list"))["usergroups"] == []
    assert (await call("conversations_join", channel=world.general))["warning"] == "already_in_channel"
    await call("assistant_threads_setStatus", channel_id=world.general, thread_ts=ts, status="is thinking…")
    assert (await call("chat_postEphemeral", channel=world.general, user="U000ALICE", text="psst"))["message_ts"]
    assert [message["text"] for message in await world.seen()] == ["hello"]
    opened = await call("apps_connections_open", app_token=APP_TOKEN)
    assert opened["url"].startswith(world.base.replace("http", "ws"))


async def test_refusals_arrive_as_errors_of_the_sdk(call: Caller, world: World) -> None:
    with pytest.raises(SlackApiError, match="channel_not_found"):
        await call("chat_postMessage", channel="C404", text="hello")
