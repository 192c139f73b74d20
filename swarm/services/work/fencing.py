"""Fencing: whether a run may still act on an inbox message or a task, and which threads an agent may see.

A run proves its right with the token of its lease. A run without a token may act only if the work was leased just once;
otherwise a late run could act under the lease of its successor.

Two kinds of runs act on a message without having claimed it. The run of a task answers follow-ups to the task, which
are added to its lease. A run with a notice may reply about the subject of the notice.

A thread is identified by an inbox message, a task or its own id, and is visible to every agent that participates in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from swarm.domain.errors import Conflict, Invalid, LeaseLost, NotFound, Withdrawn
from swarm.domain.model.agents import Agent
from swarm.domain.model.inbox import FOR_CREATORS, InboxStatus, InboxStep
from swarm.domain.model.leases import LeaseEnd, LeaseKind
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.model.threads import Thread
from swarm.store import history, tasks
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, leases, notices
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.inbox.leases import Lease
from swarm.store.tasks import Task
from swarm.store.threads import threads, transcript

STOPPED_BY: Final = "stopped by <@{person}>"
"""Why a message was dismissed that a person has stopped."""

_STOPPED = STOPPED_BY.partition(" ")[0]
_DISMISSED = f"inbox.{InboxStep.DISMISS}"
_POST_NOTHING = "Stop working on it, and post nothing more."
_POLL_FIRST = "Take it with GET /poll first; the answer carries the lease token."
_ENDED_BY_OTHERS = frozenset({TaskStatus.CANCELLED, TaskStatus.DECLINED, TaskStatus.DEAD})
_ACCEPT_FIRST = "Take it with accept-task, or return it with decline-task."
NAME_LEASE = "Pass the lease token of your own run as lease_token or in the header X-Swarm-Lease."


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthorizedMessage:
    """The right of a run to act on an inbox message: all rows locked, all conditions checked."""

    inbox_message: InboxMessage
    thread: Thread
    lease: Lease


@dataclass(frozen=True, kw_only=True, slots=True)
class AuthorizedTask:
    """The right of a run to act on a task: all rows locked, all conditions checked."""

    task: Task
    thread: Thread | None
    lease: Lease


@dataclass(frozen=True, kw_only=True, slots=True)
class ThreadReference:
    """A reference to a thread by exactly one of three ids."""

    inbox_message_id: str | None = None
    task_id: str | None = None
    thread_id: str | None = None

    def __post_init__(self) -> None:
        given = [name for name, value in self.named.items() if value is not None]
        if len(given) != 1:
            raise Invalid(
                f"Specify one thread: {', '.join(given) or 'nothing'} was given, one id is expected.",
                fields=dict.fromkeys(self.named, "exactly one of these"),
            )

    @property
    def named(self) -> dict[str, str | None]:
        """The three ids by name."""
        return {"inbox_message_id": self.inbox_message_id, "task_id": self.task_id, "thread_id": self.thread_id}

    @property
    def query(self) -> str:
        """The reference as a query string."""
        return "&".join(f"{name}={value}" for name, value in self.named.items() if value is not None)


def authorize_message(tx: Transaction, agent: Agent, inbox_message_id: str, token: str | None) -> AuthorizedMessage:
    """Returns the inbox message for a run that may act on it.

    Raises NotFound for an unknown message or another agent's message, Withdrawn for a message deleted in Slack, and
    LeaseLost without a valid lease. A lease that ended because all its work was answered still lets its run add to the
    answer.
    """
    found = inbox.get(tx, inbox_message_id)
    if found and found.agent_id != agent.id and _had(tx, agent, found, token):
        raise LeaseLost(hint="The message has gone to another agent.")
    if found is None or found.agent_id != agent.id:
        raise NotFound(f"You have no inbox message '{inbox_message_id}'.", hint="Use an id from your own poll or tray.")
    thread = threads.locked(tx, found.thread_id)
    lease = _of_task_run(tx, agent, found, token) or _named(tx, agent, found.lease_token, token)
    inbox_message = inbox.locked(tx, inbox_message_id)  # after the lease: finish uses this lock order
    assert inbox_message is not None  # inbox messages are never removed
    if inbox_message.status is InboxStatus.WITHDRAWN:
        raise Withdrawn(hint="Do not reply; finish the lease.")
    if lease and inbox_message.status is InboxStatus.DELEGATED and _told_of(tx, lease, inbox_message):
        return AuthorizedMessage(inbox_message=inbox_message, thread=thread, lease=lease)
    if lease and lease.task_id and inbox_message.status is InboxStatus.UNREAD:
        inbox_message = _draw_in(tx, inbox_message, lease)
    held = _checked(tx, inbox_message, token, lease)
    if inbox_message.status is InboxStatus.UNREAD:
        raise Conflict(
            "Somebody has answered your question, so this inbox message is unread again.",
            hint="Finish your lease; the next poll returns the message together with the answer.",
        )
    return AuthorizedMessage(inbox_message=inbox_message, thread=thread, lease=held)


def authorize_task(tx: Transaction, agent: Agent, task_id: str, token: str | None) -> AuthorizedTask:
    """Returns the task for a run that may act on it.

    Raises NotFound for an unknown task or another agent's task, LeaseLost without a valid lease, and Conflict with the
    reason if the task has ended.
    """
    found = tasks.get(tx, task_id)
    if found and found.agent_id != agent.id and _had_task(tx, agent, found, token):
        raise LeaseLost(hint="The task is not yours, or no longer yours.")
    if found and found.agent_id != agent.id and found.created_by == agent.id:
        raise Conflict(
            "You have created this task, but it is not yours to work on.",
            hint="When task_finished reports its end, you may reply about it under the lease of that notice.",
        )
    if found is None or found.agent_id != agent.id:
        raise NotFound(f"You have no task '{task_id}'.", hint="Use an id from your own poll, tray or list-tasks.")
    thread = threads.locked(tx, found.thread_id) if found.thread_id else None
    lease = _named(tx, agent, found.lease_token, token)
    task = tasks.locked(tx, task_id)
    assert task is not None  # tasks are never removed
    return AuthorizedTask(task=task, thread=thread, lease=_checked_task(tx, task, token, lease))


def may_reply_about(tx: Transaction, agent: Agent, task: Task, token: str | None) -> bool:
    """Whether a run has a valid notice about the end of a task, as the task's creator or on the creator's behalf."""
    if task.thread_id:
        threads.locked(tx, task.thread_id)  # before the lease
    if token is not None:
        lease = leases.get(tx, token, agent.id)
        return lease is not None and _tells_of_task(tx, lease, task)
    told = (lease for lease in leases.of_agent(tx, agent.id) if lease.attempt == 1)
    return any(_tells_of_task(tx, lease, task) for lease in told)


def check_run(tx: Transaction, agent: Agent, token: str | None) -> None:
    """Raises LeaseLost for any call of a run whose lease belongs to another run."""
    lease = leases.peek(tx, token) if token is not None else None  # not locked: threads are locked before leases
    own = lease is not None and lease.agent_id == agent.id and _lets_act(lease)
    if token is not None and not own:
        raise LeaseLost(hint="The next poll returns any remaining work.")


def thread_of(tx: Transaction, agent: Agent, about: ThreadReference) -> Thread:
    """Returns the thread without locking it. Raises NotFound for unknown threads and for threads of other
    agents alike.
    """
    thread_id = _thread_id(tx, agent, about)
    thread = threads.get(tx, thread_id) if thread_id else None
    if thread is None or not transcript.takes_part(tx, agent.id, thread.id):
        raise NotFound("You have no such thread.", hint="Use an id from your own poll or tray.")
    return thread


def lock_task(tx: Transaction, task_id: str) -> Task | None:
    """Locks the task after its thread and its lease, in the general lock order, and returns it."""
    found = tasks.get(tx, task_id)
    if found and found.thread_id:
        threads.locked(tx, found.thread_id)
    if found and found.lease_token:
        leases.by_token(tx, found.lease_token)
    return tasks.locked(tx, task_id)


def _thread_id(tx: Transaction, agent: Agent, about: ThreadReference) -> str | None:
    if about.inbox_message_id is not None:
        inbox_message = inbox.get(tx, about.inbox_message_id)
        return inbox_message.thread_id if inbox_message else None
    if about.task_id is not None:
        return transcript.thread_of_task(tx, agent.id, about.task_id)
    return about.thread_id


def _named(tx: Transaction, agent: Agent, own_token: str | None, token: str | None) -> Lease | None:
    """Locks and returns the lease with the given token, or the last lease of the work without a token."""
    return leases.get(tx, (own_token or "") if token is None else token, agent.id)


def _of_task_run(tx: Transaction, agent: Agent, inbox_message: InboxMessage, token: str | None) -> Lease | None:
    """Returns the lease of the running task for an unread follow-up if the caller is the task's run."""
    task = (
        tasks.get(tx, inbox_message.task_id)
        if inbox_message.task_id and inbox_message.status is InboxStatus.UNREAD
        else None
    )
    if task is None or task.agent_id != agent.id or task.status is not TaskStatus.IN_PROGRESS or not task.lease_token:
        return None
    if token is None and task.claims > 1:
        return None
    if token not in (None, task.lease_token):
        # The token may belong to the notice about the follow-up, but only while that lease is valid.
        named = leases.get(tx, token, agent.id)
        if named is None or not leases.holds(named) or not _told_of(tx, named, inbox_message):
            return None
    lease = leases.get(tx, task.lease_token, agent.id)
    return lease if leases.holds(lease) else None


