"""Delegation: a message becomes a worker's task, the thread goes with it, and comes back."""

from __future__ import annotations

import pytest

from swarm.domain.errors import Conflict, NotFound
from swarm.domain.inbox import EntryStatus
from swarm.domain.tasks import TaskStatus
from swarm.services.task_texts import brief
from tests.support.world import BOT, World, holding

pytestmark = pytest.mark.req("LOOP-09")


async def test_a_delegated_message_becomes_a_task_of_the_worker_which_owns_the_thread(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    root = await world.says(f"{BOT} count the lines")
    trigger = await world.only(lead)
    delegated = await world.services.delegations.delegate(
        holding(trigger, lead), trigger.inbox_messages[0].id, "worker", brief("Count the lines of Python.")
    )
    assert delegated.owner == "worker"
    assert (await world.entry(root)).status is EntryStatus.DELEGATED
    task = await world.only(worker)
    assert task.task is not None
    assert (task.kind, task.task.id, task.task.requester) == ("task_assigned", delegated.task_id, "U1")
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
    assert (await world.entry(follow_up)).agent_id == lead.id


async def test_a_follow_up_reaches_the_worker_at_once_and_is_answered_under_the_lease_of_its_task(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    root = await world.says(f"{BOT} count the lines")
    trigger = await world.only(lead)
    await world.services.delegations.delegate(
        holding(trigger, lead), trigger.inbox_messages[0].id, "worker", brief("Count.")
    )
    task = await world.only(worker)
    follow_up = await world.says("only Python please", thread=root)
    entry = await world.entry(follow_up)
    assert (entry.agent_id, entry.task_id) == (worker.id, task.id)
    beat = await world.services.work.renew(worker, [task.lease_token])
    (notice,) = beat.notices
    assert (notice.kind, notice.inbox_messages[0].text) == ("task_follow_up", "only Python please")
    await world.services.replies.reply(holding(task, worker), entry.id, "I will.")
    assert (await world.entry(follow_up)).status is EntryStatus.RESPONDED
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
