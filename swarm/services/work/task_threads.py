"""Maintains the ownership of threads as tasks start and end, and handles people's messages in the thread of a task.

When a thread changes owners, the unread messages of the old owner move with it, except those whose authors may not use
the new owner. A running task occupies its thread, so
a new message would have to wait for the end of the task. Therefore the task's agent gets the message as a notice, with
the next poll or renewal, and answers under the task's lease (a follow-up). A task that waits for a person continues.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from swarm.domain.model.agents import Role
from swarm.domain.model.inbox import InboxStatus, InboxStep, NoticeKind
from swarm.domain.model.tasks import ACTIVE_STATUSES, TaskStatus, TaskStep
from swarm.domain.model.threads import Thread
from swarm.domain.policy.access import AgentAccess, may_use
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.policy.roster import Roster
from swarm.services.speaking.participants import read_roster
from swarm.store import agents, requests, task_queries, tasks
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, notices
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.tasks import Task
from swarm.store.threads import threads, transcript


def hand_over(tx: Transaction, thread: Thread, owner_id: str, reason: str, operating_policy: OperatingPolicy) -> None:
    """Makes an agent the owner. The thread must be locked."""
    hand_over_all(tx, [(thread, owner_id, reason)], operating_policy)


def hand_over_all(
    tx: Transaction, owners: Sequence[tuple[Thread, str, str]], operating_policy: OperatingPolicy
) -> None:
    """Makes agents the owners of threads, each given with its new owner and the reason. The threads must be locked."""
    changed = [(thread.id, owner_id, reason) for thread, owner_id, reason in owners if thread.owner_id != owner_id]
    threads.own_all(tx, changed)
    for thread, owner_id, reason in owners:
        _bring_along(tx, thread, owner_id, reason, None, operating_policy)


def hand_over_for(
    tx: Transaction, thread: Thread, task: Task, agent_id: str, reason: str, operating_policy: OperatingPolicy
) -> int:
    """Makes the agent of a task the owner and returns the new epoch. The thread must be locked.

    The epoch also changes if the agent already owns the thread, because later steps of its older tasks must not end
    this ownership.
    """
    epoch = threads.hand_over(tx, thread, agent_id, reason, anew=True)
    _bring_along(tx, thread, agent_id, reason, task.id, operating_policy)
    return epoch


def take_if_free(
    tx: Transaction, thread: Thread, task: Task, agent_id: str, reason: str, operating_policy: OperatingPolicy
) -> int | None:
    """Makes the agent of an existing task the owner, unless the thread is taken. The thread must be locked.

    A thread is free if it has no owner, or if its owner is the creator of the task or a lead. A newer task of another
    worker keeps the thread, and so does a worker that a person has named. Returns the new epoch, or None.
    """
    if not _is_free(tx, thread, task, agent_id, read_roster(tx, operating_policy)):
        return None
    return hand_over_for(tx, thread, task, agent_id, reason, operating_policy)


def _is_free(tx: Transaction, thread: Thread, task: Task, agent_id: str, roster: Roster) -> bool:
    owner = roster.by_id(thread.owner_id)
    if owner is None or owner.id == task.created_by or owner.role is Role.LEAD:
        return True
    holder = task_queries.owning_task(tx, thread)
    return owner.id == agent_id and (holder is None or holder.id == task.id)


def hand_back(tx: Transaction, thread: Thread, task: Task, reason: str, operating_policy: OperatingPolicy) -> None:
    """Returns a thread to the delegator of the task, unless the thread has changed owners since. The thread must be
    locked.

    This is a compare-and-set on the epoch: an older task cannot take the thread from a newer one. A subtask returns the
    thread to its parent task if the parent still has an agent, so that the parent can return the thread in turn;
    otherwise to the delegator of the top-level task. The default lead replaces a removed delegator.
    """
    if task.status is TaskStatus.OFFERED:  # its epoch precedes the handover of the thread
        return
    if task.epoch is None or thread.epoch != task.epoch or thread.owner_id != task.agent_id:
        return
    roster = read_roster(tx, operating_policy)
    above = [other for other in task_queries.ancestors(tx, task.parent_id) if other.thread_id == thread.id]
    whole = _to_return_to(tx, above, roster)
    if whole:
        assert whole.agent_id is not None  # an agent in the roster
        epoch = hand_over_for(tx, thread, whole, whole.agent_id, reason, operating_policy)
        tasks.give(tx, whole, whole.agent_id, epoch, reason)
        return
    delegator = roster.by_id([task, *above][-1].created_by) or roster.default_lead
    if delegator:
        hand_over(tx, thread, delegator.id, reason, operating_policy)


def _to_return_to(tx: Transaction, above: list[Task], roster: Roster) -> Task | None:
    """Returns the first ancestor that owned the thread and is still active.

    The task is locked here because tasks precede messages and queue heads in the lock order.
    """
    for found in above:
        if found.epoch is not None and found.status in ACTIVE_STATUSES:
            whole = tasks.locked(tx, found.id)
            if whole and whole.status in ACTIVE_STATUSES and roster.by_id(whole.agent_id):
                return whole
    return None


def _bring_along(
    tx: Transaction,
    thread: Thread,
    owner_id: str,
    reason: str,
    task_id: str | None,
    operating_policy: OperatingPolicy,
) -> None:
    if thread.owner_id and thread.owner_id != owner_id:
        limit = _limit_of(tx, owner_id, operating_policy)
        for inbox_message in inbox.unread_in_thread(tx, thread.owner_id, thread.id):
            if limit is None or _may_follow(tx, inbox_message, limit):
                inbox.readdress(tx, inbox_message, owner_id, reason, task_id=task_id)


def _limit_of(tx: Transaction, agent_id: str, operating_policy: OperatingPolicy) -> AgentAccess | None:
    """Returns the limits on the use of an agent; None if there are none."""
    agent = agents.by_id(tx, agent_id) if operating_policy.agent_access else None
    return operating_policy.agent_access.get(agent.name) if agent else None


def _may_follow(tx: Transaction, inbox_message: InboxMessage, limit: AgentAccess) -> bool:
    """Whether an unread message may go to another agent. Slack cannot be asked here, so a message whose author's lists
    need facts from Slack stays with its agent.
    """
    author = transcript.author_of(tx, inbox_message.team, inbox_message.channel, inbox_message.ts)
    return author is not None and may_use(limit, author, inbox_message.channel)


def follow_up(tx: Transaction, task: Task, inbox_message: InboxMessage) -> None:
    """Adds a follow-up notice about a message for the agent of a running task, unless an identical notice is
    waiting.
    """
    if task.agent_id and not notices.waits(tx, NoticeKind.TASK_FOLLOW_UP, task.agent_id, inbox_message.id):
        notices.add(
            tx,
            NoticeKind.TASK_FOLLOW_UP,
            task.agent_id,
            thread_id=inbox_message.thread_id,
            inbox_message_id=inbox_message.id,
            task_id=task.id,
        )


def stored(tx: Transaction, inbox_message_id: str, task: Task | None) -> None:
    """Adds a follow-up notice for a new message in the thread if the agent's task ``task`` is running."""
    # Read again, because a claim may have started the task before the inbox message and its queue head existed.
    current = tasks.get(tx, task.id) if task else None
    if current and current.status is TaskStatus.IN_PROGRESS:
        inbox_message = inbox.get(tx, inbox_message_id)
        assert inbox_message is not None  # just stored
        follow_up(tx, current, inbox_message)


