"""Nothing that people wait for ends in silence: questions, returned tasks, results nobody reports, lost answers."""

from __future__ import annotations

import pytest

from swarm.domain.errors import Conflict, Unresolved, Withdrawn
from swarm.domain.model.agents import Agent
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.leases import FinishOutcome
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.model.triggers import Trigger
from swarm.services.ground.idempotency import Caller
from swarm.services.operate.sweep import disown_idle
from swarm.services.tasks.tasks import brief
from tests.support.slack import refuses
from tests.support.tasks import asked_and_handed, status_of
from tests.support.world import BOT, World, delete, holding, texts

pytestmark = pytest.mark.req("LOOP-13", "LOOP-16")

DAY_SECONDS = 24 * 3600


async def running(world: World, lead: Agent, worker: Agent) -> Trigger:
    """A task of the worker, under a lease."""
    await asked_and_handed(world, lead, worker)
    return await world.only(worker)


async def test_an_answer_reaches_who_asked_however_late_it_comes(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} deploy")
    trigger = await world.only(lead)
    asks = holding(trigger, lead)
    await world.services.replies.reply(asks, trigger.inbox_messages[0].id, "Where to?", wait=True)
    world.clock.advance(8 * DAY_SECONDS)
    await world.database.write(disown_idle)
    await world.is_here(lead)
    await world.says("to production", thread=root)
    assert texts(await world.poll(lead)) == [["@UBOT deploy", "to production"]]


async def test_a_question_is_answered_at_once_by_what_was_said_before_it_and_not_read(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    run = await world.only(worker)
    await world.says("use staging", thread=handed.root)
    await world.services.replies.reply_to_task(holding(run, worker), handed.task_id, "Which one?", wait=True)
    again, news = [await world.only(worker), *(await world.poll(worker))]
    assert (again.kind, again.attempt, news.kind) == ("task_assigned", 1, "task_follow_up")


async def test_a_run_that_holds_its_lease_cannot_answer_twice_what_has_become_unread_again(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} deploy")
    run = await world.only(lead, hold=True)
    inbox_message_id = run.inbox_messages[0].id
    await world.services.replies.reply(holding(run, lead), inbox_message_id, "Where to?", wait=True)
    await world.says("to production", thread=root)
    with pytest.raises(Conflict, match="unread again"):
        await world.services.replies.reply(holding(run, lead), inbox_message_id, "Done.")
    await world.services.work.finish(lead, [run.lease_token], FinishOutcome.DONE)
    assert texts(await world.poll(lead)) == [["@UBOT deploy", "to production"]]


async def test_news_of_a_task_that_nobody_has_cannot_be_finished_without_a_decision(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    await world.services.agents.revoke("worker")
    news = await world.only(lead)
    assert news.kind == "task_returned"
    with pytest.raises(Unresolved, match="no worker"):
        await world.services.work.finish(lead, [news.lease_token], FinishOutcome.DONE)
    await world.services.tasks.cancel(holding(news, lead), handed.task_id, "we do it by hand")
    assert (await world.services.work.finish(lead, [news.lease_token], FinishOutcome.DONE)).lost == ()


async def test_the_default_lead_hears_that_a_task_of_an_operator_has_no_worker(world: World) -> None:
    lead = await world.lead()
    await world.worker()
    made = await world.services.tasks.create(None, brief("Tidy up."), agent="worker")
    await world.services.agents.revoke("worker")
    news = await world.only(lead)
    assert (news.kind, news.task.id if news.task else None) == ("task_returned", made.id)


async def test_a_result_is_posted_by_the_coordinator_while_no_lead_is_there_to_report_it(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    run = await running(world, lead, worker)
    for _ in range(3):  # the lead is silent for longer than it may be
        world.clock.advance(50)
        await world.services.work.renew(worker, [run.lease_token])
    assert run.task is not None
    await world.services.task_work.complete(holding(run, worker), run.task.id, "42")
    for _ in range(2):
        await world.sweep()
    await world.send()
    assert world.slack.posts.count("42") == 1


async def test_a_lost_answer_of_a_task_shows_on_the_message_that_was_delegated(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    run = await world.only(worker)
    await world.send()
    world.slack.script.append(refuses("msg_blocks_too_long"))
    await world.services.task_work.complete(holding(run, worker), handed.task_id, "42", "It is 42.")
    await world.send()
    await world.send()
    assert (handed.root.ts, "x") in world.slack.reactions


async def test_a_reply_that_nobody_would_see_is_refused(world: World) -> None:
    worker = await world.worker()
    made = await world.services.tasks.create(None, brief("Think."), agent="worker")
    run = await world.only(worker)
    with pytest.raises(Conflict, match="no Slack thread"):
        await world.services.task_work.complete(holding(run, worker), made.id, "42", "It is 42.")
    assert await status_of(world, made.id) is TaskStatus.IN_PROGRESS


async def test_nothing_is_said_in_a_thread_whose_first_message_was_deleted(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    run = await world.only(worker)
    await world.ingest.handle(delete(handed.root))
    with pytest.raises(Withdrawn, match="first message was deleted"):
        await world.services.task_work.complete(holding(run, worker), handed.task_id, "42", "It is 42.")
    over = await world.services.task_work.complete(holding(run, worker), handed.task_id, "42")
    assert over.status is TaskStatus.COMPLETED


async def test_a_cancelled_task_takes_all_its_parts_along_at_once(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    run = await world.only(worker)
    other = await world.worker("other")
    mid = await world.services.tasks.create(
        holding(run, worker), brief("Half."), agent="other", parent_id=handed.task_id
    )
    half = await world.only(other)
    leaf = await world.services.tasks.create(holding(half, other), brief("Quarter."), parent_id=mid.id)
    await world.services.tasks.cancel(Caller(agent=lead), handed.task_id)
    with pytest.raises(Conflict, match="cancelled"):
        await world.services.task_work.complete(holding(half, other), mid.id, "half of it")
    assert {await status_of(world, made) for made in (handed.task_id, mid.id, leaf.id)} == {TaskStatus.CANCELLED}
    assert sorted(news.kind for news in await world.poll(other)) == ["task_cancelled", "task_finished"]


async def test_a_follow_up_that_waits_for_its_thread_to_be_read_is_told_to_the_run_all_the_same(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    follow_up = await world.says("and the tests", thread=handed.root)
    await world.change("UPDATE inbox_messages SET delay_reason = 'context', due_at = 9 WHERE status = 'unread'")
    work, news = [await world.only(worker), *(await world.poll(worker))]
    assert (work.kind, news.kind) == ("task_assigned", "task_follow_up")
    assert (await world.inbox_message(follow_up)).status is InboxStatus.UNREAD
