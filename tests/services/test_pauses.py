"""Pauses: a lease is in force until its row is ended, and nobody is blamed for time in which nobody could call.

The coordinator, the program of an agent or the database may be away; each for longer than a lease, at any moment.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from swarm.clock import ManualClock
from swarm.domain.errors import LeaseLost, Unavailable
from swarm.domain.model.agents import OFFLINE_AFTER_SECONDS, Agent, Reach, Role
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.leases import LEASE_SECONDS, MOST_INTERRUPTIONS, FinishOutcome, LeaseEnd
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.model.threads import SlackMessage
from swarm.domain.model.triggers import Trigger
from swarm.domain.policy.operating import OperatingPolicy
from swarm.services.inbox.work import Heartbeat
from swarm.services.operate import sweep
from swarm.services.runs.run_ends import Loss, break_off
from swarm.services.work.leases import expire
from swarm.store import listening, tasks
from swarm.store.bridge.database import Database
from swarm.store.inbox import leases
from tests.support.runs import begun as run_begun
from tests.support.runs import place_of
from tests.support.streams import begun as stream_begun
from tests.support.tasks import asked_and_handed, complete
from tests.support.world import BOT, World, edit, holding, texts

pytestmark = [pytest.mark.both_engines, pytest.mark.req("LOOP-21")]

INSTANCE, OTHER = "0190a0c4-7d3e-7000-8000-00000000000a", "0190a0c4-7d3e-7000-8000-00000000000b"


async def leased(world: World, instance: str | None = None) -> tuple[Agent, Trigger]:
    """A lead that polls with a token, and its lease on a message."""
    registered = await world.services.agents.register("lea", Role.LEAD)
    lea = await world.services.agents.credentials.identify(registered.token)
    await world.is_here(lea)
    await world.says(f"{BOT} hello")
    (trigger,) = await called(world, lea, instance)
    return lea, trigger


async def called(world: World, agent: Agent, instance: str | None) -> list[Trigger]:
    return await world.services.polls.poll(agent, wait_seconds=0, limit=5, instance_id=instance)


async def renewed(world: World, agent: Agent, trigger: Trigger, instance: str | None = None) -> Heartbeat:
    return await world.services.work.renew(agent, [trigger.lease_token], instance)


async def ended_as(world: World, trigger: Trigger) -> LeaseEnd | None:
    lease = await world.database.read(leases.peek, trigger.lease_token)
    assert lease is not None
    return lease.ended_as


# The row decides


async def test_a_renewal_that_was_late_is_accepted_until_the_sweep_has_come(world: World) -> None:
    lea, trigger = await leased(world)
    world.clock.advance(LEASE_SECONDS + 30)
    expires_at = world.clock.now_us() + LEASE_SECONDS * 1_000_000
    assert (await renewed(world, lea, trigger)).renewed.expiries == ((trigger.lease_token, expires_at),)
    await world.sweep()
    assert await ended_as(world, trigger) is None
    await world.later(LEASE_SECONDS)
    assert (await renewed(world, lea, trigger)).renewed.lost == (trigger.lease_token,)


LATE: dict[str, Callable[[World, Agent, Trigger], Awaitable[object]]] = {
    "an answer": lambda world, lea, trigger: world.answers(lea, trigger, "late"),
    "a finish": lambda world, lea, trigger: world.services.work.finish(
        lea, [trigger.lease_token], FinishOutcome.DISMISSED, "late"
    ),
    "a release": lambda world, lea, trigger: world.services.work.release(lea, [trigger.lease_token]),
    "a question": lambda world, lea, trigger: world.services.replies.reply(
        holding(trigger, lea), trigger.inbox_messages[0].id, "Really?", wait=True
    ),
}


@pytest.mark.parametrize("what", LATE)
async def test_work_is_ended_by_its_run_as_long_as_nobody_has_taken_it_away(world: World, what: str) -> None:
    lea, trigger = await leased(world)
    world.clock.advance(LEASE_SECONDS + 30)
    await LATE[what](world, lea, trigger)
    assert await ended_as(world, trigger) not in (None, LeaseEnd.EXPIRED)
    (before,) = await world.rows("SELECT status, attempts FROM inbox_messages")
    await world.sweep()
    assert await world.rows("SELECT status, attempts FROM inbox_messages") == [before]
    assert before["attempts"] == 0


@pytest.mark.parametrize("what", LATE)
async def test_nothing_brings_a_lease_back_that_was_ended(world: World, what: str) -> None:
    lea, trigger = await leased(world)
    await world.later(LEASE_SECONDS)
    before = await world.rows("SELECT * FROM inbox_messages")
    with suppress(LeaseLost):
        await LATE[what](world, lea, trigger)
    assert await ended_as(world, trigger) == LeaseEnd.EXPIRED
    assert await world.rows("SELECT * FROM inbox_messages") == before


async def test_a_stream_goes_on_and_ends_after_the_time_of_its_lease(world: World) -> None:
    writing = await stream_begun(world, await world.lead())
    world.clock.advance(LEASE_SECONDS + 30)
    await writing.append("Late.")
    await writing.close()
    assert (await world.inbox_message(writing.root)).status is InboxStatus.RESPONDED


async def test_a_notice_is_finished_after_the_time_of_its_lease(world: World) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} one")
    await world.only(lead)
    await world.ingest.handle(edit(message, f"{BOT} two"))
    notice = await world.only(lead)
    world.clock.advance(LEASE_SECONDS + 30)
    done = await world.services.work.finish(lead, [notice.lease_token], FinishOutcome.DONE)
    assert done.ended == (notice.lease_token,)
    assert await world.rows("SELECT status FROM notices") == [{"status": "done"}]


async def test_a_task_is_completed_after_the_time_of_its_lease(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    trigger = await world.only(worker)
    world.clock.advance(LEASE_SECONDS + 30)
    await complete(world, worker, trigger)
    task = await world.database.read(tasks.get, handed.task_id)
    assert task is not None
    assert (task.status, task.attempts) == (TaskStatus.COMPLETED, 0)


async def test_the_sweep_looks_at_the_row_again(world: World) -> None:
    lea, trigger = await leased(world)
    world.clock.advance(LEASE_SECONDS)  # found by the sweep
    await renewed(world, lea, trigger)
    await world.database.write(expire, trigger.lease_token, world.operating_policy)
    assert await ended_as(world, trigger) is None


async def test_of_a_renewal_and_the_sweep_at_the_same_moment_one_counts(world: World) -> None:
    lea, trigger = await leased(world)
    for number in range(12):
        world.clock.advance(LEASE_SECONDS)
        await world.is_here(lea)
        acts: list[Awaitable[object]] = [world.sweep(), renewed(world, lea, trigger)]
        if number < 2:  # each has won once, however the machine schedules the others
            done = [await act for act in (acts if number else acts[::-1])]
        else:
            done = list(await asyncio.gather(*acts))
        beat = next(one for one in done if isinstance(one, Heartbeat))
        is_lost = bool(beat.renewed.lost)
        assert (await ended_as(world, trigger) == LeaseEnd.EXPIRED) == is_lost
        due = await called(world, lea, None)
        assert len(due) == is_lost
        trigger = due[0] if due else trigger
        await world.change("UPDATE inbox_messages SET attempts = 0")


# Nobody could call


async def test_a_lease_is_prolonged_three_times_without_a_sign_of_its_agent(world: World) -> None:
    lea, trigger = await leased(world)
    for _ in range(2):
        for _ in range(3):
            world.clock.advance(LEASE_SECONDS + 1)
            restarted = world.governed_by(OperatingPolicy(started_at=world.clock.now_us()))
            await restarted.sweep()
            assert await ended_as(world, trigger) is None
        await renewed(world, lea, trigger)
    for _ in range(4):
        world.clock.advance(LEASE_SECONDS + 1)
        restarted = world.governed_by(OperatingPolicy(started_at=world.clock.now_us()))
        await restarted.sweep()
    assert await ended_as(world, trigger) == LeaseEnd.EXPIRED


@asynccontextmanager
async def coordinator(url: str, clock: ManualClock) -> AsyncIterator[World]:
    """Another process of the same database, which listens from now on."""
    async with Database(url, clock=clock) as database:
        database.listens(asleep_seconds=20)
        yield World(database, clock)


async def listens(world: World, seconds: int, span: str | None = None) -> str:
    """A process listens for so long."""
    for _ in range(seconds // 5 + 1):
        span = await world.database.write(listening.record, span)
        world.database.listens(asleep_seconds=20)
        world.clock.advance(5)
    assert span
    return span


async def test_who_listened_beside_a_process_that_has_just_begun_leaves_nothing_to_be_made_up_for(
    world: World, database_url: str
) -> None:
    _, trigger = await leased(world)
    span = await listens(world, LEASE_SECONDS - 15)
    async with coordinator(database_url, world.clock) as new:
        await listens(world, 5, span)
        assert await ended_as(world, trigger) is None
        await new.sweep()
        assert await ended_as(world, trigger) == LeaseEnd.EXPIRED


async def test_who_was_suspended_or_without_the_database_has_not_listened(world: World) -> None:
    lea, trigger = await leased(world)
    span = await listens(world, 20)
    world.clock.advance(300)
    await world.sweep()
    assert await ended_as(world, trigger) is None
    assert await listens(world, 20, span) != span
    (first, second) = await world.rows("SELECT began_at, until_at FROM listening ORDER BY began_at")
    assert second["began_at"] - first["until_at"] >= 300 * 1_000_000
    assert (await renewed(world, lea, trigger)).renewed.lost == ()


async def test_it_listens_only_while_it_can_write(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    class Away:
        """A database that refuses two of the writes."""

        def __init__(self) -> None:
            self.writes, self.heard, self.over = 0, 0, asyncio.Event()

        async def write(self, fn: object, span: str | None) -> str:
            self.writes += 1
            if self.writes in (2, 3):
                raise Unavailable
            if self.writes == 5:
                self.over.set()
            return "span"

        def listens(self, *, asleep_seconds: float) -> None:
            self.heard += 1

    monkeypatch.setattr(sweep, "until_next", lambda seconds: 0)
    away = Away()
    task = asyncio.create_task(sweep.listen(away, LEASE_SECONDS))  # type: ignore[arg-type] # what it uses of it
    await away.over.wait()
    task.cancel()
    assert away.writes - away.heard in (2, 3)


# Offline


@pytest.mark.req("LOOP-17")
async def test_the_time_in_which_some_coordinator_listened_adds_up_over_a_loop_of_crashes(
    world: World, database_url: str
) -> None:
    lead = await world.lead()
    for seconds in (30, 1, 30, 1, 30):
        async with coordinator(database_url, world.clock) as process:
            assert (await process.services.agents.get(lead.name)).id == lead.id
            await listens(process, seconds)
            assert await is_online(process, lead)
        world.clock.advance(3600)
    async with coordinator(database_url, world.clock) as process:
        assert await is_online(process, lead)
        await listens(process, 35)
        assert not await is_online(process, lead)
        await process.is_here(lead)
        assert await is_online(process, lead)
    world.clock.advance(3600)
    async with coordinator(database_url, world.clock) as process:
        await listens(process, OFFLINE_AFTER_SECONDS - 30)
        assert await is_online(process, lead)


async def is_online(world: World, agent: Agent) -> bool:
    members = await world.services.team.members()
    return next(one.status == "online" for one in members if one.id == agent.id)


# A program that sleeps


async def test_a_program_that_is_suspended_keeps_its_work_while_it_counts_as_online(world: World) -> None:
    lea, trigger = await leased(world, INSTANCE)
    world.clock.advance(15)
    await renewed(world, lea, trigger, INSTANCE)
    await world.later(LEASE_SECONDS + 5)
    assert await ended_as(world, trigger) is None
    assert (await renewed(world, lea, trigger, INSTANCE)).renewed.lost == ()
    for _ in range(3):
        await world.later(LEASE_SECONDS)
    assert await ended_as(world, trigger) == LeaseEnd.EXPIRED


async def test_a_suspended_program_gets_three_leases_more_at_most(world: World) -> None:
    world = world.governed_by(OperatingPolicy(offline_after_seconds=3600))
    _, trigger = await leased(world, INSTANCE)
    for _ in range(3):
        await world.later(LEASE_SECONDS)
        assert await ended_as(world, trigger) is None
    await world.later(LEASE_SECONDS)
    assert await ended_as(world, trigger) == LeaseEnd.EXPIRED


@pytest.mark.parametrize("how", ["it calls without a renewal", "another one has begun", "it has begun anew"])
async def test_a_program_that_does_not_have_the_work_any_more_gets_no_more_time_for_it(world: World, how: str) -> None:
    lea, trigger = await leased(world, INSTANCE)
    world.clock.advance(5)
    if how == "it has begun anew":
        await world.services.agents.leave(lea, INSTANCE)
        await called(world, lea, INSTANCE)
    if how == "another one has begun":
        await world.services.agents.leave(lea, INSTANCE)
        await called(world, lea, OTHER)
    world.clock.advance(LEASE_SECONDS - 10)
    if how == "it calls without a renewal":
        await called(world, lea, INSTANCE)
    await world.later(5)
    assert await ended_as(world, trigger) == LeaseEnd.EXPIRED


# The coordinator's deaths


async def dies(world: World, agent: Agent, trigger: Trigger, root: SlackMessage, *, by_itself: bool = False) -> None:
    """The process of a run dies, and its successor finds that; or the run has failed by itself."""
    run = await run_begun(world, agent, trigger)
    loss = Loss(runs_again=True, counts=True, by_itself=by_itself)
    await world.database.write(break_off, run.id, loss, place_of(run, root), world.operating_policy)


async def passes(world: World, agent: Agent, seconds: int) -> None:
    """Time goes by for an agent that stays online."""
    while seconds > 0:
        await world.later(min(seconds, 60))
        await world.is_here(agent)
        seconds -= 60


async def test_work_that_the_coordinators_death_interrupts_comes_back_later_and_later_and_is_no_attempt(
    world: World,
) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} hello")
    for number, pause in enumerate((0, 0, 30, 120, *[600] * 15), start=1):
        (trigger,) = await world.poll(lead)
        assert trigger.attempt == number  # of the runs: it may have done something before
        assert (await world.inbox_message(root)).attempts == 0
        await dies(world, lead, trigger, root)
        if pause:
            await passes(world, lead, pause - 1)
            assert await world.poll(lead) == [], number
            await world.later(1)
    await dies(world, lead, await world.only(lead), root)
    found = await world.inbox_message(root)
    assert (found.status, found.interruptions) == (InboxStatus.DEAD, MOST_INTERRUPTIONS - 1)
    await world.later(3600)
    await world.is_here(lead)
    assert await world.poll(lead) == []
    await world.send()
    assert [post for post in world.slack.posts if "interrupted, 20 times" in post]
    await world.services.inbox.redrive(found.id)
    assert (await world.inbox_message(root)).interruptions == 0


@pytest.mark.parametrize("is_heard", [False, True])
async def test_work_is_no_attempt_if_the_poll_that_was_to_bring_it_may_have_died_with_the_coordinator(
    world: World, database_url: str, *, is_heard: bool
) -> None:
    lea, trigger = await leased(world, INSTANCE)
    await listens(world, LEASE_SECONDS - 5 if is_heard else 5)
    async with coordinator(database_url, world.clock) as new:
        while await ended_as(world, trigger) is None:
            await called(new, lea, INSTANCE)
            await listens(new, LEASE_SECONDS)
            await new.sweep()
    (found,) = await world.rows("SELECT attempts, interruptions FROM inbox_messages")
    assert (found["attempts"], found["interruptions"]) == ((1, 0) if is_heard else (0, 1))


async def test_a_run_that_fails_by_itself_counts_as_an_attempt(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} hello")
    await dies(world, lead, await world.only(lead), root, by_itself=True)
    await dies(world, lead, await world.only(lead), root)
    found = await world.inbox_message(root)
    assert (found.attempts, found.interruptions) == (1, 1)


async def test_from_the_second_death_messages_come_one_by_one(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} one")
    await world.says("two", thread=root)
    for _ in range(2):
        trigger = await world.only(lead)
        assert texts([trigger]) == [["@UBOT one", "two"]]
        await dies(world, lead, trigger, root)
    trigger = await world.only(lead)
    assert texts([trigger]) == [["@UBOT one"]]
    await dies(world, lead, trigger, root)  # it waits now, and its neighbour does not
    assert texts([await world.only(lead)]) == [["two"]]


async def test_a_task_that_deaths_interrupt_is_delayed_and_set_aside_in_the_same_way(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    for pause in (0, 0, 30, 120, *[600] * 15):
        trigger = await world.only(worker)
        await dies(world, worker, trigger, handed.root)
        if pause:
            await passes(world, worker, pause - 1)
            assert await world.poll(worker) == []
            await world.later(1)
    await dies(world, worker, await world.only(worker), handed.root)
    task = await world.database.read(tasks.get, handed.task_id)
    assert task is not None
    assert task.status is TaskStatus.DEAD
    assert "20 times" in (task.error or "")
    assert task.attempts == 1


async def test_a_notice_that_deaths_interrupt_is_kept(world: World) -> None:
    agent = await world.services.agents.ensure("ada", Role.LEAD, Reach.BUILTIN)
    await world.is_here(agent)
    message = await world.says(f"{BOT} one")
    await world.only(agent)
    await world.ingest.handle(edit(message, f"{BOT} two"))
    for number in range(1, MOST_INTERRUPTIONS + 1):
        triggers = [trigger for trigger in await world.poll(agent) if trigger.kind == "message_changed"]
        assert [trigger.attempt for trigger in triggers] == [number]
        await world.later(LEASE_SECONDS)
        await world.is_here(agent)
    assert await world.rows("SELECT status, attempts FROM notices") == [{"status": "dropped", "attempts": 0}]
