"""Arbitrary requests to the twin, which must get an answer in Slack's format: no exception, no 500, no hang."""

import asyncio
import re
from typing import Any

import aiohttp
import httpx2
import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from slack_twin import build_twin, create_app
from slack_twin.methods import METHODS

from tests.world import APP_TOKEN, BOT_TOKEN, PATIENCE_SECONDS, World

pytestmark = pytest.mark.req("TWIN-02")

# Arguments that are valid for some methods; each method uses those that it supports.
SENSE: dict[str, Any] = {
    "alt_txt": "a picture",
    "attachments": [{"text": "x"}],
    "blocks": [{"type": "section", "text": {"type": "mrkdwn", "text": "x"}}],
    "bot": "B000SWARM",
    "channel": "C0GENERAL",
    "channel_id": "C0GENERAL",
    "channels": "C0GENERAL",
    "client_id": "twin-client-swarm",
    "client_secret": "twin-client-secret-swarm",
    "code": "x",
    "chunks": [{"type": "task_update", "id": "a", "title": "t", "status": "pending", "details": "d"}],
    "count": 2,
    "email": "alice@twin.test",
    "external_id": "x",
    "file": "F00000001",
    "filename": "a.txt",
    "files": [{"id": "F00000001"}],
    "force": True,
    "hash": "x",
    "initial_comment": "x",
    "initiator_user_id": "U000ALICE",
    "is_private": False,
    "latest": "OWN",
    "length": 3,
    "limit": 2,
    "loading_messages": ["x"],
    "message_ts": "OWN",
    "metadata": {"event_type": "t", "event_payload": {}},
    "name": "eyes",
    "oldest": "ROOT",
    "page": 1,
    "post_at": 4_000_000_000,
    "prompts": [{"title": "t", "message": "m"}],
    "recipient_team_id": "T0TWIN",
    "recipient_user_id": "U000ALICE",
    "reply_broadcast": True,
    "return_im": True,
    "session_status": "active",
    "snippet_type": "python",
    "status": "processing",
    "task_display_mode": "plan",
    "text": "x",
    "thread_ts": "ROOT",
    "timestamp": "OWN",
    "title": "t",
    "topic": "t",
    "trigger_id": "1.2.3",
    "ts": "STREAM",
    "ts_from": "ROOT",
    "types": "im,mpim",
    "user": "U000ALICE",
    "user_id": "U000ALICE",
    "username": "x",
    "users": "U000ALICE",
    "view": {"type": "modal", "title": {"type": "plain_text", "text": "t"}, "blocks": []},
    "view_id": "V1",
}
# Values that reach deeper than nonsense: existing objects, and almost valid structures.
KNOWN: list[Any] = [
    *("C0GENERAL", "U000ALICE", "U000SWARM", "B000SWARM", "T0TWIN", "F00000001", "D00000001", "@swarm", "#general"),
    *("ROOT", "STREAM", "OWN", "1", "true", "cG9zOjE="),
    [{"type": "actions", "elements": [{"type": "button", "action_id": "a", "text": {"type": "plain_text"}}]}],
    [{"type": "markdown_text", "text": "x"}, {"type": "task_update", "id": "a", "title": "t", "status": "pending"}],
    [{"type": "blocks", "blocks": [{"type": "divider"}]}, {"type": "plan_update", "title": "p"}],
]
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**31), 2**31) | st.floats(allow_nan=False) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "text", "id"]), inner),
    max_leaves=5,
)
NAMES = sorted({*SENSE, "cursor", "markdown_text"})
# Arguments that some methods read, so that nonsense reaches each of them.
READ: dict[str, str] = {
    "chat.startStream": "channel thread_ts recipient_team_id recipient_user_id task_display_mode chunks username",
    "chat.appendStream": "channel ts chunks markdown_text",
    "chat.stopStream": "channel ts chunks blocks metadata session_status",
    "files.getUploadURLExternal": "filename length alt_txt snippet_type",
    "files.completeUploadExternal": "files channel_id channels thread_ts initial_comment blocks",
    "files.list": "channel user page count ts_from ts_to",
    "assistant.threads.setStatus": "channel_id thread_ts status loading_messages",
    "assistant.threads.setSuggestedPrompts": "channel_id thread_ts prompts title",
    "agents.sessions.setStatus": "channel_id thread_ts status title initiator_user_id",
    "agents.sessions.rename": "channel_id thread_ts title",
    "chat.postMessage": "channel thread_ts text blocks attachments metadata reply_broadcast",
    "conversations.history": "channel oldest latest inclusive limit cursor",
    "conversations.open": "channel users return_im",
    "conversations.create": "name is_private",
    "conversations.invite": "channel users force",
    "conversations.kick": "channel user",
    "conversations.setTopic": "channel topic",
    "conversations.mark": "channel ts",
    "chat.scheduleMessage": "channel text post_at blocks thread_ts",
    "chat.scheduledMessages.list": "channel oldest latest limit cursor",
    "chat.meMessage": "channel text",
    "pins.add": "channel timestamp",
    "oauth.v2.access": "client_id client_secret code redirect_uri",
}


