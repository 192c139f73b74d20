"""Slack promises no order: a reply that comes before the first message of its thread is a follow-up all the same."""

from __future__ import annotations

import asyncio

import pytest

from swarm.domain.model.inbox import InboxStatus
from swarm.domain.policy.channels import ChannelPolicy
from swarm.services.operate.sweep import forget_early
from tests.support.policies import governing
from tests.support.slack import next_ts
from tests.support.world import BOT, World, delete, edit, said, texts

pytestmark = [pytest.mark.both_engines, pytest.mark.req("LOOP-01", "LOOP-10", "LOOP-13")]


async def test_replies_that_overtook_the_mention_are_stored_and_handed_out_with_it_in_order(world: World) -> None:
    lead = await world.lead()
    root = said(f"{BOT} please look")
    replies = [said(text, thread_ts=root.ts) for text in ("and be quick", "thanks")]
    for reply in reversed(replies):
        await world.hears(reply)
    assert await world.poll(lead) == []
    await world.hears(root)
    assert texts(await world.poll(lead)) == [["@UBOT please look", "and be quick", "thanks"]]


async def test_however_often_they_are_told_they_are_handed_out_once(world: World) -> None:
    lead = await world.lead()
    root = said(f"{BOT} please look")
    reply = said("and be quick", thread_ts=root.ts)
    for message in (reply, reply, root, root, reply):
        await world.hears(message)
    assert texts(await world.poll(lead)) == [["@UBOT please look", "and be quick"]]
    assert await world.rows("SELECT * FROM early_messages") == []


async def test_one_that_was_deleted_before_the_mention_came_is_not_handed_out(world: World) -> None:
    lead = await world.lead()
    root = said(f"{BOT} please look")
    reply = said("never mind", thread_ts=root.ts)
    await world.hears(reply)
    await world.ingest.handle(delete(reply))
    await world.hears(root)
    assert texts(await world.poll(lead)) == [["@UBOT please look"]]


async def test_one_that_was_edited_before_the_mention_came_is_handed_out_as_it_reads_then(world: World) -> None:
    lead = await world.lead()
    root = said(f"{BOT} please look")
    reply = said("and be qick", thread_ts=root.ts)
    await world.hears(reply)
    await world.ingest.handle(edit(reply, "and be quick"))
    await world.hears(reply)
    await world.hears(root)
    assert texts(await world.poll(lead)) == [["@UBOT please look", "and be quick"]]


async def test_of_edits_before_the_mention_the_newest_counts_in_whatever_order_they_come(world: World) -> None:
    lead = await world.lead()
    root = said(f"{BOT} please look")
    reply = said("and be qick", thread_ts=root.ts)
    await world.hears(reply)
    older, newer = edit(reply, "and be quck"), edit(reply, "and be quick")
    await world.ingest.handle(newer)
    await world.ingest.handle(older)
    await world.hears(root)
    assert texts(await world.poll(lead)) == [["@UBOT please look", "and be quick"]]


async def test_an_edit_in_a_thread_of_others_is_not_kept(world: World) -> None:
    await world.lead()
    await world.ingest.handle(edit(said("we talk", thread_ts=said("a root that nobody told us of").ts), "we talked"))
    assert await world.rows("SELECT * FROM early_messages") == []


async def test_replies_in_threads_of_others_are_forgotten_soon(world: World) -> None:
    await world.lead()
    await world.says("we talk among ourselves", thread=said("a root that nobody told us of"))
    assert len(await world.rows("SELECT * FROM early_messages")) == 1
    world.clock.advance(901)
    await world.database.write(forget_early)
    assert await world.rows("SELECT * FROM early_messages") == []


async def test_nothing_is_kept_of_what_we_may_not_hear(world: World) -> None:
    deaf = world.governed_by(governing(everywhere=ChannelPolicy(enabled=False)))
    await deaf.says("between us", thread=said("a root that nobody told us of"))
    assert await world.rows("SELECT * FROM early_messages") == []


async def test_a_reply_to_something_old_cannot_have_overtaken_it(world: World) -> None:
    await world.lead()
    seconds, _, rest = next_ts().partition(".")
    await world.hears(said("late to the party", thread_ts=f"{int(seconds) - 601}.{rest}"))
    assert await world.rows("SELECT * FROM early_messages") == []


async def test_a_mention_and_its_reply_that_come_at_the_same_moment_are_both_handed_out(world: World) -> None:
    lead = await world.lead()
    for number in range(20):
        root = said(f"{BOT} question {number}")
        reply = said("please", thread_ts=root.ts)
        await asyncio.gather(world.hears(reply), world.hears(root))
        inbox_messages = [await world.inbox_message(message) for message in (root, reply)]
        assert [(inbox_message.agent_id, inbox_message.status) for inbox_message in inbox_messages] == [
            (lead.id, InboxStatus.UNREAD)
        ] * 2
