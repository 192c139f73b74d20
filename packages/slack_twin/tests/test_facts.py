"""Facts of Slack's documents, one a line: a call, and the error code or the field of the answer that they promise.

Errors: https://docs.slack.dev/reference/methods, each on the page of its method; those of all methods are on each page.
The sizes of blocks, elements and objects are in test_blocks.py.
"""

from typing import Any

import httpx2
import pytest
from slack_twin import build_twin, create_app

from tests.world import APP_TOKEN, BOT_TOKEN

pytestmark = pytest.mark.req("TWIN-02", "TWIN-07")

# ROOT is a message of alice with a link, OWN one of the bot, DEN a channel without the bot, OLD an archived one.
C, NONE = {"channel": "C0GENERAL"}, {"channel": "C404"}
ROOT, GONE, OWN = C | {"timestamp": "ROOT"}, C | {"timestamp": "1.000001"}, C | {"ts": "OWN"}
LINK, NOWHERE = {"https://x.test/1": {"text": "t"}}, {"channel_id": "C404"}
MARK = {"channel_id": "C0GENERAL", "title": "t", "type": "link", "link": "https://x.test"}
PAST, FAR = {**C, "text": "x", "post_at": 1}, {**C, "text": "x", "post_at": 99_999_999_999}
ERRORS: list[tuple[str, dict[str, Any], str]] = [
    ("chat.postMessage", {**NONE, "text": "x"}, "channel_not_found"),
    ("chat.postMessage", {"channel": "DEN", "text": "x"}, "not_in_channel"),
    ("chat.postMessage", {"channel": "OLD", "text": "x"}, "is_archived"),
    ("chat.postMessage", C, "no_text"),
    ("chat.postMessage", {**C, "blocks": "{}"}, "invalid_blocks_format"),
    ("chat.postMessage", {**C, "blocks": [{"type": "nonsense"}]}, "invalid_blocks"),
    ("chat.postMessage", {**C, "attachments": [{"text": "x"}] * 101}, "too_many_attachments"),
    ("chat.postMessage", {**C, "text": "x", "attachments": ["x"]}, "invalid_attachments"),
    ("chat.postMessage", {**C, "text": "x", "metadata": {"event_type": 1}}, "invalid_metadata_format"),
    ("chat.postMessage", {**C, "text": "x", "markdown_text": "x"}, "markdown_text_conflict"),
    ("chat.postMessage", {**C, "markdown_text": "x" * 12_001}, "msg_too_long"),
    ("chat.postEphemeral", {**C, "user": "U404", "text": "x"}, "user_not_in_channel"),
    ("chat.meMessage", C, "no_text"),
    ("chat.update", {**C, "ts": "1.000001", "text": "x"}, "message_not_found"),
    ("chat.update", {**C, "ts": "ROOT", "text": "x"}, "cant_update_message"),
    ("chat.update", {**OWN, "text": "x" * 4_001}, "msg_too_long"),
    ("chat.update", OWN, "no_text"),
    ("chat.delete", {**C, "ts": "1.000001"}, "message_not_found"),
    ("chat.delete", {**C, "ts": "ROOT"}, "cant_delete_message"),
    ("chat.getPermalink", {**C, "message_ts": "1.000001"}, "message_not_found"),
    ("chat.getPermalink", {**NONE, "message_ts": "ROOT"}, "channel_not_found"),
    ("chat.scheduleMessage", PAST, "time_in_past"),
    ("chat.scheduleMessage", FAR, "time_too_far"),
    ("chat.deleteScheduledMessage", {**C, "scheduled_message_id": "Q404"}, "invalid_scheduled_message_id"),
    ("chat.unfurl", {"ts": "ROOT", "unfurls": LINK}, "missing_channel"),
    ("chat.unfurl", {**C, "unfurls": LINK}, "missing_ts"),
    ("chat.unfurl", {**C, "ts": "ROOT"}, "missing_unfurls"),
    ("chat.unfurl", {**NONE, "ts": "ROOT", "unfurls": LINK}, "cannot_find_channel"),
    ("chat.unfurl", {**C, "ts": "1.000001", "unfurls": LINK}, "cannot_find_message"),
    ("chat.unfurl", {**C, "ts": "ROOT", "unfurls": {"https://y.test": {}}}, "cannot_unfurl_message"),
    ("chat.unfurl", {**C, "ts": "ROOT", "unfurls": [1]}, "invalid_unfurls_format"),
    ("conversations.info", NONE, "channel_not_found"),
    ("conversations.history", NONE, "channel_not_found"),
    ("conversations.history", {"channel": "DEN"}, "not_in_channel"),
    ("conversations.history", {**C, "cursor": "x"}, "invalid_cursor"),
    ("conversations.history", {**C, "limit": "x"}, "invalid_limit"),
    ("conversations.replies", {**C, "ts": "1.000001"}, "thread_not_found"),
    ("conversations.members", NONE, "channel_not_found"),
    ("conversations.members", {**C, "cursor": "x"}, "invalid_cursor"),
    ("conversations.join", NONE, "channel_not_found"),
    ("conversations.join", {"channel": "OLD"}, "is_archived"),
    ("conversations.create", {"name": "general"}, "name_taken"),
    ("conversations.create", {"name": "x" * 81}, "invalid_name_maxlength"),
    ("conversations.create", {"name": "a b!"}, "invalid_name_specials"),
    ("conversations.archive", {"channel": "OLD"}, "already_archived"),
    ("conversations.archive", C, "cant_archive_general"),
    ("conversations.unarchive", C, "not_archived"),
    ("conversations.invite", {**C, "users": "U000ALICE"}, "already_in_channel"),
    ("conversations.invite", {**C, "users": "U000SWARM"}, "cant_invite_self"),
    ("conversations.kick", {**C, "user": "U000SWARM"}, "cant_kick_self"),
    ("conversations.kick", {**C, "user": "U000ALICE"}, "cant_kick_from_general"),
    ("conversations.leave", C, "cant_leave_general"),
    ("conversations.setTopic", {**C, "topic": "x" * 251}, "too_long"),
    ("users.info", {"user": "U404"}, "user_not_found"),
    ("users.lookupByEmail", {"email": "nobody@x.test"}, "users_not_found"),
    ("users.setPresence", {"presence": "asleep"}, "invalid_presence"),
    ("reactions.add", {**ROOT, "name": "no_such_emoji"}, "invalid_name"),
    ("reactions.add", {**ROOT, "name": "eyes"}, "already_reacted"),
    ("reactions.add", {**GONE, "name": "eyes"}, "message_not_found"),
    ("reactions.add", {**C, "name": "eyes"}, "no_item_specified"),
    ("reactions.add", {**C, "timestamp": "x", "name": "eyes"}, "bad_timestamp"),
    ("reactions.add", {**ROOT, **NONE, "name": "eyes"}, "channel_not_found"),
    ("reactions.remove", {**ROOT, "name": "tada"}, "no_reaction"),
    ("reactions.list", {"user": "U404"}, "user_not_found"),
    ("agents.sessions.setStatus", {"channel_id": "C0GENERAL", "status": "active"}, "thread_ts_required"),
    ("agents.sessions.setStatus", {"channel_id": "C0GENERAL", "thread_ts": "ROOT", "status": "x"}, "invalid_status"),
    ("conversations.history", {**C, "oldest": "x"}, "invalid_ts_oldest"),
    ("reactions.add", {"channel": "OLD", "timestamp": "OLDEST", "name": "eyes"}, "is_archived"),
    ("pins.add", GONE, "message_not_found"),
    ("pins.remove", ROOT, "no_pin"),
    ("bookmarks.add", {**MARK, "link": "ftp://x"}, "invalid_link"),
    ("bookmarks.add", {**MARK, "type": "file"}, "invalid_bookmark_type"),
    ("bookmarks.add", {**MARK, "emoji": "?!"}, "invalid_emoji"),
    ("bookmarks.edit", {"channel_id": "C0GENERAL", "bookmark_id": "Bk404"}, "not_found"),
    ("bookmarks.remove", {"channel_id": "C0GENERAL", "bookmark_id": "Bk404"}, "not_found"),
    ("bookmarks.list", NOWHERE, "channel_not_found"),
    ("files.info", {"file": "F404"}, "file_not_found"),
    ("files.completeUploadExternal", {"files": [{"id": "F404"}]}, "file_not_found"),
    ("usergroups.users.list", {"usergroup": "S404"}, "no_such_subteam"),
    ("bots.info", {"bot": "B404"}, "bot_not_found"),
    ("team.info", {"team": "T404"}, "team_not_found"),
    ("blocks.validate", {"blocks": [{"type": "x"}]}, "invalid_blocks"),
    ("blocks.validate", {"message": {"blocks": [{"type": "x"}]}}, "invalid_message"),
    ("blocks.validate", {"view": {"type": "modal", "blocks": []}}, "invalid_view"),
    ("blocks.validate", {}, "invalid_arguments"),
    ("apps.connections.open", {}, "not_allowed_token_type"),
    ("no.such.method", {}, "unknown_method"),
    *((name, {}, "method_deprecated") for name in ("files.upload", "channels.list", "im.open", "rtm.start")),
]  # fmt: skip


