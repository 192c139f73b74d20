"""A thread has one owner, and every change of owner is a new epoch."""

from __future__ import annotations

import pytest

from swarm.domain.model.agents import Agent
from swarm.domain.model.inbox import InboxStatus, MatchedBy
from swarm.domain.model.threads import OWNED_FOR_IDLE_DAYS, SlackMessage
from tests.support.world import BOT, World, texts

pytestmark = pytest.mark.req("LOOP-10")


async def owner(world: World, root: SlackMessage) -> tuple[str | None, int]:
    (row,) = await world.rows(
        f"SELECT a.name, t.epoch FROM threads t LEFT JOIN agents a ON a.id = t.owner_id WHERE thread_ts = '{root.ts}'"
    )
    return row["name"], row["epoch"]


async def two_leads(world: World) -> tuple[Agent, Agent]:
    return await world.lead(), await world.lead("second")


async def test_a_lead_owns_a_thread_from_the_first_message_routed_to_it(world: World) -> None:
    await two_leads(world)
    root = await world.says(f"{BOT} hello")
    assert await owner(world, root) == ("lead", 1)


async def test_a_follow_up_goes_to_the_owner_without_a_mention(world: World) -> None:
    _, second = await two_leads(world)
    root = await world.says("swarm#second hello")
    for text in ("one more thing", f"{BOT} and another"):
        inbox_message = await world.inbox_message(await world.says(text, thread=root, by="U2"))
        assert (inbox_message.agent_id, inbox_message.matched_by) == (second.id, MatchedBy.THREAD_OWNER)
    assert await owner(world, root) == ("second", 1)


async def test_naming_another_agent_moves_the_thread_and_what_is_unread_in_it(world: World) -> None:
    lead, second = await two_leads(world)
    root = await world.says(f"{BOT} hello")
    await world.says("anybody?", thread=root)
    await world.says("swarm#second take this", thread=root)
    assert await owner(world, root) == ("second", 2)
    assert await world.poll(lead) == []
    trigger = await world.only(second)
    assert texts([trigger]) == [["@UBOT hello", "anybody?", "swarm#second take this"]]
    moved = [inbox_message.matched_by for inbox_message in trigger.inbox_messages]
    assert moved == [MatchedBy.READDRESSED, MatchedBy.READDRESSED, MatchedBy.ADDRESS]


async def test_what_the_old_owner_works_on_stays_with_it(world: World) -> None:
    lead, second = await two_leads(world)
    root = await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    await world.says("swarm#second take this", thread=root)
    assert texts(await world.poll(second)) == [["swarm#second take this"]]
    await world.answers(lead, trigger, "I was at it already")


async def test_naming_all_never_changes_the_owner(world: World) -> None:
    await two_leads(world)
    root = await world.says("swarm#second hello")
    await world.says("swarm#all stand-up", thread=root)
    assert await owner(world, root) == ("second", 1)
    opened = await world.says("swarm#all stand-up")
    assert await owner(world, opened) == (None, 0)


async def test_a_new_owner_that_has_a_message_already_does_not_get_it_twice(world: World) -> None:
    lead, second = await two_leads(world)
    root = await world.says("swarm#lead hello")
    all_ = await world.says("swarm#all stand-up", thread=root)
    await world.says("swarm#second take this", thread=root)
    by_agent = {inbox_message.agent_id: inbox_message.status for inbox_message in await world.inbox_messages(all_)}
    assert by_agent == {lead.id: InboxStatus.WITHDRAWN, second.id: InboxStatus.UNREAD}
    assert texts([await world.only(second)]) == [["swarm#lead hello", "swarm#all stand-up", "swarm#second take this"]]


async def test_a_message_to_all_is_not_lost_when_the_thread_goes_back_to_its_old_owner(world: World) -> None:
    lead, second = await two_leads(world)
    root = await world.says("swarm#lead hello")
    await world.says("swarm#all stand-up", thread=root)
    await world.says("swarm#second take this", thread=root)
    await world.says("swarm#lead take it back", thread=root)
    assert await world.poll(second) == []
    said = texts([await world.only(lead)])
    assert said == [["swarm#lead hello", "swarm#all stand-up", "swarm#second take this", "swarm#lead take it back"]]


async def test_naming_the_owner_changes_nothing(world: World) -> None:
    await two_leads(world)
    root = await world.says("swarm#second hello")
    await world.says("swarm#second again", thread=root)
    assert await owner(world, root) == ("second", 1)


async def test_the_owner_that_is_offline_keeps_the_thread_and_the_lead_gets_the_message_told_why(world: World) -> None:
    lead, second = await two_leads(world)
    root = await world.says("swarm#second hello")
    await world.answers(second, await world.only(second), "hi")
    world.clock.advance(120)
    await world.is_here(lead)
    await world.says("still there?", thread=root)
    trigger = await world.only(lead)
    (inbox_message,) = trigger.inbox_messages
    assert (inbox_message.matched_by, inbox_message.routing_reason.partition(",")[0]) == (
        MatchedBy.THREAD_OWNER_OFFLINE,
        "second owns the thread but is offline",
    )
    assert await owner(world, root) == ("second", 1)


async def test_a_thread_whose_owner_is_gone_goes_to_the_lead(world: World) -> None:
    await two_leads(world)
    root = await world.says("swarm#second hello")
    await world.services.agents.revoke("second")
    await world.says("still there?", thread=root)
    assert (await owner(world, root))[0] == "lead"


async def test_ownership_ends_after_a_week_without_a_word(world: World) -> None:
    await two_leads(world)
    root = await world.says("swarm#second hello")
    week = OWNED_FOR_IDLE_DAYS * 24 * 3600
    world.clock.advance(week)
    await world.sweeper.tidy()
    assert await owner(world, root) == ("second", 1)
    world.clock.advance(1)
    await world.sweeper.tidy()
    assert await owner(world, root) == (None, 2)
    message = await world.says("nobody hears this", thread=root)
    assert await world.inbox_messages(message) == []
