"""A Slack message becomes one inbox message per addressed agent, however often and in whatever guise it comes."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from swarm.domain.errors import Unavailable
from swarm.domain.model.inbox import InboxStatus, MatchedBy
from swarm.domain.model.threads import ChannelType
from swarm.store.inbox import inbox
from tests.support.world import BOT, World, said

pytestmark = pytest.mark.req("LOOP-01")


async def test_a_mention_becomes_one_unread_inbox_message_for_the_lead(world: World) -> None:
    lead = await world.lead()
    inbox_message = await world.inbox_message(await world.says(f"{BOT} hello"))
    assert (inbox_message.agent_id, inbox_message.status, inbox_message.matched_by) == (
        lead.id,
        InboxStatus.UNREAD,
        MatchedBy.MENTION,
    )


async def test_the_same_message_again_adds_nothing(world: World) -> None:
    await world.lead()
    message = await world.says(f"{BOT} hello")
    as_app_mention = replace(message, event_id="Ev2", channel_type=ChannelType.CHANNEL)
    for again in (message, as_app_mention, message):
        await world.hears(again)
    await world.send()
    assert len(await world.inbox_messages(message)) == 1
    assert world.slack.reactions == [(message.ts, "eyes")]


@pytest.mark.both_engines
async def test_redeliveries_at_the_same_moment_add_nothing(world: World) -> None:
    await world.lead()
    messages = [said(f"{BOT} number {number}") for number in range(5)]
    await asyncio.gather(*(world.hears(message) for message in messages * 8))
    await world.send()
    for message in messages:
        assert len(await world.inbox_messages(message)) == 1
    assert sorted(world.slack.reactions) == sorted((message.ts, "eyes") for message in messages)


@pytest.mark.both_engines
async def test_the_first_messages_of_a_thread_at_the_same_moment_open_it_once(world: World) -> None:
    await world.lead()
    root = said(f"{BOT} hello")
    replies = [said(f"{BOT} and {number}", thread_ts=root.ts) for number in range(8)]
    await asyncio.gather(*(world.hears(message) for message in [*replies, root]))
    assert await world.rows("SELECT COUNT(*) AS n FROM threads") == [{"n": 1}]
    for message in [root, *replies]:
        assert len(await world.inbox_messages(message)) == 1


async def test_a_restart_in_between_adds_nothing(world: World) -> None:
    await world.lead()
    message = await world.says(f"{BOT} hello")
    restarted = World(world.database, world.clock)
    await restarted.hears(message)
    assert len(await world.inbox_messages(message)) == 1


async def test_a_message_to_all_becomes_one_inbox_message_for_each_agent(world: World) -> None:
    agents = [await world.lead(), await world.lead("second"), await world.worker()]
    message = await world.says("swarm#all stand-up")
    await world.hears(message)
    assert sorted(str(inbox_message.agent_id) for inbox_message in await world.inbox_messages(message)) == sorted(
        one.id for one in agents
    )
    await world.send()
    assert world.slack.reactions == [(message.ts, "eyes")]


async def test_what_is_not_stored_is_reported_so_that_slack_sends_it_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.lead()
    message = said(f"{BOT} hello")
    add = inbox.add

    def breaks(*_: object) -> None:
        raise Unavailable("the disk is full")

    monkeypatch.setattr(inbox, "add", breaks)
    with pytest.raises(Unavailable):
        await world.hears(message)
    monkeypatch.setattr(inbox, "add", add)
    await world.hears(message)
    assert len(await world.inbox_messages(message)) == 1


async def test_people_among_themselves_leave_no_transcript(world: World) -> None:
    await world.lead()
    message = await world.says("lunch?")
    await world.says("yes", thread=message, by="U2")
    assert await world.inbox_messages(message) == []
    assert await world.rows("SELECT * FROM threads") == []
    assert await world.rows("SELECT * FROM thread_messages") == []


@pytest.mark.req("LOOP-11")
async def test_why_a_message_went_where_it_went_can_be_told(world: World) -> None:
    await world.lead()
    kept = await world.says(f"{BOT} hello")
    passed_by = await world.says("lunch?")
    told = await world.services.explanations.explain(f"C1:{kept.ts}")
    assert [step["change"] for step in told["routing"]] == ["route.mention"]
    assert (told["owner"], told["entries"][0]["agent"]) == ("lead", "lead")
    told = await world.services.explanations.explain(f"C1:{passed_by.ts}")
    assert "names nobody" in (told["routing"][0]["reason"] or "")
    assert not told["stored"]
