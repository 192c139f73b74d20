"""The queue of each agent: its heads, one row per lane with due work, and the delays of messages.

A lane is processed in order. It is a thread with its messages and tasks, or a task without a thread.

A claim must not read the backlog: with thousands of messages queued in one locked thread it would be many times slower.
Each change of due work therefore calls `refresh` in the same transaction. A claim locks the head first, so two claims,
or a claim and a writer, never process the same lane concurrently.

The order of locks, which prevents deadlocks: thread, lease, task, inbox messages, head. Only a claim begins with heads;
therefore it waits for none of the others and skips locked rows.

A held message is unread but not due: it waits for the history of its thread, or for a delay after a failed attempt.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Boolean, bindparam, delete, exists, func, or_, select, union, update
from sqlalchemy.dialects import postgresql

from swarm.clock import SECOND
from swarm.domain.model.inbox import InboxDelay, InboxStatus, NoticeStatus
from swarm.domain.model.leases import LeaseKind
from swarm.domain.model.tasks import TaskStatus
from swarm.store.bridge.statements import (
    AT_MOST_N,
    Row,
    Statement,
    every_column,
    literally,
    row_mapper,
    with_valid_token,
)
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import agents, threads
from swarm.store.tables.work import inbox_messages, leases, notices, queue_heads, tasks


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueHead:
    """The next lane of an agent."""

    lane_id: str
    order_key: int
    has_tasks: bool  # whether a task may be due in the lane; most lanes have only messages


_queue_head = row_mapper(QueueHead)

_i = inbox_messages.c
_t = tasks.c
_due = (_i.status == literally(InboxStatus.UNREAD)) & _i.delay_reason.is_(None)
_task_due = (_t.status == literally(TaskStatus.PENDING)) & _t.delay_reason.is_(None) & _t.ended_at.is_(None)

# The lock on the head serializes claims in one thread. Locked heads are skipped.
_heads = (
    select(
        queue_heads.c.lane_id,
        queue_heads.c.order_key,
        exists()
        .where(_t.agent_id == queue_heads.c.agent_id, _t.lane_id == queue_heads.c.lane_id, _task_due)
        .label("has_tasks"),
    )
    .where(
        queue_heads.c.agent_id == bindparam("agent_id"),
        ~exists().where(
            leases.c.thread_id == queue_heads.c.lane_id,
            leases.c.agent_id == queue_heads.c.agent_id,
            leases.c.kind == literally(LeaseKind.WORK),
            leases.c.ended_at.is_(None),
        ),
    )
    .order_by(queue_heads.c.order_key)
    .limit(AT_MOST_N)
    .with_for_update(of=queue_heads, skip_locked=True)
)
_HEADS = Statement(_heads)
_HEADS_OF_TOKEN = Statement(with_valid_token(_heads, queue_heads.c.agent_id))
_LOCK_HEAD = Statement(
    select(queue_heads.c.order_key)
    .where(queue_heads.c.agent_id == bindparam("agent_id"), queue_heads.c.lane_id == bindparam("lane_id"))
    .with_for_update()
)
_LOWEST = Statement(
    select(
        select(func.min(_i.order_key))
        .where(_i.agent_id == bindparam("agent_id"), _i.thread_id == bindparam("lane_id"), _due)
        .scalar_subquery()
        .label("of_messages"),
        select(func.min(_t.order_key))
        .where(_t.agent_id == bindparam("agent_id"), _t.lane_id == bindparam("lane_id"), _task_due)
        .scalar_subquery()
        .label("of_tasks"),
    )
)
_MOVE_HEAD = Statement(
    update(queue_heads)
    .where(queue_heads.c.agent_id == bindparam("of_agent"), queue_heads.c.lane_id == bindparam("of_lane"))
    .values(order_key=bindparam("lowest"))
)


def _make(insert: postgresql.Insert) -> postgresql.Insert:
    """If no head exists to lock, another writer may have created one in the meantime. The lower key wins."""
    lowest = insert.excluded.order_key
    return insert.on_conflict_do_update(
        index_elements=["agent_id", "lane_id"], set_={"order_key": lowest}, where=queue_heads.c.order_key > lowest
    )


_MAKE_HEAD = Statement(
    lambda insert: _make(insert(queue_heads).values(every_column(queue_heads, order_key=bindparam("lowest"))))
)
_DROP_HEAD = Statement(
    delete(queue_heads).where(
        queue_heads.c.agent_id == bindparam("agent_id"), queue_heads.c.lane_id == bindparam("lane_id")
    )
)
_DROP_EXHAUSTED = Statement(
    delete(queue_heads).where(
        queue_heads.c.agent_id == bindparam("agent_id"),
        queue_heads.c.lane_id == bindparam("lane_id"),
        ~exists().where(_i.agent_id == queue_heads.c.agent_id, _i.thread_id == queue_heads.c.lane_id, _due),
        ~exists().where(_t.agent_id == queue_heads.c.agent_id, _t.lane_id == queue_heads.c.lane_id, _task_due),
    )
)
_gone = agents.c.revoked_at.is_not(None)
# Threads that were already informed and have no other available agent are skipped, because they can only wait.
_WAITING = Statement(
    select(queue_heads.c.lane_id, queue_heads.c.agent_id)
    .join(agents, agents.c.id == queue_heads.c.agent_id)
    .join(threads, threads.c.id == queue_heads.c.lane_id)
    .where(
        or_(_gone, func.coalesce(agents.c.last_seen_at, 0) < bindparam("cutoff")),
        or_(
            threads.c.queued_notice_at.is_(None),
            bindparam("lead_is_online", type_=Boolean),
            _gone & bindparam("lead_exists", type_=Boolean),
        ),
    )
    .order_by(queue_heads.c.order_key)
    .limit(AT_MOST_N)
)
_MISSING = Statement(
    union(
        select(_i.agent_id, _i.thread_id.label("lane_id")).where(
            _due,
            _i.agent_id.is_not(None),
            ~exists().where(queue_heads.c.agent_id == _i.agent_id, queue_heads.c.lane_id == _i.thread_id),
        ),
        select(_t.agent_id, _t.lane_id).where(
            _task_due, ~exists().where(queue_heads.c.agent_id == _t.agent_id, queue_heads.c.lane_id == _t.lane_id)
        ),
    ).order_by("agent_id", "lane_id")
)


def next_heads(tx: Transaction, agent_id: str, limit: int, token_hash: str | None = None) -> list[QueueHead]:
    """Returns and locks the first lanes that have due work and no active run of the agent.

    Returns none if the caller's token is no longer valid.
    """
    if token_hash is None:
        rows = _HEADS.all(tx, agent_id=agent_id, n=limit)
    else:
        rows = _HEADS_OF_TOKEN.all(tx, agent_id=agent_id, n=limit, token_hash=token_hash)
    return [_queue_head(row) for row in rows]


def unserved_lanes(
    tx: Transaction, seen_before: int, *, lead_exists: bool, lead_is_online: bool, limit: int
) -> list[tuple[str, str]]:
    """Returns (thread, agent) pairs with work for an agent that is revoked, or offline since ``seen_before``.

    Only pairs on which action is possible are returned: a lead can take the work, or the thread has not been informed
    yet.
    """
    rows = _WAITING.all(tx, cutoff=seen_before, lead_exists=lead_exists, lead_is_online=lead_is_online, n=limit)
    return [(row["lane_id"], row["agent_id"]) for row in rows]


def refresh(tx: Transaction, agent_id: str, lane_id: str) -> None:
    """Recomputes an agent's head of a lane, and wakes the agent if work is due.

    The head is locked first, so that on PostgreSQL the query that follows sees the latest commit of another writer.
    """
    there = _lock(tx, agent_id, lane_id)
    lowest = _lowest(tx, agent_id, lane_id)
    if lowest is None:
        if there:  # a head that did not exist before belongs to another writer with due work
            _DROP_HEAD.run(tx, agent_id=agent_id, lane_id=lane_id)
        return
    if there:
        _MOVE_HEAD.run(tx, of_agent=agent_id, of_lane=lane_id, lowest=lowest)
    else:
        _MAKE_HEAD.run(tx, agent_id=agent_id, lane_id=lane_id, lowest=lowest)
    tx.wake(agent_id)


def add(tx: Transaction, agent_id: str, lane_id: str, order_key: int) -> None:
    """Records additional due work in a lane and wakes its agent. Uses one statement, while `refresh` needs three.

    A writer that concurrently drops the head holds its lock and has not seen the new work; the head is created again.
    """
    _MAKE_HEAD.run(tx, agent_id=agent_id, lane_id=lane_id, lowest=order_key)
    tx.wake(agent_id)


def exhausted(tx: Transaction, agent_id: str, lane_id: str) -> None:
    """Drops the locked head after a claim took all the work it saw, unless a locked row was skipped."""
    _DROP_EXHAUSTED.run(tx, agent_id=agent_id, lane_id=lane_id)


def announce(tx: Transaction, agent_id: str, lane_id: str) -> None:
    """Wakes an agent if work is due in a lane whose thread has just been released."""
    if _lock(tx, agent_id, lane_id):
        tx.wake(agent_id)


def repair(tx: Transaction) -> int:
    """Creates missing heads and returns their number. None should be missing; the sweep checks as a precaution."""
    rows = _MISSING.all(tx)
    for row in rows:
        refresh(tx, row["agent_id"], row["lane_id"])
    return len(rows)


def _lock(tx: Transaction, agent_id: str, lane_id: str) -> bool:
    """Locks an agent's head of a lane. Returns False if there is none."""
    return _LOCK_HEAD.first(tx, agent_id=agent_id, lane_id=lane_id) is not None


