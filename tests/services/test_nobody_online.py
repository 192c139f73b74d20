"""Nobody there: the message is kept, the thread is told once, and is served when an agent comes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from swarm.domain.model.inbox import InboxStatus, MatchedBy
from swarm.domain.policy.channels import ChannelPolicy
from swarm.domain.policy.operating import OperatingPolicy
from swarm.services.operate.failover import UnreadOfOffline, reassign_unread
from swarm.services.speaking.system_messages import QUEUED_TEXT
from tests.support.policies import governing
from tests.support.world import BOT, World, texts

pytestmark = pytest.mark.req("LOOP-13")


async def told(world: World) -> int:
    """How often a thread was told that nobody is there."""
    await world.send()
    return world.slack.posts.count(QUEUED_TEXT)


async def test_while_nobody_is_registered_a_message_is_kept_and_the_thread_told_once(world: World) -> None:
    root = await world.says(f"{BOT} hello")
    await world.says(f"{BOT} anybody?", thread=root)
    await world.later(300)
    assert (await world.inbox_message(root)).agent_id is None
    assert await told(world) == 1


async def test_the_first_lead_that_registers_gets_what_waits_and_owns_the_thread(world: World) -> None:
    root = await world.says(f"{BOT} hello")
    worker = await world.worker()
    await world.sweep()
    assert await world.poll(worker) == []
    lead = await world.lead()
    trigger = await world.only(lead)
    assert (texts([trigger]), trigger.inbox_messages[0].matched_by) == ([["@UBOT hello"]], MatchedBy.READDRESSED)
    inbox_message = await world.inbox_message(await world.says("and now?", thread=root))
    assert (inbox_message.agent_id, inbox_message.matched_by) == (lead.id, MatchedBy.THREAD_OWNER)


async def test_what_came_while_a_lead_registered_is_found_by_the_sweep(world: World) -> None:
    """Ingest may have looked at the roster before the lead was there, and stored after it looked for work."""
    root = await world.says(f"{BOT} hello")
    lead = await world.lead()
    await world.change("UPDATE inbox_messages SET agent_id = NULL, matched_by = 'mention'")
    await world.change("DELETE FROM queue_heads")
    for _ in range(2):
        await world.sweep()
    assert (await world.inbox_message(root)).agent_id == lead.id
    assert len(await world.poll(lead)) == 1


async def test_two_processes_that_give_the_same_message_away_give_it_once(world: World) -> None:
    root = await world.says(f"{BOT} hello")
    found = UnreadOfOffline((await world.inbox_message(root)).thread_id, None)
    lead = await world.lead(online=False)
    for _ in range(2):
        await world.database.write(reassign_unread, found, world.operating_policy, {})
    inbox_message = await world.inbox_message(root)
    assert (inbox_message.agent_id, inbox_message.status) == (lead.id, InboxStatus.UNREAD)


async def test_while_the_lead_is_offline_the_thread_is_told_once_until_it_is_answered(world: World) -> None:
    lead = await world.lead(online=False)
    root = await world.says(f"{BOT} hello")
    await world.says("anybody?", thread=root)
    for _ in range(3):
        await world.later(60)
    assert await told(world) == 1
    await world.answers(lead, await world.only(lead), "here now")
    world.clock.advance(120)
    await world.says("thanks, and this?", thread=root)
    await world.later(60)
    assert await told(world) == 2


async def test_each_thread_is_told(world: World) -> None:
    await world.lead(online=False)
    for _ in range(2):
        await world.says(f"{BOT} hello")
    assert await told(world) == 2


async def test_a_lead_that_goes_offline_before_it_has_read_a_message_is_noticed(world: World) -> None:
    await world.lead()
    await world.says(f"{BOT} hello")
    await world.later(119)
    assert await told(world) == 0
    await world.later(2)
    assert await told(world) == 1


async def test_what_waits_for_an_offline_lead_moves_to_one_that_is_there(world: World) -> None:
    lead, second = await world.lead(), await world.lead("second")
    message = await world.says("swarm#lead hello")
    world.clock.advance(121)
    await world.is_here(second)
    await world.sweep()
    trigger = await world.only(second)
    assert trigger.inbox_messages[0].routing_reason.startswith("lead is offline")
    assert await world.poll(lead) == []
    assert (await world.inbox_message(message)).agent_id == second.id
    assert await told(world) == 0


async def test_what_an_offline_lead_works_on_moves_when_its_lease_expires(world: World) -> None:
    lead, second = await world.lead(), await world.lead("second")
    await world.says("swarm#lead hello")
    await world.only(lead)
    world.clock.advance(121)
    await world.is_here(second)
    await world.sweep()
    trigger = await world.only(second)
    assert trigger.attempt == 1, "what another agent lost does not count against this one"
    await world.answers(second, trigger, "I have it")


async def test_the_work_of_a_revoked_agent_moves(world: World) -> None:
    await world.lead()
    second = await world.lead("second")
    await world.says("swarm#second one")
    await world.poll(second, limit=1)
    await world.says("swarm#second two")
    await world.services.agents.revoke("second")
    lead = await world.services.agents.get("lead")
    assert sorted(texts(await world.poll(lead))) == [["swarm#second one"], ["swarm#second two"]]


async def test_the_work_of_the_last_agent_waits_for_the_next_lead(world: World) -> None:
    await world.lead()
    message = await world.says(f"{BOT} hello")
    await world.services.agents.revoke("lead")
    await world.sweep()
    assert await told(world) == 1
    successor = await world.lead("successor")
    assert texts(await world.poll(successor)) == [["@UBOT hello"]]
    assert (await world.inbox_message(message)).status is InboxStatus.CLAIMED


async def test_what_happened_while_no_coordinator_ran_does_not_make_an_agent_offline(world: World) -> None:
    await world.lead()
    world.clock.advance(3600)
    restarted = world.governed_by(OperatingPolicy(started_at=world.clock.now_us()))
    await restarted.says(f"{BOT} hello")
    await restarted.sweep()
    assert await told(world) == 0
    world.clock.advance(121)
    await restarted.sweep()
    assert await told(world) == 1


async def test_how_long_is_offline_can_be_configured(world: World) -> None:
    quick = world.governed_by(replace(OperatingPolicy(), offline_after_seconds=10))
    await quick.lead()
    await quick.later(11)
    await quick.says(f"{BOT} hello")
    assert await told(quick) == 1


@pytest.mark.req("LOOP-10", "LOOP-13")
async def test_a_follow_up_in_a_thread_that_waits_for_a_lead_waits_with_it(world: World) -> None:
    root = await world.says(f"{BOT} first")
    await world.says("second, without a mention", thread=root)
    lead = await world.lead()
    await world.sweep()
    assert texts([await world.only(lead)]) == [["@UBOT first", "second, without a mention"]]


# Who is away, by name


async def test_where_only_the_named_agent_is_away_the_lead_answers_at_once_and_nobody_says_nobody(world: World) -> None:
    lead = await world.lead()
    await world.worker("counter", online=False)
    root = await world.says("swarm#counter hello")
    assert texts([await world.only(lead)]) == [["swarm#counter hello"]]
    await world.says("swarm#counter please", thread=root)
    await world.sweep()
    await world.send()
    assert world.slack.posts == ["counter is not available right now, so lead answers instead."]


async def test_a_channels_agent_that_is_away_is_stood_in_for_without_a_word(world: World) -> None:
    world = world.governed_by(governing(everywhere=ChannelPolicy(agent="counter")))
    lead, counter = await world.lead(), await world.worker("counter", online=False)
    inbox_message = await world.inbox_message(await world.says(f"{BOT} hello"))
    assert (inbox_message.agent_id, inbox_message.matched_by) == (lead.id, MatchedBy.MENTION)
    await world.is_here(counter)
    moved = await world.says(f"{BOT} hello")
    assert (await world.inbox_message(moved)).agent_id == counter.id
    world.clock.advance(121)
    await world.is_here(lead)
    await world.sweep()
    assert (await world.inbox_message(moved)).agent_id == lead.id
    await world.send()
    assert world.slack.posts == []


async def test_a_message_that_waits_names_whom_it_waits_for_where_others_are_there(world: World) -> None:
    await world.lead(online=False)
    await world.worker("counter", online=False)
    await world.worker("adder")
    for text in ("swarm#counter hello", f"{BOT} hello"):
        await world.says(text)
    await world.sweep()
    await world.send()
    # Threads are sent to side by side, in any order.
    assert [post.split(". ") for post in sorted(world.slack.posts)] == [
        [
            "counter is not available right now",
            "Your message is queued and will be answered as soon as counter or lead is available.",
        ],
        [
            "lead is not available right now",
            "Your message is queued and will be answered as soon as lead is available.",
        ],
    ]


async def test_a_named_agent_that_goes_away_before_it_has_read_a_message_is_stood_in_for_aloud(world: World) -> None:
    lead, _ = await world.lead(), await world.worker("counter")
    await world.says("swarm#counter hello")
    world.clock.advance(121)
    await world.is_here(lead)
    await world.sweep()
    await world.only(lead)
    await world.send()
    assert world.slack.posts == ["counter is not available right now, so lead answers instead."]
