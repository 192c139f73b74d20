"""Live answers against the twin: what each call shows, and what is said to have become of it."""

from __future__ import annotations

from typing import Any

import pytest

from swarm.domain.answers.calls import AnswerTarget, Closing, PlanTitle, Slot, StreamCall, TaskDisplay, Text
from swarm.domain.answers.events import StepStatus
from swarm.domain.answers.slack_results import Meaning, meaning
from swarm.domain.errors import RefusedBySlack, Unavailable
from swarm.domain.model.deliveries import (
    METADATA_EVENT_TYPE,
    Answer,
    DeliveryAccepted,
    DeliveryRefused,
    InDoubt,
    NotSent,
)
from swarm.domain.model.threads import AuthorKind
from swarm.slack.outgoing.gateway import Gateway
from swarm.slack.outgoing.pacing import Pacing
from tests.contract.slack.answers import RUN, appending, begun, card, closing, opening, place, posting, updating
from tests.contract.slack.scripted import ScriptedSlack
from tests.contract.slack.workspace import Workspace

STREAM_03 = pytest.mark.req("STREAM-03")
STREAM_05 = pytest.mark.req("STREAM-05")
STREAM_06 = pytest.mark.req("STREAM-06")
STREAM_08 = pytest.mark.req("STREAM-08")
STREAM_10 = pytest.mark.req("STREAM-10")

EVERYTHING_BELOW = Closing(note="It **broke** off.", retry=True, feedback=True, footer=True)


@pytest.fixture
async def where(workspace: Workspace) -> AnswerTarget:
    return place(await workspace.say("@swarm hello"))


async def last(workspace: Workspace, where: AnswerTarget) -> dict[str, Any]:
    return (await workspace.messages(where.thread_ts))[-1]


async def refused_as(gateway: Gateway, where: AnswerTarget, call: StreamCall) -> Meaning:
    answer = await gateway.streams.call(where, call)
    assert isinstance(answer, DeliveryRefused)
    return meaning(answer.error)


@STREAM_03
async def test_a_stream_grows_with_text_and_cards_and_ends_with_what_stands_below(
    gateway: Gateway, workspace: Workspace, where: AnswerTarget
) -> None:
    ts = await begun(gateway, where, Text(text="Let me "))
    growing = await last(workspace, where)
    assert (growing["ts"], growing["text"], growing["streaming"]) == (ts, "Let me ", True)
    more = (Text(text="look."), card(1), PlanTitle(title="Looking"))
    assert await gateway.streams.call(where, appending(ts, *more)) == DeliveryAccepted(ts=ts, thread_ts=where.thread_ts)
    end = closing(ts, card(1, StepStatus.COMPLETE), Text(text=" Done."), closing=EVERYTHING_BELOW)
    assert await gateway.streams.call(where, end) == DeliveryAccepted(ts=ts, thread_ts=where.thread_ts)
    shown = await last(workspace, where)
    assert (shown["text"], shown["streaming"]) == ("Let me look. Done.", False)
    types = [block["type"] for block in shown["blocks"]]
    assert types == ["markdown", "plan", "markdown", "markdown", "actions", "context", "context_actions"]
    plan = shown["blocks"][1]
    assert (plan["title"], [task["status"] for task in plan["tasks"]]) == ("Looking", ["complete"])


@STREAM_03
async def test_a_stream_is_for_who_asked_shown_as_configured_and_fed_with_chunks_only(
    gateway: Gateway, workspace: Workspace
) -> None:
    root = await workspace.say("@swarm hello")
    ts = await begun(gateway, place(root, display=TaskDisplay.TIMELINE), Text(text="a"), card(1))
    await gateway.streams.call(place(root), closing(ts, Text(text="b")))
    [start], [stop] = await workspace.calls("chat.startStream"), await workspace.calls("chat.stopStream")
    assert start["args"] == {
        "channel": "C0GENERAL",
        "thread_ts": root,
        "task_display_mode": "timeline",
        "recipient_user_id": "U000ALICE",
        "recipient_team_id": "T0TWIN",
        "chunks": [
            {"type": "markdown_text", "text": "a"},
            {"type": "task_update", "id": "card-1", "title": "Step 1", "status": "in_progress"},
        ],
    }
    assert stop["args"]["chunks"] == [{"type": "markdown_text", "text": "b"}]
    assert "blocks" not in stop["args"]


