"""Notices that reach nobody: tried five times, then dropped, and what they asked for is settled without their agent."""

from __future__ import annotations

from swarm.domain.model.notices import NOTICE_ATTEMPTS, NoticeKind, NoticeStep
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.operating_policy import OperatingPolicy
from swarm.services.rules import task_ends
from swarm.services.rules.system_messages import post_message
from swarm.store import deliveries, history, tasks
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import notices
from swarm.store.inbox.leases import Lease
from swarm.store.inbox.notices import Notice
from swarm.store.tasks import Task
from swarm.store.threads import threads


def lose_notice(tx: Transaction, lease: Lease, reason: str, conduct: OperatingPolicy) -> None:
    """A run had a notice and fell silent or failed: it comes again, or is dropped and recorded."""
    if lease.attempt < NOTICE_ATTEMPTS:
        if notices.move(tx, NoticeStep.LOSE, lease.trigger_id):
            tx.wake(lease.agent_id)
        return
    notice = notices.get(tx, lease.trigger_id)
    if notice and notices.move(tx, NoticeStep.DROP, notice.id):
        history.record(tx, "notice.drop", notice.id, thread_id=lease.thread_id, agent_id=lease.agent_id, reason=reason)
        _settle(tx, notice, conduct)


def _settle(tx: Transaction, notice: Notice, conduct: OperatingPolicy) -> None:
    """Nobody acted on what a notice asked for, and people must not wait for ever."""
    task = tasks.locked(tx, notice.task_id) if notice.task_id else None
    if task is None:
        return
    if notice.kind is NoticeKind.TASK_OFFERED:
        task_ends.decline(tx, task, "the offer was not answered")
    elif notice.kind is NoticeKind.TASK_RETURNED and task.status is TaskStatus.UNASSIGNED:
        task_ends.cancel(tx, task, "because its worker is gone and nobody took it over", conduct)
    elif notice.kind is NoticeKind.TASK_FINISHED:
        _tell_result(tx, task)


def tell_result(tx: Transaction, task_id: str) -> None:
    """Nobody is there to tell people what came of a task, so the coordinator does, unless somebody has."""
    task = tasks.locked(tx, task_id)
    if task:
        _tell_result(tx, task)


def _tell_result(tx: Transaction, task: Task) -> None:
    thread = threads.get(tx, task.thread_id) if task.thread_id else None
    if thread is None or task.status is not TaskStatus.COMPLETED or not task.result:
        return
    if not deliveries.posted_for_task(tx, task.id, task.ended_at or 0):
        post_message(tx, thread, task.result, agent_id=task.agent_id, task_id=task.id)
