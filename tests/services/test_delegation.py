"""Delegation: a message becomes a worker's task, the thread goes with it, and comes back."""

from __future__ import annotations

import pytest

from swarm.domain.errors import Conflict, Invalid, NotFound
from swarm.domain.model.agents import OFFLINE_AFTER_SECONDS, Agent
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.leases import LEASE_SECONDS, NOTICE_ATTEMPTS, FinishOutcome
from swarm.domain.model.tasks import MAX_DEPTH, MAX_OPEN_CHILDREN, MAX_OPEN_PER_THREAD, OFFER_SECONDS, TaskStatus
from swarm.domain.model.threads import SlackMessage
from swarm.domain.model.triggers import Trigger
from swarm.services.ground.idempotency import Caller
from swarm.services.tasks.tasks import brief
from tests.support.tasks import (
    asked_and_handed,
    complete,
    hand,
    news_of,
    owner_of,
    status_of,
    task_of,
    thread_of,
    work_of,
)
from tests.support.world import BOT, World, delete, holding

pytestmark = pytest.mark.req("LOOP-09")


async def test_a_delegated_message_becomes_a_task_of_the_worker_which_owns_the_thread(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    root = await world.says(f"{BOT} count the lines")
    trigger = await world.only(lead)
    delegated = await world.services.delegations.delegate(
        holding(trigger, lead), trigger.inbox_messages[0].id, "worker", brief("Count the lines of Python.")
    )
    assert delegated["owner"] == "worker"
    assert (await world.inbox_message(root)).status is InboxStatus.DELEGATED
    task = await world.only(worker)
    assert task.task is not None
    assert (task.kind, task.task.id, task.task.requester) == ("task_assigned", delegated["task_id"], "U1")
    assert [said.text for said in task.thread_context] == ["@UBOT count the lines"]
    assert "Count the lines of Python." in task.prompt

    done = await world.services.task_work.complete(holding(task, worker), task.task.id, "42", "It is 42.")
    assert done.status is TaskStatus.COMPLETED
    await world.send()
    assert world.slack.posts == ["It is 42."]
    news = await world.only(lead)
    assert news.task is not None
    assert (news.kind, news.task.result) == ("task_finished", "42")
    follow_up = await world.says("thanks", thread=root)
    assert (await world.inbox_message(follow_up)).agent_id == lead.id


async def test_a_follow_up_reaches_the_worker_at_once_and_is_answered_under_the_lease_of_its_task(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    root = await world.says(f"{BOT} count the lines")
    trigger = await world.only(lead)
    await world.services.delegations.delegate(
        holding(trigger, lead), trigger.inbox_messages[0].id, "worker", brief("Count.")
    )
    task = await world.only(worker)
    follow_up = await world.says("only Python please", thread=root)
    inbox_message = await world.inbox_message(follow_up)
    assert (inbox_message.agent_id, inbox_message.task_id) == (worker.id, task.id)
    beat = await world.services.work.renew(worker, [task.lease_token])
    (notice,) = beat.notices
    assert (notice.kind, notice.inbox_messages[0].text) == ("task_follow_up", "only Python please")
    await world.services.replies.reply(holding(task, worker), inbox_message.id, "I will.")
    assert (await world.inbox_message(follow_up)).status is InboxStatus.RESPONDED
    assert await world.poll(worker) == []


async def test_a_worker_nobody_knows_oneself_or_a_lead_gets_no_task(world: World) -> None:
    lead = await world.lead()
    await world.lead("other")
    await world.worker("away", online=False)
    await world.worker("wim")
    await world.says(f"{BOT} count the lines")
    trigger = await world.only(lead)
    for agent, error, words in [
        ("nobody", NotFound, "There is no agent 'nobody'"),
        ("lead", Conflict, "yourself"),
        ("other", Conflict, "is a lead"),
        ("away", Conflict, "is offline"),
    ]:
        with pytest.raises(error, match=words) as raised:
            await world.services.delegations.delegate(
                holding(trigger, lead), trigger.inbox_messages[0].id, agent, brief("Count.")
            )
        assert "Workers that are online: wim." in str(raised.value.hint)


# After the hand-over


async def test_who_delegated_may_say_so_which_changes_nothing(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    before = await thread_of(world, handed.root)
    inbox_message_id = handed.trigger.inbox_messages[0].id
    said = await world.services.replies.reply(
        holding(handed.trigger, lead), inbox_message_id, "I have handed it to worker."
    )
    await world.send()
    assert (said["status"], world.slack.posts) == (InboxStatus.DELEGATED, ["I have handed it to worker."])
    assert await thread_of(world, handed.root) == before
    assert await status_of(world, handed.task_id) is TaskStatus.PENDING


async def test_a_question_of_who_delegated_changes_nothing_either(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    inbox_message_id = handed.trigger.inbox_messages[0].id
    said = await world.services.replies.reply(holding(handed.trigger, lead), inbox_message_id, "Which one?", wait=True)
    assert said["status"] == InboxStatus.DELEGATED


async def test_the_same_call_again_returns_the_first_result_and_makes_no_second_task(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    await world.says(f"{BOT} count the lines")
    trigger = await world.only(lead)
    first, again = await hand(world, lead, trigger, worker), await hand(world, lead, trigger, worker)
    assert first == again
    assert await world.rows("SELECT id FROM tasks") == [{"id": first}]


async def test_the_same_request_again_is_the_first_whatever_else_it_says(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    await world.says(f"{BOT} count the lines")
    trigger = await world.only(lead)
    first = await hand(world, lead, trigger, worker, request_id="one")
    assert await hand(world, lead, trigger, worker, what="Count anew.", request_id="one") == first


async def test_a_second_delegation_of_a_message_names_the_task_that_it_is(world: World) -> None:
    lead, worker, other = await world.lead(), await world.worker(), await world.worker("other")
    handed = await asked_and_handed(world, lead, worker)
    with pytest.raises(Conflict, match=f"delegated already: task {handed.task_id} of worker, which is pending") as no:
        await hand(world, lead, handed.trigger, other)
    assert "cancel-task" in str(no.value.hint)
    assert await owner_of(world, handed.root) == worker.id


# Bundles


async def bundle(world: World, lead: Agent) -> tuple[list[SlackMessage], Trigger]:
    """Three messages of one thread under one lease."""
    root = await world.says(f"{BOT} one")
    messages = [root, await world.says("two", thread=root), await world.says("three", thread=root)]
    return messages, await world.only(lead)


async def test_the_messages_of_a_lease_are_delegated_together(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    messages, trigger = await bundle(world, lead)
    task_id = await hand(world, lead, trigger, worker)
    for message in messages:
        inbox_message = await world.inbox_message(message)
        assert (inbox_message.status, inbox_message.task_id) == (InboxStatus.DELEGATED, task_id)


async def test_with_only_the_others_stay_with_the_run(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    messages, trigger = await bundle(world, lead)
    await hand(world, lead, trigger, worker, only=True)
    assert [(await world.inbox_message(message)).status for message in messages] == ["delegated", "claimed", "claimed"]


async def test_a_word_about_a_delegated_message_does_not_answer_those_that_are_left(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    messages, trigger = await bundle(world, lead)
    await hand(world, lead, trigger, worker, only=True)
    await world.services.replies.reply(holding(trigger, lead), trigger.inbox_messages[0].id, "Handed to worker.")
    assert [(await world.inbox_message(message)).status for message in messages] == ["delegated", "claimed", "claimed"]


# Limits


async def test_tasks_stand_eight_deep_and_no_deeper(world: World) -> None:
    agents = [await world.worker(f"w{number}") for number in range(MAX_DEPTH + 1)]
    parent: str | None = None
    for agent in agents[:MAX_DEPTH]:
        made = await world.services.tasks.create(None, brief("Count."), agent=agent.name, parent_id=parent)
        parent = made.id
    with pytest.raises(Conflict, match="nested 9 levels deep; at most 8") as no:
        await world.services.tasks.create(None, brief("Count."), agent=agents[-1].name, parent_id=parent)
    assert "Do the work yourself" in str(no.value.hint)


async def test_a_thread_has_room_for_ten_open_tasks(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    first = await asked_and_handed(world, lead, worker)
    for _ in range(MAX_OPEN_PER_THREAD - 1):
        await asked_and_handed(world, lead, worker, thread=first.root)
    with pytest.raises(Conflict, match="10 open tasks in this thread already; at most 10") as no:
        await asked_and_handed(world, lead, worker, thread=first.root)
    assert "cancel" in str(no.value.hint)
    await world.services.tasks.cancel(None, first.task_id)
    await hand(world, lead, await lead_holds(world, lead, first.root), worker)


async def lead_holds(world: World, lead: Agent, root: SlackMessage) -> Trigger:
    """What the lead has in a thread, anew."""
    await world.later(LEASE_SECONDS)
    return await work_of(world, lead)


async def test_a_task_has_room_for_ten_open_parts(world: World) -> None:
    worker = await world.worker()
    parent = await world.services.tasks.create(None, brief("Count."), agent=worker.name)
    for _ in range(MAX_OPEN_CHILDREN):
        await world.services.tasks.create(None, brief("Count."), parent_id=parent.id)
    with pytest.raises(Conflict, match="10 open tasks below this parent already"):
        await world.services.tasks.create(None, brief("Count."), parent_id=parent.id)


async def test_a_task_never_returns_to_somebody_who_waits_for_it(world: World) -> None:
    a, b = await world.worker("a"), await world.worker("b")
    first = await world.services.tasks.create(None, brief("Count."), agent=a.name)
    second = await world.services.tasks.create(None, brief("Count."), agent=b.name, parent_id=first.id)
    with pytest.raises(Conflict, match=f"waits for this task itself, with task {first.id}.*: a cycle") as no:
        await world.services.tasks.create(None, brief("Count."), agent="a", parent_id=second.id)
    assert "Choose another worker" in str(no.value.hint)


async def test_a_task_cannot_depend_on_one_that_it_is_a_part_of(world: World) -> None:
    await world.worker("a")
    first = await world.services.tasks.create(None, brief("Count."), agent="a")
    second = await world.services.tasks.create(None, brief("Count."), parent_id=first.id)
    with pytest.raises(Conflict, match="which it is a part of: a cycle") as no:
        await world.services.tasks.create(None, brief("Count.", depends_on=[first.id]), parent_id=second.id)
    assert "Leave its own parents out" in str(no.value.hint)


async def test_nothing_of_a_refused_delegation_remains(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    root = await world.says(f"{BOT} count the lines")
    trigger = await world.only(lead)
    with pytest.raises(NotFound, match="no task 'nonsense' to depend on"):
        await hand(world, lead, trigger, worker, depends_on=["nonsense"])
    assert (await world.inbox_message(root)).status is InboxStatus.CLAIMED
    assert await owner_of(world, root) == lead.id
    assert await world.rows("SELECT id FROM tasks") == []


# Offers


async def test_an_offer_leaves_the_thread_where_it_is_until_it_is_accepted(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker, offer=True)
    assert await owner_of(world, handed.root) == lead.id
    assert await news_of(world, worker) == ["task_offered"]
    accepted = await world.services.delegations.accept(Caller(agent=worker), handed.task_id)
    assert accepted.status is TaskStatus.PENDING
    assert await owner_of(world, handed.root) == worker.id
    run = await world.only(worker)
    assert run.id == handed.task_id
    await complete(world, worker, run)
    assert await owner_of(world, handed.root) == lead.id


async def test_what_was_said_between_an_offer_and_its_acceptance_goes_along(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker, offer=True)
    later = await world.says("only Python please", thread=handed.root)
    await world.services.delegations.accept(Caller(agent=worker), handed.task_id)
    inbox_message = await world.inbox_message(later)
    assert (inbox_message.agent_id, inbox_message.task_id) == (worker.id, handed.task_id)


@pytest.mark.req("LOOP-10")
async def test_an_offer_that_is_accepted_late_takes_no_thread_that_has_changed_hands_since(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    named = await world.worker("named")
    handed = await asked_and_handed(world, lead, worker, offer=True)
    later = await world.says("swarm#named take over", thread=handed.root)
    accepted = await world.services.delegations.accept(Caller(agent=worker), handed.task_id)
    assert accepted.status is TaskStatus.PENDING
    assert await owner_of(world, handed.root) == named.id
    assert (await world.inbox_message(later)).agent_id == named.id
    await complete(world, worker, await work_of(world, worker))
    assert await owner_of(world, handed.root) == named.id


@pytest.mark.req("LOOP-10")
async def test_a_cancelled_offer_takes_no_thread_from_the_task_that_has_it(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    messages, trigger = await bundle(world, lead)
    await hand(world, lead, trigger, worker, only=True)
    second = await world.services.delegations.delegate(
        holding(trigger, lead),
        (await world.inbox_message(messages[1])).id,
        "worker",
        brief("Count."),
        offer=True,
        only=True,
    )
    await world.services.tasks.cancel(None, second["task_id"])
    assert await owner_of(world, messages[0]) == worker.id


async def test_a_worker_can_delegate_nothing_that_builds_on_what_is_none_of_its_business(world: World) -> None:
    lead, a, _ = await world.lead(), await world.worker("a"), await world.worker("b")
    handed = await asked_and_handed(world, lead, a)
    run = await world.only(a)
    secret = await world.services.tasks.create(None, brief("Collect."), agent="b")
    inbox_message = await world.inbox_message(await world.says("and the tests?", thread=handed.root))
    with pytest.raises(NotFound, match=f"no task '{secret.id}' to depend on"):
        await world.services.delegations.delegate(
            holding(run, a), inbox_message.id, "b", brief("Count.", depends_on=[secret.id])
        )


async def test_a_declined_message_is_unread_again_with_its_attempts_and_the_lead_is_told(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker, offer=True)
    declined = await world.services.delegations.decline(Caller(agent=worker), handed.task_id, "I count no lines.")
    assert declined.status is TaskStatus.DECLINED
    inbox_message = await world.inbox_message(handed.root)
    assert (inbox_message.status, inbox_message.attempts, await owner_of(world, handed.root)) == (
        InboxStatus.UNREAD,
        0,
        lead.id,
    )
    triggers = {str(trigger.kind): trigger for trigger in await world.poll(lead)}
    assert triggers.keys() == {"slack_inbox_message", "task_declined"}
    assert triggers["slack_inbox_message"].attempt == 1
    assert "I count no lines." in triggers["task_declined"].prompt
    await hand(world, lead, triggers["slack_inbox_message"], worker)


async def test_a_declined_message_that_was_deleted_meanwhile_is_withdrawn(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker, offer=True)
    await world.ingest.handle(delete(handed.root))
    await world.services.delegations.decline(Caller(agent=worker), handed.task_id, "I count no lines.")
    assert (await world.inbox_message(handed.root)).status is InboxStatus.WITHDRAWN
    assert await news_of(world, lead) == ["task_declined"]


async def test_an_offer_that_nobody_answers_ends_after_ten_minutes(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker, offer=True)
    world.clock.advance(OFFER_SECONDS - 1)
    await world.is_here(worker)
    await world.is_here(lead)
    await world.sweep()
    assert await status_of(world, handed.task_id) is TaskStatus.OFFERED
    await world.later(1)
    assert await status_of(world, handed.task_id) is TaskStatus.DECLINED
    assert (await world.inbox_message(handed.root)).status is InboxStatus.UNREAD
    assert await world.poll(worker) == [], "an offer that has ended is no news"


@pytest.mark.both_engines
async def test_an_offer_to_a_worker_that_goes_offline_is_declined_for_it(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker, offer=True)
    world.clock.advance(OFFLINE_AFTER_SECONDS + 1)
    await world.is_here(lead)
    await world.sweep()
    task = await task_of(world, handed.task_id)
    assert (task.status, task.error) == (TaskStatus.DECLINED, "worker is offline")
    assert (await world.inbox_message(handed.root)).status is InboxStatus.UNREAD


async def test_an_offer_of_which_the_worker_could_never_be_told_is_declined_for_it(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker, offer=True)
    for _ in range(NOTICE_ATTEMPTS):
        assert await status_of(world, handed.task_id) is TaskStatus.OFFERED
        notice = await world.only(worker)
        await world.services.work.finish(worker, [notice.lease_token], FinishOutcome.FAILED, "it crashed")
    assert await status_of(world, handed.task_id) is TaskStatus.DECLINED
    assert (await world.inbox_message(handed.root)).status is InboxStatus.UNREAD


@pytest.mark.both_engines
async def test_an_offer_is_nobody_elses_to_answer_and_is_answered_once(world: World) -> None:
    lead, worker, other = await world.lead(), await world.worker(), await world.worker("other")
    handed = await asked_and_handed(world, lead, worker, offer=True)
    with pytest.raises(NotFound, match="not offered"):
        await world.services.delegations.accept(Caller(agent=other), handed.task_id)
    await world.services.delegations.accept(Caller(agent=worker), handed.task_id)
    again = await world.services.delegations.accept(Caller(agent=worker), handed.task_id)
    assert again.status is TaskStatus.PENDING, "the same call again is the same answer"
    with pytest.raises(Conflict, match="This task is pending"):
        await world.services.delegations.decline(Caller(agent=worker), handed.task_id, "No.")


async def test_a_task_that_still_waits_for_others_is_not_offered(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    other = await world.services.tasks.create(None, brief("Collect."))
    with pytest.raises(Invalid, match="cannot be offered"):
        await asked_and_handed(world, lead, worker, offer=True, depends_on=[other.id])


# Whose thread it is then


@pytest.mark.req("LOOP-10")
async def test_an_older_task_cannot_take_the_thread_from_a_newer_one(world: World) -> None:
    lead, a, b = await world.lead(), await world.worker("a"), await world.worker("b")
    first = await asked_and_handed(world, lead, a)
    run = await world.only(a)
    second = await asked_and_handed(world, lead, b, thread=first.root)
    await complete(world, a, run)
    assert await owner_of(world, first.root) == b.id
    await complete(world, b, await work_of(world, b))
    assert await owner_of(world, first.root) == lead.id
    assert await status_of(world, second.task_id) is TaskStatus.COMPLETED


@pytest.mark.req("LOOP-10")
async def test_a_person_who_names_another_agent_takes_the_thread_from_a_running_task_for_good(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    second = await world.lead("second")
    handed = await asked_and_handed(world, lead, worker)
    run = await world.only(worker)
    await world.says("swarm#second take over", thread=handed.root)
    await complete(world, worker, run)
    assert await owner_of(world, handed.root) == second.id


@pytest.mark.req("LOOP-10")
async def test_a_part_that_a_worker_hands_on_brings_the_thread_back_step_by_step(world: World) -> None:
    """The lead delegates to A, A a follow-up to B: B returns the thread to A, and A to the lead."""
    lead, a, b = await world.lead(), await world.worker("a"), await world.worker("b")
    first = await asked_and_handed(world, lead, a)
    run = await world.only(a)
    inbox_message = await world.inbox_message(await world.says("and the tests?", thread=first.root))
    part = await world.services.delegations.delegate(holding(run, a), inbox_message.id, "b", brief("Count the tests."))
    assert (await task_of(world, part["task_id"])).parent_id == first.task_id
    await complete(world, b, await work_of(world, b))
    assert await owner_of(world, first.root) == a.id
    await complete(world, a, run)
    assert await owner_of(world, first.root) == lead.id


@pytest.mark.req("LOOP-10")
async def test_a_part_that_ends_after_its_parent_returns_the_thread_to_the_lead(world: World) -> None:
    lead, a, b = await world.lead(), await world.worker("a"), await world.worker("b")
    first = await asked_and_handed(world, lead, a)
    run = await world.only(a)
    inbox_message = await world.inbox_message(await world.says("and the tests?", thread=first.root))
    await world.services.delegations.delegate(holding(run, a), inbox_message.id, "b", brief("Count the tests."))
    await complete(world, a, run)
    assert await owner_of(world, first.root) == b.id
    await complete(world, b, await work_of(world, b))
    assert await owner_of(world, first.root) == lead.id
