"""Changes tasks without their agents: resolved or failed dependencies, ended delays and offers, cancelled parents,
offline workers.

Each task has its own transaction, and each change may be repeated safely.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from swarm.domain.model.tasks import UNSUCCESSFUL, TaskStatus, TaskStep
from swarm.domain.policy.operating import OperatingPolicy
from swarm.services.ground.guarded import attempt
from swarm.services.speaking.participants import offline_since, read_roster
from swarm.services.speaking.system_messages import tell_queued
from swarm.services.work import task_ends
from swarm.services.work.fencing import lock_task
from swarm.store import task_queries, tasks
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.tasks import Task
from swarm.store.threads import threads

BATCH: Final = 200

_UNSUCCESSFUL: Final = {
    TaskStatus.FAILED: "has failed",
    TaskStatus.DECLINED: "was declined",
    TaskStatus.CANCELLED: "was cancelled",
    TaskStatus.DEAD: "was given up",
}

Care = Callable[[Transaction, Task, OperatingPolicy], None]


async def tend_tasks(database: Database, operating_policy: OperatingPolicy) -> None:
    """Processes all due changes once. Failures are logged, and retried in the next round."""
    for care, task_ids in await database.read(to_do, operating_policy):
        for task_id in task_ids:
            await attempt(database.write(_tend, task_id, care, operating_policy), "tend_tasks", task=task_id)


def _tend(tx: Transaction, task_id: str, care: Care, operating_policy: OperatingPolicy) -> None:
    """Locks the rows that may change, and checks the status again."""
    task = lock_task(tx, task_id)
    if task:
        care(tx, task, operating_policy)


def to_do(tx: Transaction, operating_policy: OperatingPolicy) -> list[tuple[Care, list[str]]]:
    """Returns the due changes: what to do, and the ids of the tasks."""
    gone_since = offline_since(tx, operating_policy)
    return [
        (settle, task_queries.settled(tx, BATCH)),
        (_cancel_orphan, task_queries.orphans(tx, BATCH)),
        (_end_delay, task_queries.delayed(tx, BATCH)),
        (end_offer, task_queries.offers_over(tx, BATCH)),
        (take_from_absent, task_queries.abandoned(tx, gone_since, BATCH)),
    ]


def settle(tx: Transaction, task: Task, operating_policy: OperatingPolicy) -> None:
    """Makes a blocked task due after its dependencies are completed, or fails the task if a dependency was
    unsuccessful.
    """
    if task.status is not TaskStatus.BLOCKED:
        return
    others = task_queries.dependencies(tx, task.id)
    hopeless = next((other for other in others if other.status in UNSUCCESSFUL), None)
    if hopeless:
        why = f"it depends on “{hopeless.title}”, which {_UNSUCCESSFUL[hopeless.status]}"
        task_ends.break_off(tx, task, f"{why}: {hopeless.error}" if hopeless.error else why, operating_policy)
    elif all(other.status is TaskStatus.COMPLETED for other in others):
        step = TaskStep.UNBLOCK if task.agent_id else TaskStep.FREE
        tasks.move(tx, step, task, reason="all its dependencies are completed")


def _cancel_orphan(tx: Transaction, task: Task, operating_policy: OperatingPolicy) -> None:
    parent = tasks.get(tx, task.parent_id) if task.parent_id else None
    if parent and parent.status is TaskStatus.CANCELLED:
        task_ends.cancel(tx, task, f"with “{parent.title}”, which it is a part of", operating_policy)


def _end_delay(tx: Transaction, task: Task, operating_policy: OperatingPolicy) -> None:
    """Makes a task due again after the delay of its release."""
    tasks.end_delay(tx, task)


def end_offer(tx: Transaction, task: Task, operating_policy: OperatingPolicy) -> None:
    """Declines an unanswered offer: the message is returned to the offering agent."""
    task_ends.decline(tx, task, "the offer was not answered in time")


def take_from_absent(tx: Transaction, task: Task, operating_policy: OperatingPolicy) -> None:
    """Unassigns the tasks of an offline or removed worker; an offer to such a worker counts as declined."""
    roster = read_roster(tx, operating_policy)
    agent = roster.by_id(task.agent_id)
    if agent and agent.online:
        return
    why = f"{agent.name} is offline" if agent else "its agent was removed"
    if task.status is TaskStatus.OFFERED:
        task_ends.decline(tx, task, why)
        return
    task_ends.unassign(tx, task, why, operating_policy)
    thread = threads.get(tx, task.thread_id) if task.thread_id else None
    if thread and not any(lead.online for lead in roster.agents if lead.role == "lead"):
        tell_queued(tx, thread, roster, [roster.default_lead] if roster.default_lead else [])
