"""Leases: renew, release, finish, expiry, dead letters, and what a stale token may do: nothing."""

from __future__ import annotations

import pytest

from swarm.domain.errors import Conflict, Invalid, LeaseLost, NotFound, Unresolved
from swarm.domain.model.agents import Agent, Reach, Role
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.leases import LEASE_SECONDS, FinishOutcome
from swarm.domain.model.triggers import Trigger
from swarm.domain.policy.operating import OperatingPolicy
from swarm.services.ground.idempotency import Caller
from swarm.store import listening
from tests.support.world import BOT, World, holding, texts

pytestmark = [pytest.mark.both_engines, pytest.mark.req("LOOP-06")]


async def lost_five_times(world: World, lead: Agent) -> None:
    """Five runs of the lead take its one trigger and fall silent, while the lead itself is there."""
    for attempt in range(1, 6):
        assert (await world.only(lead)).attempt == attempt
        world.clock.advance(LEASE_SECONDS)
        await world.is_here(lead)
        await world.sweep()


async def test_a_lease_holds_for_a_minute_and_a_renewal_gives_a_full_minute_more(world: World) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    assert trigger.lease.expires_at == world.clock.now_us() + 60_000_000
    await world.later(59)
    heartbeat = await world.services.work.renew(lead, [trigger.lease_token])
    assert heartbeat.renewed.expiries == ((trigger.lease_token, world.clock.now_us() + 60_000_000),)
    await world.later(59)
    assert await world.poll(lead) == []
    await world.answers(lead, trigger, "here I am")


async def test_a_lease_that_expired_gives_the_work_back_with_one_attempt_more(world: World) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    first = await world.only(lead)
    await world.later(59.999)
    assert await world.poll(lead) == []
    await world.later(0.001)
    second = await world.only(lead)
    assert (second.id, second.attempt) == (first.id, 2)
    assert second.lease_token != first.lease_token


@pytest.mark.parametrize("kind", ["expired", "foreign", "unknown", "finished"])
async def test_a_token_that_does_not_hold_changes_nothing(world: World, kind: str) -> None:
    lead, other = await world.lead(), await world.lead("other")
    message = await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    caller = other if kind == "foreign" else lead
    token = "unknown" if kind == "unknown" else trigger.lease_token
    if kind == "expired":
        await world.later(LEASE_SECONDS)
    if kind == "finished":
        await world.services.work.finish(lead, [token], FinishOutcome.DISMISSED, "a test")
    before = await world.inbox_message(message)
    work = world.services.work
    assert (await work.renew(caller, [token])).renewed.lost == (token,)
    assert (await work.release(caller, [token], 5)).lost == (token,)
    for outcome in FinishOutcome:
        assert (await work.finish(caller, [token], outcome, "late")).lost == (token,)
    with pytest.raises(NotFound if kind == "foreign" else LeaseLost):
        await world.services.replies.reply(Caller(agent=caller, lease_token=token), before.id, "late")
    assert await world.inbox_message(message) == before
    await world.send()
    assert world.slack.posts == []


async def test_released_work_is_due_again_at_once_and_no_attempt_is_counted(world: World) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    assert (await world.services.work.release(lead, [trigger.lease_token])).ended == (trigger.lease_token,)
    assert (await world.only(lead)).attempt == 1


async def test_released_work_can_be_delayed(world: World) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    await world.services.work.release(lead, [trigger.lease_token], delay_seconds=30)
    await world.later(29)
    assert await world.poll(lead) == []
    await world.later(1)
    assert (await world.only(lead)).attempt == 1


async def test_each_token_has_its_own_result(world: World) -> None:
    lead = await world.lead()
    for text in ("one", "two"):
        await world.says(f"{BOT} {text}")
    first, second = await world.poll(lead)
    tokens = [first.lease_token, "unknown", second.lease_token, first.lease_token]
    ended = await world.services.work.finish(lead, tokens, FinishOutcome.DISMISSED, "spam")
    assert (ended.ended, ended.lost) == ((first.lease_token, second.lease_token), ("unknown",))


async def test_done_is_refused_while_messages_have_no_answer_and_names_them(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} one")
    second = await world.inbox_message(await world.says("two", thread=root))
    trigger = await world.only(lead)
    await world.services.replies.reply(holding(trigger, lead), trigger.inbox_messages[0].id, "first", only=True)
    with pytest.raises(Unresolved) as refused:
        await world.services.work.finish(lead, [trigger.lease_token], FinishOutcome.DONE)
    assert second.id in refused.value.message
    assert trigger.inbox_messages[0].id not in refused.value.message
    await world.answers(lead, trigger, "and second")


async def test_dismissed_needs_a_reason_and_shows_that_it_is_done(world: World) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} thanks!")
    trigger = await world.only(lead)
    with pytest.raises(Invalid):
        await world.services.work.finish(lead, [trigger.lease_token], FinishOutcome.DISMISSED, " ")
    await world.services.work.finish(lead, [trigger.lease_token], FinishOutcome.DISMISSED, "only thanks")
    await world.send()
    assert (await world.inbox_message(message)).status is InboxStatus.DISMISSED
    assert world.slack.reactions == [(message.ts, "eyes"), (message.ts, "white_check_mark")]
    assert world.slack.posts == []


