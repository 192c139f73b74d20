"""The key of a lease, which a program gets in place of its agent's token, and what the key reaches.

It reaches the work of the lease, the thread of the work with its messages and tasks, tasks that the agent has created
for the work, the list of agents, and messages between agents. It ends with the lease: for `KEY_LINGERS_SECONDS` every
call raises LeaseLost, so that the program learns why; afterwards the key is unknown. If the agent is removed, it is
unknown at once. Every call reads the rows, so no cache can keep a key alive.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from swarm.clock import SECOND
from swarm.domain.errors import Forbidden, LeaseLost, Unauthorized
from swarm.domain.model.agents import Agent
from swarm.domain.model.leases import KEY_LINGERS_SECONDS, LeaseKind
from swarm.domain.model.tasks import TaskView
from swarm.store import agents, task_queries, tasks
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, leases, notices
from swarm.store.inbox.leases import Lease
from swarm.store.tasks import Task


def holder(tx: Transaction, key_hash: str) -> tuple[Agent, str]:
    """Returns the agent and the lease token of a key. Raises Unauthorized."""
    lease = leases.of_key(tx, key_hash)
    is_known = lease is not None and (lease.ended_at is None or tx.now < lease.ended_at + KEY_LINGERS_SECONDS * SECOND)
    agent = agents.by_id(tx, lease.agent_id) if lease and is_known else None
    if lease is None or agent is None:
        raise Unauthorized("This key is not known: its lease has ended.", hint="Each trigger has its own lease.key.")
    return agent, lease.token


def check_reach(tx: Transaction, lease_token: str, ids: Mapping[str, Iterable[str]]) -> None:
    """Raises LeaseLost after the end of the key's lease, and Forbidden for ids beyond its work. ``ids`` are those of a
    call by the names of its arguments."""
    lease = _in_force(tx, lease_token)
    for name, values in ids.items():
        if not all(_reaches(tx, lease, name, value) for value in values):
            raise Forbidden(
                f"The key of a lease reaches only the work of the lease and its thread, not this {name}.",
                hint="Use ids and the lease token from your own prompt.",
            )


def reached(tx: Transaction, lease_token: str, found: Iterable[TaskView]) -> list[TaskView]:
    """Returns the tasks that the key of a lease reaches. Raises LeaseLost."""
    lease = _in_force(tx, lease_token)
    return [view for view in found if _reaches(tx, lease, "task_id", view.id)]


def reached_thread(tx: Transaction, lease_token: str) -> str | None:
    """Returns the only thread that the key of a lease reaches. Raises LeaseLost."""
    return _in_force(tx, lease_token).thread_id


def _in_force(tx: Transaction, lease_token: str) -> Lease:
    lease = leases.peek(tx, lease_token)
    if lease is None or lease.ended_at is not None:
        raise LeaseLost()
    return lease


def _reaches(tx: Transaction, lease: Lease, name: str, value: str) -> bool:
    match name:
        case "lease_token":
            other = leases.peek(tx, value)
            is_own = other is not None and other.agent_id == lease.agent_id
            return value == lease.token or (is_own and other is not None and _is_there(lease, other.thread_id))
        case "inbox_message_id":
            message, notice = inbox.get(tx, value), _notice(tx, lease)
            is_subject = notice is not None and notice.inbox_message_id == value
            return is_subject or (message is not None and _is_there(lease, message.thread_id))
        case "thread_id":
            return _is_there(lease, value)
    task = tasks.get(tx, value)
    return task is not None and _reaches_task(tx, lease, task)


def _reaches_task(tx: Transaction, lease: Lease, task: Task) -> bool:
    """Whether a task is the work, is part of it, or was created for it."""
    notice = _notice(tx, lease)
    about = {lease.task_id, notice.task_id if notice else None} - {None}
    is_loose = lease.thread_id is None and task.thread_id is None and task.created_by == lease.agent_id
    return (
        is_loose
        or _is_there(lease, task.thread_id)
        or task.id in about
        or any(parent.id in about for parent in task_queries.ancestors(tx, task.parent_id))
        or any(other.id in about for other in task_queries.dependents(tx, task.id))
    )


def _is_there(lease: Lease, thread_id: str | None) -> bool:
    return thread_id is not None and thread_id == lease.thread_id


def _notice(tx: Transaction, lease: Lease) -> notices.Notice | None:
    return notices.get(tx, lease.trigger_id) if lease.kind is LeaseKind.NOTICE else None
