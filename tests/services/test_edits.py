"""What people change or delete in Slack changes what the agent gets; whoever has it already is told at once."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from swarm.domain.model.agents import UserView
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.triggers import TriggerKind
from swarm.domain.policy.channels import ChannelPolicy
from tests.support.policies import governing
from tests.support.world import BOT, World, delete, edit, said, texts

pytestmark = pytest.mark.req("LOOP-15")


async def test_an_edit_of_an_unread_message_changes_what_the_agent_gets(world: World) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} helo")
    await world.ingest.handle(edit(message, f"{BOT} hello"))
    (trigger,) = await world.poll(lead)
    assert texts([trigger]) == [["@UBOT hello"]]
    assert trigger.thread_context[0].edited
    assert "helo" not in trigger.prompt


@pytest.mark.req("LOOP-05")
async def test_an_edit_of_a_claimed_message_is_told_at_once_though_its_thread_is_locked(world: World) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} deploy to staging")
    trigger = await world.only(lead)
    await world.ingest.handle(edit(message, f"{BOT} deploy to production"))
    notice = await world.only(lead)
    assert notice.kind is TriggerKind.MESSAGE_CHANGED
    assert notice.notice is not None
    assert (notice.notice.inbox_message_id, notice.notice.actor) == (trigger.id, UserView(id="U1", name="alice"))
    assert notice.notice.text == "@UBOT deploy to production"
    assert "deploy to production" in notice.prompt
    await world.answers(lead, trigger, "done")


async def test_the_same_edit_again_tells_nothing_new(world: World) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} one")
    await world.only(lead)
    change = edit(message, f"{BOT} two")
    await asyncio.gather(*(world.ingest.handle(change) for _ in range(4)))
    assert len(await world.poll(lead)) == 1


async def test_an_edit_of_an_answered_message_tells_nobody(world: World) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} one")
    await world.answers(lead, await world.only(lead), "answer")
    await world.ingest.handle(edit(message, f"{BOT} two"))
    assert await world.poll(lead) == []


async def test_unfurled_links_are_no_edits(world: World) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} see https://example.com")
    await world.only(lead)
    unfurled = edit(message, message.text)
    await world.ingest.handle(replace(unfurled, message=replace(unfurled.message, edited_ts=None)))
    once_edited = edit(message, message.text)  # the preview of a message that was edited before
    await world.ingest.handle(once_edited)
    assert await world.poll(lead) == []


async def test_a_late_edit_does_not_undo_a_later_one(world: World) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} one")
    first, second = edit(message, f"{BOT} two"), edit(message, f"{BOT} three")
    await world.ingest.handle(second)
    await world.ingest.handle(first)
    assert texts(await world.poll(lead)) == [["@UBOT three"]]


async def test_a_late_edit_of_a_claimed_message_tells_nothing(world: World) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} one")
    await world.only(lead)
    first, second = edit(message, f"{BOT} two"), edit(message, f"{BOT} three")
    await world.ingest.handle(second)
    (notice,) = await world.poll(lead)
    await world.ingest.handle(first)
    assert await world.poll(lead) == []
    assert notice.notice is not None
    assert notice.notice.text == "@UBOT three"


async def test_an_edit_that_comes_before_its_original_is_what_the_agent_gets(world: World) -> None:
    lead = await world.lead()
    message = said(f"{BOT} helo")
    await world.ingest.handle(edit(message, f"{BOT} hello"))
    await world.hears(message)
    assert texts(await world.poll(lead)) == [["@UBOT hello"]]
    assert len(await world.inbox_messages(message)) == 1


@pytest.mark.parametrize("original_first", [True, False], ids=["in order", "edit first"])
async def test_an_edit_that_adds_a_mention_routes_the_message_once(world: World, original_first: bool) -> None:
    lead = await world.lead()
    message = said("hello")
    change = edit(message, f"{BOT} hello")
    for event in (message, change, change) if original_first else (change, message, change):
        await world.ingest.handle(event)
    assert len(await world.inbox_messages(message)) == 1
    await world.backfill.read_due()
    assert texts(await world.poll(lead)) == [["@UBOT hello"]]


async def test_an_edit_that_adds_a_mention_counts_only_from_whom_is_allowed(world: World) -> None:
    await world.lead()
    message = said("hello", by="U2")
    restricted = world.governed_by(governing(everywhere=ChannelPolicy(allowed_users=frozenset({"U1"}))))
    await restricted.hears(message)
    await restricted.ingest.handle(edit(message, f"{BOT} hello"))
    assert await world.inbox_messages(message) == []


async def test_a_delete_withdraws_an_unread_message(world: World) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} never mind")
    await world.ingest.handle(delete(message))
    assert await world.poll(lead) == []
    assert (await world.inbox_message(message)).status is InboxStatus.WITHDRAWN


@pytest.mark.req("LOOP-05")
async def test_a_delete_of_a_claimed_message_is_told_at_once_and_only_once(world: World) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} never mind")
    trigger = await world.only(lead)
    for _ in range(2):
        await world.ingest.handle(delete(message))
    notice = await world.only(lead)
    assert notice.kind is TriggerKind.MESSAGE_DELETED
    assert notice.notice is not None
    assert notice.notice.inbox_message_id == trigger.id
    assert (await world.inbox_message(message)).status is InboxStatus.WITHDRAWN


async def test_a_delete_that_comes_before_its_original_keeps_it_out(world: World) -> None:
    lead = await world.lead()
    message = said(f"{BOT} never mind")
    await world.ingest.handle(delete(message))
    await world.hears(message)
    assert await world.poll(lead) == []
    assert await world.inbox_messages(message) == []
    await world.send()
    assert world.slack.landed == []


async def test_a_late_edit_does_not_bring_a_deleted_message_back(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} hello")
    await world.answers(lead, await world.only(lead), "hi")
    message = await world.says("<@U2> look", thread=root)
    await world.ingest.handle(delete(message))
    await world.ingest.handle(edit(message, f"{BOT} look"))
    assert await world.poll(lead) == []
    assert await world.inbox_messages(message) == []


async def test_a_deleted_message_of_a_bundle_does_not_hinder_the_others(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} one")
    oops = await world.says("oops", thread=root)
    trigger = await world.only(lead)
    await world.ingest.handle(delete(oops))
    await world.answers(lead, trigger, "to the first")
    assert (await world.inbox_message(root)).status is InboxStatus.RESPONDED
    await world.says("three", thread=root)
    assert sorted(len(one.inbox_messages) for one in await world.poll(lead)) == [1, 1]  # the message and the notice


@pytest.mark.both_engines
async def test_edits_deletes_and_claims_at_the_same_moment_leave_nothing_untold(world: World) -> None:
    """Whoever is first: either the agent gets the new state, or it is told."""
    lead = await world.lead()
    messages = [await world.says(f"{BOT} {number}") for number in range(24)]
    changes = [edit(message, f"{message.text} edited") for message in messages[::2]]
    deletes = [delete(message) for message in messages[1::2]]
    polls = [world.poll(lead, limit=2) for _ in range(12)]
    events = [world.ingest.handle(event) for pair in zip(changes, deletes, strict=True) for event in pair]
    claimed, _ = await asyncio.gather(asyncio.gather(*polls), asyncio.gather(*events))
    triggers = [trigger for share in claimed for trigger in share]
    while more := await world.poll(lead):
        triggers += more
    told = {trigger.notice.inbox_message_id for trigger in triggers if trigger.notice}
    for trigger in triggers:
        if trigger.notice is None:
            (inbox_message,) = trigger.inbox_messages
            assert inbox_message.text.endswith("edited") or inbox_message.id in told
    for message in messages[1::2]:
        assert (await world.inbox_message(message)).status is InboxStatus.WITHDRAWN