def _draw_in(tx: Transaction, inbox_message: InboxMessage, lease: Lease) -> InboxMessage:
    """Adds a follow-up to the lease of the task's run: it is answered or returned with that lease."""
    claimed = inbox.claim(tx, [(inbox_message, lease.token)])
    if not claimed:
        return inbox_message
    leases.join(tx, [(lease.token, inbox_message.id)])
    inbox.refresh_queue_head(tx, inbox_message)
    return replace(claimed[0], claims=1)  # the claims of the task count instead


def _told_of(tx: Transaction, lease: Lease, inbox_message: InboxMessage) -> bool:
    """Whether a lease covers a notice about the inbox message, or about the task it was delegated to."""
    notice = notices.get(tx, lease.trigger_id) if lease.kind is LeaseKind.NOTICE else None
    if notice is None or not leases.holds(lease):
        return False
    return notice.inbox_message_id == inbox_message.id or (
        notice.task_id is not None and notice.task_id == inbox_message.task_id
    )


def _tells_of_task(tx: Transaction, lease: Lease, task: Task) -> bool:
    if lease.kind is not LeaseKind.NOTICE or not leases.holds(lease):
        return False
    notice = notices.get(tx, lease.trigger_id)
    if notice is None or notice.task_id != task.id:
        return False
    return task.created_by == lease.agent_id or notice.kind in FOR_CREATORS