async def test_what_adds_nothing_is_not_sent(gateway: Gateway, workspace: Workspace, where: AnswerTarget) -> None:
    ts = await begun(gateway, where, Text(text=""))
    assert await gateway.streams.call(where, appending(ts, Text(text=""))) == DeliveryAccepted(
        ts=ts, thread_ts=where.thread_ts
    )
    assert await gateway.streams.call(where, closing(ts, Text(text=""))) == DeliveryAccepted(
        ts=ts, thread_ts=where.thread_ts
    )
    assert await workspace.calls("chat.appendStream") == []
    for method in ("chat.startStream", "chat.stopStream"):
        [call] = await workspace.calls(method)
        assert "chunks" not in call["args"]


@STREAM_08
async def test_a_direct_message_needs_no_recipient(gateway: Gateway, workspace: Workspace) -> None:
    root = await workspace.say("hello", channel="@swarm")
    channel = next(c for c in workspace.twin.workspace.directory.channels.values() if c.messages.get(root))
    direct = place(root, channel=channel.id, is_direct=True, requester=None)
    await begun(gateway, direct)


@STREAM_08
async def test_an_answer_to_a_bot_in_a_channel_has_no_stream(gateway: Gateway, workspace: Workspace) -> None:
    root = await workspace.say("@swarm hello")
    assert await refused_as(gateway, place(root, requester=None), opening()) is Meaning.NO_STREAMS
    by_bot = place(root, requester=workspace.app.bot_user)
    assert await refused_as(gateway, by_bot, opening()) is Meaning.NO_STREAMS


@STREAM_08
async def test_a_post_is_begun_and_updated_with_cards_closing_and_our_key(
    gateway: Gateway, workspace: Workspace, where: AnswerTarget
) -> None:
    answer = await gateway.streams.call(where, posting("One", cards=(card(1),), is_last=False))
    assert isinstance(answer, DeliveryAccepted)
    assert answer.thread_ts == where.thread_ts
    ts = answer.ts or ""
    [call] = await workspace.calls("chat.postMessage")
    assert call["args"]["unfurl_links"] is call["args"]["unfurl_media"] is False
    shown = await last(workspace, where)
    assert [block["type"] for block in shown["blocks"]] == ["plan", "markdown"]
    cards = (card(1, StepStatus.COMPLETE), card(2, StepStatus.ERROR))
    end = updating(ts, "One two", cards=cards, closing=EVERYTHING_BELOW)
    assert await gateway.streams.call(where, end) == DeliveryAccepted(ts=ts, thread_ts=where.thread_ts)
    shown = await last(workspace, where)
    assert shown["text"] == "One two"
    types = [block["type"] for block in shown["blocks"]]
    assert types == ["plan", "markdown", "markdown", "actions", "context", "context_actions"]
    assert [task["status"] for task in shown["blocks"][0]["tasks"]] == ["complete", "error"]
    payload = {"delivery_id": f"{RUN}:1", "agent": "lead"}
    assert shown["metadata"] == {"event_type": METADATA_EVENT_TYPE, "event_payload": payload}


async def test_cards_of_a_post_stand_alone_in_a_timeline(gateway: Gateway, workspace: Workspace) -> None:
    where = place(await workspace.say("hello"), display=TaskDisplay.TIMELINE)
    await gateway.streams.call(where, posting("One", cards=tuple(card(number) for number in range(60))))
    shown = await last(workspace, where)
    assert [block["type"] for block in shown["blocks"]] == ["task_card"] * 40 + ["markdown"]
    assert shown["blocks"][39]["title"] == "Step 59"


