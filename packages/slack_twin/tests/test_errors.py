"""Slack's error codes for the callers' mistakes."""

import io
from typing import Any

import aiohttp
import pytest

from tests.world import APP_TOKEN, World

pytestmark = pytest.mark.req("TWIN-02")
C = "C0GENERAL"
PAST = "1000000000.000100"


WRONG_CALLS: list[tuple[str, dict[str, Any], str]] = [
    ("chat.postMessage", {"channel": C}, "no_text"),
    ("chat.postMessage", {"text": "x"}, "invalid_arguments"),
    ("chat.postMessage", {"channel": "C404", "text": "x"}, "channel_not_found"),
    ("chat.postMessage", {"channel": C, "markdown_text": "x" * 12_001}, "msg_too_long"),
    ("chat.postMessage", {"channel": C, "markdown_text": "x", "text": "y"}, "markdown_text_conflict"),
    ("chat.postMessage", {"channel": C, "text": "x", "thread_ts": PAST}, "thread_not_found"),
    ("chat.postMessage", {"channel": C, "text": "x", "thread_ts": "soon"}, "invalid_arguments"),
    ("chat.postMessage", {"channel": C, "text": ["x"]}, "invalid_arguments"),
    ("chat.postMessage", {"channel": C, "blocks": "{"}, "invalid_arguments"),
    ("chat.postMessage", {"channel": C, "blocks": {"type": "divider"}}, "invalid_blocks_format"),
    ("chat.postMessage", {"channel": C, "blocks": [{"type": "nonsense"}]}, "invalid_blocks"),
    ("chat.postMessage", {"channel": C, "blocks": [{"type": ["divider"]}]}, "invalid_blocks"),
    ("chat.postMessage", {"channel": C, "blocks": ["divider"]}, "invalid_blocks"),
    ("chat.postMessage", {"channel": C, "blocks": [{"type": "divider"}] * 51}, "invalid_blocks"),
    (
        "chat.postMessage",
        {"channel": C, "blocks": [{"type": "markdown", "text": "x" * 12_001}]},
        "msg_blocks_too_long",
    ),
    ("chat.postMessage", {"channel": C, "text": "x", "attachments": [1]}, "invalid_attachments"),
    ("chat.postMessage", {"channel": C, "text": "x", "metadata": {"event_type": "t"}}, "invalid_metadata_format"),
    ("chat.postMessage", {"channel": C, "text": "x", "metadata": []}, "invalid_metadata_format"),
    ("chat.postEphemeral", {"channel": C, "text": "x", "user": "U404"}, "user_not_in_channel"),
    ("chat.update", {"channel": C, "ts": PAST, "text": "x"}, "message_not_found"),
    ("chat.delete", {"channel": C, "ts": PAST}, "message_not_found"),
    ("chat.getPermalink", {"channel": C, "message_ts": PAST}, "message_not_found"),
    ("conversations.history", {"channel": "D404"}, "channel_not_found"),
    ("conversations.history", {"channel": C, "cursor": "nonsense"}, "invalid_cursor"),
    ("conversations.history", {"channel": C, "cursor": "b2Zmc2V0OjE="}, "invalid_cursor"),
    ("conversations.history", {"channel": C, "limit": "0"}, "invalid_limit"),
    ("conversations.history", {"channel": C, "limit": "many"}, "invalid_limit"),
    ("conversations.history", {"channel": C, "inclusive": "perhaps"}, "invalid_arguments"),
    ("conversations.replies", {"channel": C, "ts": PAST}, "thread_not_found"),
    ("conversations.list", {"types": "secret"}, "invalid_types"),
    ("conversations.open", {}, "users_list_not_supplied"),
    ("conversations.open", {"users": "U404"}, "user_not_found"),
    ("users.info", {"user": "U404"}, "user_not_found"),
    ("users.list", {"cursor": "b2Zmc2V0Ojk5OQ=="}, "invalid_cursor"),
    ("users.lookupByEmail", {"email": "nobody@twin.test"}, "users_not_found"),
    ("bots.info", {"bot": "B404"}, "bot_not_found"),
    ("reactions.add", {"name": "eyes"}, "no_item_specified"),
    ("reactions.add", {"name": "eyes", "channel": C, "timestamp": "soon"}, "bad_timestamp"),
    ("reactions.add", {"name": "eyes", "channel": C, "timestamp": PAST}, "message_not_found"),
    ("assistant.threads.setStatus", {"channel_id": C, "thread_ts": PAST, "status": "x"}, "invalid_thread_ts"),
    ("chat.postTelegram", {"text": "x"}, "unknown_method"),
]


async def test_every_wrong_call_gets_slacks_code(world: World) -> None:
    world.twin.limits.enabled = False
    answers = [(method, args, await world.error(method, json=args)) for method, args, _ in WRONG_CALLS]
    assert answers == WRONG_CALLS
    assert await world.seen() == []


async def test_reactions_are_given_once_and_taken_back_once(world: World) -> None:
    target = {"channel": C, "timestamp": await world.say("alice", "hi"), "name": "eyes"}
    assert await world.error("reactions.remove", json=target) == "no_reaction"
    await world.client().reactions_add(**target)
    assert await world.error("reactions.add", json=target) == "already_reacted"
    assert await world.error("reactions.add", json=target | {"name": "no such name!"}) == "invalid_name"


async def test_only_own_messages_can_be_changed(world: World) -> None:
    message = {"channel": C, "ts": await world.say("alice", "mine"), "text": "yours"}
    assert await world.error("chat.update", json=message) == "cant_update_message"
    assert await world.error("chat.delete", json=message) == "cant_delete_message"