@st.composite
def call(draw: st.DrawFn, methods: list[str]) -> tuple[str, dict[str, Any]]:
    """Draws a call with mostly valid arguments, so that the invalid ones are reached."""
    method = draw(st.sampled_from(methods))
    names = READ[method].split() if method in READ else NAMES
    left_out = draw(st.sets(st.sampled_from(names), max_size=2))
    changed = draw(st.dictionaries(st.sampled_from(names), st.sampled_from(KNOWN) | JUNK, max_size=2))
    return method, {name: SENSE[name] for name in names if name in SENSE and name not in left_out} | changed


def calls(methods: list[str]) -> st.SearchStrategy[list[tuple[str, dict[str, Any]]]]:
    return st.lists(call(methods), min_size=1, max_size=6)


async def play(made: list[tuple[str, dict[str, Any]]]) -> None:
    """Makes the calls in order in a new twin with a message, a stream and a file."""
    twin = build_twin(rates=False)
    transport = httpx2.ASGITransport(app=create_app(twin))
    async with httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http:

        async def ask(method: str, args: dict[str, Any]) -> Any:
            token = APP_TOKEN if method == "apps.connections.open" else BOT_TOKEN
            answer = await http.post(
                f"/api/{method}",
                content=orjson.dumps(args),
                headers={"Authorization": f"Bearer {token}", "Content-Type": "application/json"},
            )
            assert answer.status_code == 200, answer.text
            return answer.json()

        said = {"user": "alice", "channel": "general", "text": "hi", "files": [{"name": "a.txt", "content": "x"}]}
        root = (await http.post("/twin/messages", json=said)).json()["ts"]
        own = (await ask("chat.postMessage", {"channel": "C0GENERAL", "text": "x"}))["ts"]
        place = {"channel": "C0GENERAL", "recipient_user_id": "U000ALICE", "recipient_team_id": "T0TWIN"}
        stream = (await ask("chat.startStream", place))["ts"]
        names = {"ROOT": root, "OWN": own, "STREAM": stream}
        for method, args in made:
            wanted = {key: names.get(value, value) if isinstance(value, str) else value for key, value in args.items()}
            answer = await ask(method, wanted)
            assert answer["ok"] is True or re.fullmatch(r"[a-z_]+", answer["error"]), answer
        twin.clock.advance(400)
    await twin.close()


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(made=calls(sorted(METHODS)))
def test_calls_of_any_sort_get_an_answer(made: list[tuple[str, dict[str, Any]]]) -> None:
    asyncio.run(play(made))


NONSENSE: list[Any] = [None, True, 7, -1.5, "", "x", "\x00", [], [None], [7], ["x"], [[]], {}, {"type": 7}, [{"id": 7}]]


@pytest.mark.parametrize("method", READ)
async def test_each_argument_may_be_anything(method: str) -> None:
    """Each argument in turn is missing or nonsense, while the others are valid."""
    names = READ[method].split()
    sense = {name: SENSE[name] for name in names if name in SENSE}
    left_out = [{key: value for key, value in sense.items() if key != name} for name in names]
    changed = [sense | {name: value} for name in names for value in NONSENSE]
    await play([(method, args) for args in (*left_out, *changed)])