# Fields that the documents' examples and the SDKs' types have.
FIELDS: list[tuple[str, dict[str, Any], str]] = [
    ("auth.test", {}, "url team user team_id user_id bot_id is_enterprise_install"),
    ("users.info", {"user": "USLACKBOT"}, "user.profile.image_72 user.profile.image_512 user.is_bot user.tz_offset"),
    ("bots.info", {"bot": "B000SWARM"}, "bot.icons.image_36 bot.icons.image_72 bot.app_id bot.user_id"),
    ("team.info", {}, "team.icon.image_34 team.icon.image_132 team.domain"),
    ("users.getPresence", {}, "presence online auto_away manual_away connection_count"),
    ("emoji.list", {}, "emoji cache_ts"),
    ("auth.revoke", {"test": True}, "revoked"),
    ("reactions.list", {}, "items.0.message.reactions.0.users items.0.message.permalink response_metadata.next_cursor"),
    ("bookmarks.add", MARK, "bookmark.id bookmark.rank bookmark.icon_url bookmark.last_updated_by_team_id"),
    ("chat.postMessage", {**C, "attachments": [{"color": "good"}]}, "message.attachments.0.id"),
    ("chat.postMessage", {**C, "text": "x"}, "message.bot_profile.icons.image_48 message.team message.bot_id"),
    ("blocks.validate", {"blocks": [{"type": "divider"}]}, "ok"),
    ("chat.unfurl", {**C, "ts": "ROOT", "unfurls": LINK}, "ok"),
]  # fmt: skip