async def test_a_token_must_be_there_known_and_of_the_right_kind(world: World) -> None:
    assert await world.error("auth.test", token=None) == "not_authed"
    assert await world.error("auth.test", token="xoxb-other") == "invalid_auth"
    assert await world.error("chat.postMessage", token=APP_TOKEN) == "not_allowed_token_type"
    assert await world.error("apps.connections.open") == "not_allowed_token_type"
    status, me = await world.raw("auth.test", token=None, data={"token": "xoxb-twin-swarm"})
    assert (status, me["ok"]) == (200, True)


async def test_a_missing_scope_is_named_beside_those_that_are_there(world: World) -> None:
    await world.ask("POST", "seed", {"apps": [{"name": "reader", "scopes": ["users:read", "channels:read"]}]})
    _, refusal = await world.raw("chat.postMessage", token="xoxb-twin-reader", json={"channel": C, "text": "x"})
    assert (refusal["error"], refusal["needed"]) == ("missing_scope", "chat:write")
    assert refusal["provided"] == "channels:read,users:read"
    assert await world.error("conversations.history", token="xoxb-twin-reader", json={"channel": C}) == "missing_scope"


async def test_a_bot_reads_and_posts_only_where_it_is_a_member(world: World) -> None:
    await world.ask(
        "POST", "seed", {"channels": [{"name": "club", "members": ["alice"]}, {"name": "vault", "is_private": True}]}
    )
    club, vault = "C0000CLUB", "C000VAULT"
    assert await world.error("chat.postMessage", json={"channel": club, "text": "x"}) == "not_in_channel"
    assert await world.error("conversations.history", json={"channel": club}) == "not_in_channel"
    assert await world.error("chat.postMessage", json={"channel": vault, "text": "x"}) == "channel_not_found"
    assert await world.error("conversations.info", json={"channel": vault}) == "channel_not_found"
    await world.client().conversations_join(channel=club)
    await world.client().chat_postMessage(channel=club, text="now")


async def test_a_deleted_root_takes_no_more_replies(world: World) -> None:
    lone, busy = await world.say("alice", "lone"), await world.say("alice", "busy")
    await world.say("bob", "reply", thread_ts=busy)
    for ts in (lone, busy):
        await world.ask("DELETE", "messages", {"user": "alice", "channel": "general", "ts": ts})
        assert (
            await world.error("chat.postMessage", json={"channel": C, "text": "x", "thread_ts": ts})
            == "thread_not_found"
        )
    assert await world.error("conversations.replies", json={"channel": C, "ts": lone}) == "thread_not_found"
    assert [message["subtype"] for message in await world.seen()] == ["tombstone", None]


UNREADABLE: list[tuple[bytes, str, str]] = [
    (b"{", "application/json", "invalid_json"),
    (b"\xff\xfe", "application/json", "invalid_json"),
    (b'{"text": "\\ud800"}', "application/json", "invalid_json"),
    (b'{"text": "x", "metadata": ' + b"[" * 300 + b"]" * 300 + b"}", "application/json", "invalid_json"),
    (b"[1]", "application/json", "json_not_object"),
    (b"text=%FF", "application/x-www-form-urlencoded", "invalid_form_data"),
    (b"text=%ED%A0%80", "application/x-www-form-urlencoded", "invalid_form_data"),
    (b"\xff", "application/x-www-form-urlencoded", "invalid_form_data"),
    (b"nonsense", "multipart/form-data; boundary=b", "invalid_form_data"),
    (b"nonsense", "multipart/form-data", "invalid_form_data"),
]


async def test_a_body_that_cannot_be_read_is_refused(world: World) -> None:
    answers = [
        (body, kind, await world.error("chat.postMessage", data=body, headers={"Content-Type": kind}))
        for body, kind, _ in UNREADABLE
    ]
    assert answers == UNREADABLE


async def test_a_body_of_more_than_eight_megabytes_is_refused(world: World) -> None:
    too_much = io.BytesIO(b"x" * (8 * 1024 * 1024 + 1))
    assert await world.error("chat.postMessage", data=too_much) == "request_too_large"


async def test_nul_is_dropped_from_a_text(world: World) -> None:
    await world.client().chat_postMessage(channel=C, text="a\x00b")
    assert (await world.seen())[0]["text"] == "ab"


async def test_arguments_count_wherever_they_come(world: World) -> None:
    await world.raw(f"chat.postMessage?channel={C}&text=query")
    await world.raw(f"chat.postMessage?channel={C}&text=query", data={"text": "form"})
    await world.raw(f"chat.postMessage?channel={C}", json={"text": "json"})
    form = aiohttp.FormData(default_to_multipart=True)
    form.add_field("text", "multipart ä")
    await world.raw(f"chat.postMessage?channel={C}", data=form)
    assert [message["text"] for message in await world.seen()] == ["query", "form", "json", "multipart ä"]


async def test_nonsense_over_the_socket_is_passed_over(world: World) -> None:
    line = await world.line()
    for frame in ("", "{", "[]", "null", '{"envelope_id": 7}', '{"envelope_id": ["x"]}', "\x00"):
        await line.socket.send_str(frame)
    await line.socket.send_bytes(b"\xff\x00")
    await world.say("alice", "still there?")
    assert (await line.next_acknowledged())["payload"]["event"]["text"] == "still there?"


async def test_a_socket_opens_once_with_a_ticket_and_never_without(world: World) -> None:
    url = (await world.client().apps_connections_open(app_token=APP_TOKEN))["url"]
    first = await world.http.ws_connect(url)
    for wrong in (url, url.split("?")[0], url + "x"):
        with pytest.raises(aiohttp.WSServerHandshakeError, match="403"):
            await world.http.ws_connect(wrong)
    await first.close()