def _lowest(tx: Transaction, agent_id: str, lane_id: str) -> int | None:
    row = _LOWEST.first(tx, agent_id=agent_id, lane_id=lane_id) or {}
    keys = [row[name] for name in ("of_messages", "of_tasks") if row.get(name) is not None]
    return min(keys, default=None)


_i = inbox_messages.c
_is_unread = _i.status == literally(InboxStatus.UNREAD)
_over = _i.due_at.is_not(None) & (_i.due_at <= bindparam("now")) & _is_unread

_DELAY = Statement(
    update(inbox_messages)
    .where(_i.id == bindparam("inbox_message_id"), _is_unread)
    .values(delay_reason=InboxDelay.DELAY.value, due_at=bindparam("new_due_at"))
)
_ENDED_DELAYS = Statement(select(_i.thread_id).where(_over))
_END_ENDED_DELAYS = Statement(
    update(inbox_messages)
    .where(_i.thread_id == bindparam("of_thread"), _over)
    .values(delay_reason=None, due_at=None)
    .returning(_i.agent_id)
)
_CONTEXT_ARRIVED = Statement(
    update(inbox_messages)
    .where(_i.thread_id == bindparam("of_thread"), _i.delay_reason == InboxDelay.CONTEXT.value)
    .values(delay_reason=None, due_at=None)
    .returning(_i.agent_id)
)


