"""Tasks when two things happen at once: whoever comes second sees what the first has done; nobody waits in a circle.

On PostgreSQL one transaction is held open until the other waits for it. In SQLite there is one writer: nothing waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from swarm.clock import ManualClock
from swarm.domain.errors import Conflict, LeaseLost
from swarm.domain.model.agents import OFFLINE_AFTER_SECONDS
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.tasks import OFFER_SECONDS, TaskStatus
from swarm.domain.model.threads import Standing
from swarm.domain.model.triggers import TriggerKind
from swarm.services.ground.idempotency import Caller
from swarm.services.intake.posted import Posted
from swarm.services.speaking.participants import read_roster
from swarm.services.tasks.assignees import NOBODY
from swarm.services.tasks.task_maintenance import _tend, end_offer, settle, take_from_absent
from swarm.services.tasks.tasks import brief
from swarm.store.bridge.database import Database
from swarm.store.inbox import leases
from tests.services.test_locks import PATIENCE_SECONDS, somebody_waits, under_way
from tests.support.tasks import asked_and_handed, news_of, owner_of, status_of, task_of, work_of
from tests.support.world import BOT, World, holding, look, said, take, texts

T = TypeVar("T")

pytestmark = [
    pytest.mark.req("LOOP-16"),
    pytest.mark.parametrize("database_url", ["postgresql"], indirect=True),
]


async def once_it_waits(world: World, go_on: Any, act: Coroutine[Any, Any, T]) -> T:
    """What comes of ``act``, which meets the transaction that is under way and waits for its end."""
    acting = asyncio.ensure_future(act)
    await somebody_waits(world)
    go_on.set()
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await acting


# The thread


@pytest.mark.req("LOOP-10")
async def test_a_completion_that_meets_the_next_delegation_leaves_the_thread_with_the_new_worker(world: World) -> None:
    lead, a, b = await world.lead(), await world.worker("a"), await world.worker("b")
    first = await asked_and_handed(world, lead, a)
    run = await world.only(a)
    asked = await world.says("swarm#lead and the words", thread=first.root)
    trigger = await work_of(world, lead)
    delegate = world.services.delegations._delegate
    call = (
        holding(trigger, lead),
        (await world.inbox_message(asked)).id,
        "b",
        brief("Count words."),
        False,
        False,
        NOBODY,
    )
    async with under_way(world, delegate, *call) as go_on:
        await once_it_waits(
            world, go_on, world.services.task_work.complete(holding(run, a), first.task_id, "42", "It is 42.")
        )
    assert await status_of(world, first.task_id) is TaskStatus.COMPLETED
    assert await owner_of(world, first.root) == b.id


@pytest.mark.req("LOOP-10")
async def test_a_delegation_that_meets_the_end_of_the_last_task_gets_the_thread(world: World) -> None:
    lead, a, b = await world.lead(), await world.worker("a"), await world.worker("b")
    first = await asked_and_handed(world, lead, a)
    run = await world.only(a)
    await world.says("swarm#lead and the words", thread=first.root)
    trigger = await work_of(world, lead)
    complete = world.services.task_work._complete
    async with under_way(world, complete, holding(run, a), first.task_id, "42", None) as go_on:
        delegating = world.services.delegations.delegate(
            holding(trigger, lead), trigger.inbox_messages[0].id, "b", brief("Count words.")
        )
        await once_it_waits(world, go_on, delegating)
    assert await owner_of(world, first.root) == b.id


@pytest.mark.req("LOOP-10")
async def test_a_follow_up_that_meets_the_end_of_the_task_goes_to_the_lead(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    run = await world.only(worker)
    complete = world.services.task_work._complete
    async with under_way(world, complete, holding(run, worker), handed.task_id, "42", None) as go_on:
        follow_up = await once_it_waits(world, go_on, world.says("thanks", thread=handed.root))
    assert (await world.inbox_message(follow_up)).agent_id == lead.id


@pytest.mark.req("LOOP-10")
async def test_the_end_of_a_task_that_meets_a_follow_up_takes_it_to_the_lead(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    run = await world.only(worker)
    unsettled = said("thanks", thread_ts=handed.root.ts)
    follow_up = replace(unsettled, author=replace(unsettled.author, standing=Standing.MEMBER))
    roster = await world.database.read(read_roster, world.operating_policy)
    posted = [Posted(message=follow_up, roster=roster)]
    async with under_way(world, world.ingest._posted.route, posted) as go_on:
        await once_it_waits(world, go_on, world.services.task_work.complete(holding(run, worker), handed.task_id, "42"))
    assert texts([await work_of(world, lead)]) == [["thanks"]]


@pytest.mark.req("LOOP-05", "LOOP-10")
async def test_a_follow_up_that_meets_the_claim_of_its_task_is_told_to_the_run(world: World) -> None:
    """The claim does not see the message yet, so who stores the message has to see the claim."""
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    async with under_way(world, take, worker.id, 5, False) as go_on:
        await once_it_waits(world, go_on, world.says("only Python please", thread=handed.root))
    assert await news_of(world, worker) == ["task_follow_up"]


@pytest.mark.req("LOOP-04", "LOOP-12")
async def test_two_coordinators_hand_out_a_follow_up_once(world: World, database_url: str, clock: ManualClock) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    await world.only(worker)
    await world.says("only Python please", thread=handed.root)
    async with Database(database_url, clock=clock) as second, under_way(world, take, worker.id, 5, False):
        assert await World(second, clock).poll(worker) == []
    assert await world.poll(worker) == []
    assert await world.rows("SELECT status FROM notices") == [{"status": "claimed"}]


@pytest.mark.req("LOOP-12")
async def test_two_coordinators_hand_out_a_task_once(world: World, database_url: str, clock: ManualClock) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    async with Database(database_url, clock=clock) as second, under_way(world, take, worker.id, 5, False):
        assert await World(second, clock).poll(worker) == []
    assert (await task_of(world, handed.task_id)).claims == 1


# The task


async def test_a_cancel_that_meets_the_claim_of_the_task_stops_the_run(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    async with under_way(world, take, worker.id, 5, False) as go_on:
        await once_it_waits(world, go_on, world.services.tasks.cancel(None, handed.task_id))
    assert await status_of(world, handed.task_id) is TaskStatus.CANCELLED
    assert await world.rows("SELECT ended_as FROM leases WHERE task_id IS NOT NULL") == [{"ended_as": "cancelled"}]
    assert await news_of(world, worker) == ["task_cancelled"]


async def test_a_poll_passes_over_a_task_that_is_being_cancelled(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    async with under_way(world, world.services.tasks._cancel, None, handed.task_id, ""):
        assert await world.poll(worker) == []
    assert [trigger.kind for trigger in await world.poll(worker)] == [TriggerKind.TASK_CANCELLED]


async def test_a_cancel_that_meets_the_end_of_the_task_is_refused(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    run = await world.only(worker)
    complete = world.services.task_work._complete
    async with under_way(world, complete, holding(run, worker), handed.task_id, "42", None) as go_on:
        with pytest.raises(Conflict, match="already completed"):
            await once_it_waits(world, go_on, world.services.tasks.cancel(None, handed.task_id))
    assert (await task_of(world, handed.task_id)).result == "42"


async def test_an_end_that_meets_the_cancel_of_the_task_is_refused_and_says_why(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    run = await world.only(worker)
    async with under_way(world, world.services.tasks._cancel, None, handed.task_id, "not needed") as go_on:
        with pytest.raises(Conflict, match="cancelled by an operator: not needed"):
            await once_it_waits(
                world, go_on, world.services.task_work.complete(holding(run, worker), handed.task_id, "42", "It is 42.")
            )
    await world.send()
    assert "It is 42." not in world.slack.posts


@pytest.mark.parametrize("threaded", [True, False])
async def test_a_cancel_and_a_release_of_one_task_do_not_wait_in_a_circle(world: World, threaded: bool) -> None:
    """A release locks the lease, and then the task. So must who cancels, or each would wait for the other."""
    lead, worker = await world.lead(), await world.worker()
    if threaded:
        task_id = (await asked_and_handed(world, lead, worker)).task_id
    else:
        task_id = (await world.services.tasks.create(None, brief("Count."), agent="worker")).id
    run = await world.only(worker)
    async with under_way(world, leases.get, run.lease_token, worker.id) as go_on:
        cancelling = asyncio.ensure_future(world.services.tasks.cancel(None, task_id))
        await somebody_waits(world)
        free = "SELECT count(*) AS n FROM (SELECT 1 FROM tasks FOR UPDATE SKIP LOCKED) AS free"
        assert await world.database.write(look, free, {}) == [{"n": 1}], "it has not locked the task yet"
        go_on.set()
        await cancelling
    assert await status_of(world, task_id) is TaskStatus.CANCELLED


@pytest.mark.req("LOOP-09")
async def test_of_two_delegations_of_one_message_at_once_the_second_names_the_first(world: World) -> None:
    lead = await world.lead()
    a, _ = await world.worker("a"), await world.worker("b")
    root = await world.says(f"{BOT} count the lines")
    trigger = await world.only(lead)
    inbox_message_id, by = trigger.inbox_messages[0].id, holding(trigger, lead)
    delegate = world.services.delegations._delegate
    async with under_way(world, delegate, by, inbox_message_id, "a", brief("Count."), False, False, NOBODY) as go_on:
        with pytest.raises(Conflict, match="delegated already: task"):
            await once_it_waits(
                world, go_on, world.services.delegations.delegate(by, inbox_message_id, "b", brief("Count."))
            )
    assert await owner_of(world, root) == a.id
    assert len(await world.rows("SELECT id FROM tasks")) == 1


@pytest.mark.req("LOOP-09")
async def test_of_two_equal_delegations_at_once_both_get_the_same_task(world: World) -> None:
    lead = await world.lead()
    await world.worker("a")
    await world.says(f"{BOT} count the lines")
    trigger = await world.only(lead)
    inbox_message_id, by = trigger.inbox_messages[0].id, holding(trigger, lead)
    delegate = world.services.delegations._delegate
    async with under_way(world, delegate, by, inbox_message_id, "a", brief("Count."), False, False, NOBODY) as go_on:
        again = await once_it_waits(
            world, go_on, world.services.delegations.delegate(by, inbox_message_id, "a", brief("Count."))
        )
    assert await world.rows("SELECT id FROM tasks") == [{"id": again["task_id"]}]


@pytest.mark.req("LOOP-09")
async def test_an_acceptance_that_meets_the_end_of_the_offer_is_refused(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker, offer=True)
    world.clock.advance(OFFER_SECONDS)
    async with under_way(world, _tend, handed.task_id, end_offer, world.operating_policy) as go_on:
        with pytest.raises(Conflict, match="This task is declined"):
            await once_it_waits(world, go_on, world.services.delegations.accept(Caller(agent=worker), handed.task_id))
    assert await owner_of(world, handed.root) == lead.id
    assert (await world.inbox_message(handed.root)).status is InboxStatus.UNREAD


@pytest.mark.req("LOOP-09")
async def test_the_end_of_an_offer_that_meets_its_acceptance_comes_too_late(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker, offer=True)
    world.clock.advance(OFFER_SECONDS)
    accept = world.services.delegations._accept
    async with under_way(world, accept, Caller(agent=worker), handed.task_id) as go_on:
        await once_it_waits(
            world, go_on, world.database.write(_tend, handed.task_id, end_offer, world.operating_policy)
        )
    assert await status_of(world, handed.task_id) is TaskStatus.PENDING
    assert (await world.inbox_message(handed.root)).status is InboxStatus.DELEGATED


async def test_a_worker_that_completes_while_it_is_found_absent_is_in_time(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    run = await world.only(worker)
    await world.change("UPDATE agents SET last_seen_at = NULL WHERE name = 'worker'")
    complete = world.services.task_work._complete
    async with under_way(world, complete, holding(run, worker), handed.task_id, "42", None) as go_on:
        await once_it_waits(
            world, go_on, world.database.write(_tend, handed.task_id, take_from_absent, world.operating_policy)
        )
    assert await status_of(world, handed.task_id) is TaskStatus.COMPLETED
    assert await news_of(world, lead) == ["task_finished"]


async def test_a_worker_that_completes_what_was_just_taken_from_it_is_refused(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    run = await world.only(worker)
    world.clock.advance(1)
    await world.change("UPDATE agents SET last_seen_at = NULL WHERE name = 'worker'")
    async with under_way(world, _tend, handed.task_id, take_from_absent, world.operating_policy) as go_on:
        with pytest.raises(Conflict):
            await once_it_waits(
                world, go_on, world.services.task_work.complete(holding(run, worker), handed.task_id, "42")
            )
    assert await status_of(world, handed.task_id) is TaskStatus.UNASSIGNED
    with pytest.raises(LeaseLost):
        await world.services.task_work.complete(holding(run, worker), handed.task_id, "42")


async def test_a_dependent_that_is_cancelled_while_it_becomes_due_stays_cancelled(world: World) -> None:
    await world.worker()
    first = await world.services.tasks.create(None, brief("Collect."))
    second = await world.services.tasks.create(None, brief("Count.", depends_on=[first.id]), agent="worker")
    await world.change("UPDATE tasks SET status = 'completed', ended_at = 1 WHERE title = 'Collect.'")
    async with under_way(world, world.services.tasks._cancel, None, second.id, "") as go_on:
        await once_it_waits(world, go_on, world.database.write(_tend, second.id, settle, world.operating_policy))
    assert await status_of(world, second.id) is TaskStatus.CANCELLED


@pytest.mark.req("LOOP-17")
async def test_a_poll_of_an_agent_keeps_what_is_about_to_be_taken_from_it(world: World) -> None:
    """It was found offline, and polls before anybody acts on that."""
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    world.clock.advance(OFFLINE_AFTER_SECONDS + 1)
    await world.is_here(worker)
    await world.database.write(_tend, handed.task_id, take_from_absent, world.operating_policy)
    assert await status_of(world, handed.task_id) is TaskStatus.PENDING
