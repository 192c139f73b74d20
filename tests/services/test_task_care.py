"""What becomes of tasks and threads when their agents go away: nothing is lost, and somebody is always asked."""

from __future__ import annotations

from dataclasses import replace

import pytest

from swarm.domain.errors import Conflict
from swarm.domain.model.agents import OFFLINE_AFTER_SECONDS, Agent
from swarm.domain.model.deliveries import DeliveryKind
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.leases import NOTICE_ATTEMPTS, FinishOutcome
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.model.triggers import TriggerKind
from swarm.services.operate.failover import find_work, reassign_notice
from swarm.services.speaking.system_messages import QUEUED_TEXT
from tests.support.policies import governing
from tests.support.tasks import asked_and_handed, complete, news_of, owner_of, status_of, task_of, work_of
from tests.support.world import World, holding, texts

pytestmark = pytest.mark.req("LOOP-10", "LOOP-16")


async def goes_offline(world: World, *here: Agent) -> None:
    """Time goes by in which only these agents show a sign of life."""
    world.clock.advance(OFFLINE_AFTER_SECONDS + 1)
    for agent in here:
        await world.is_here(agent)
    for _ in range(2):
        await world.sweep()


# Workers


@pytest.mark.parametrize("running", [False, True])
async def test_a_worker_that_goes_offline_returns_its_task_and_the_thread_with_what_it_has_not_read(
    world: World, running: bool
) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    if running:
        await world.only(worker)
    await world.says("only Python please", thread=handed.root)
    await goes_offline(world, lead)
    task = await task_of(world, handed.task_id)
    assert (task.status, task.agent_id, await owner_of(world, handed.root)) == (TaskStatus.UNASSIGNED, None, lead.id)
    triggers = {str(trigger.kind): trigger for trigger in await world.poll(lead)}
    assert triggers.keys() == {"slack_inbox_message", "task_returned"}
    assert texts([triggers["slack_inbox_message"]]) == [["only Python please"]]
    assert "worker is offline" in triggers["task_returned"].prompt


async def test_a_returned_task_is_assigned_anew_and_takes_the_thread_along(world: World) -> None:
    lead, a = await world.lead(), await world.worker("a")
    handed = await asked_and_handed(world, lead, a)
    run = await world.only(a)
    b = await world.worker("b")
    await goes_offline(world, lead, b)
    await world.services.tasks.assign(holding(await world.only(lead), lead), handed.task_id, "b")
    assert await owner_of(world, handed.root) == b.id
    again = await world.only(b)
    assert (again.id, again.attempt) == (handed.task_id, 1)
    with pytest.raises(Conflict):
        await complete(world, a, run)
    await complete(world, b, again)
    assert await owner_of(world, handed.root) == lead.id


async def test_a_task_that_somebody_has_is_not_assigned(world: World) -> None:
    lead, a = await world.lead(), await world.worker("a")
    await world.worker("b")
    handed = await asked_and_handed(world, lead, a)
    with pytest.raises(Conflict, match="pending and cannot be assigned") as no:
        await world.services.tasks.assign(None, handed.task_id, "b")
    assert no.value.hint == "Cancel it and create another one."