class Api:
    """A twin with the messages that the facts name, without a server."""

    def __init__(self) -> None:
        self.twin = build_twin(rates=False)
        transport = httpx2.ASGITransport(app=create_app(self.twin))
        self.http = httpx2.AsyncClient(transport=transport, base_url="http://localhost")
        self.names: dict[str, str] = {}

    async def __aenter__(self) -> "Api":
        seed = {"channels": [{"name": "den", "members": ["bob"]}, {"name": "old", "members": ["bob", "swarm"]}]}
        self.names |= {name.upper(): found for name, found in (await self.post("/twin/seed", seed))["channels"].items()}
        said = {"user": "alice", "channel": "general", "text": "https://x.test/1"}
        self.names["ROOT"] = (await self.post("/twin/messages", said))["ts"]
        self.names["OWN"] = (await self.call("chat.postMessage", {**C, "text": "x"}))["ts"]
        assert (await self.call("reactions.add", {**ROOT, "name": "eyes"}))["ok"]
        said = {"user": "bob", "channel": "old", "text": "x"}
        self.names["OLDEST"] = (await self.post("/twin/messages", said))["ts"]
        assert (await self.call("conversations.archive", {"channel": "OLD"}))["ok"]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.http.aclose()
        await self.twin.close()

    async def post(self, path: str, body: Any, **headers: str) -> Any:
        return (await self.http.post(path, json=body, headers=headers)).json()

    async def call(self, method: str, args: dict[str, Any]) -> Any:
        named = {key: self.names.get(value, value) if isinstance(value, str) else value for key, value in args.items()}
        return await self.post(f"/api/{method}", named, authorization=f"Bearer {BOT_TOKEN}")


@pytest.mark.parametrize(("method", "args", "error"), ERRORS)
async def test_a_call_is_refused_with_the_documented_code(method: str, args: dict[str, Any], error: str) -> None:
    async with Api() as api:
        assert (await api.call(method, args)).get("error") == error


@pytest.mark.parametrize(("method", "args", "fields"), FIELDS)
async def test_an_answer_has_the_documented_fields(method: str, args: dict[str, Any], fields: str) -> None:
    async with Api() as api:
        answer = await api.call(method, args)
    for field in fields.split():
        value = answer
        for step in field.split("."):
            value = value[int(step) if step.isdecimal() else step]


BODIES = [
    ("application/json", b"{", "invalid_json"),
    ("application/json", b"[]", "json_not_object"),
    ("application/json; charset=utf-16", b"{}", "invalid_charset"),
    ("application/x-www-form-urlencoded", b"\xff=1", "invalid_form_data"),
    ("application/x-www-form-urlencoded", b"a-b=1", "invalid_arg_name"),
    ("application/x-www-form-urlencoded", b"users[]=1", "invalid_array_arg"),
    ("application/xml", b"<x/>", "invalid_post_type"),
    ("", b"x=1", "missing_post_type"),
]


@pytest.mark.parametrize(("kind", "body", "error"), BODIES)
async def test_a_body_is_refused_as_slack_refuses_it_and_every_answer_has_an_id(
    kind: str, body: bytes, error: str
) -> None:
    headers = {"authorization": f"Bearer {BOT_TOKEN}"} | ({"content-type": kind} if kind else {})
    async with Api() as api:
        answer = await api.http.post("/api/auth.test", content=body, headers=headers)
        again = await api.http.post("/api/api.test")
    assert answer.json()["error"] == error
    assert answer.headers["x-slack-req-id"] != again.headers["x-slack-req-id"]


TOKENS = [(None, "not_authed"), ("xoxb-unknown", "invalid_auth"), (APP_TOKEN, "not_allowed_token_type")]


@pytest.mark.parametrize(("token", "error"), TOKENS)
async def test_a_token_is_refused_by_its_fault(token: str | None, error: str) -> None:
    async with Api() as api:
        answer = await api.post("/api/users.list", {}, **({"authorization": f"Bearer {token}"} if token else {}))
        assert answer["error"] == error
        assert (await api.call("auth.revoke", {}))["revoked"] is True
        assert (await api.call("auth.test", {}))["error"] == "token_revoked"