def delay(tx: Transaction, message_id: str, agent_id: str | None, thread_id: str, seconds: float) -> None:
    """Delays an unread message by ``seconds``."""
    _DELAY.run(tx, inbox_message_id=message_id, new_due_at=tx.now + int(seconds * SECOND))
    if agent_id:
        refresh(tx, agent_id, thread_id)


def ended_delays(tx: Transaction) -> list[str]:
    """Returns the threads of held messages whose delay is over."""
    return sorted({row["thread_id"] for row in _ENDED_DELAYS.all(tx, now=tx.now)})


def make_due(tx: Transaction, thread_id: str) -> None:
    """Makes messages due whose delay in a thread has expired. The thread must be locked."""
    _refresh_heads(tx, _END_ENDED_DELAYS.all(tx, of_thread=thread_id, now=tx.now), thread_id)


def context_arrived(tx: Transaction, thread_id: str) -> None:
    """Makes messages due that wait for the thread's history, after it was read or could not be read. The thread must be
    locked.
    """
    _refresh_heads(tx, _CONTEXT_ARRIVED.all(tx, of_thread=thread_id), thread_id)


def _refresh_heads(tx: Transaction, rows: Iterable[Row], thread_id: str) -> None:
    for agent_id in sorted({row["agent_id"] for row in rows if row["agent_id"]}):
        refresh(tx, agent_id, thread_id)


_is_worked_on = exists().where(
    leases.c.thread_id == queue_heads.c.lane_id,
    leases.c.agent_id == queue_heads.c.agent_id,
    leases.c.kind == literally(LeaseKind.WORK),
    leases.c.ended_at.is_(None),
)
# Reads the first due row of each of the few agents, not the backlog.
_AGENTS = Statement(
    select(agents.c.id).where(
        agents.c.revoked_at.is_(None),
        or_(
            exists().where(queue_heads.c.agent_id == agents.c.id, ~_is_worked_on),
            exists().where(notices.c.agent_id == agents.c.id, notices.c.status == literally(NoticeStatus.UNREAD)),
        ),
    )
)


def agents_with_due_work(tx: Transaction) -> set[str]:
    """Returns the ids of the agents whose poll would return something.

    These agents have unread notices, or work in a lane in which they have no active run.
    """
    return {row["id"] for row in _AGENTS.all(tx)}
