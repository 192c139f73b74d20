"""Threads of tasks: who owns them as tasks begin and end, and what people say in them meanwhile.

A thread that changes hands brings what its old owner has not read. A running task holds its thread, so a message would
wait for the task's end. Therefore its agent gets it as a notice, by the next poll or with the next renewal, and answers
it under the task's lease (a follow-up). A task that waits for a person goes on.
"""

from __future__ import annotations

from swarm.domain.model.agents import Role
from swarm.domain.model.inbox import InboxStatus, InboxStep, NoticeKind
from swarm.domain.model.tasks import ACTIVE_STATUSES, TaskStatus, TaskStep
from swarm.domain.model.threads import Thread
from swarm.domain.roster import Roster
from swarm.store import task_queries, tasks
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, notices
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.runs import runs
from swarm.store.tasks import Task
from swarm.store.threads import threads


def hand_over(tx: Transaction, thread: Thread, owner_id: str, reason: str) -> None:
    """Make an agent the owner. The thread must be locked."""
    threads.hand_over(tx, thread, owner_id, reason)
    _bring_along(tx, thread, owner_id, reason, None)


def hand_over_for(tx: Transaction, thread: Thread, task: Task, agent_id: str, reason: str) -> int:
    """Make the agent of a task the owner, with a new epoch, which is returned. The thread must be locked.

    Also where it owns the thread already: what an older task of its own does later must not end this ownership.
    """
    epoch = threads.hand_over(tx, thread, agent_id, reason, anew=True)
    _bring_along(tx, thread, agent_id, reason, task.id)
    return epoch


def take_if_free(tx: Transaction, thread: Thread, task: Task, agent_id: str, roster: Roster, reason: str) -> int | None:
    """Make the agent of a task that was given before the owner, unless somebody else has the thread now; the new epoch,
    or None. The thread must be locked.

    Free is a thread of nobody, of who created the task, or of a lead. A newer task of another worker keeps it, and a
    worker whom a person has named.
    """
    return hand_over_for(tx, thread, task, agent_id, reason) if _is_free(tx, thread, task, agent_id, roster) else None


def _is_free(tx: Transaction, thread: Thread, task: Task, agent_id: str, roster: Roster) -> bool:
    owner = roster.by_id(thread.owner_id)
    if owner is None or owner.id == task.created_by or owner.role is Role.LEAD:
        return True
    holder = task_queries.owning_task(tx, thread)
    return owner.id == agent_id and (holder is None or holder.id == task.id)


def hand_back(tx: Transaction, thread: Thread, task: Task, roster: Roster, reason: str) -> None:
    """Return a thread to who delegated the task, unless it has moved on since. The thread must be locked.

    Compare and set on the epoch: an older task cannot take the thread from a newer one. A part of a task returns it to
    that task, if it still has an agent, so that this one can return it in its turn; else to who delegated the whole. A
    delegator that is gone is stood in for by the default lead.
    """
    if task.status is TaskStatus.OFFERED:  # its epoch is the one before it would get the thread
        return
    if task.epoch is None or thread.epoch != task.epoch or thread.owner_id != task.agent_id:
        return
    above = [other for other in task_queries.ancestors(tx, task.parent_id) if other.thread_id == thread.id]
    whole = _to_return_to(tx, above, roster)
    if whole:
        assert whole.agent_id is not None  # somebody of the roster
        epoch = hand_over_for(tx, thread, whole, whole.agent_id, reason)
        tasks.give(tx, whole, whole.agent_id, epoch, reason)
        return
    delegator = roster.by_id([task, *above][-1].created_by) or roster.default_lead
    if delegator:
        hand_over(tx, thread, delegator.id, reason)


def _to_return_to(tx: Transaction, above: list[Task], roster: Roster) -> Task | None:
    """The first task above that had the thread and is still worked on. Locked, as it stands before messages and heads
    in the order of locks.
    """
    for found in above:
        if found.epoch is not None and found.status in ACTIVE_STATUSES:
            whole = tasks.locked(tx, found.id)
            if whole and whole.status in ACTIVE_STATUSES and roster.by_id(whole.agent_id):
                return whole
    return None


def _bring_along(tx: Transaction, thread: Thread, owner_id: str, reason: str, task_id: str | None) -> None:
    if thread.owner_id and thread.owner_id != owner_id:
        for entry in inbox.unread_in_thread(tx, thread.owner_id, thread.id):
            inbox.readdress(tx, entry, owner_id, reason, task_id=task_id)


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
