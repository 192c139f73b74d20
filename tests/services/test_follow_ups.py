"""Follow-ups: what people say in a thread while a worker has it, and what waits for their answers."""

from __future__ import annotations

import pytest

from swarm.domain.errors import Conflict
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.leases import LEASE_SECONDS, NOTICE_ATTEMPTS, FinishOutcome
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.model.threads import AuthorKind
from swarm.domain.model.triggers import TriggerKind
from tests.support.tasks import asked_and_handed, complete, history_of, news_of, status_of, work_of
from tests.support.world import BOT, World, delete, edit, holding, said, texts

pytestmark = pytest.mark.req("LOOP-10")


# A question to people


@pytest.mark.req("LOOP-06")
async def test_a_question_leaves_no_lease_costs_no_attempt_and_comes_again_with_the_answer(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} count the lines")
    trigger = await world.only(lead)
    asked = await world.services.replies.reply(
        holding(trigger, lead), trigger.inbox_messages[0].id, "Which?", wait=True
    )
    assert asked["status"] == InboxStatus.WAITING
    assert await world.rows("SELECT token FROM leases WHERE ended_at IS NULL") == []
    await world.later(10 * LEASE_SECONDS)
    await world.is_here(lead)
    assert await world.poll(lead) == []

    await world.says("Python", thread=root)
    again = await world.only(lead)
    assert (texts([again]), again.attempt) == ([["@UBOT count the lines", "Python"]], 1)


