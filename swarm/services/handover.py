"""Ownership of threads, as it changes hands: the new owner gets what the old one has not read."""

from __future__ import annotations

from swarm.domain.routing import Roster
from swarm.domain.tasks import ACTIVE_STATUSES
from swarm.domain.threads import Thread
from swarm.store import inbox, task_queries, tasks, threads
from swarm.store.tasks import Task
from swarm.store.transaction import Transaction


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


def hand_back(tx: Transaction, thread: Thread, task: Task, roster: Roster, reason: str) -> None:
    """Return a thread to who delegated the task, unless it has moved on since. The thread must be locked.

    Compare and set on the epoch: an older task cannot take the thread from a newer one. A part of a task returns it to
    that task, if it still has an agent, so that this one can return it in its turn; else to who delegated the whole. A
    delegator that is gone is stood in for by the default lead.
    """
    if task.epoch is None or thread.epoch != task.epoch or thread.owner_id != task.agent_id:
        return
    above = [other for other in task_queries.ancestors(tx, task.parent_id) if other.thread_id == thread.id]
    whole = next((other for other in above if other.epoch is not None and other.status in ACTIVE_STATUSES), None)
    if whole and roster.by_id(whole.agent_id):
        assert whole.agent_id is not None  # somebody of the roster
        epoch = hand_over_for(tx, thread, whole, whole.agent_id, reason)
        tasks.give(tx, whole, whole.agent_id, epoch, reason)
        return
    delegator = roster.by_id([task, *above][-1].created_by) or roster.default_lead
    if delegator:
        hand_over(tx, thread, delegator.id, reason)


def _bring_along(tx: Transaction, thread: Thread, owner_id: str, reason: str, task_id: str | None) -> None:
    if thread.owner_id and thread.owner_id != owner_id:
        for entry in inbox.unread_in_thread(tx, thread.owner_id, thread.id):
            inbox.readdress(tx, entry, owner_id, reason, task_id=task_id)
