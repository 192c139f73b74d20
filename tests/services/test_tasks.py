"""Tasks in the hands of those who give them and those who do them."""

from __future__ import annotations

import pytest

from swarm.domain.errors import Conflict, Forbidden, Invalid, LeaseLost, NotFound, TooLarge
from swarm.domain.model.deliveries import DeliveryKind
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.leases import LEASE_SECONDS, MAX_MESSAGE_ATTEMPTS, NOTICE_ATTEMPTS, FinishOutcome
from swarm.domain.model.tasks import MAX_OPEN_CHILDREN, MAX_TEXT_CHARACTERS, TaskStatus
from swarm.domain.model.triggers import TriggerKind
from swarm.services.ground.idempotency import Caller
from swarm.services.tasks.assignees import MAX_WAITED_FOR
from swarm.services.tasks.tasks import brief
from tests.support.tasks import asked_and_handed, complete, news_of, owner_of, status_of, task_of, work_of
from tests.support.world import BOT, World, holding, texts

pytestmark = pytest.mark.req("LOOP-16")


# The order of work


async def test_tasks_and_messages_come_by_age_and_priority(world: World) -> None:
    """A point of priority weighs as much as six seconds; a message has 50."""
    worker = await world.worker()
    create = world.services.tasks.create
    late = await create(None, brief("Later.", priority=49), agent="worker")
    message = await world.inbox_message(await world.says("swarm#worker hello"))
    soon = await create(None, brief("Soon.", priority=51), agent="worker")
    world.clock.advance(7)
    younger = await create(None, brief("Younger.", priority=51), agent="worker")
    assert [trigger.id for trigger in await world.poll(worker)] == [soon.id, message.id, younger.id, late.id]