@STREAM_06
async def test_an_update_shows_a_whole_long_page_though_its_plain_text_is_cut(
    gateway: Gateway, workspace: Workspace, where: AnswerTarget
) -> None:
    text = "word " * 2_000 + "end"
    answer = await gateway.streams.call(where, posting(text))
    assert isinstance(answer, DeliveryAccepted)
    ts = answer.ts or ""
    assert await gateway.streams.call(where, updating(ts, text)) == DeliveryAccepted(ts=ts, thread_ts=where.thread_ts)
    shown = await last(workspace, where)
    assert shown["blocks"][0]["text"] == text
    assert shown["text"].endswith("…")
    assert len(shown["text"]) <= 4_000


async def test_a_page_without_text_still_says_something_to_notify_with(
    gateway: Gateway, workspace: Workspace, where: AnswerTarget
) -> None:
    assert isinstance(await gateway.streams.call(where, posting("", cards=(card(1),))), DeliveryAccepted)
    shown = await last(workspace, where)
    assert (shown["text"], [block["type"] for block in shown["blocks"]]) == ("Step 1", ["plan"])
    assert isinstance(await gateway.streams.call(where, posting(" \n")), DeliveryAccepted)
    assert (await last(workspace, where))["text"] == "lead"


async def test_a_closed_stream_and_a_post_are_told_apart_in_the_history_by_their_keys(
    gateway: Gateway, where: AnswerTarget
) -> None:
    ts = await begun(gateway, where)
    await gateway.streams.call(where, closing(ts))
    await gateway.streams.call(where, posting("Two", page=2))
    _, first, second = await gateway.read_thread(where.channel, where.thread_ts)
    assert [message.delivery_id for message in (first, second)] == [f"{RUN}:1", f"{RUN}:2"]
    assert (first.author.kind, first.author.name) == (AuthorKind.AGENT, "lead")


# What became of a call


def fed(ts: str) -> dict[str, StreamCall]:
    """Each call about a message that is there."""
    return {
        "chat.appendStream": appending(ts, Text(text="x")),
        "chat.stopStream": closing(ts, Text(text="x")),
        "chat.update": updating(ts, "x"),
        "chat.startStream": opening(page=2),
        "chat.postMessage": posting(page=2),
    }


METHODS = sorted(fed(""))


@STREAM_05
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ({"kind": "http_429", "seconds": 7}, NotSent(reason="ratelimited", retry_after_seconds=7.0)),
        ({"kind": "http_500"}, InDoubt(reason="internal_error")),
        ({"kind": "error", "error": "is_archived"}, DeliveryRefused(error="is_archived")),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else "",
)
async def test_a_call_that_fails_says_so_and_changes_nothing(
    gateway: Gateway, workspace: Workspace, where: AnswerTarget, method: str, fault: dict[str, Any], expected: Answer
) -> None:
    ts = await begun(gateway, where)
    before = await workspace.messages(where.thread_ts)
    await workspace.fault(method=method, **fault)
    assert await gateway.streams.call(where, fed(ts)[method]) == expected
    assert await workspace.messages(where.thread_ts) == before


@STREAM_05
@pytest.mark.parametrize("method", METHODS)
async def test_a_call_whose_answer_is_lost_is_in_doubt_and_made_once(
    gateway: Gateway, workspace: Workspace, where: AnswerTarget, method: str
) -> None:
    ts = await begun(gateway, where)
    if method == "chat.update":
        await gateway.streams.call(where, closing(ts))
    count = len(await workspace.calls(method))
    await workspace.fault("cut_after_accept", method=method)
    assert isinstance(await gateway.streams.call(where, fed(ts)[method]), InDoubt)
    assert len(await workspace.calls(method)) == count + 1


async def test_a_rate_limit_holds_up_the_next_turn_of_that_slot_only(workspace: Workspace) -> None:
    pacing = Pacing(enforced=False, monotonic=lambda: 0.0)
    gateway = workspace.gateway(pacing=pacing)
    where = place(await workspace.say("hello"))
    ts = await begun(gateway, where)
    await workspace.fault("http_429", method="chat.appendStream", seconds=30)
    await gateway.streams.call(where, appending(ts, Text(text="x")))
    waits = {slot: gateway.streams.expected_wait_seconds(slot, where.channel) for slot in Slot}
    assert waits == {**dict.fromkeys(Slot, 0.0), Slot.APPEND: 30.0}
    await gateway.streams.acquire_slot(Slot.CLOSE, where.channel)
    await gateway.close()