async def test_a_failure_that_the_agent_reports_counts_as_an_attempt(world: World) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    await world.services.work.finish(lead, [trigger.lease_token], FinishOutcome.FAILED, "no model")
    assert await world.poll(lead) == [], "it waits for a moment"
    await world.later(1)
    assert (await world.only(lead)).attempt == 2


async def test_after_five_attempts_a_message_is_dead_and_the_thread_is_told_once(world: World) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} hello")
    await lost_five_times(world, lead)
    await world.sweep()
    assert await world.poll(lead) == []
    dead = await world.inbox_message(message)
    assert (dead.status, dead.attempts) == (InboxStatus.DEAD, 5)
    await world.send()
    (told,) = world.slack.posts
    assert "last error: the agent fell silent" in told
    assert world.slack.reactions.count((message.ts, "x")) == 1


async def test_an_agent_that_could_not_renew_since_the_coordinator_was_away_is_not_blamed(world: World) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    span = await world.database.write(listening.record, None)
    trigger = await world.only(lead)
    world.clock.advance(LEASE_SECONDS / 2)
    await world.database.write(listening.record, span)
    world.clock.advance(LEASE_SECONDS / 2 + 1)
    restarted = world.governed_by(OperatingPolicy(started_at=world.clock.now_us()))
    await restarted.sweep()
    assert await restarted.poll(lead) == []  # its work is still its own
    renewed = await restarted.services.work.renew(lead, [trigger.lease_token])
    assert not renewed.renewed.lost
    await restarted.later(LEASE_SECONDS + 1)
    await restarted.only(lead)
    why = await world.rows("SELECT reason FROM history WHERE change = 'inbox.lose' ORDER BY seq")
    assert [row["reason"] for row in why] == ["the agent fell silent"]


async def test_an_agent_that_the_coordinator_runs_itself_never_falls_silent(world: World) -> None:
    agent = await world.services.agents.ensure("ada", Role.LEAD, Reach.BUILTIN)
    await world.is_here(agent)
    await world.says(f"{BOT} hello")
    await world.only(agent)
    await world.later(LEASE_SECONDS)
    why = await world.rows("SELECT reason FROM history WHERE change = 'inbox.lose'")
    assert [row["reason"] for row in why] == ["the coordinator was interrupted while the agent worked"]
    counted = await world.rows("SELECT attempts, interruptions FROM inbox_messages")
    assert counted == [{"attempts": 0, "interruptions": 1}]


async def test_a_dead_message_can_be_redriven_with_its_attempts_forgotten(world: World) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} hello")
    inbox_message = await world.inbox_message(message)
    with pytest.raises(Conflict):
        await world.services.inbox.redrive(inbox_message.id)
    with pytest.raises(NotFound):
        await world.services.inbox.redrive("no-such-id")
    await lost_five_times(world, lead)
    await world.services.inbox.redrive(inbox_message.id)
    trigger = await world.only(lead)
    assert (trigger.id, trigger.attempt) == (inbox_message.id, 1)
    await world.answers(lead, trigger, "at last")
    await world.send()
    assert world.slack.posts[-1] == "at last"


@pytest.mark.req("LOOP-12")
async def test_a_poison_message_goes_alone_and_does_not_bury_its_neighbours(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} poison")
    await world.says("neighbour one", thread=root)
    await world.says("neighbour two", thread=root)
    assert len((await world.only(lead)).inbox_messages) == 3
    await world.later(LEASE_SECONDS)
    for _ in range(4):
        assert texts([await world.only(lead)]) == [["@UBOT poison"]]
        await world.later(LEASE_SECONDS)
    for text in ("neighbour one", "neighbour two"):
        trigger = await world.only(lead)
        assert texts([trigger]) == [[text]]
        await world.answers(lead, trigger, "fine")
    assert (await world.inbox_message(root)).status is InboxStatus.DEAD
    assert await world.poll(lead) == []


async def test_the_last_answer_ends_the_lease_and_frees_the_thread(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} one")
    trigger = await world.only(lead)
    await world.says("two", thread=root)
    assert await world.poll(lead) == []
    await world.answers(lead, trigger, "answer")
    assert texts(await world.poll(lead)) == [["two"]]


async def test_a_held_lease_keeps_the_thread_until_it_is_finished(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} one")
    trigger = await world.only(lead, hold=True)
    await world.answers(lead, trigger, "answer")
    await world.says("two", thread=root)
    assert await world.poll(lead) == []
    done = await world.services.work.finish(lead, [trigger.lease_token], FinishOutcome.DONE)
    assert done.ended == (trigger.lease_token,)
    assert texts(await world.poll(lead)) == [["two"]]


async def test_an_expired_lease_frees_what_came_meanwhile(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} one")
    await world.only(lead)
    await world.says("two", thread=root)
    await world.later(LEASE_SECONDS)
    first: Trigger = await world.only(lead)
    assert texts([first]) == [["@UBOT one"]]
    await world.answers(lead, first, "answer")
    assert texts(await world.poll(lead)) == [["two"]]
