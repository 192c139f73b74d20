"""Two runs of one agent: the late one can do nothing under the lease of its successor."""

from __future__ import annotations

import pytest

from swarm.domain.errors import Conflict, LeaseLost, NotFound
from swarm.domain.model.agents import Agent
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.leases import LEASE_SECONDS, FinishOutcome
from swarm.domain.model.triggers import Trigger
from swarm.services.ground.idempotency import Caller
from tests.support.world import BOT, World, holding

pytestmark = [pytest.mark.both_engines, pytest.mark.req("LOOP-06")]


async def two_runs(world: World) -> tuple[Agent, Trigger, Trigger]:
    """An agent, a run of it that fell silent, and the run that got the same work afterwards."""
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    late = await world.only(lead)
    await world.later(LEASE_SECONDS)
    return lead, late, await world.only(lead)


async def test_a_late_run_is_refused_with_its_own_token(world: World) -> None:
    lead, late, current = await two_runs(world)
    with pytest.raises(LeaseLost):
        await world.answers(lead, late, "late")
    await world.answers(lead, current, "in time")
    await world.send()
    assert world.slack.posts == ["in time"]


async def test_a_late_run_without_a_token_is_refused(world: World) -> None:
    lead, late, _ = await two_runs(world)
    with pytest.raises(LeaseLost, match="more than once"):
        await world.services.replies.reply(Caller(agent=lead), late.id, "late")
    with pytest.raises(LeaseLost, match="more than once"):
        await world.services.replies.dismiss(Caller(agent=lead), late.id, "late")


async def test_a_late_run_is_refused_after_its_successor_has_answered_as_well(world: World) -> None:
    lead, late, current = await two_runs(world)
    await world.answers(lead, current, "in time")
    with pytest.raises(LeaseLost):
        await world.answers(lead, late, "late")


async def test_a_run_without_a_token_may_act_under_the_first_lease_ever(world: World) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    await world.services.replies.reply(Caller(agent=lead), trigger.id, "hello")
    assert (await world.inbox_message(message)).status is InboxStatus.RESPONDED


async def test_a_lease_that_nobody_has_seen_does_not_count_as_the_first(world: World) -> None:
    """A poll whose client went away gave its claim back; the next run is the first that knows of the message."""
    lead = await world.lead()
    message = await world.says(f"{BOT} hello")
    unseen = await world.only(lead)
    await world.services.polls.give_back([unseen.lease_token])
    trigger = await world.only(lead)
    await world.services.replies.reply(Caller(agent=lead), trigger.id, "hello")
    assert (await world.inbox_message(message)).status is InboxStatus.RESPONDED


async def test_claims_count_apart_from_attempts(world: World) -> None:
    """Released work has lost no attempt, but two runs have had it."""
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    released = await world.only(lead)
    await world.services.work.release(lead, [released.lease_token])
    assert (await world.only(lead)).attempt == 1
    with pytest.raises(LeaseLost):
        await world.services.replies.reply(Caller(agent=lead), released.id, "late")


async def test_a_lease_that_the_sweep_has_ended_lets_nobody_act(world: World) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    await world.later(LEASE_SECONDS)
    for caller in (holding(trigger, lead), Caller(agent=lead)):
        with pytest.raises(LeaseLost):
            await world.services.replies.reply(caller, trigger.id, "late")


async def test_what_was_not_polled_cannot_be_answered(world: World) -> None:
    lead = await world.lead()
    inbox_message = await world.inbox_message(await world.says(f"{BOT} hello"))
    with pytest.raises(Conflict, match="not leased"):
        await world.services.replies.reply(Caller(agent=lead), inbox_message.id, "hello")


@pytest.mark.req("OPS-04")
async def test_another_agents_inbox_message_is_as_unknown_as_none(world: World) -> None:
    lead, other = await world.lead(), await world.lead("other")
    await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    for inbox_message_id in (trigger.id, "no-such-id"):
        with pytest.raises(NotFound):
            await world.services.replies.reply(holding(trigger, other), inbox_message_id, "mine")


async def test_a_late_run_whose_message_has_gone_to_another_agent_is_told_so(world: World) -> None:
    lead, second = await world.lead(), await world.lead("second")
    await world.says("swarm#second hello")
    late = await world.only(second)
    await world.services.work.release(second, [late.lease_token])
    await world.services.agents.revoke("second")
    with pytest.raises(LeaseLost, match="no longer valid"):
        await world.answers(second, late, "late")
    assert (await world.only(lead)).id == late.id


async def test_the_lease_of_another_message_is_not_enough(world: World) -> None:
    lead = await world.lead()
    for text in ("one", "two"):
        await world.says(f"{BOT} {text}")
    first, second = await world.poll(lead)
    with pytest.raises(LeaseLost):
        await world.services.replies.reply(holding(first, lead), second.id, "mixed up")


async def test_a_finished_lease_lets_nobody_add_to_the_answer_but_a_resolved_one_does(world: World) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    trigger = await world.only(lead, hold=True)
    await world.answers(lead, trigger, "one")
    await world.answers(lead, trigger, "two")
    await world.services.work.finish(lead, [trigger.lease_token], FinishOutcome.DONE)
    with pytest.raises(LeaseLost):
        await world.answers(lead, trigger, "three")