async def test_a_worker_that_is_removed_while_it_runs_tasks_and_owns_threads_loses_both_at_once(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    first, second = await asked_and_handed(world, lead, worker), await asked_and_handed(world, lead, worker)
    await world.poll(worker, limit=1)
    await world.says("only Python please", thread=second.root)
    await world.services.agents.revoke("worker")
    for handed in (first, second):
        assert await status_of(world, handed.task_id) is TaskStatus.UNASSIGNED
        assert await owner_of(world, handed.root) == lead.id
    assert await world.rows("SELECT token FROM leases WHERE ended_at IS NULL") == []
    kinds = sorted(str(trigger.kind) for trigger in await world.poll(lead))
    assert kinds == ["slack_inbox_message", "task_returned", "task_returned"]


async def test_a_returned_task_that_no_lead_can_be_told_of_is_cancelled_and_the_thread_told(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    await goes_offline(world, lead)
    for _ in range(NOTICE_ATTEMPTS):
        notice = await world.only(lead)
        await world.services.work.finish(lead, [notice.lease_token], FinishOutcome.FAILED, "it crashed")
    assert await status_of(world, handed.task_id) is TaskStatus.CANCELLED
    await world.send()
    assert any("nobody took it over" in post for post in world.slack.posts)


@pytest.mark.req("LOOP-13")
async def test_where_no_lead_is_there_either_the_thread_is_told_once(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    await goes_offline(world)
    await goes_offline(world)
    assert await status_of(world, handed.task_id) is TaskStatus.UNASSIGNED
    await world.send()
    assert world.slack.posts == [QUEUED_TEXT]


async def test_a_blocked_task_of_a_worker_that_has_gone_is_returned_when_it_becomes_due(world: World) -> None:
    lead, a, b = await world.lead(), await world.worker("a"), await world.worker("b")
    first = await asked_and_handed(world, lead, a)
    second = await asked_and_handed(world, lead, b, depends_on=[first.task_id])
    assert await status_of(world, second.task_id) is TaskStatus.BLOCKED
    await world.services.agents.revoke("b")
    await complete(world, a, await world.only(a))
    for _ in range(2):
        await world.sweep()
    assert await status_of(world, second.task_id) is TaskStatus.UNASSIGNED


@pytest.mark.both_engines
async def test_progress_of_a_returned_task_keeps_its_message_for_the_next_worker(world: World) -> None:
    lead, a, b = await world.lead(), await world.worker("a"), await world.worker("b")
    handed = await asked_and_handed(world, lead, a)
    run = await world.only(a)
    await world.services.task_work.progress(holding(run, a), handed.task_id, "reading")
    await world.send()
    await goes_offline(world, lead, b)
    await world.services.tasks.assign(None, handed.task_id, "b")
    await world.services.task_work.progress(holding(await world.only(b), b), handed.task_id, "reading anew")
    await world.send()
    shown = [done.kind for done in world.slack.landed if "reading" in done.text]
    assert shown == [DeliveryKind.POST, DeliveryKind.UPDATE]


# Coordinators


@pytest.mark.req("LOOP-17")
async def test_nobody_counts_as_offline_because_the_coordinator_was_away(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    offered = await asked_and_handed(world, lead, worker, offer=True)
    follow_up = await world.says("only Python please", thread=handed.root)
    world.clock.advance(400)
    restarted = world.governed_by(replace(world.operating_policy, started_at=world.clock.now_us()))
    await restarted.sweep()
    await restarted.later(OFFLINE_AFTER_SECONDS - 1)
    assert await status_of(world, handed.task_id) is TaskStatus.PENDING
    assert await status_of(world, offered.task_id) is TaskStatus.OFFERED
    assert (await world.inbox_message(follow_up)).agent_id == worker.id
    assert await owner_of(world, handed.root) == worker.id

    await restarted.is_here(lead)
    await restarted.later(2)
    assert await status_of(world, handed.task_id) is TaskStatus.UNASSIGNED
    assert await status_of(world, offered.task_id) is TaskStatus.DECLINED


# Leads


async def test_the_result_for_a_lead_that_was_removed_goes_to_the_default_lead_which_may_tell_people(
    world: World,
) -> None:
    lead, worker = await world.lead(), await world.worker()
    second = await world.lead("second")
    root = await world.says("swarm#second hello")
    await world.answers(second, await world.only(second), "hello")
    handed = await asked_and_handed(world, second, worker, thread=root)
    await world.services.agents.revoke("second")
    await complete(world, worker, await world.only(worker), "It is 42.")
    await world.sweep()
    assert await owner_of(world, handed.root) == lead.id
    news = await world.only(lead)
    assert news.kind is TriggerKind.TASK_FINISHED
    await world.services.replies.reply_to_task(holding(news, lead), handed.task_id, "It is 42.")
    await world.send()
    assert world.slack.posts[-1] == "It is 42."


async def test_news_for_a_lead_that_is_offline_waits_where_no_other_lead_is_there(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    await asked_and_handed(world, lead, worker)
    await complete(world, worker, await world.only(worker))
    await goes_offline(world)
    await world.is_here(lead)
    assert await news_of(world, lead) == ["task_finished"]


@pytest.mark.both_engines
async def test_news_for_a_lead_that_is_offline_goes_to_one_that_is_there(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    await asked_and_handed(world, lead, worker)
    await complete(world, worker, await world.only(worker))
    second = await world.lead("second")
    await goes_offline(world, second)
    assert await news_of(world, second) == ["task_finished"]
    await world.is_here(lead)
    assert await world.poll(lead) == []


async def test_what_a_removed_lead_was_being_told_is_told_to_the_default_lead(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    second = await world.lead("second")
    await asked_and_handed(world, lead, worker)
    await complete(world, worker, await world.only(worker))
    await world.only(lead)
    await world.services.agents.revoke("lead")
    await world.sweep()
    assert await news_of(world, second) == ["task_finished"]


@pytest.mark.both_engines
async def test_a_configured_default_lead_that_is_offline_gets_no_news_of_others(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    ruled = world.governed_by(governing(default_agent="second"))
    await asked_and_handed(world, lead, worker)
    await complete(world, worker, await world.only(worker))
    second = await world.lead("second", online=False)
    await goes_offline(ruled)
    assert await world.poll(second) == []
    assert await news_of(world, lead) == ["task_finished"]


async def test_a_message_that_is_declined_after_its_lead_was_removed_goes_to_the_default_lead(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    second = await world.lead("second")
    handed = await asked_and_handed(world, lead, worker, offer=True)
    await world.services.agents.revoke("lead")
    offered = await world.only(worker)
    await world.services.delegations.decline(holding(offered, worker), handed.task_id, "I count no lines.")
    await world.sweep()
    inbox_message = await world.inbox_message(handed.root)
    assert (inbox_message.agent_id, inbox_message.status) == (second.id, InboxStatus.UNREAD)
    assert (await work_of(world, second)).id == inbox_message.id


async def test_news_stays_with_a_lead_that_came_back_before_anybody_passed_it_on(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    await asked_and_handed(world, lead, worker)
    await complete(world, worker, await world.only(worker))
    second = await world.lead("second")
    world.clock.advance(OFFLINE_AFTER_SECONDS + 1)
    await world.is_here(second)
    (notice,) = (await world.database.read(find_work, world.operating_policy)).stranded
    await world.is_here(lead)
    await world.database.write(reassign_notice, notice, world.operating_policy)
    assert await world.poll(second) == []
    assert await news_of(world, lead) == ["task_finished"]