BODIES: list[tuple[str, bytes]] = [
    ("application/json", b"{"),
    ("application/json", b"[]"),
    ("application/json", b"\xff\xfe"),
    ("application/json", b"[" * 100_000),
    ("application/json", b'{"channel": "\\ud800"}'),
    ("application/x-www-form-urlencoded", b"%ff=%ff"),
    ("application/x-www-form-urlencoded", b"&" * 5_000),
    ("multipart/form-data", b"x"),
    ("multipart/form-data; boundary=x", b"--x\r\nContent-Disposition: form-data; name=channel\r\n\r\nC"),
    ("text/plain; charset=utf-16", "channel=C".encode("utf-16")),
    ("", b"\x00" * 100),
]


@pytest.mark.parametrize(("kind", "body"), BODIES)
async def test_a_body_of_any_sort_gets_an_answer(world: World, kind: str, body: bytes) -> None:
    for method in ("chat.startStream", "files.completeUploadExternal", "nonsense", "%00", "a/b"):
        headers = {"Authorization": f"Bearer {BOT_TOKEN}"} | ({"Content-Type": kind} if kind else {})
        async with world.http.post(f"{world.base}api/{method}", data=body, headers=headers) as answer:
            assert answer.status in (200, 404)
            assert answer.status == 404 or (await answer.json())["ok"] is False


FRAMES: list[str | bytes] = [
    "",
    "ping",
    "null",
    "[]",
    "{}",
    '{"envelope_id": 7}',
    '{"envelope_id": ["x"]}',
    '{"envelope_id": "x", "payload": {"text": []}}',
    "[" * 50_000,
    "x" * 500_000,
    b"\xff\x00binary",
]


async def test_frames_of_any_sort_do_not_end_a_socket(world: World) -> None:
    line = await world.line()
    for frame in FRAMES:
        await (line.socket.send_bytes(frame) if isinstance(frame, bytes) else line.socket.send_str(frame))
    await world.say("alice", "still there?")
    envelope = await line.next()
    await line.socket.send_str(orjson.dumps({"envelope_id": envelope["envelope_id"], "payload": [1]}).decode())
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (await world.deliveries())[-1]["acked"]:
            await asyncio.sleep(0)


async def test_a_socket_without_a_ticket_or_with_a_used_one_is_refused(world: World) -> None:
    opened = await world.client().apps_connections_open(app_token=APP_TOKEN)
    first = await world.http.ws_connect(opened["url"])
    for url in (opened["url"], f"{world.base}socket", f"{world.base}socket?ticket=%00"):
        with pytest.raises(aiohttp.WSServerHandshakeError):
            await world.http.ws_connect(url)
    await first.close()


CONTROL = [
    ("POST", "stop", {"user": "alice", "channel": "general", "thread_ts": "x"}, 404),
    ("POST", "stop", {"user": "alice", "channel": "general"}, 422),
    ("POST", "stop", {"user": "alice", "channel": "general", "thread_ts": 7}, 422),
    ("POST", "stop", {"user": "nobody", "channel": "general", "thread_ts": "x"}, 404),
    ("POST", "assistant", {"user": "alice", "app": "nobody"}, 404),
    ("POST", "assistant", {"user": "alice", "app": "swarm", "channel": "nowhere"}, 404),
    ("POST", "assistant", {"user": "alice", "app": "swarm", "channel": "general", "thread_ts": "x"}, 404),
    ("POST", "assistant", {"user": "alice", "app": "swarm", "thread_ts": "x"}, 422),
    ("POST", "seed", {"user_groups": [{"handle": "g", "members": ["nobody"]}]}, 404),
    ("POST", "seed", {"user_groups": [{"name": "g"}]}, 422),
]


@pytest.mark.parametrize(("verb", "path", "body", "status"), CONTROL)
async def test_a_control_call_that_makes_no_sense_is_refused(
    world: World, verb: str, path: str, body: dict[str, Any], status: int
) -> None:
    found, answer = await world.control(verb, path, body)
    assert (found, set(answer)) == (status, {"error"})
