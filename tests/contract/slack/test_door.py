"""The door over Socket Mode: slack_sdk and Bolt against the twin."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
from slack_sdk.web.async_client import AsyncWebClient
from slack_twin.events import Event
from slack_twin.socket_mode import Retry

from swarm.domain.errors import ConfigurationError
from swarm.domain.model.threads import MessageDeleted, MessageEdited, SlackEvent, SlackMessage
from swarm.entrypoints.slack import slack_events
from swarm.entrypoints.slack.slack_events import SlackEntryPoint
from swarm.slack import transport
from swarm.slack.outgoing.gateway import Gateway
from tests.contract.slack.workspace import Workspace, delivery

LOOP_01 = pytest.mark.req("LOOP-01")
OPS_02 = pytest.mark.req("OPS-02")

BOUND_SECONDS = 20


class Inbox:
    """What the door hands over; it can be told to hold or to refuse."""

    def __init__(self) -> None:
        self.events: list[SlackEvent] = []
        self.refusals = 0
        self.open = asyncio.Event()
        self.open.set()
        self._arrivals: asyncio.Queue[SlackEvent] = asyncio.Queue()

    async def handle(self, event: SlackEvent) -> None:
        self.events.append(event)
        self._arrivals.put_nowait(event)
        if self.refusals:
            self.refusals -= 1
            raise RuntimeError("the disk is full")
        await self.open.wait()

    async def next(self) -> SlackEvent:
        return await asyncio.wait_for(self._arrivals.get(), BOUND_SECONDS)


async def eventually(is_so: Callable[[], Awaitable[Any]]) -> Any:
    """The first true answer, asking again as the event loop runs."""
    async with asyncio.timeout(BOUND_SECONDS):
        while not (answer := await is_so()):
            await asyncio.sleep(0.005)
        return answer


async def acked(workspace: Workspace, count: int) -> None:
    async def enough() -> bool:
        return sum(1 for entry in await workspace.deliveries() if entry["acked"]) == count

    await eventually(enough)


@pytest.fixture
def inbox() -> Inbox:
    return Inbox()


@pytest.fixture
async def door(gateway: Gateway, workspace: Workspace, inbox: Inbox) -> AsyncIterator[SlackEntryPoint]:
    door = SlackEntryPoint(gateway, inbox.handle, app_token=workspace.app.app_token, backoff_seconds=0.01)
    await door.start()
    yield door
    await door.close()


@OPS_02
@LOOP_01
async def test_a_mention_arrives_twice_as_the_same_message_and_is_acknowledged(
    door: SlackEntryPoint, workspace: Workspace, inbox: Inbox
) -> None:
    assert door.connected
    ts = await workspace.say("@swarm hello")
    first, second = await inbox.next(), await inbox.next()
    assert isinstance(first, SlackMessage)
    assert isinstance(second, SlackMessage)
    assert first.ts == second.ts == ts
    assert first.text == f"<@{workspace.app.bot_user}> hello"
    assert first.event_id != second.event_id
    await acked(workspace, 2)


@LOOP_01
async def test_an_event_is_acknowledged_only_after_it_was_handled(
    door: SlackEntryPoint, workspace: Workspace, inbox: Inbox
) -> None:
    inbox.open.clear()
    await workspace.say("hello")
    await inbox.next()
    [entry] = await workspace.deliveries()
    assert not entry["acked"]
    inbox.open.set()
    await acked(workspace, 1)


@LOOP_01
async def test_events_that_come_together_are_handled_together(
    door: SlackEntryPoint, workspace: Workspace, inbox: Inbox
) -> None:
    inbox.open.clear()
    for number in range(5):
        await workspace.say(f"message {number}")
    for _ in range(5):
        await inbox.next()  # none waits for the acknowledgement of another
    inbox.open.set()
    await acked(workspace, 5)


@LOOP_01
async def test_an_event_that_could_not_be_stored_comes_again(
    door: SlackEntryPoint, workspace: Workspace, inbox: Inbox
) -> None:
    inbox.refusals = 1
    ts = await workspace.say("hello")
    await inbox.next()
    workspace.twin.clock.advance(3)
    again = await inbox.next()
    assert isinstance(again, SlackMessage)
    assert again.ts == ts
    await acked(workspace, 1)
    assert [entry["attempt"] for entry in await workspace.deliveries()] == [0, 1]


async def test_edits_and_deletes_arrive(door: SlackEntryPoint, workspace: Workspace, inbox: Inbox) -> None:
    ts = await workspace.say("hello")
    await inbox.next()
    await workspace.edit(ts, "good morning")
    edited = await inbox.next()
    assert isinstance(edited, MessageEdited)
    assert (edited.message.text, edited.previous_text) == ("good morning", "hello")
    assert edited.message.edited_ts
    await workspace.delete(ts)
    deleted = await inbox.next()
    assert isinstance(deleted, MessageDeleted)
    assert (deleted.channel, deleted.ts) == ("C0GENERAL", ts)


@pytest.mark.req("LOOP-02")
async def test_a_bots_attachments_a_reply_shown_in_the_channel_and_a_file_arrive(
    door: SlackEntryPoint, workspace: Workspace, inbox: Inbox
) -> None:
    await workspace._post("seed", {"apps": ["pager"]})
    client = AsyncWebClient("xoxb-twin-pager", base_url=workspace.api_url)
    field = {"title": "Severity", "value": "critical"}
    post = await client.chat_postMessage(channel="C0GENERAL", text="Disk full", attachments=[{"fields": [field]}])
    root = str(post["ts"])
    await workspace.say("seen", thread_ts=root, broadcast=True)
    await workspace.say("the log", thread_ts=root, files=[{"name": "log.txt", "content": "x"}])
    found = [await inbox.next() for _ in range(3)]
    alert, reply, upload = sorted((one for one in found if isinstance(one, SlackMessage)), key=lambda one: one.ts)
    assert (alert.author.kind, alert.text) == ("bot", "Disk full\nSeverity: critical")
    assert (reply.subtype, reply.thread_ts, reply.text) == ("thread_broadcast", root, "seen")
    assert (upload.subtype, upload.thread_ts, [file.name for file in upload.files]) == ("file_share", root, ["log.txt"])


async def test_a_direct_message_arrives_as_one(door: SlackEntryPoint, workspace: Workspace, inbox: Inbox) -> None:
    await workspace.say("hello", channel="@swarm")
    found = await inbox.next()
    assert isinstance(found, SlackMessage)
    assert found.channel_type == "dm"


@pytest.mark.req("LOOP-03")
async def test_events_cost_no_call_to_slack(
    door: SlackEntryPoint, gateway: Gateway, workspace: Workspace, inbox: Inbox
) -> None:
    for number in range(5):
        await workspace.say(f"@swarm {number}")
    for _ in range(10):
        await inbox.next()
    await acked(workspace, 10)
    assert {call["method"] for call in await workspace.all_calls()} == {"auth.test", "apps.connections.open"}
    assert len(await workspace.all_calls()) == 2


@pytest.mark.parametrize(
    "payload",
    [
        {"type": "event_callback", "event": {"type": "reaction_added"}},
        {"type": "something_new"},
        {"type": "event_callback", "event": 5},
        {"type": "event_callback", "event": {"type": "message"}, "authorizations": "x"},
        {"type": "event_callback", "event": {"type": "message", "text": "from nowhere"}},
    ],
    ids=repr,
)
async def test_what_is_no_message_is_acknowledged_so_that_it_does_not_come_again(
    door: SlackEntryPoint, workspace: Workspace, inbox: Inbox, payload: dict[str, Any]
) -> None:
    event = Event(event_id="Ev1", type="any", body={}, payload=payload)
    reply = await workspace.twin.sockets.send(workspace.app, event, Retry())
    assert reply.error is None
    assert inbox.events == []


async def test_our_own_posts_do_not_come_back(
    door: SlackEntryPoint, gateway: Gateway, workspace: Workspace, inbox: Inbox
) -> None:
    await gateway.deliver(delivery(text="ours"))
    await workspace.say("theirs")
    found = await inbox.next()
    assert isinstance(found, SlackMessage)
    assert found.text == "theirs"


@LOOP_01
@pytest.mark.parametrize("reason", [None, "refresh_requested", "warning"])
async def test_a_closed_connection_is_replaced_and_what_it_missed_comes_again(
    door: SlackEntryPoint, workspace: Workspace, inbox: Inbox, reason: str | None
) -> None:
    await workspace.fault("close_socket", event="message", **({"error": reason} if reason else {}))
    ts = await workspace.say("hello")

    async def connected_again() -> bool:
        """The twin gives events to the new connection only, whatever becomes of the old one."""
        opened = len(await workspace.calls("apps.connections.open"))
        return opened == 2 and workspace.connections() == 1 and door.connected

    await eventually(connected_again)
    await workspace.say("and another thing")
    seen = {await arrived_ts(inbox)}
    workspace.twin.clock.advance(60)
    while ts not in seen:
        seen.add(await arrived_ts(inbox))


async def arrived_ts(inbox: Inbox) -> str:
    found = await inbox.next()
    assert isinstance(found, SlackMessage)
    return found.ts


@OPS_02
async def test_a_wrong_app_token_stops_the_start(gateway: Gateway, inbox: Inbox) -> None:
    door = SlackEntryPoint(gateway, inbox.handle, app_token="xapp-wrong")
    with pytest.raises(ConfigurationError, match="SLACK_APP_TOKEN: invalid_auth"):
        await door.start()
    assert not door.connected
    await door.close()


@OPS_02
async def test_a_door_needs_a_token_or_a_secret(gateway: Gateway, inbox: Inbox) -> None:
    with pytest.raises(ConfigurationError, match="SLACK_APP_TOKEN"):
        SlackEntryPoint(gateway, inbox.handle)


@OPS_02
async def test_a_slack_out_of_reach_is_tried_until_it_answers(
    gateway: Gateway, workspace: Workspace, inbox: Inbox
) -> None:
    await workspace.fault("http_500", method="auth.test", times=2)
    await workspace.fault("http_500", method="apps.connections.open", times=2)
    door = SlackEntryPoint(gateway, inbox.handle, app_token=workspace.app.app_token, backoff_seconds=0.001)
    before = door.connected
    await door.start()
    assert (before, door.connected) == (False, True)
    await door.close()


async def test_closing_finishes_the_event_at_hand_and_begins_no_other(
    gateway: Gateway, workspace: Workspace, inbox: Inbox
) -> None:
    door = SlackEntryPoint(gateway, inbox.handle, app_token=workspace.app.app_token)
    await door.start()
    inbox.open.clear()
    await workspace.say("in time")
    await inbox.next()
    closing = asyncio.create_task(door.close())
    await workspace.say("too late")

    async def both_sent() -> bool:
        return len(await workspace.deliveries()) == 2

    await eventually(both_sent)
    inbox.open.set()
    await closing
    await acked(workspace, 1)
    assert len(inbox.events) == 1
    assert not door.connected


@LOOP_01
async def test_an_address_that_does_not_work_is_replaced_by_a_new_one(
    gateway: Gateway, workspace: Workspace, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm.slack.transport._ATTEMPT_SECONDS", 0.2)
    bad, good = ["ws://127.0.0.1:9/"], gateway.socket_url

    async def next_address(app_token: str) -> str:
        return bad.pop() if bad else await good(app_token)

    monkeypatch.setattr(gateway, "socket_url", next_address)
    door = SlackEntryPoint(gateway, inbox.handle, app_token=workspace.app.app_token)
    async with asyncio.timeout(BOUND_SECONDS):
        await door.start()
    assert door.connected
    await door.close()


async def test_closing_does_not_wait_long_for_an_event_that_hangs(
    gateway: Gateway, workspace: Workspace, inbox: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert slack_events._DRAIN_SECONDS + transport._CLOSE_SECONDS < 3
    monkeypatch.setattr(slack_events, "_DRAIN_SECONDS", 0.1)
    door = SlackEntryPoint(gateway, inbox.handle, app_token=workspace.app.app_token)
    await door.start()
    inbox.open.clear()
    await workspace.say("hello")
    await inbox.next()
    async with asyncio.timeout(BOUND_SECONDS):
        await door.close()
    inbox.open.set()


LONG = "We should ship the red one on Friday. " * 10
TABLE = {"table": [["Item", "Price"], ["Tea & milk", "3"]]}
MAIL = {"kind": "email", "name": "m", "subject": "Offer", "from": "Ann <ann@x.test>", "text": "Dear <all>"}
WHOLE = {
    "a table": ({"text": "what of this in #random?", **TABLE}, "Item | Price\nTea &amp; milk | 3"),
    "a clip": ({"files": [{"kind": "voice", "name": "a.m4a", "transcript": LONG}]}, f"by Slack]\n&gt; {LONG.strip()}"),
    "an e-mail": ({"files": [MAIL]}, "[e-mail from Ann (ann@x.test), subject: Offer]\n&gt; Dear &lt;all&gt;"),
    "a file of another workspace": (
        {"text": "x", "files": [{"kind": "connect", "name": "a.txt", "content": "x"}]},
        "x",
    ),
    "lists, a quote and code": ({"text": "1. a\n2. b\n> c\n```\nd\n```"}, "1. a\n2. b\n&gt; c\n```\nd\n```"),
}


@pytest.mark.req("CHAN-13")
@pytest.mark.parametrize(("sent", "reads"), WHOLE.values(), ids=WHOLE)
async def test_what_people_send_and_forward_arrives_whole_live_and_in_a_history(
    door: SlackEntryPoint, gateway: Gateway, workspace: Workspace, inbox: Inbox, sent: dict[str, Any], reads: str
) -> None:
    text = sent.get("text", "")
    ts = await workspace.say(**{**sent, "text": text})
    told, (read,) = await inbox.next(), await gateway.read_thread("C0GENERAL", ts)
    forwarding = await workspace.say("look", forward={"channel": "general", "ts": ts})
    passed_on, (forwarded,) = await inbox.next(), await gateway.read_thread("C0GENERAL", forwarding)
    assert isinstance(told, SlackMessage)
    assert isinstance(passed_on, SlackMessage)
    assert (told.text, told.files) == (read.text, read.files)
    assert (passed_on.text, passed_on.files) == (forwarded.text, told.files)
    assert told.text.endswith(reads)
    assert told.text.count(reads) == 1
    assert [file.name for file in told.files] == [file["name"] for file in sent.get("files", [])]
    head, *lines = passed_on.text.removeprefix("look\n").splitlines()
    assert head.startswith("[forwarded: ")
    assert passed_on.own_text.strip() == "look"
    assert [line.removeprefix("&gt; ") for line in lines if "[file: " not in line] == told.text.splitlines()