@pytest.mark.both_engines
async def test_a_question_of_a_task_lets_others_work_in_the_thread_and_is_answered_by_a_person(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    run = await world.only(worker)
    await world.services.replies.reply_to_task(holding(run, worker), handed.task_id, "Which?", wait=True)
    assert await status_of(world, handed.task_id) is TaskStatus.WAITING
    assert await world.rows("SELECT token FROM leases WHERE ended_at IS NULL") == []

    await world.hears(said("pager says hello", by="B1", kind=AuthorKind.BOT, thread_ts=handed.root.ts))
    await world.send()
    assert await status_of(world, handed.task_id) is TaskStatus.WAITING, "neither a bot nor we are people"

    await world.says("Python", thread=handed.root)
    again = await world.only(worker)
    assert again.task is not None
    assert (again.kind, again.task.id, again.attempt) == (TriggerKind.TASK_ASSIGNED, handed.task_id, 1)
    assert await news_of(world, worker) == ["task_follow_up"]


async def test_an_answer_reaches_whoever_has_asked_also_after_the_thread_has_moved_on(world: World) -> None:
    """A asks a question; then the thread goes to B. Whoever gets the answer, A must not wait for ever."""
    lead, a, b = await world.lead(), await world.worker("a"), await world.worker("b")
    first = await asked_and_handed(world, lead, a)
    run = await world.only(a)
    await world.services.replies.reply_to_task(holding(run, a), first.task_id, "Which?", wait=True)
    await asked_and_handed(world, lead, b, thread=first.root)
    assert (await world.inbox_message(await world.says("Python", thread=first.root))).agent_id == b.id
    assert await status_of(world, first.task_id) is TaskStatus.PENDING


async def test_an_answer_goes_on_with_every_task_that_waits_in_the_thread_not_with_the_newest_only(
    world: World,
) -> None:
    lead, worker = await world.lead(), await world.worker()
    first = await asked_and_handed(world, lead, worker)
    run = await world.only(worker)
    await world.services.replies.reply_to_task(holding(run, worker), first.task_id, "Which?", wait=True)
    second = await asked_and_handed(world, lead, worker, thread=first.root)
    await world.says("Python", thread=first.root)
    assert await status_of(world, first.task_id) is TaskStatus.PENDING
    assert await status_of(world, second.task_id) is TaskStatus.PENDING


async def test_a_question_about_a_follow_up_is_answered_also_after_the_task_has_ended(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    run = await world.only(worker)
    follow_up = await world.says("and the tests?", thread=handed.root)
    inbox_message = await world.inbox_message(follow_up)
    await world.services.replies.reply(holding(run, worker), inbox_message.id, "Unit tests only?", wait=True)
    await complete(world, worker, run)
    assert (await world.inbox_message(follow_up)).status is InboxStatus.WAITING
    await world.says("yes", thread=handed.root)
    assert (await world.inbox_message(follow_up)).status is InboxStatus.UNREAD


async def test_a_question_of_an_agent_that_was_removed_is_answered_for_the_lead(world: World) -> None:
    await world.lead()
    second = await world.lead("second")
    root = await world.says("swarm#second count the lines")
    trigger = await world.only(second)
    await world.services.replies.reply(holding(trigger, second), trigger.inbox_messages[0].id, "Which?", wait=True)
    await world.services.agents.revoke("second")
    await world.says("Python", thread=root)
    await world.sweep()
    (lead,) = await world.services.agents.everyone()
    assert texts(await world.poll(lead)) == [["swarm#second count the lines", "Python"]]


async def test_a_message_that_mentions_only_somebody_else_answers_nothing(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} count the lines")
    trigger = await world.only(lead)
    await world.services.replies.reply(holding(trigger, lead), trigger.inbox_messages[0].id, "Which?", wait=True)
    await world.says("<@U2> what do you think?", thread=root)
    assert (await world.inbox_message(root)).status is InboxStatus.WAITING


@pytest.mark.req("LOOP-15")
async def test_a_message_that_is_deleted_while_it_waits_for_a_person_is_withdrawn(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} count the lines")
    trigger = await world.only(lead)
    await world.services.replies.reply(holding(trigger, lead), trigger.inbox_messages[0].id, "Which?", wait=True)
    await world.ingest.handle(delete(root))
    assert (await world.inbox_message(root)).status is InboxStatus.WITHDRAWN


async def test_a_run_that_has_asked_can_end_its_task_no_more(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    run = await world.only(worker)
    await world.services.replies.reply_to_task(holding(run, worker), handed.task_id, "Which?", wait=True)
    with pytest.raises(Conflict, match="waiting"):
        await complete(world, worker, run)
    assert await status_of(world, handed.task_id) is TaskStatus.WAITING


# Follow-ups to a task


async def test_what_was_said_before_a_task_is_claimed_comes_as_news_with_it(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker, priority=100)
    await world.says("only Python please", thread=handed.root)
    assert (await world.only(worker)).kind is TriggerKind.TASK_ASSIGNED
    notice = await world.only(worker)
    assert (notice.kind, texts([notice])) == (TriggerKind.TASK_FOLLOW_UP, [["only Python please"]])


async def test_a_follow_up_that_was_answered_before_its_agent_was_told_of_it_is_no_news(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    run = await world.only(worker)
    inbox_message = await world.inbox_message(await world.says("only Python please", thread=handed.root))
    await world.services.replies.reply(holding(run, worker), inbox_message.id, "I will.")
    assert await world.poll(worker) == []
    assert await history_of(world, inbox_message.id) == ["inbox.store", "inbox.claim", "inbox.respond"]


async def test_follow_ups_that_a_task_has_not_answered_go_to_the_lead_with_the_thread(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    run = await world.only(worker)
    await world.says("and the tests?", thread=handed.root)
    await complete(world, worker, run)
    assert texts([await work_of(world, lead)]) == [["and the tests?"]]


async def test_a_follow_up_that_was_told_is_told_again_to_the_next_run_of_the_task(world: World) -> None:
    """The first run heard of it and died. The message is not answered, so its successor must hear of it."""
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    run = await world.only(worker)
    await world.says("only Python please", thread=handed.root)
    notice = await world.only(worker)
    await world.services.work.release(worker, [run.lease_token])
    await world.services.work.release(worker, [notice.lease_token])
    told = [*await world.poll(worker), *await world.poll(worker)]
    assert sorted(trigger.kind for trigger in told) == ["task_assigned", "task_follow_up"]


async def test_a_dropped_follow_up_notice_loses_no_message(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    run = await world.only(worker)
    await world.says("only Python please", thread=handed.root)
    for _ in range(NOTICE_ATTEMPTS):
        notice = await world.only(worker)
        await world.services.work.finish(worker, [notice.lease_token], FinishOutcome.FAILED, "it crashed")
    assert await world.poll(worker) == []
    await complete(world, worker, run)
    assert texts([await work_of(world, lead)]) == [["only Python please"]]


@pytest.mark.req("LOOP-15")
async def test_an_edit_of_a_delegated_message_is_told_to_the_worker(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    await world.only(worker)
    await world.ingest.handle(edit(handed.root, f"{BOT} count the words"))
    notice = await world.only(worker)
    assert notice.task is not None
    assert notice.notice is not None
    assert (notice.kind, notice.task.id) == (TriggerKind.MESSAGE_CHANGED, handed.task_id)
    assert notice.notice.text == "@UBOT count the words"
    assert await world.poll(lead) == []


@pytest.mark.req("LOOP-15")
async def test_a_delete_of_a_delegated_message_is_told_to_the_worker(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    await world.only(worker)
    await world.ingest.handle(delete(handed.root))
    notice = await world.only(worker)
    assert notice.task is not None
    assert (notice.kind, notice.task.id) == (TriggerKind.MESSAGE_DELETED, handed.task_id)


@pytest.mark.req("LOOP-15")
async def test_nobody_is_told_of_an_edit_once_the_task_is_over(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    await complete(world, worker, await world.only(worker))
    await news_of(world, lead)
    await world.ingest.handle(edit(handed.root, f"{BOT} count the words"))
    assert [await world.poll(agent) for agent in (lead, worker)] == [[], []]