@STREAM_06
@pytest.mark.parametrize("method", ["chat.appendStream", "chat.stopStream"])
async def test_an_expired_stream_says_so_and_can_be_updated(
    gateway: Gateway, workspace: Workspace, where: AnswerTarget, method: str
) -> None:
    ts = await begun(gateway, where, Text(text="partial"))
    await workspace.fault("expire_stream", method=method)
    assert await refused_as(gateway, where, fed(ts)[method]) is Meaning.EXPIRED
    assert isinstance(await gateway.streams.call(where, updating(ts, "whole")), DeliveryAccepted)
    assert (await last(workspace, where))["text"] == "whole"


@STREAM_06
async def test_a_stream_that_is_full_says_so_and_keeps_what_it_has(
    gateway: Gateway, workspace: Workspace, where: AnswerTarget
) -> None:
    ts = await begun(gateway, where, Text(text="x" * 9_000))
    assert await refused_as(gateway, where, appending(ts, Text(text="y" * 3_000))) is Meaning.TOO_LONG
    assert (await last(workspace, where))["text"] == "x" * 9_000
    assert await refused_as(gateway, where, posting("z" * 12_001)) is Meaning.TOO_LONG


@pytest.mark.req("STREAM-09")
async def test_a_stream_that_a_person_stopped_says_so_and_can_be_closed(
    gateway: Gateway, workspace: Workspace, where: AnswerTarget
) -> None:
    ts = await begun(gateway, where)
    await workspace.stop(where.thread_ts)
    assert await refused_as(gateway, where, appending(ts, Text(text="x"))) is Meaning.STOPPED
    below = Closing(note="Stopped.", footer=True)
    assert isinstance(await gateway.streams.call(where, closing(ts, closing=below)), DeliveryAccepted)
    assert (await last(workspace, where))["blocks"][-2]["text"] == "Stopped."


async def test_a_message_that_was_deleted_is_gone(gateway: Gateway, workspace: Workspace, where: AnswerTarget) -> None:
    ts = await begun(gateway, where)
    channel = workspace.twin.workspace.directory.channels[where.channel]
    workspace.twin.workspace.delete(channel, workspace.twin.workspace.message(channel, ts))
    for call in (appending(ts, Text(text="x")), closing(ts), updating(ts)):
        assert await refused_as(gateway, where, call) is Meaning.MESSAGE_GONE


async def test_a_place_that_is_gone_says_so(gateway: Gateway, workspace: Workspace, where: AnswerTarget) -> None:
    for gone in (place(where.thread_ts, channel="C0NOWHERE"), place("1700000000.000100")):
        for call in (opening(), posting()):
            assert await refused_as(gateway, gone, call) is Meaning.NOT_HERE
    assert len(await workspace.messages()) == 1


@pytest.mark.req("OPS-10")
async def test_a_post_that_lands_outside_its_thread_is_taken_back(scripted: Gateway, script: ScriptedSlack) -> None:
    ts = "1700000009.000100"
    script.answers["chat.postMessage"] = {"ok": True, "ts": ts, "message": {"ts": ts, "text": "done"}}
    script.answers["chat.delete"] = {"ok": True}
    assert await scripted.streams.call(place("1700000000.000100"), posting()) == DeliveryRefused(
        error="thread_not_found"
    )
    assert script.calls[-1] == ("chat.delete", {"channel": "C0GENERAL", "ts": ts})


@pytest.mark.parametrize("call", [opening(), posting()])
async def test_a_beginning_whose_answer_names_no_message_is_in_doubt(
    scripted: Gateway, script: ScriptedSlack, call: StreamCall
) -> None:
    script.answers |= {"chat.postMessage": {"ok": True}, "chat.startStream": {"ok": True}}
    assert isinstance(await scripted.streams.call(place("1700000000.000100"), call), InDoubt)