def _had(tx: Transaction, agent: Agent, inbox_message: InboxMessage, token: str | None) -> bool:
    """Whether the token belongs to an earlier lease of the agent on the inbox message."""
    lease = leases.get(tx, token or "", agent.id)
    return lease is not None and inbox_message.id in (member.id for member in inbox.members(tx, lease.token))


def _had_task(tx: Transaction, agent: Agent, task: Task, token: str | None) -> bool:
    """Whether the token belongs to an earlier lease of the agent on the task, or on a notice about the task."""
    lease = leases.get(tx, token or "", agent.id)
    if lease is None or lease.task_id == task.id:
        return lease is not None
    notice = notices.get(tx, lease.trigger_id) if lease.kind is LeaseKind.NOTICE else None
    return notice is not None and notice.task_id == task.id


def _checked(tx: Transaction, inbox_message: InboxMessage, token: str | None, lease: Lease | None) -> Lease:
    """Returns the lease if it covers the message and lets its run act."""
    if inbox_message.claims == 0:
        raise Conflict("This inbox message is not leased to you yet.", hint=_POLL_FIRST)
    if how := _stopped(tx, inbox_message):
        raise Conflict(f"This inbox message was {how}.", hint=_POST_NOTHING)
    return _current(tx, inbox_message, "inbox message", token, lease)


def _stopped(tx: Transaction, inbox_message: InboxMessage) -> str | None:
    """Returns by whom or why a message was stopped; None if it was not."""
    if inbox_message.status is not InboxStatus.DISMISSED:
        return None
    reasons = [row["reason"] for row in history.of_subject(tx, inbox_message.id) if row["change"] == _DISMISSED]
    return str(reasons[-1]) if reasons and str(reasons[-1]).startswith(_STOPPED) else None


def _checked_task(tx: Transaction, task: Task, token: str | None, lease: Lease | None) -> Lease:
    if task.status in _ENDED_BY_OTHERS:
        link = " " if task.status is TaskStatus.CANCELLED else ": "
        why = f"{link}{task.error}" if task.error else ""
        raise Conflict(f"This task is {task.status}{why}.", hint="Stop working on it.")
    if task.claims == 0:
        hint = _ACCEPT_FIRST if task.status is TaskStatus.OFFERED else _POLL_FIRST
        raise Conflict(f"This task is {task.status} and not leased to you yet.", hint=hint)
    return _current(tx, task, "task", token, lease)


def _current(tx: Transaction, work: InboxMessage | Task, name: str, token: str | None, lease: Lease | None) -> Lease:
    """Returns the lease if it is the last lease of the work and lets its run act."""
    if token is None and work.claims > 1:
        raise LeaseLost(f"This {name} was handed out more than once, so your run must name its lease.", hint=NAME_LEASE)
    if lease and lease.ended_as is LeaseEnd.CANCELLED:
        raise Conflict(f"The work on this {name} was stopped.", hint=_POST_NOTHING)
    if lease is None or lease.token != work.lease_token or not _lets_act(lease):
        raise LeaseLost(hint="The next poll returns any remaining work.")
    return lease


def _lets_act(lease: Lease) -> bool:
    return leases.holds(lease) or lease.ended_as is LeaseEnd.RESOLVED
