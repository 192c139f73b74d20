"""Follow-ups: what people say in the thread of a task while its agent has it.

A running task holds the thread, so a message would wait for its end. Therefore its agent gets it as a notice, by the
next poll or with the next renewal, and answers it under the task's lease. A task that waits for a person goes on.
"""

from __future__ import annotations

from swarm.domain.model.inbox import InboxStatus, InboxStep
from swarm.domain.model.notices import NoticeKind
from swarm.domain.model.tasks import TaskStatus, TaskStep
from swarm.domain.model.threads import Thread
from swarm.store import task_queries, tasks
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, notices
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.runs import runs
from swarm.store.tasks import Task


def follow_up(tx: Transaction, task: Task, entry: InboxMessage) -> None:
    """Tell the agent of a running task of a message, unless that news waits for it already."""
    if task.agent_id and not notices.waits(tx, NoticeKind.TASK_FOLLOW_UP, task.agent_id, entry.id):
        notices.add(
            tx,
            NoticeKind.TASK_FOLLOW_UP,
            task.agent_id,
            thread_id=entry.thread_id,
            inbox_message_id=entry.id,
            task_id=task.id,
        )


def stored(tx: Transaction, entry_id: str, task: Task | None) -> None:
    """A message has come for an agent, which has ``task`` in the thread: tell it if that runs."""
    # Read again: a claim may have begun to run it before the entry, and with it the head, was there to stop that.
    current = tasks.get(tx, task.id) if task else None
    if current and current.status is TaskStatus.IN_PROGRESS:
        entry = inbox.get(tx, entry_id)
        assert entry is not None  # it was stored a moment ago
        follow_up(tx, current, entry)


def answered_before(tx: Transaction, thread: Thread, agent_id: str) -> None:
    """An agent has asked something while a message of people waited for it unread: they may have answered already."""
    if inbox.unread_in_thread(tx, agent_id, thread.id):
        answer(tx, thread)


def concerned(tx: Transaction, entry: InboxMessage) -> tuple[str | None, str | None]:
    """Who works on a message at this moment, and so must hear that it has changed: the agent, and the task as which
    the message was delegated, if it was.
    """
    if entry.status in (InboxStatus.CLAIMED, InboxStatus.WAITING):
        return entry.agent_id, None
    task = tasks.get(tx, entry.task_id) if entry.task_id and entry.status is InboxStatus.DELEGATED else None
    if task and task.ended_at is None:
        return task.agent_id, task.id
    return None, None


def answer(tx: Transaction, thread: Thread) -> None:
    """A person has spoken: what anybody asked about in this thread is due again, whoever has the thread meanwhile."""
    for task in task_queries.waiting_in_thread(tx, thread.id):
        tasks.move(tx, TaskStep.ANSWER, task, reason="somebody answered in the thread")
    for entry in inbox.waiting_in_thread(tx, thread.id):
        inbox.move(tx, InboxStep.ANSWER, entry, reason="somebody answered in the thread")
    runs.supersede_waiting(tx, thread.id)