async def test_in_one_thread_a_task_and_a_message_come_in_the_same_order(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    first = await asked_and_handed(world, lead, worker, priority=49)
    await world.says("and the words", thread=first.root)
    assert (await work_of(world, worker)).kind is TriggerKind.SLACK_INBOX_MESSAGE

    second = await asked_and_handed(world, lead, worker, priority=51)
    await world.says("and the words", thread=second.root)
    kinds = [trigger.kind for trigger in await world.poll(worker, limit=1)]
    assert kinds == [TriggerKind.TASK_ASSIGNED]


async def test_a_task_does_not_come_before_its_turn_because_an_older_message_of_its_thread_did(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker, priority=0)
    await world.says("and the words", thread=handed.root)
    (message,) = await world.poll(worker, limit=1)
    await world.answers(worker, message, "12")
    await world.says("swarm#worker hello")
    assert texts(await world.poll(worker)) == [["swarm#worker hello"], []]


async def test_a_run_in_a_thread_keeps_the_agents_other_tasks_of_that_thread_waiting(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    first = await asked_and_handed(world, lead, worker)
    second = await asked_and_handed(world, lead, worker, thread=first.root)
    run = await world.only(worker)
    assert await world.poll(worker) == []
    await complete(world, worker, run)
    assert {run.id, (await world.only(worker)).id} == {first.task_id, second.task_id}


# Dependencies and parts


@pytest.mark.both_engines
async def test_a_task_waits_for_what_it_depends_on_and_gets_its_results(world: World) -> None:
    a, b = await world.worker("a"), await world.worker("b")
    first = await world.services.tasks.create(None, brief("Collect."), agent="a")
    second = await world.services.tasks.create(None, brief("Count.", depends_on=[first.id]), agent="b")
    await world.sweep()
    assert (second.status, await world.poll(b)) == (TaskStatus.BLOCKED, [])
    await complete(world, a, await world.only(a), "the rows")
    await world.sweep()
    run = await world.only(b)
    assert run.id == second.id
    assert "the rows" in run.prompt


async def test_what_depends_on_a_failed_task_fails_with_the_reason_and_so_on(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    first = await world.services.tasks.create(None, brief("Collect."), agent="worker")
    second = await world.services.tasks.create(
        Caller(agent=lead), brief("Count.", depends_on=[first.id]), agent="worker"
    )
    third = await world.services.tasks.create(Caller(agent=lead), brief("Compare.", depends_on=[second.id]))
    run = await world.only(worker)
    await world.services.task_work.fail(holding(run, worker), first.id, "no access")
    for _ in range(2):
        await world.sweep()
    assert (await task_of(world, second.id)).error == "it depends on “Collect.”, which has failed: no access"
    assert (await task_of(world, third.id)).status is TaskStatus.FAILED
    assert "no access" in ((await task_of(world, third.id)).error or "")
    assert await news_of(world, lead) == ["task_finished", "task_finished"]


@pytest.mark.both_engines
async def test_what_depends_on_a_dead_task_fails_since_nobody_should_wait_for_an_operator_in_silence(
    world: World,
) -> None:
    worker = await world.worker()
    first = await world.services.tasks.create(None, brief("Collect."), agent="worker")
    second = await world.services.tasks.create(None, brief("Count.", depends_on=[first.id]), agent="worker")
    for _ in range(MAX_MESSAGE_ATTEMPTS):
        await world.services.work.finish(worker, [(await world.only(worker)).lease_token], FinishOutcome.FAILED)
        await world.later(60)
        await world.is_here(worker)
    await world.sweep()
    assert [await status_of(world, made.id) for made in (first, second)] == [TaskStatus.DEAD, TaskStatus.FAILED]


async def test_nothing_can_depend_on_what_will_never_be_done(world: World) -> None:
    first = await world.services.tasks.create(None, brief("Collect."))
    await world.services.tasks.cancel(None, first.id)
    with pytest.raises(Conflict, match="cancelled, so it will never be done"):
        await world.services.tasks.create(None, brief("Count.", depends_on=[first.id]))


async def test_what_a_cancelled_task_was_divided_into_is_cancelled_down_to_the_last_part(world: World) -> None:
    await world.worker("a")
    whole = await world.services.tasks.create(None, brief("Count."))
    part = await world.services.tasks.create(None, brief("Count here."), agent="a", parent_id=whole.id)
    piece = await world.services.tasks.create(None, brief("Count the first."), parent_id=part.id)
    await world.services.tasks.cancel(None, whole.id, "not needed")
    for _ in range(2):
        await world.sweep()
    assert [await status_of(world, made.id) for made in (part, piece)] == [TaskStatus.CANCELLED] * 2


async def test_a_worker_divides_its_own_task_and_no_other(world: World) -> None:
    a, b = await world.worker("a"), await world.worker("b")
    task = await world.services.tasks.create(None, brief("Count."), agent="a")
    part = await world.services.tasks.create(Caller(agent=a), brief("Count here."), agent="b", parent_id=task.id)
    assert (part.parent_id, part.created_by) == (task.id, "a")
    with pytest.raises(NotFound):
        await world.services.tasks.create(Caller(agent=b), brief("Count there."), parent_id=task.id)
    with pytest.raises(Forbidden, match="parts of a task"):
        await world.services.tasks.create(Caller(agent=b), brief("Count there."))


async def test_the_worker_that_created_a_part_hears_of_its_end(world: World) -> None:
    a, b = await world.worker("a"), await world.worker("b")
    task = await world.services.tasks.create(None, brief("Count."), agent="a")
    await world.services.tasks.create(Caller(agent=a), brief("Count here."), agent="b", parent_id=task.id)
    run = await world.only(a)
    await complete(world, b, await world.only(b), "7")
    news = await world.only(a)
    assert (news.kind, run.id) == (TriggerKind.TASK_FINISHED, task.id)
    assert news.task is not None
    assert news.task.result == "7"


async def test_a_worker_can_build_on_nothing_that_is_none_of_its_business(world: World) -> None:
    """Or it could read the result of any task whose id it has heard of."""
    a, b = await world.worker("a"), await world.worker("b")
    own = await world.services.tasks.create(None, brief("Count."), agent="a")
    secret = await world.services.tasks.create(None, brief("Collect."), agent="b")
    await complete(world, b, await world.only(b), "the rows")
    run = await world.only(a)
    refused = []
    for task_id in (secret.id, "nonsense"):
        with pytest.raises(NotFound) as no:
            await world.services.tasks.create(
                holding(run, a), brief("Count.", depends_on=[task_id]), agent="b", parent_id=own.id
            )
        refused.append(str(no.value).replace(task_id, "ID"))
    assert refused[0] == refused[1], "it cannot tell whether there is such a task"
    lead = await world.lead()
    built = await world.services.tasks.create(Caller(agent=lead), brief("Count.", depends_on=[secret.id]))
    assert [other.result for other in built.dependencies] == ["the rows"]


async def test_a_part_cannot_wait_for_what_waits_for_its_parent_through_other_tasks(world: World) -> None:
    create = world.services.tasks.create
    whole = await create(None, brief("Count."))
    part = await create(None, brief("Count here."), parent_id=whole.id)
    near = await create(None, brief("Add up.", depends_on=[whole.id]))
    far = await create(None, brief("Publish.", depends_on=[near.id]))
    for other in (near, far):
        with pytest.raises(Conflict, match=f"Task {other.id} waits for a task that this one would be a part of"):
            await create(None, brief("Count there.", depends_on=[other.id]), parent_id=part.id)
    beside = await create(None, brief("Collect."))
    assert (await create(None, brief("Count it.", depends_on=[beside.id]), parent_id=part.id)).status == "blocked"


@pytest.mark.both_engines
async def test_what_is_done_waits_for_nothing_so_a_part_may_build_on_it(world: World) -> None:
    whole = await world.services.tasks.create(None, brief("Count."))
    after = await world.services.tasks.create(None, brief("Add up.", depends_on=[whole.id]))
    await world.change("UPDATE tasks SET status = 'completed', ended_at = 1 WHERE title = 'Add up.'")
    part = await world.services.tasks.create(None, brief("Compare.", depends_on=[after.id]), parent_id=whole.id)
    assert part.status is TaskStatus.UNASSIGNED


async def test_where_too_much_is_waited_for_a_part_is_refused_rather_than_left_waiting_for_ever(world: World) -> None:
    last = await world.services.tasks.create(None, brief("Step."))
    whole = await world.services.tasks.create(None, brief("Count."))
    for _ in range(MAX_WAITED_FOR - 1):
        last = await world.services.tasks.create(None, brief("Step.", depends_on=[last.id]))
    await world.services.tasks.create(None, brief("Part.", depends_on=[last.id]), parent_id=whole.id)
    last = await world.services.tasks.create(None, brief("Step.", depends_on=[last.id]))
    with pytest.raises(Conflict, match="waits for more than 200 other tasks"):
        await world.services.tasks.create(None, brief("Part.", depends_on=[last.id]), parent_id=whole.id)
    await world.services.tasks.create(None, brief("Step.", depends_on=[last.id]))


# Calls that are repeated


async def test_a_request_id_that_stands_for_another_task_is_refused_so_that_no_task_is_lost(world: World) -> None:
    lead = await world.lead()
    create, by = world.services.tasks.create, Caller(agent=lead, request_id="1")
    first = await create(by, brief("Count."))
    assert (await create(by, brief("Count."))).id == first.id
    for other, priority in (("Sing.", 50), ("Count.", 70)):
        with pytest.raises(Conflict, match=f"With the request_id '1' you have created another task there: {first.id}"):
            await create(by, brief(other, priority=priority))
    assert len(await world.rows("SELECT id FROM tasks")) == 1


async def test_a_request_id_counts_within_a_lease_or_a_parent(world: World) -> None:
    lead = await world.lead()
    create = world.services.tasks.create
    made = set()
    for _ in range(2):
        await world.says("swarm#lead hello")
        made.add((await create(holding(await work_of(world, lead), lead, "1"), brief("Count."))).id)
    parents = [await create(None, brief("Whole.")) for _ in range(2)]
    for parent in parents:
        made.add((await create(Caller(agent=lead, request_id="1"), brief("Count."), parent_id=parent.id)).id)
    assert len(made) == 4


async def test_a_run_that_repeats_itself_creates_one_task_and_a_lead_without_a_lease_as_many_as_it_says(
    world: World,
) -> None:
    lead = await world.lead()
    await world.says("swarm#lead hello")
    run = holding(await world.only(lead), lead)
    create = world.services.tasks.create
    assert (await create(run, brief("Count."))).id == (await create(run, brief("Count."))).id
    assert (await create(Caller(agent=lead), brief("Sing."))).id != (
        await create(Caller(agent=lead), brief("Sing."))
    ).id


@pytest.mark.parametrize("request_id", [None, "1"])
@pytest.mark.parametrize("leased", [False, True])
async def test_a_task_that_came_back_can_be_assigned_by_the_same_call_again(
    world: World, leased: bool, request_id: str | None
) -> None:
    lead, worker = await world.lead(), await world.worker()
    by = Caller(agent=lead, request_id=request_id)
    if leased:
        await world.says("swarm#lead hello")
        by = holding(await world.only(lead), lead, request_id)
    task = await world.services.tasks.create(None, brief("Count."))
    assign = world.services.tasks.assign
    await assign(by, task.id, "worker")
    if leased or request_id:
        assert (await assign(by, task.id, "worker")).status is TaskStatus.PENDING, "it has done so already"
    else:
        with pytest.raises(Conflict, match="This task is pending"):
            await assign(by, task.id, "worker")
    await world.change("UPDATE agents SET last_seen_at = NULL WHERE name = 'worker'")
    await world.sweep()
    assert await status_of(world, task.id) is TaskStatus.UNASSIGNED
    await world.is_here(worker)
    assert (await assign(by, task.id, "worker")).agent == "worker"
    assert await status_of(world, task.id) is TaskStatus.PENDING


# Given again


@pytest.mark.req("LOOP-10")
@pytest.mark.parametrize("how", ["redriven", "assigned"])
async def test_a_task_that_is_given_again_does_not_take_the_thread_from_a_newer_one(world: World, how: str) -> None:
    lead, a, b = await world.lead(), await world.worker("a"), await world.worker("b")
    old = await asked_and_handed(world, lead, a)
    if how == "redriven":
        for _ in range(MAX_MESSAGE_ATTEMPTS):
            await world.services.work.finish(a, [(await world.only(a)).lease_token], FinishOutcome.FAILED)
            await world.later(60)
            await world.is_here(a)
            await world.is_here(b)
    else:
        await world.change("UPDATE agents SET last_seen_at = NULL WHERE name = 'a'")
        await world.sweep()
        await world.is_here(a)
    await asked_and_handed(world, lead, b, thread=old.root)
    if how == "redriven":
        await world.services.tasks.redrive(old.task_id)
    else:
        await world.services.tasks.assign(None, old.task_id, "a")
    assert await owner_of(world, old.root) == b.id
    assert (await task_of(world, old.task_id)).epoch is None
    await complete(world, a, await work_of(world, a))
    assert await owner_of(world, old.root) == b.id
    await complete(world, b, await work_of(world, b))
    assert await owner_of(world, old.root) == lead.id


@pytest.mark.both_engines
@pytest.mark.req("LOOP-10")
async def test_a_task_that_is_given_again_takes_no_thread_that_a_newer_task_of_the_same_worker_has(
    world: World,
) -> None:
    lead, worker = await world.lead(), await world.worker()
    old = await asked_and_handed(world, lead, worker, priority=60)
    for _ in range(MAX_MESSAGE_ATTEMPTS):
        await world.services.work.finish(worker, [(await world.only(worker)).lease_token], FinishOutcome.FAILED)
        await world.later(60)
        await world.is_here(worker)
    new = await asked_and_handed(world, lead, worker, thread=old.root)
    await world.services.tasks.redrive(old.task_id)
    run = await work_of(world, worker)
    assert run.id == old.task_id
    await complete(world, worker, run)
    assert await owner_of(world, old.root) == worker.id
    await complete(world, worker, await work_of(world, worker))
    assert (await owner_of(world, old.root), await status_of(world, new.task_id)) == (lead.id, TaskStatus.COMPLETED)


@pytest.mark.req("LOOP-10")
async def test_a_task_that_is_given_again_takes_no_thread_from_a_worker_whom_a_person_has_named(world: World) -> None:
    lead, a, b = await world.lead(), await world.worker("a"), await world.worker("b")
    old = await asked_and_handed(world, lead, a)
    await world.change("UPDATE agents SET last_seen_at = NULL WHERE name = 'a'")
    await world.sweep()
    await world.says("swarm#b you do it", thread=old.root)
    await world.is_here(a)
    await world.services.tasks.assign(None, old.task_id, "a")
    assert await owner_of(world, old.root) == b.id


async def test_a_part_that_came_back_can_be_assigned_however_many_there_are_and_whatever_became_of_its_parent(
    world: World,
) -> None:
    create, assign = world.services.tasks.create, world.services.tasks.assign
    await world.worker("a"), await world.worker("b")
    whole = await create(None, brief("Count."), agent="a")
    parts = [await create(None, brief("Count here."), parent_id=whole.id) for _ in range(MAX_OPEN_CHILDREN)]
    await assign(None, parts[0].id, "b")
    with pytest.raises(Conflict, match="a cycle"):
        await assign(None, parts[1].id, "a")
    await world.change("UPDATE tasks SET status = 'completed', ended_at = 1 WHERE title = 'Count.'")
    await assign(None, parts[1].id, "b")
    assert [await status_of(world, part.id) for part in parts[:2]] == [TaskStatus.PENDING] * 2


# Lost, released, set aside


async def test_a_lost_lease_counts_an_attempt_and_a_released_one_does_not(world: World) -> None:
    worker = await world.worker()
    await world.services.tasks.create(None, brief("Count."), agent="worker")
    await world.services.work.release(worker, [(await world.only(worker)).lease_token])
    assert (await world.only(worker)).attempt == 1
    await world.later(LEASE_SECONDS)
    assert (await world.only(worker)).attempt == 2


@pytest.mark.both_engines
async def test_a_task_that_is_released_with_a_delay_comes_after_it(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    await asked_and_handed(world, lead, worker)
    await world.services.work.release(worker, [(await world.only(worker)).lease_token], delay_seconds=5)
    await world.later(4)
    assert await world.poll(worker) == []
    await world.later(1)
    assert (await world.only(worker)).attempt == 1


async def test_a_task_that_is_lost_five_times_is_set_aside_and_redriven_with_its_thread(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    for attempt in range(1, MAX_MESSAGE_ATTEMPTS + 1):
        run = await world.only(worker)
        assert run.attempt == attempt
        await world.services.work.finish(worker, [run.lease_token], FinishOutcome.FAILED, "it crashed")
        await world.later(60)
        await world.is_here(worker)
    assert await status_of(world, handed.task_id) is TaskStatus.DEAD
    assert await owner_of(world, handed.root) == lead.id
    assert await news_of(world, lead) == ["task_finished"]
    await world.send()
    assert world.slack.posts == [
        "I could not get the task “Count.” done: it crashed, 5 times. My operator can run it again."
    ]
    assert (handed.root.ts, "x") in world.slack.reactions

    redriven = await world.services.tasks.redrive(handed.task_id)
    assert (redriven.status, await owner_of(world, handed.root)) == (TaskStatus.PENDING, worker.id)
    again = await world.only(worker)
    assert (again.id, again.attempt) == (handed.task_id, 1)
    await complete(world, worker, again)
    assert await owner_of(world, handed.root) == lead.id


async def test_only_a_dead_task_is_redriven(world: World) -> None:
    task = await world.services.tasks.create(None, brief("Count."))
    with pytest.raises(Conflict, match="only dead ones"):
        await world.services.tasks.redrive(task.id)


async def test_a_running_task_is_ended_by_its_own_tools_only(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    run = await world.only(worker)
    for outcome in (FinishOutcome.DONE, FinishOutcome.DISMISSED):
        with pytest.raises(Conflict, match="no result yet") as no:
            await world.services.work.finish(worker, [run.lease_token], outcome, "over")
        assert (no.value.code, handed.task_id in str(no.value)) == ("unresolved", True)
    assert await status_of(world, handed.task_id) is TaskStatus.IN_PROGRESS
    assert (await world.services.work.renew(worker, [run.lease_token])).renewed.lost == ()


# What is reported


@pytest.mark.parametrize("what", ["result", "error", "reply"])
async def test_a_report_that_is_too_large_is_refused_and_nothing_has_changed(world: World, what: str) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    run, work, much = await world.only(worker), world.services.task_work, "x" * 1_000_000
    by = holding(run, worker)
    reports = {
        "result": lambda: work.complete(by, handed.task_id, much),
        "error": lambda: work.fail(by, handed.task_id, much),
        "reply": lambda: work.complete(by, handed.task_id, "42", much),
    }
    with pytest.raises(TooLarge):
        await reports[what]()
    assert await status_of(world, handed.task_id) is TaskStatus.IN_PROGRESS
    assert await owner_of(world, handed.root) == worker.id
    await work.complete(by, handed.task_id, "x" * MAX_TEXT_CHARACTERS)
    assert await status_of(world, handed.task_id) is TaskStatus.COMPLETED


async def test_a_report_that_says_nothing_is_refused(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    by, work = holding(await world.only(worker), worker), world.services.task_work
    for empty in ("", "  ", "\u200b"):
        with pytest.raises(Invalid):
            await work.complete(by, handed.task_id, empty)
        with pytest.raises(Invalid):
            await work.progress(by, handed.task_id, empty)


async def test_a_repeated_end_says_and_tells_everything_once(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    run = await world.only(worker)
    for _ in range(2):
        await complete(world, worker, run, "42", "It is 42.")
    await world.send()
    assert world.slack.posts == ["It is 42."]
    assert await news_of(world, lead) == ["task_finished"]
    assert await status_of(world, handed.task_id) is TaskStatus.COMPLETED


async def test_progress_is_one_message_that_changes_carries_a_stop_button_and_is_closed(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    by = holding(await world.only(worker), worker)
    await world.services.task_work.progress(by, handed.task_id, "reading", 10)
    await world.services.task_work.progress(by, handed.task_id, "counting", 50)
    await world.send()
    (post,) = [done for done in world.slack.landed if done.kind is DeliveryKind.POST]
    assert ("counting" in post.text, "reading" in post.text, post.stops_task_id) == (True, False, handed.task_id)

    await world.services.task_work.progress(by, handed.task_id, "comparing", 90)
    await world.send()
    await world.services.task_work.complete(by, handed.task_id, "42")
    await world.send()
    assert world.slack.posts == [post.text]
    changes = [done for done in world.slack.landed if done.kind is DeliveryKind.UPDATE]
    assert [(change.target_ts, change.stops_task_id) for change in changes] == [
        (world.slack.timestamps[post.id], handed.task_id),
        (world.slack.timestamps[post.id], None),
    ]
    assert "comparing" in changes[0].text
    assert "done" in changes[1].text


async def test_a_task_that_ends_before_its_progress_was_sent_shows_its_end_only(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    by = holding(await world.only(worker), worker)
    await world.services.task_work.progress(by, handed.task_id, "reading", 10)
    await world.services.tasks.cancel(None, handed.task_id)
    await world.send()
    shown = [done for done in world.slack.landed if done.text.startswith("🛑")]
    assert [(done.kind, done.stops_task_id) for done in shown] == [(DeliveryKind.POST, None)]
    assert not any("reading" in done.text for done in world.slack.landed)


async def test_a_failure_shows_one_sign_and_one_sentence(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    by = holding(await world.only(worker), worker)
    for _ in range(2):
        await world.services.task_work.fail(by, handed.task_id, "no access")
    await world.send()
    assert world.slack.posts == ["The task “Count.” failed: no access."]
    assert world.slack.reactions.count((handed.root.ts, "x")) == 1
    assert (handed.root.ts, "white_check_mark") not in world.slack.reactions


@pytest.mark.both_engines
async def test_a_failure_in_the_agents_own_words_is_not_told_twice(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    by = holding(await world.only(worker), worker)
    await world.services.task_work.fail(by, handed.task_id, "403", "I may not read that repository.")
    await world.send()
    assert world.slack.posts == ["I may not read that repository."]
    assert (handed.root.ts, "x") in world.slack.reactions


# Who hears of the end


async def fails_to_hear(world: World, agent_name: str) -> None:
    """Every run that is told something crashes, until it is told no more."""
    agent = await world.services.agents.get(agent_name)
    for _ in range(NOTICE_ATTEMPTS):
        notice = await world.only(agent)
        await world.services.work.finish(agent, [notice.lease_token], FinishOutcome.FAILED, "it crashed")
    assert await world.poll(agent) == []


async def test_a_result_of_which_the_lead_can_never_be_told_is_posted_by_the_coordinator(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    await asked_and_handed(world, lead, worker)
    await complete(world, worker, await world.only(worker), "It is 42.")
    await fails_to_hear(world, "lead")
    await world.send()
    assert world.slack.posts == ["It is 42."]


async def test_a_result_that_people_have_been_told_already_is_not_posted_again(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    await asked_and_handed(world, lead, worker)
    await complete(world, worker, await world.only(worker), "42", "It is 42.")
    await fails_to_hear(world, "lead")
    await world.send()
    assert world.slack.posts == ["It is 42."]


async def test_a_word_on_the_way_is_not_the_result(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    run = await world.only(worker)
    await world.services.replies.reply_to_task(holding(run, worker), handed.task_id, "I am on it.")
    world.clock.advance(1)
    await complete(world, worker, run, "It is 42.")
    await fails_to_hear(world, "lead")
    await world.send()
    assert world.slack.posts == ["I am on it.", "It is 42."]


async def test_who_was_told_of_the_end_of_its_task_may_tell_people(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    await complete(world, worker, await world.only(worker), "42")
    news = await world.only(lead)
    await world.services.replies.reply_to_task(holding(news, lead), handed.task_id, "It is 42.")
    await world.services.work.finish(lead, [news.lease_token], FinishOutcome.DONE)
    with pytest.raises(LeaseLost):
        await world.services.replies.reply_to_task(holding(news, lead), handed.task_id, "Once more.")
    await world.send()
    assert world.slack.posts == ["It is 42."]


# Whose business it is


@pytest.mark.both_engines
async def test_a_worker_sees_its_own_tasks_and_those_that_they_build_on(world: World) -> None:
    lead, a, b = await world.lead(), await world.worker("a"), await world.worker("b")
    first = await world.services.tasks.create(None, brief("Collect."), agent="a")
    second = await world.services.tasks.create(None, brief("Count.", depends_on=[first.id]), agent="b")
    other = await world.services.tasks.create(None, brief("Sing."), agent="a")
    tasks = world.services.tasks
    assert [(await tasks.get(b, found)).id for found in (first.id, second.id)] == [first.id, second.id]
    with pytest.raises(NotFound):
        await tasks.get(b, other.id)
    assert [task.id for task in await tasks.latest(b, None, 10)] == [second.id]
    assert len(await tasks.latest(lead, None, 10)) == 3
    assert {task.id for task in await tasks.latest(a, TaskStatus.PENDING, 10)} == {first.id, other.id}


async def test_lists_are_newest_first_and_short_and_one_task_is_shown_whole(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    create, long = world.services.tasks.create, "x" * 1_001
    first = await create(Caller(agent=lead), brief(long, "Collect."), agent="worker")
    await complete(world, worker, await world.only(worker), long)
    second = await create(None, brief("y" * 1_000, "Count.", depends_on=[first.id]), agent="worker")
    third = await create(None, brief("Add up.", depends_on=[second.id, first.id]))
    found = await world.services.tasks.latest(lead, None, 3)
    assert [task.id for task in found] == [third.id, second.id, first.id]
    assert [list(task.depends_on) for task in found] == [[first.id, second.id], [first.id], []]
    short = "x" * 999 + "…"
    assert [found[2].description, found[2].result, found[1].dependencies[0].result] == [short] * 3
    assert found[1].description == "y" * 1_000
    whole = await world.services.tasks.get(lead, second.id)
    assert (await world.services.tasks.get(lead, first.id)).result == whole.dependencies[0].result == long


@pytest.mark.both_engines
async def test_a_list_shows_the_newest_of_what_an_agent_has_and_has_created_each_once(world: World) -> None:
    a, _ = await world.worker("a"), await world.worker("b")
    create, latest = world.services.tasks.create, world.services.tasks.latest
    own = await create(None, brief("Count."), agent="a")
    part = await create(Caller(agent=a), brief("Count here."), agent="b", parent_id=own.id)
    await create(None, brief("Sing."), agent="b")
    loose = await create(Caller(agent=a), brief("Count there."), parent_id=own.id)
    await world.change(f"UPDATE tasks SET created_by = '{a.id}' WHERE title = 'Count.'")
    everything = [loose.id, part.id, own.id]
    assert [[task.id for task in await latest(a, None, limit)] for limit in (1, 2, 5)] == [
        everything[:1],
        everything[:2],
        everything,
    ]
    assert [task.id for task in await latest(a, TaskStatus.PENDING, 5)] == [part.id, own.id]
    assert [task.id for task in await latest(None, TaskStatus.UNASSIGNED, 5)] == [loose.id]


async def test_a_worker_can_touch_no_task_of_another(world: World) -> None:
    lead, a, b = await world.lead(), await world.worker("a"), await world.worker("b")
    handed = await asked_and_handed(world, lead, a)
    run = await world.only(a)
    stranger = holding(run, b)
    work, services = world.services.task_work, world.services
    for act in (
        work.progress(stranger, handed.task_id, "mine"),
        work.complete(stranger, handed.task_id, "mine"),
        work.fail(stranger, handed.task_id, "mine"),
        services.replies.reply_to_task(stranger, handed.task_id, "mine"),
        services.tasks.cancel(Caller(agent=b), handed.task_id),
        services.tasks.assign(Caller(agent=b), handed.task_id, "b"),
        services.delegations.accept(Caller(agent=b), handed.task_id),
        services.delegations.decline(Caller(agent=b), handed.task_id, "mine"),
    ):
        with pytest.raises(NotFound):
            await act
    assert (await task_of(world, handed.task_id)).agent_id == a.id
    assert await status_of(world, handed.task_id) is TaskStatus.IN_PROGRESS


async def test_a_cancelled_task_tells_its_run_its_creator_and_the_thread_which_returns(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    run = await world.only(worker)
    await world.services.tasks.cancel(None, handed.task_id, "not needed")
    beat = await world.services.work.renew(worker, [run.lease_token])
    assert (beat.renewed.lost, [str(news.kind) for news in beat.notices]) == ((run.lease_token,), ["task_cancelled"])
    assert len(await world.poll(lead)) == 1
    assert await owner_of(world, handed.root) == lead.id
    await world.send()
    assert world.slack.posts == ["The task “Count.” was cancelled by an operator: not needed."]
    with pytest.raises(Conflict, match="cancelled"):
        await complete(world, worker, run)
    assert (await world.inbox_message(handed.root)).status is InboxStatus.DELEGATED


async def test_a_cancelled_offer_can_be_accepted_no_more(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker, offer=True)
    await world.services.tasks.cancel(Caller(agent=lead), handed.task_id)
    with pytest.raises(Conflict, match="cancelled"):
        await world.services.delegations.accept(Caller(agent=worker), handed.task_id)
    assert await world.poll(worker) == []


async def test_a_task_without_a_thread_has_nowhere_to_speak(world: World) -> None:
    worker = await world.worker()
    await world.services.tasks.create(None, brief("Count."), agent="worker")
    run = await world.only(worker)
    with pytest.raises(Conflict, match="no Slack thread"):
        await world.services.replies.reply_to_task(holding(run, worker), run.id, f"{BOT} hello")
    await complete(world, worker, run)