# Looking for what may have been begun


@STREAM_10
async def test_a_stream_whose_beginning_is_in_doubt_is_found(
    gateway: Gateway, workspace: Workspace, where: AnswerTarget
) -> None:
    earlier = await begun(gateway, where)
    now = workspace_now_us(workspace)
    await workspace.fault("cut_after_accept", method="chat.startStream")
    assert isinstance(await gateway.streams.call(where, opening(page=2)), InDoubt)
    began = (await last(workspace, where))["ts"]
    assert began != earlier
    assert await gateway.streams.find(where, 2, now, {earlier}) == began
    assert await gateway.streams.find(where, 2, now, {earlier, began}) is None
    assert await gateway.streams.find(where, 2, now, {earlier}, is_post=True) is None


@STREAM_10
async def test_of_several_open_streams_the_one_begun_last_is_the_one_in_doubt(
    gateway: Gateway, workspace: Workspace, where: AnswerTarget
) -> None:
    now = workspace_now_us(workspace)
    _, second = await begun(gateway, where), await begun(gateway, where, page=2)
    assert await gateway.streams.find(where, 2, now, ()) == second


@STREAM_10
async def test_a_post_in_doubt_is_found_by_its_key_among_others_of_ours(
    gateway: Gateway, workspace: Workspace, where: AnswerTarget
) -> None:
    now = workspace_now_us(workspace)
    await gateway.streams.call(where, posting(page=1))
    await workspace.fault("cut_after_accept", method="chat.postMessage")
    assert isinstance(await gateway.streams.call(where, posting("Second", page=2)), InDoubt)
    wanted = (await last(workspace, where))["ts"]
    await gateway.streams.call(where, posting("Third", page=3))
    stream = await begun(gateway, place(where.thread_ts, run_id="another"))
    assert await gateway.streams.find(where, 2, now, ()) == wanted
    assert await gateway.streams.find(where, 4, now, (), is_post=True) is None
    assert await gateway.streams.find(where, 4, now, ()) == stream


@STREAM_10
async def test_what_never_began_is_not_found_among_older_keyed_or_foreign_messages(
    gateway: Gateway, workspace: Workspace, where: AnswerTarget
) -> None:
    await begun(gateway, where)  # long ago, and never closed
    workspace.twin.clock.advance(61)
    now = workspace_now_us(workspace)
    closed = await begun(gateway, where, page=7)
    await gateway.streams.call(where, closing(closed, page=7))
    await workspace.say("me too", user="bob", thread_ts=where.thread_ts)
    await workspace.fault("http_500", method="chat.startStream")
    assert isinstance(await gateway.streams.call(where, opening()), InDoubt)
    assert await gateway.streams.find(where, 1, now, ()) is None


@STREAM_10
async def test_in_a_thread_that_we_began_the_root_is_not_taken_for_an_answer(
    gateway: Gateway, workspace: Workspace, where: AnswerTarget
) -> None:
    now = workspace_now_us(workspace)
    root = await begun(gateway, where)
    assert await gateway.streams.find(place(root), 1, now, ()) is None


async def test_in_a_thread_that_is_gone_nothing_is_found(gateway: Gateway, workspace: Workspace) -> None:
    assert await gateway.streams.find(place("1700000000.000100"), 1, workspace_now_us(workspace), ()) is None


async def test_a_lookup_that_fails_says_whether_it_is_for_now(
    gateway: Gateway, workspace: Workspace, where: AnswerTarget
) -> None:
    with pytest.raises(RefusedBySlack, match="channel_not_found"):
        await gateway.streams.find(place(where.thread_ts, channel="C0NOWHERE"), 1, 0, ())
    await workspace.fault("http_500", method="conversations.replies")
    with pytest.raises(Unavailable):
        await gateway.streams.find(where, 1, 0, ())


def workspace_now_us(workspace: Workspace) -> int:
    """Slack's clock, which ours is close to."""
    return int(workspace.twin.clock.now() * 1_000_000)
