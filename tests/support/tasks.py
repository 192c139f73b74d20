"""Tasks for tests: hand them over, take them, look at them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from swarm.domain.model.agents import Agent
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.model.threads import SlackMessage, Thread
from swarm.domain.model.triggers import Trigger, TriggerKind
from swarm.services.tasks.tasks import brief
from swarm.store import tasks
from swarm.store.tasks import Task
from swarm.store.threads import threads
from tests.support.world import BOT, ME, World, holding


@dataclass(frozen=True, kw_only=True)
class Handed:
    """A message that a lead has made a task of."""

    root: SlackMessage
    trigger: Trigger  # under which the lead did so
    task_id: str


async def hand(
    world: World,
    lead: Agent,
    trigger: Trigger,
    to: Agent,
    *,
    what: str = "Count.",
    priority: int = 50,
    depends_on: Sequence[str] = (),
    offer: bool = False,
    only: bool = False,
    request_id: str | None = None,
) -> str:
    """A run delegates the first message that it has; the task's id."""
    delegated = await world.services.delegations.delegate(
        holding(trigger, lead, request_id),
        trigger.inbox_messages[0].id,
        to.name,
        brief(what, priority=priority, depends_on=depends_on),
        offer=offer,
        only=only,
    )
    return delegated["task_id"]


async def asked_and_handed(
    world: World,
    lead: Agent,
    to: Agent,
    *,
    thread: SlackMessage | None = None,
    what: str = "Count.",
    priority: int = 50,
    depends_on: Sequence[str] = (),
    offer: bool = False,
) -> Handed:
    """Somebody asks, in a new thread or in one that exists, and the lead hands that to a worker."""
    text = f"swarm#{lead.name} count the lines" if thread else f"{BOT} count the lines"
    asked = await world.says(text, thread=thread)
    trigger = await work_of(world, lead)
    task_id = await hand(world, lead, trigger, to, what=what, priority=priority, depends_on=depends_on, offer=offer)
    return Handed(root=thread or asked, trigger=trigger, task_id=task_id)


async def work_of(world: World, agent: Agent) -> Trigger:
    """The one message or task that there is for an agent; its news is taken note of and finished."""
    triggers = await world.poll(agent)
    for trigger in triggers:
        if not is_work(trigger):
            await world.services.work.release(agent, [trigger.lease_token])
    (found,) = (trigger for trigger in triggers if is_work(trigger))
    return found


def is_work(trigger: Trigger) -> bool:
    """Whether a trigger is no notice."""
    return trigger.kind in (TriggerKind.SLACK_INBOX_MESSAGE, TriggerKind.TASK_ASSIGNED)


async def news_of(world: World, agent: Agent) -> list[str]:
    """The kinds of what an agent is told, in order; there must be no work for it."""
    triggers = await world.poll(agent)
    assert not any(is_work(trigger) for trigger in triggers)
    return [str(trigger.kind) for trigger in triggers]


async def task_of(world: World, task_id: str) -> Task:
    task = await world.database.read(tasks.get, task_id)
    assert task is not None
    return task


async def status_of(world: World, task_id: str) -> TaskStatus:
    return (await task_of(world, task_id)).status


async def thread_of(world: World, root: SlackMessage) -> Thread:
    thread = await world.database.read(threads.find, ME.team, root.channel, root.root_ts)
    assert thread is not None
    return thread


async def owner_of(world: World, root: SlackMessage) -> str | None:
    return (await thread_of(world, root)).owner_id


async def history_of(world: World, subject: str) -> list[str]:
    """What has happened to an inbox_message, a task or a thread, in order."""
    rows = await world.rows("SELECT subject, change FROM history ORDER BY seq")
    return [str(row["change"]) for row in rows if row["subject"] == subject]


async def complete(world: World, worker: Agent, run: Trigger, result: str = "42", reply: str | None = None) -> None:
    assert run.task is not None
    await world.services.task_work.complete(holding(run, worker), run.task.id, result, reply)
