"""Ownership of threads, as it changes hands: the new owner gets what the old one has not read."""

from __future__ import annotations

from swarm.domain.model.agents import Role
from swarm.domain.model.tasks import ACTIVE_STATUSES, TaskStatus
from swarm.domain.model.threads import Thread
from swarm.domain.roster import Roster
from swarm.store import task_queries, tasks
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
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
