"""The gateway against the twin: what it sends, what it reads, and what it says became of each call."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from aiohttp import web
from slack_twin.faults import FaultKind

from swarm.domain.errors import ConfigurationError, NotFound, RefusedBySlack, Unavailable
from swarm.domain.model.deliveries import Answer, DeliveryAccepted, DeliveryKind, DeliveryRefused, InDoubt, NotSent
from swarm.domain.model.threads import AuthorKind, ChannelType
from swarm.domain.policy.access import Person
from swarm.slack.outgoing.gateway import Gateway
from swarm.slack.outgoing.pacing import Pacing
from tests.contract.slack.scripted import ScriptedSlack
from tests.contract.slack.workspace import Workspace, delivery

OPS_10 = pytest.mark.req("OPS-10")

UNREACHABLE = "http://127.0.0.1:9/api/"  # nothing listens on the discard port


async def test_it_tells_how_long_ago_slack_took_a_post(gateway: Gateway, workspace: Workspace) -> None:
    assert gateway.last_post_seconds() is None
    workspace.twin.faults.plan(FaultKind.ERROR, method="chat.postMessage", error="is_archived")
    await gateway.deliver(delivery())
    assert gateway.last_post_seconds() is None
    await gateway.deliver(delivery())
    assert gateway.last_post_seconds() == 0


async def test_it_knows_who_it_is_and_asks_once(gateway: Gateway, workspace: Workspace) -> None:
    me = await gateway.identify()
    assert await gateway.identify() is me
    assert (me.team, me.user_id, me.bot_id) == ("T0TWIN", workspace.app.bot_user, workspace.app.bot_id)
    assert me.url.startswith("http")
    assert len(await workspace.calls("auth.test")) == 1


async def test_a_wrong_bot_token_says_what_to_do(workspace: Workspace) -> None:
    gateway = workspace.gateway(token="xoxb-wrong")
    with pytest.raises(ConfigurationError, match="SLACK_BOT_TOKEN: invalid_auth") as caught:
        await gateway.identify()
    assert "xoxb-" in (caught.value.hint or "")
    await gateway.close()


async def test_a_wrong_app_token_says_what_to_do(gateway: Gateway) -> None:
    with pytest.raises(ConfigurationError, match="SLACK_APP_TOKEN: invalid_auth"):
        await gateway.socket_url("xapp-wrong")


async def test_an_address_for_the_socket_is_asked_for_again_after_a_rate_limit(workspace: Workspace) -> None:
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        now += seconds

    gateway = workspace.gateway(pacing=Pacing(monotonic=lambda: now, sleep=sleep))
    await workspace.fault("http_429", method="apps.connections.open", seconds=30)
    assert (await gateway.socket_url(workspace.app.app_token)).startswith("ws://")
    assert now == 30
    await gateway.close()


async def test_a_slack_that_cannot_be_reached_is_unavailable(workspace: Workspace) -> None:
    gateway = workspace.gateway(base_url=UNREACHABLE)
    with pytest.raises(Unavailable, match=r"auth\.test"):
        await gateway.identify()
    await gateway.close()


@OPS_10
async def test_a_post_lands_in_its_thread_with_our_key_and_can_be_found(gateway: Gateway, workspace: Workspace) -> None:
    root = await workspace.say("@swarm hello")
    wanted = delivery(thread_ts=root, text="**done**")
    answer = await gateway.deliver(wanted)
    assert isinstance(answer, DeliveryAccepted)
    assert answer.thread_ts == root
    assert await gateway.find(wanted) == answer
    [call] = await workspace.calls("chat.postMessage")
    assert call["args"]["metadata"] == {
        "event_type": "swarm_delivery",
        "event_payload": {"delivery_id": wanted.id, "agent": "lead"},
    }
    assert call["args"]["blocks"] == [{"type": "markdown", "text": "**done**"}]
    assert call["args"]["text"] == "**done**"
    assert call["args"]["reply_broadcast"] is False
    assert call["args"]["unfurl_links"] is call["args"]["unfurl_media"] is False


async def test_a_post_in_a_thread_is_found_however_far_our_clock_was_ahead(
    gateway: Gateway, workspace: Workspace
) -> None:
    """Looked for from the time of its id on, it would not be there, and be posted again."""
    root = await workspace.say("@swarm hello")
    wanted = delivery(thread_ts=root, id="0fffffff-6400-7000-8000-000000000000")
    answer = await gateway.deliver(wanted)
    assert await gateway.find(wanted) == answer
    question = await workspace.say("and this?", thread_ts=root)
    assert await gateway.find(replace(wanted, answers_ts=question)) is None, "it answers what was said before it"


async def test_a_post_outside_a_thread_can_be_found_too(gateway: Gateway) -> None:
    wanted = delivery()
    answer = await gateway.deliver(wanted)
    assert isinstance(answer, DeliveryAccepted)
    assert answer.thread_ts is None
    assert await gateway.find(wanted) == answer


async def test_a_broadcast_reply_is_also_in_the_channel(gateway: Gateway, workspace: Workspace) -> None:
    root = await workspace.say("hello")
    answer = await gateway.deliver(delivery(thread_ts=root, broadcast=True))
    assert isinstance(answer, DeliveryAccepted)
    assert answer.ts in [message["ts"] for message in await workspace.messages()]


@OPS_10
async def test_what_was_not_posted_is_not_found(gateway: Gateway, workspace: Workspace) -> None:
    root = await workspace.say("hello")
    await gateway.deliver(delivery(thread_ts=root))
    assert await gateway.find(delivery(thread_ts=root)) is None
    assert await gateway.find(delivery(thread_ts="1700000000.000100")) is None
    assert await gateway.find(delivery(DeliveryKind.REACTION, target_ts=root)) is None


async def test_a_lookup_that_slack_refuses_says_why(gateway: Gateway) -> None:
    for thread_ts in ("1700000000.000100", None):
        with pytest.raises(RefusedBySlack) as refused:
            await gateway.find(delivery(channel="C0NOWHERE", thread_ts=thread_ts))
        assert refused.value.slack_code == "channel_not_found"


async def test_a_lookup_that_fails_for_now_is_unavailable(gateway: Gateway, workspace: Workspace) -> None:
    await workspace.fault("http_500", method="conversations.history")
    with pytest.raises(Unavailable, match=r"conversations\.history"):
        await gateway.find(delivery())


async def test_a_post_is_found_on_the_last_page(
    gateway: Gateway, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm.slack.outgoing.gateway._PAGE_SIZE", 2)
    root = await workspace.say("hello")
    for number in range(5):
        await workspace.say(f"reply {number}", thread_ts=root)
    wanted = delivery(thread_ts=root)
    answer = await gateway.deliver(wanted)
    assert await gateway.find(wanted) == answer
    assert len(await workspace.calls("conversations.replies")) > 1


async def test_an_update_a_delete_and_a_reaction_reach_their_message(gateway: Gateway, workspace: Workspace) -> None:
    posted = await gateway.deliver(delivery(text="before"))
    assert isinstance(posted, DeliveryAccepted)
    ts = posted.ts
    assert await gateway.deliver(delivery(DeliveryKind.UPDATE, target_ts=ts, text="after")) == DeliveryAccepted(ts=ts)
    assert await gateway.deliver(delivery(DeliveryKind.REACTION, target_ts=ts, text="eyes")) == DeliveryAccepted(ts=ts)
    [message] = await workspace.messages()
    assert message["text"] == "after"
    assert message["reactions"][0]["name"] == "eyes"
    assert await gateway.deliver(delivery(DeliveryKind.DELETE, target_ts=ts)) == DeliveryAccepted(ts=ts)
    assert await workspace.messages() == []


async def test_a_long_update_is_shown_whole_though_slack_takes_less_of_its_plain_text(
    gateway: Gateway, workspace: Workspace
) -> None:
    posted = await gateway.deliver(delivery(text="before"))
    assert isinstance(posted, DeliveryAccepted)
    text = "word " * 1_500 + "end"
    answer = await gateway.deliver(delivery(DeliveryKind.UPDATE, target_ts=posted.ts, text=text))
    assert answer == DeliveryAccepted(ts=posted.ts)
    [message] = await workspace.messages()
    assert message["blocks"][0]["text"] == text
    assert text.startswith(message["text"].removesuffix("…"))


@OPS_10
async def test_an_effect_that_is_there_already_is_accepted(gateway: Gateway, workspace: Workspace) -> None:
    ts = await workspace.say("hello")
    eyes = delivery(DeliveryKind.REACTION, target_ts=ts, text="eyes")
    assert await gateway.deliver(eyes) == await gateway.deliver(eyes) == DeliveryAccepted(ts=ts)
    gone = delivery(DeliveryKind.DELETE, target_ts="1700000000.000100")
    assert await gateway.deliver(gone) == DeliveryAccepted(ts="1700000000.000100")


@OPS_10
@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        ({"kind": "error", "error": "channel_not_found"}, DeliveryRefused(error="channel_not_found")),
        ({"kind": "error", "error": "is_archived"}, DeliveryRefused(error="is_archived")),
        ({"kind": "error", "error": "token_revoked"}, NotSent(reason="token_revoked", retry_after_seconds=1.0)),
        ({"kind": "error", "error": "msg_too_long"}, DeliveryRefused(error="msg_too_long")),
        ({"kind": "error", "error": "ratelimited"}, NotSent(reason="ratelimited", retry_after_seconds=1.0)),
        ({"kind": "error", "error": "rate_limited"}, NotSent(reason="ratelimited", retry_after_seconds=1.0)),
        ({"kind": "error", "error": "team_added_to_org"}, NotSent(reason="team_added_to_org", retry_after_seconds=1.0)),
        ({"kind": "http_429", "seconds": 7}, NotSent(reason="ratelimited", retry_after_seconds=7.0)),
        ({"kind": "error", "error": "internal_error"}, InDoubt(reason="internal_error")),
        ({"kind": "error", "error": "fatal_error"}, InDoubt(reason="fatal_error")),
        ({"kind": "error", "error": "service_unavailable"}, InDoubt(reason="service_unavailable")),
        ({"kind": "error", "error": "request_timeout"}, InDoubt(reason="request_timeout")),
        ({"kind": "http_500"}, InDoubt(reason="internal_error")),
    ],
)
async def test_each_error_of_slack_means_one_thing(
    gateway: Gateway, workspace: Workspace, fault: dict[str, object], expected: Answer
) -> None:
    await workspace.fault(method="chat.postMessage", **fault)  # type: ignore[arg-type]
    assert await gateway.deliver(delivery()) == expected
    assert await workspace.messages() == []


@OPS_10
async def test_a_post_whose_answer_is_lost_is_in_doubt_posted_once_and_found(
    gateway: Gateway, workspace: Workspace
) -> None:
    await workspace.fault("cut_after_accept", method="chat.postMessage")
    wanted = delivery()
    assert isinstance(await gateway.deliver(wanted), InDoubt)
    [message] = await workspace.messages()
    assert await gateway.find(wanted) == DeliveryAccepted(ts=message["ts"])
    assert len(await workspace.calls("chat.postMessage")) == 1


@OPS_10
async def test_a_post_whose_answer_is_late_is_in_doubt(workspace: Workspace) -> None:
    gateway = workspace.gateway(timeout_seconds=1)
    await workspace.fault("delay", method="chat.postMessage", seconds=30)
    assert isinstance(await gateway.deliver(delivery()), InDoubt)
    await gateway.close()
    workspace.twin.clock.advance(60)


@OPS_10
async def test_a_call_that_never_left_is_not_sent(workspace: Workspace) -> None:
    for url in (UNREACHABLE, "http://no-such-host.invalid/api/"):
        gateway = workspace.gateway(base_url=url)
        answer = await gateway.deliver(delivery())
        assert isinstance(answer, NotSent)
        assert answer.retry_after_seconds == 1.0
        await gateway.close()


async def test_a_cancelled_call_is_cancelled(gateway: Gateway, workspace: Workspace) -> None:
    await workspace.fault("delay", method="chat.postMessage", seconds=30)
    posting = asyncio.create_task(gateway.deliver(delivery()))
    while not await workspace.messages():
        assert not posting.done()
    posting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await posting
    workspace.twin.clock.advance(60)


@OPS_10
async def test_a_post_into_a_thread_without_a_root_is_refused(gateway: Gateway, workspace: Workspace) -> None:
    root = await workspace.say("hello")
    await workspace.delete(root)
    assert await gateway.deliver(delivery(thread_ts=root)) == DeliveryRefused(error="thread_not_found")
    assert await workspace.messages() == []


@OPS_10
async def test_a_rate_limit_is_told_to_the_pacing(workspace: Workspace) -> None:
    pacing = Pacing(enforced=False)
    gateway = workspace.gateway(pacing=pacing)
    await workspace.fault("http_429", method="chat.postMessage", seconds=30)
    await gateway.deliver(delivery())
    assert gateway.expected_wait_seconds(delivery()) > 29
    assert gateway.expected_wait_seconds(delivery(channel="C0RANDOM")) == 0
    assert gateway.expected_wait_seconds(delivery(DeliveryKind.REACTION)) == 0
    await gateway.close()


@OPS_10
async def test_a_delivery_waits_until_the_limits_leave_room(workspace: Workspace) -> None:
    waited: list[float] = []
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        waited.append(seconds)
        now += seconds

    gateway = workspace.gateway(pacing=Pacing(monotonic=lambda: now, sleep=sleep))
    for _ in range(4):
        await gateway.ready(delivery())
    assert waited == [1.0]
    await gateway.close()


@pytest.mark.req("LOOP-02")
async def test_a_thread_is_read_whole_oldest_first_with_our_posts_named(
    gateway: Gateway, workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm.slack.outgoing.gateway._PAGE_SIZE", 3)
    root = await workspace.say("question")
    replies = [await workspace.say(f"reply {number}", user="bob", thread_ts=root) for number in range(7)]
    wanted = delivery(thread_ts=root, text="answer")
    posted = await gateway.deliver(wanted)
    assert isinstance(posted, DeliveryAccepted)
    messages = await gateway.read_thread("C0GENERAL", root)
    assert [message.ts for message in messages] == [root, *replies, posted.ts]
    assert [message.thread_ts for message in messages] == [None, *[root] * 8]
    assert messages[-1].delivery_id == wanted.id
    assert (messages[-1].author.kind, messages[-1].author.name) == (AuthorKind.AGENT, "lead")
    assert {message.author.kind for message in messages[:-1]} == {AuthorKind.USER}
    assert len(await workspace.calls("conversations.replies")) > 1


async def test_a_thread_that_does_not_exist_is_empty(gateway: Gateway) -> None:
    assert await gateway.read_thread("C0GENERAL", "1700000000.000100") == []


async def test_a_thread_that_may_not_be_read_is_not_found(gateway: Gateway) -> None:
    with pytest.raises(NotFound, match="channel_not_found"):
        await gateway.read_thread("C0NOWHERE", "1700000000.000100")


async def test_a_read_waits_out_a_rate_limit(workspace: Workspace) -> None:
    waited: list[float] = []
    now = 0.0

    async def sleep(seconds: float) -> None:
        nonlocal now
        waited.append(seconds)
        now += seconds

    gateway = workspace.gateway(pacing=Pacing(enforced=False, monotonic=lambda: now, sleep=sleep))
    root = await workspace.say("hello")
    await workspace.fault("http_429", method="conversations.replies", seconds=30, times=2)
    assert [message.ts for message in await gateway.read_thread("C0GENERAL", root)] == [root]
    assert waited == [30, 30]
    await workspace.fault("http_429", method="conversations.replies", seconds=30, times=99)
    with pytest.raises(Unavailable, match="because of rate limits"):
        await gateway.read_thread("C0GENERAL", root)
    await gateway.close()


async def test_a_broken_read_is_unavailable(gateway: Gateway, workspace: Workspace) -> None:
    await workspace.fault("http_500", method="conversations.replies")
    with pytest.raises(Unavailable, match=r"conversations\.replies"):
        await gateway.read_thread("C0GENERAL", "1700000000.000100")


async def test_people_and_channels_have_names(gateway: Gateway, workspace: Workspace) -> None:
    alice = Person(id="U000ALICE", name="Alice", email="alice@twin.test", teams=("T0TWIN",))
    assert await gateway.user("U000ALICE") == alice
    assert await gateway.user("U0NOBODY") == Person(id="U0NOBODY", name="U0NOBODY", is_known=False)
    assert await gateway.bot_name(workspace.app.bot_id) == "swarm"
    channel = await gateway.channel("C0GENERAL")
    assert (channel.name, channel.type, channel.user_id) == ("general", ChannelType.CHANNEL, None)
    assert channel.topic
    with pytest.raises(NotFound, match="bot_not_found"):
        await gateway.bot_name("B0NOBODY")


async def test_a_closed_gateway_makes_no_more_calls(workspace: Workspace) -> None:
    gateway = workspace.gateway()
    await gateway.identify()
    await gateway.close()
    with pytest.raises(RuntimeError):
        await gateway.deliver(delivery())


# A Slack that answers as the twin never would.


@OPS_10
@pytest.mark.parametrize(
    "answer",
    [
        web.Response(text="<html>", content_type="text/html"),
        web.Response(text="fine", content_type="text/plain"),
        web.Response(text="not json", content_type="application/json"),
        web.Response(body=b"\xff\xfe", content_type="application/json"),
        web.Response(text="[1]", content_type="application/json"),
        web.Response(text="null", content_type="application/json"),
        web.Response(text='{"ok": true}', content_type="application/json"),
        web.Response(text='{"ok": false}', content_type="application/json"),
        web.Response(text='{"ok": false, "error": 5}', content_type="application/json"),
        web.Response(text="<html>", content_type="text/html", status=502),
        web.Response(text="down", content_type="text/plain", status=503),
        web.Response(text='{"ok": false, "error": "oops"}', content_type="application/json", status=503),
    ],
    ids=lambda answer: f"{answer.status} {answer.content_type} {answer.body!r}",
)
async def test_an_answer_that_cannot_be_read_leaves_a_post_in_doubt(
    scripted: Gateway, script: ScriptedSlack, answer: web.Response
) -> None:
    script.answers["chat.postMessage"] = answer
    assert isinstance(await scripted.deliver(delivery()), InDoubt)


@OPS_10
@pytest.mark.parametrize(
    ("header", "seconds"), [("12", 12.0), ("0.5", 0.5), ("soon", 1.0), ("nan", 1.0), ("-3", 0.0), ("1e99", 3600.0)]
)
async def test_any_retry_after_is_survived(
    scripted: Gateway, script: ScriptedSlack, header: str, seconds: float
) -> None:
    script.answers["chat.postMessage"] = web.Response(status=429, text="slow down", headers={"Retry-After": header})
    assert await scripted.deliver(delivery()) == NotSent(reason="ratelimited", retry_after_seconds=seconds)


@OPS_10
async def test_a_reply_that_lands_outside_its_thread_is_taken_back(
    scripted: Gateway, script: ScriptedSlack, monkeypatch: pytest.MonkeyPatch
) -> None:
    turns: list[str] = []

    async def acquire_slot(pacing: Pacing, method: str, channel: str | None = None) -> None:
        turns.append(method)

    monkeypatch.setattr(Pacing, "acquire_slot", acquire_slot)
    ts = "1700000009.000100"
    script.answers["chat.postMessage"] = {"ok": True, "ts": ts, "message": {"ts": ts, "text": "done"}}
    script.answers["chat.delete"] = {"ok": True}
    answer = await scripted.deliver(delivery(thread_ts="1700000000.000100"))
    assert answer == DeliveryRefused(error="thread_not_found")
    assert script.calls[-1] == ("chat.delete", {"channel": "C0GENERAL", "ts": ts})
    assert turns == ["chat.delete"]


@OPS_10
@pytest.mark.parametrize("code", ["thread_not_found", "message_not_found"])
async def test_a_post_whose_thread_is_gone_is_looked_for_in_the_channel(
    scripted: Gateway, script: ScriptedSlack, code: str
) -> None:
    script.answers["conversations.replies"] = {"ok": False, "error": code}
    script.answers["conversations.history"] = {"ok": True, "messages": []}
    assert await scripted.find(delivery(thread_ts="1700000000.000100")) is None
    assert script.calls[-1][0] == "conversations.history"


@OPS_10
async def test_a_thread_that_may_not_be_searched_says_why(scripted: Gateway, script: ScriptedSlack) -> None:
    script.answers["conversations.replies"] = {"ok": False, "error": "missing_scope"}
    with pytest.raises(RefusedBySlack, match="missing_scope"):
        await scripted.find(delivery(thread_ts="1700000000.000100"))


@OPS_10
async def test_a_reply_found_outside_its_thread_is_taken_back_and_not_found(
    scripted: Gateway, script: ScriptedSlack
) -> None:
    wanted = delivery(thread_ts="1700000000.000100")
    metadata = {"event_type": "swarm_delivery", "event_payload": {"delivery_id": wanted.id}}
    stray = {"ts": "1700000009.000100", "user": "UBOT", "bot_id": "BBOT", "text": "done", "metadata": metadata}
    script.answers["conversations.replies"] = {"ok": False, "error": "thread_not_found"}
    script.answers["conversations.history"] = {"ok": True, "messages": [stray]}
    script.answers["chat.delete"] = {"ok": True}
    assert await scripted.find(wanted) is None
    assert script.calls[-1] == ("chat.delete", {"channel": "C0GENERAL", "ts": "1700000009.000100"})


async def test_somebody_elses_message_with_our_key_is_not_ours(scripted: Gateway, script: ScriptedSlack) -> None:
    wanted = delivery()
    metadata = {"event_type": "swarm_delivery", "event_payload": {"delivery_id": wanted.id}}
    forged = {"ts": "1700000009.000100", "user": "U1", "bot_id": "B1", "text": "done", "metadata": metadata}
    script.answers["conversations.history"] = {"ok": True, "messages": [forged]}
    assert await scripted.find(wanted) is None


async def test_a_lookup_begins_shortly_before_the_delivery(scripted: Gateway, script: ScriptedSlack) -> None:
    script.answers["conversations.history"] = {"ok": True, "messages": []}
    await scripted.find(delivery(id="0193b0c0-6400-7000-8000-000000000000"))
    await scripted.find(delivery(id="of another kind"))
    await scripted.find(delivery(id="5d7b2f1c-3c7e-4b52-9d6f-0a1b2c3d4e5f"))
    [(_, by_time), (_, whole), (_, whole_too)] = script.calls[1:]
    assert by_time["oldest"] == f"{0x0193B0C06400 // 1000 - 600}.000000"
    assert "oldest" not in whole
    assert "oldest" not in whole_too


async def test_pages_that_repeat_themselves_end(scripted: Gateway, script: ScriptedSlack) -> None:
    page: dict[str, object] = {"ok": True, "messages": [], "response_metadata": {"next_cursor": "again"}}
    script.answers["conversations.replies"] = page
    with pytest.raises(Unavailable, match="repeatedly"):
        await scripted.read_thread("C1", "1700000000.000100")
