"""`dm_replies: flat`: the messages of a direct message outside threads are one conversation."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from swarm.clock import us_to_slack_ts
from swarm.domain.answers.calls import OpenStream, PostPage
from swarm.domain.model.deliveries import Delivery, DeliveryKind
from swarm.domain.model.requests import NewRequest
from swarm.domain.model.runs import RunStatus
from swarm.domain.model.threads import FLAT, FLAT_MESSAGES, ChannelMessage, ChannelType, SlackMessage
from swarm.domain.model.triggers import TriggerKind
from swarm.domain.policy.channels import ChannelPolicy, DirectReplies
from swarm.domain.policy.operating import Policies, Retention
from swarm.services.requests.human_requests import AskedWork
from swarm.services.runs.run_ends import STOP_TEXT
from swarm.store.threads import watermarks
from tests.support.conversing import begun
from tests.support.live import FakeLive, Gate, Scripted, hired, playing
from tests.support.policies import governing
from tests.support.slack import next_ts
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.support.world import ME, World, delete, edit, holding, said, texts

pytestmark = pytest.mark.req("CHAN-01")

IS_FLAT = ChannelPolicy(dm_replies=DirectReplies.FLAT)


def direct(text: str, *, thread_ts: str | None = None, by: str = "U1") -> SlackMessage:
    return said(text, by=by, channel="D1", channel_type=ChannelType.DM, thread_ts=thread_ts)


@pytest.fixture
def flat(world: World) -> World:
    return world.governed_by(governing(everywhere=IS_FLAT))


def in_slack(world: World, message: SlackMessage) -> SlackMessage:
    world.slack.channels.setdefault(message.channel, []).append(ChannelMessage(message=message))
    return message


async def says(world: World, text: str) -> SlackMessage:
    return await world.hears(in_slack(world, direct(text)))


async def read(world: World) -> None:
    while await world.backfill.read_due():
        pass


def switched(world: World, replies: DirectReplies) -> None:
    world.operating_policy.book.current = Policies(everywhere=ChannelPolicy(dm_replies=replies))


async def places(world: World) -> list[str]:
    return [row["thread_ts"] for row in await world.rows("SELECT thread_ts FROM threads ORDER BY created_at")]


@pytest.mark.both_engines
async def test_ten_messages_are_one_conversation_in_order_with_one_owner_and_answers_outside_threads(
    flat: World,
) -> None:
    lead = await flat.lead()
    wrote = [await says(flat, str(number)) for number in range(10)]
    for again in wrote:
        await flat.hears(again)
    await read(flat)
    trigger = await flat.only(lead)
    assert texts([trigger]) == [[str(number) for number in range(10)]]
    await flat.answers(lead, trigger, "all of them")
    await flat.send()
    (post,) = [sent for sent in flat.slack.landed if sent.kind is DeliveryKind.POST]
    assert (post.channel, post.thread_ts, post.text) == ("D1", FLAT, "all of them")
    later = await says(flat, "and this")
    trigger = await flat.only(lead)
    assert [one.text for one in trigger.thread_context] == [*map(str, range(10)), "all of them", "and this"]
    assert trigger.thread
    assert trigger.thread.permalink == f"{ME.url}archives/D1"
    assert await places(flat) == [FLAT]
    assert len(await flat.inbox_messages(later)) == 1


async def test_a_follow_up_waits_for_its_run_and_a_thread_in_the_direct_message_stays_a_thread(flat: World) -> None:
    lead = await flat.lead()
    first = await says(flat, "one")
    await read(flat)
    trigger = await flat.only(lead)
    await says(flat, "two")
    assert await flat.poll(lead) == []  # the first run has the conversation
    aside = await flat.hears(direct("about one", thread_ts=first.ts))
    flat.slack.threads["D1", first.ts] = [first, aside]
    await read(flat)
    thread = await flat.only(lead)
    assert [one.text for one in thread.thread_context] == ["one", "about one"]
    assert (thread.thread and thread.thread.thread_ts) == first.ts
    await flat.answers(lead, trigger, "1")
    assert texts([await flat.only(lead)]) == [["two"]]


async def test_the_conversation_outlives_the_deletion_of_its_first_message(flat: World) -> None:
    lead = await flat.lead()
    first, second = await says(flat, "one"), await says(flat, "two")
    await read(flat)
    await flat.ingest.handle(delete(first))
    await flat.ingest.handle(edit(second, "two, rather"))
    trigger = await flat.only(lead)
    assert texts([trigger]) == [["two, rather"]]
    await flat.answers(lead, trigger, "2")
    await flat.send()
    assert flat.slack.posts == ["2"]


async def test_a_new_conversation_knows_the_earlier_messages_of_the_direct_message(flat: World) -> None:
    lead = await flat.lead()
    in_slack(flat, direct("long ago"))
    await says(flat, "and now?")
    await read(flat)
    trigger = await flat.only(lead)
    assert texts([trigger]) == [["and now?"]]
    assert [one.text for one in trigger.thread_context] == ["long ago", "and now?"]


@pytest.mark.both_engines
async def test_a_change_of_the_setting_neither_loses_nor_doubles_messages(world: World) -> None:
    lead = await world.lead()
    switched(world, DirectReplies.THREAD)
    before = in_slack(world, direct("in a thread"))
    await world.hears(before)
    switched(world, DirectReplies.FLAT)
    beside = await says(world, "beside")
    await world.hears(before)
    await world.ingest.handle(edit(before, "in a thread, still"))
    await read(world)
    assert sorted(texts(await world.poll(lead))) == [["beside"], ["in a thread, still"]]
    switched(world, DirectReplies.THREAD)
    await world.hears(beside)
    await world.ingest.handle(edit(beside, "beside, still"))
    await says(world, "a thread again")
    got = [one for one in await world.poll(lead) if one.kind is TriggerKind.SLACK_INBOX_MESSAGE]
    assert texts(got) == [["a thread again"]]
    assert len(await places(world)) == 3
    rows = await world.rows("SELECT text, thread_ts = '' AS flat FROM thread_messages ORDER BY ts")
    assert [(row["text"], bool(row["flat"])) for row in rows] == [
        ("in a thread, still", False),
        ("beside, still", True),
        ("a thread again", False),
    ]


async def test_messages_edits_and_deletions_of_an_outage_are_served_once_and_in_order(flat: World) -> None:
    lead = await flat.lead()
    await flat.database.write(watermarks.open_gap, ME.team)  # the first start
    flat.clock.advance(10_000)
    first = await says(flat, "hello")
    await read(flat)
    await flat.answers(lead, await flat.only(lead), "hi")
    await says(flat, "a remark")
    gone = await says(flat, "never mind")
    flat.clock.advance(60_000_000)
    await flat.database.write(watermarks.advance, ME.team, next_ts())
    missed = [in_slack(flat, direct(f"missed {number}")) for number in range(3)]
    # The history is read only so far back, and one message was deleted.
    flat.slack.channels["D1"] = [one for one in flat.slack.channels["D1"] if one.message.ts not in (first.ts, gone.ts)]
    await flat.database.write(watermarks.open_gap, ME.team)
    await flat.hears(in_slack(flat, direct("heard")))
    await read(flat)
    await flat.catch_up.read_gap()
    for again in missed:
        await flat.hears(again)
    assert texts(await flat.poll(lead)) == [["a remark", "missed 0", "missed 1", "missed 2", "heard"]]
    assert await places(flat) == [FLAT]
    deleted = await flat.rows("SELECT ts FROM thread_messages WHERE deleted_at IS NOT NULL")
    assert [row["ts"] for row in deleted] == [gone.ts]


@pytest.mark.req("STREAM-09")
async def test_a_run_is_stopped_by_word_and_has_our_button_even_where_slack_shows_its_own_in_threads(
    flat: World,
) -> None:
    gate, live = Gate(), FakeLive(shows_stop=True)
    async with playing(flat, hired("ada", Scripted(gate)), live=live, stop_button_seconds=0) as show:
        first = replace(await says(flat, "a long job"), thread_ts=FLAT)
        await read(flat)
        await begun(show, gate, first)

        async def offered() -> list[Delivery]:
            await flat.send()
            return [done for done in flat.slack.landed if done.text == STOP_TEXT]

        (button,) = await wait_until(offered)
        await says(flat, "!stop")
        await asyncio.wait_for(gate.left.wait(), PATIENCE_SECONDS)
        (run,) = await show.over(first)
    assert (run.status, button.thread_ts) == (RunStatus.STOPPED, FLAT)
    calls = [call for of_run, call in live.calls if of_run == run.id]
    assert [type(call) for call in calls[:1]] == [PostPage]
    assert not [call for call in calls if isinstance(call, OpenStream)]


@pytest.mark.req("STREAM-09")
async def test_in_a_thread_our_button_is_left_out_where_slack_shows_its_own(world: World) -> None:
    gate, live = Gate(), FakeLive(shows_stop=True)
    async with playing(world, hired("ada", Scripted(gate)), live=live, stop_button_seconds=0) as show:
        root = await world.says("<@UBOT> hello")
        await begun(show, gate, root)
        gate.opened.set()
        await show.over(root)
        await world.send()
    assert STOP_TEXT not in world.slack.posts


@pytest.mark.req("HITL-01")
async def test_the_card_of_a_request_belongs_to_the_conversation(flat: World) -> None:
    lead = await flat.lead()
    await says(flat, "deploy it")
    await read(flat)
    trigger = await flat.only(lead)
    asked = NewRequest(key="q1", title="May I deploy?")
    work = AskedWork(inbox_message_id=trigger.inbox_messages[0].id)
    await flat.services.requests.ask(holding(trigger, lead), work, asked, wait=False)
    await flat.send()
    (card,) = [done for done in flat.slack.landed if done.request]
    assert (card.channel, card.thread_ts) == ("D1", FLAT)
    rows = await flat.rows("SELECT text, thread_ts FROM thread_messages")
    assert [row["thread_ts"] for row in rows if "May I deploy?" in row["text"]] == [FLAT]


async def test_an_agent_sees_the_latest_messages_and_all_that_are_new(flat: World) -> None:
    lead = await flat.lead()
    for number in range(FLAT_MESSAGES + 20):
        await flat.hears(direct(f"old {number}"))
    await read(flat)
    seen: list[str] = []
    while triggers := await flat.poll(lead, limit=50):
        for trigger in triggers:
            seen += [one.text for one in trigger.inbox_messages]
            await flat.answers(lead, trigger, "ok")
    assert seen == [f"old {number}" for number in range(FLAT_MESSAGES + 20)]
    await flat.hears(direct("new"))
    (trigger,) = await flat.poll(lead)
    assert len(trigger.thread_context) == FLAT_MESSAGES + 1
    assert trigger.thread_context[-1].text == "new"


@pytest.mark.both_engines
async def test_the_past_of_a_conversation_that_goes_on_is_forgotten(flat: World) -> None:
    world = flat.governed_by(governing(everywhere=IS_FLAT, retention=Retention(threads_days=1)))
    lead = await world.lead()
    old = us_to_slack_ts(0)
    await world.hears(said("a secret of old", ts=old, channel="D1", channel_type=ChannelType.DM))
    await read(world)
    await world.answers(lead, await world.only(lead), "ok")
    await says(world, "today")
    await world.sweeper.tidy()
    rows = await world.rows("SELECT text FROM thread_messages")
    assert "a secret of old" not in [row["text"] for row in rows]
    assert "today" in [row["text"] for row in rows]
