"""Two runs of one agent at a task: the late one can do nothing that its successor would have to answer for."""

from __future__ import annotations

import pytest

from swarm.domain.errors import Conflict, LeaseLost
from swarm.domain.model.agents import Agent
from swarm.domain.model.leases import LEASE_SECONDS, FinishOutcome
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.model.triggers import Trigger
from swarm.services.ground.idempotency import Caller
from swarm.services.tasks.tasks import brief
from tests.support.tasks import Handed, asked_and_handed, complete, status_of, task_of
from tests.support.world import World, holding

pytestmark = [pytest.mark.both_engines, pytest.mark.req("LOOP-06", "LOOP-16")]


async def two_runs(world: World) -> tuple[Agent, Handed, Trigger, Trigger]:
    """A worker, its task, a run that fell silent, and the run that got the task afterwards."""
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    late = await world.only(worker)
    await world.later(LEASE_SECONDS)
    return worker, handed, late, await world.only(worker)


@pytest.mark.parametrize("named", [True, False])
async def test_a_late_run_can_do_nothing_with_the_tools_of_a_task(world: World, named: bool) -> None:
    worker, handed, late, current = await two_runs(world)
    by = holding(late, worker) if named else Caller(agent=worker)
    work, services, task_id = world.services.task_work, world.services, handed.task_id
    for act in (
        work.progress(by, task_id, "late"),
        work.complete(by, task_id, "late", "late"),
        work.fail(by, task_id, "late", "late"),
        services.replies.reply_to_task(by, task_id, "late"),
        services.replies.reply_to_task(by, task_id, "late", wait=True),
        services.tasks.create(by, brief("Late."), parent_id=task_id),
        services.tasks.cancel(by, task_id, "late"),
    ):
        with pytest.raises(LeaseLost):
            await act
    await world.send()
    assert (await status_of(world, task_id), world.slack.posts) == (TaskStatus.IN_PROGRESS, [])
    await complete(world, worker, current)
    assert await status_of(world, task_id) is TaskStatus.COMPLETED


async def test_a_late_run_cannot_end_what_its_successor_has_asked_about(world: World) -> None:
    worker, handed, late, current = await two_runs(world)
    await world.services.replies.reply_to_task(holding(current, worker), handed.task_id, "Which?", wait=True)
    with pytest.raises(LeaseLost):
        await complete(world, worker, late)
    assert await status_of(world, handed.task_id) is TaskStatus.WAITING


async def test_a_late_run_cannot_answer_a_follow_up_under_the_lease_of_its_successor(world: World) -> None:
    worker, handed, late, current = await two_runs(world)
    inbox_message = await world.inbox_message(await world.says("only Python please", thread=handed.root))
    with pytest.raises(LeaseLost):
        await world.services.replies.reply(holding(late, worker), inbox_message.id, "late")
    with pytest.raises(Conflict):
        await world.services.replies.reply(Caller(agent=worker), inbox_message.id, "late")
    await world.services.replies.reply(holding(current, worker), inbox_message.id, "in time")
    await world.send()
    assert world.slack.posts == ["in time"]


async def test_the_first_run_of_a_task_needs_to_name_no_lease(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    await world.only(worker)
    await world.services.task_work.complete(Caller(agent=worker), handed.task_id, "42")
    assert await status_of(world, handed.task_id) is TaskStatus.COMPLETED


async def test_a_task_that_was_not_polled_takes_no_report(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    with pytest.raises(Conflict, match="not leased to you yet"):
        await world.services.task_work.complete(Caller(agent=worker), handed.task_id, "42")


async def test_a_claim_that_nobody_has_seen_does_not_count_as_the_first(world: World) -> None:
    """A poll whose client went away gave the task back; the next run is the first that knows of it."""
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    await world.services.polls.give_back([(await world.only(worker)).lease_token])
    await world.only(worker)
    await world.services.task_work.complete(Caller(agent=worker), handed.task_id, "42")
    assert (await task_of(world, handed.task_id)).claims == 1


async def test_the_lease_of_another_task_is_not_enough(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    first, _ = await asked_and_handed(world, lead, worker), await asked_and_handed(world, lead, worker)
    runs = {run.id: run for run in await world.poll(worker)}
    (other,) = (run for task_id, run in runs.items() if task_id != first.task_id)
    with pytest.raises(LeaseLost):
        await world.services.task_work.complete(holding(other, worker), first.task_id, "mixed up")


async def test_after_its_end_the_run_may_say_more_but_not_end_it_again(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    run = await world.only(worker, hold=True)
    await complete(world, worker, run, "42")
    await world.services.replies.reply_to_task(holding(run, worker), handed.task_id, "It is 42.")
    with pytest.raises(Conflict, match="completed, so it takes no report"):
        await complete(world, worker, run, "43")
    await world.services.work.finish(worker, [run.lease_token], FinishOutcome.DONE)
    with pytest.raises(LeaseLost):
        await world.services.replies.reply_to_task(holding(run, worker), handed.task_id, "One more thing.")
    await world.send()
    assert ((await task_of(world, handed.task_id)).result, world.slack.posts) == ("42", ["It is 42."])


async def test_a_lead_whose_lease_is_lost_gives_and_stops_no_work(world: World) -> None:
    lead, _ = await world.lead(), await world.worker()
    task = await world.services.tasks.create(None, brief("Count."))
    await world.says("swarm#lead hello")
    late = holding(await world.only(lead), lead)
    await world.later(LEASE_SECONDS)
    for act in (
        world.services.tasks.create(late, brief("Late.")),
        world.services.tasks.assign(late, task.id, "worker"),
        world.services.tasks.cancel(late, task.id),
    ):
        with pytest.raises(LeaseLost):
            await act
    assert await world.rows("SELECT status FROM tasks") == [{"status": "unassigned"}]


async def test_a_late_run_that_was_told_of_the_end_says_nothing_in_place_of_its_successor(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    await complete(world, worker, await world.only(worker))
    late = await world.only(lead)
    await world.later(LEASE_SECONDS)
    current = await world.only(lead)
    for by in (holding(late, lead), Caller(agent=lead)):
        with pytest.raises(Conflict):
            await world.services.replies.reply_to_task(by, handed.task_id, "late")
    await world.services.replies.reply_to_task(holding(current, lead), handed.task_id, "in time")


async def test_a_worker_whose_task_was_cancelled_cannot_speak_by_the_news_of_that(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    await world.only(worker)
    await world.services.tasks.cancel(None, handed.task_id)
    news = await world.only(worker)
    with pytest.raises(Conflict, match="cancelled"):
        await world.services.replies.reply_to_task(holding(news, worker), handed.task_id, "But I had it!")


async def test_a_late_run_cannot_delegate_what_its_successor_has(world: World) -> None:
    lead, _ = await world.lead(), await world.worker()
    await world.says("swarm#lead hello")
    late = await world.only(lead)
    await world.later(LEASE_SECONDS)
    current = await world.only(lead)
    delegate, inbox_message_id = world.services.delegations.delegate, late.inbox_messages[0].id
    for by in (holding(late, lead), Caller(agent=lead)):
        with pytest.raises(LeaseLost):
            await delegate(by, inbox_message_id, "worker", brief("Count."))
    await delegate(holding(current, lead), inbox_message_id, "worker", brief("Count."))