def answered_before(tx: Transaction, thread: Thread, agent_id: str) -> None:
    """Treats an unread message of a person in the thread as the answer to the question that the agent has just
    asked.
    """
    if inbox.unread_in_thread(tx, agent_id, thread.id):
        answer(tx, [thread.id])


def concerned(tx: Transaction, inbox_message: InboxMessage) -> tuple[str | None, str | None]:
    """Returns the agent that currently works on a message, and the task if the message was delegated; each is None if
    missing.
    """
    if inbox_message.status in (InboxStatus.CLAIMED, InboxStatus.WAITING):
        return inbox_message.agent_id, None
    task = (
        tasks.get(tx, inbox_message.task_id)
        if inbox_message.task_id and inbox_message.status is InboxStatus.DELEGATED
        else None
    )
    if task and task.ended_at is None:
        return task.agent_id, task.id
    return None, None


def answer(tx: Transaction, thread_ids: Collection[str]) -> None:
    """Makes all tasks and messages that wait for an answer in these threads due again, whichever agents own them now.

    Work that waits for the decision on a request is not answered by a message. The threads must be locked.
    """
    for thread_id in threads.awaiting_answer(tx, thread_ids):
        asking = requests.open_in_thread(tx, thread_id)
        undecided = {work_id for request in asking for work_id in (request.task_id, *request.inbox_message_ids)}
        for task in task_queries.waiting_in_thread(tx, thread_id):
            if task.id not in undecided:
                tasks.move(tx, TaskStep.ANSWER, task, reason="somebody answered in the thread")
        for inbox_message in inbox.waiting_in_thread(tx, thread_id):
            if inbox_message.id not in undecided:
                inbox.move(tx, InboxStep.ANSWER, inbox_message, reason="somebody answered in the thread")
