"""The queue of each agent: its heads, one row per lane with due work, and the delays of messages.

A lane is processed in order. It is a thread with its messages and tasks, or a task without a thread.

A claim must not read the backlog: with thousands of messages queued in one locked thread it would be many times slower.
Each change of due work therefore calls `refresh` in the same transaction. A claim locks the head first, so two claims,
or a claim and a writer, never process the same lane concurrently.

The order of locks, which prevents deadlocks: thread, lease, task, inbox messages, head. Only a claim begins with heads;
therefore it waits for none of the others and skips locked rows.

A delayed message is unread but not due: it waits for the history of its thread, or for a delay after a failed attempt.

While a run of the coordinator asks people, its agent's lane in that thread is held: only the work that asked may become
due, until the agent has received the decision or the resumed run has failed. Whatever ends a hold calls `refresh`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    ColumnElement,
    Subquery,
    Text,
    and_,
    bindparam,
    delete,
    exists,
    func,
    literal_column,
    or_,
    select,
    true,
    tuple_,
    union,
    union_all,
    update,
)
from sqlalchemy.dialects import postgresql

from swarm.clock import SECOND
from swarm.domain.model.inbox import UNDER_WAY, InboxDelay, InboxStatus, NoticeKind, NoticeStatus
from swarm.domain.model.leases import LeaseKind
from swarm.domain.model.requests import Asker, RequestStatus, ResumeStatus
from swarm.domain.model.tasks import TaskStatus
from swarm.store.bridge.statements import (
    AT_MOST_N,
    Row,
    Statement,
    exists_by_key,
    first_of_each,
    given,
    literally,
    row_mapper,
)
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import agents, requests, threads
from swarm.store.tables.work import inbox_messages, leases, notices, queue_heads, tasks


@dataclass(frozen=True, kw_only=True, slots=True)
class QueueHead:
    """The next lane of an agent."""

    agent_id: str
    lane_id: str
    order_key: int

    @property
    def lane(self) -> tuple[str, str]:
        """The agent and the lane."""
        return self.agent_id, self.lane_id


Lane = tuple[str, str]
"""An agent's id and a lane of its queue."""

_queue_head = row_mapper(QueueHead)

_i = inbox_messages.c
_t = tasks.c
_asking, _asked, _asked_task = requests.alias("asking"), inbox_messages.alias("asked"), tasks.alias("asked_task")
_q = _asking.c
# Uses the partial index on such requests, of which there are few.
_is_undelivered = and_(
    _q.asker == literally(Asker.DURABLE),
    _q.run_id.is_not(None),
    _q.resume.in_([literally(ResumeStatus.NONE), literally(ResumeStatus.SENT)]),
)
_is_asking = or_(
    exists_by_key(
        _asked.c.id == _q.work_id,
        _asked.c.agent_id == _q.agent_id,
        _asked.c.status.in_([literally(status) for status in sorted(UNDER_WAY)]),
    ),
    exists_by_key(
        _asked_task.c.id == _q.task_id, _asked_task.c.agent_id == _q.agent_id, _asked_task.c.ended_at.is_(None)
    ),
)


def is_held(agent_id: ColumnElement[Any], lane_id: ColumnElement[Any]) -> ColumnElement[bool]:
    """Returns the condition that a lane is held by a question that a run of its agent has asked."""
    return exists_by_key(_q.thread_id == lane_id, _q.agent_id == agent_id, _is_undelivered, _is_asking)


def _may_run(
    agent_id: ColumnElement[Any], lane_id: ColumnElement[Any], is_own: ColumnElement[bool]
) -> ColumnElement[bool]:
    own = exists_by_key(_q.thread_id == lane_id, _q.agent_id == agent_id, _is_undelivered, is_own)
    return or_(~is_held(agent_id, lane_id), own)


_has_message = func.replace(_q.inbox_message_ids, _i.id, "") != _q.inbox_message_ids
is_due: Final = and_(
    _i.status == literally(InboxStatus.UNREAD),
    _i.delay_reason.is_(None),
    _may_run(_i.agent_id, _i.thread_id, _has_message),
)
"""The condition that a message is due."""

is_task_due: Final = and_(
    func.coalesce(_t.status, "") == literally(TaskStatus.PENDING),  # so that no index by status is used for a lane
    _t.delay_reason.is_(None),
    _t.ended_at.is_(None),
    _may_run(_t.agent_id, _t.lane_id, _q.task_id == _t.id),
)
"""The condition that a task is due."""

_is_worked_on = exists_by_key(
    leases.c.thread_id == queue_heads.c.lane_id,
    leases.c.agent_id == queue_heads.c.agent_id,
    leases.c.kind == literally(LeaseKind.WORK),
    leases.c.ended_at.is_(None),
)

_given_agents = given(agent_id=Text)
# The lock on the head serializes claims in one thread. Locked heads are skipped.
_HEADS = Statement(
    first_of_each(
        _given_agents,
        queue_heads,
        (queue_heads.c.agent_id == _given_agents.c.agent_id) & ~_is_worked_on,
        queue_heads.c.order_key,
    )
)
_given_lanes = given(agent_id=Text, lane_id=Text)
_in_lanes = (queue_heads.c.agent_id == _given_lanes.c.agent_id) & (queue_heads.c.lane_id == _given_lanes.c.lane_id)


def _heads_of(rows: Subquery, lock: bool) -> Subquery:
    """Returns the given rows with the place of their heads, for PostgreSQL. A lateral subquery is run for each row:
    a join may begin with all heads, if the table was empty when its statistics were taken.
    """
    head = select(literal_column("queue_heads.ctid", Text).label("place")).where(
        queue_heads.c.agent_id == rows.c.agent_id, queue_heads.c.lane_id == rows.c.lane_id
    )
    found = (head.with_for_update() if lock else head).limit(literal_column("1")).correlate(rows).lateral("head")
    return select(*rows.c, found.c.place).select_from(rows.join(found, true())).subquery("found")


_given_heads = given(agent_id=Text, lane_id=Text, order_key=BigInteger)
_place: ColumnElement[str] = literal_column("queue_heads.ctid", Text)
_locked, _dropped, _moved = (
    _heads_of(_given_lanes, True),
    _heads_of(_given_lanes, False),
    _heads_of(_given_heads, False),
)
# The rows are given in the order of their lanes, which is the order of the locks.
_LOCK_HEADS = Statement(
    {
        "postgresql": select(_locked.c.agent_id, _locked.c.lane_id),
        "sqlite": select(queue_heads.c.agent_id, queue_heads.c.lane_id).join(_given_lanes, _in_lanes),
    }
)
_LOWEST = Statement(
    select(
        _given_lanes.c.agent_id,
        _given_lanes.c.lane_id,
        select(func.min(_i.order_key))
        .where(_i.agent_id == _given_lanes.c.agent_id, _i.thread_id == _given_lanes.c.lane_id, is_due)
        .scalar_subquery()
        .label("of_messages"),
        select(func.min(_t.order_key))
        .where(_t.agent_id == _given_lanes.c.agent_id, _t.lane_id == _given_lanes.c.lane_id, is_task_due)
        .scalar_subquery()
        .label("of_tasks"),
    )
)
_MOVE_HEADS = Statement(
    {
        "postgresql": update(queue_heads).where(_place == _moved.c.place).values(order_key=_moved.c.order_key),
        "sqlite": update(queue_heads)
        .where(queue_heads.c.agent_id == _given_heads.c.agent_id, queue_heads.c.lane_id == _given_heads.c.lane_id)
        .values(order_key=_given_heads.c.order_key),
    }
)


def _make(insert: postgresql.Insert) -> postgresql.Insert:
    """If no head exists to lock, another writer may have created one in the meantime. The lower key wins."""
    lowest = insert.excluded.order_key
    return insert.on_conflict_do_update(
        index_elements=["agent_id", "lane_id"], set_={"order_key": lowest}, where=queue_heads.c.order_key > lowest
    )


def _making(condition: ColumnElement[bool]) -> Statement:
    names = [column.name for column in _given_heads.c]
    return Statement(
        lambda insert: _make(insert(queue_heads).from_select(names, select(_given_heads).where(condition)))
    )


_MAKE_HEADS = _making(true())
_ADD_HEADS = _making(~is_held(_given_heads.c.agent_id, _given_heads.c.lane_id))
_DROP_HEADS = Statement(
    {
        "postgresql": delete(queue_heads).where(_place == _dropped.c.place),
        "sqlite": delete(queue_heads).where(
            tuple_(queue_heads.c.agent_id, queue_heads.c.lane_id).in_(select(_given_lanes))
        ),
    }
)
# Apart from the deletion: together, PostgreSQL may look for due work in all lanes before it compares them.
_EXHAUSTED = Statement(
    select(_given_lanes).where(
        ~exists_by_key(_i.agent_id == _given_lanes.c.agent_id, _i.thread_id == _given_lanes.c.lane_id, is_due),
        ~exists_by_key(_t.agent_id == _given_lanes.c.agent_id, _t.lane_id == _given_lanes.c.lane_id, is_task_due),
    )
)
_starts_run = notices.c.kind.in_([literally(NoticeKind.TASK_FINISHED), literally(NoticeKind.TASK_RETURNED)])
is_notice_due: Final = ~_starts_run | ~is_held(notices.c.agent_id, notices.c.thread_id)
"""The condition that an unread notice is due: one that starts a run waits in a held lane."""

_gone = agents.c.revoked_at.is_not(None)
_served = union_all(
    select(queue_heads),
    # Lanes that are held have no head. They are listed for the case that their agent is offline or removed.
    select(_q.agent_id, _q.thread_id.label("lane_id"), _q.created_at.label("order_key")).where(
        _is_undelivered,
        _q.status == literally(RequestStatus.OPEN),
        exists().where(
            _i.agent_id == _q.agent_id, _i.thread_id == _q.thread_id, _i.status == literally(InboxStatus.UNREAD)
        ),
    ),
).subquery()
# Threads that already have the notice and have no other available agent are skipped, because they can only wait.
_WAITING = Statement(
    select(_served.c.lane_id, _served.c.agent_id)
    .join(agents, agents.c.id == _served.c.agent_id)
    .join(threads, threads.c.id == _served.c.lane_id)
    .where(
        or_(_gone, func.coalesce(agents.c.last_seen_at, 0) < bindparam("cutoff")),
        or_(
            threads.c.queued_notice_at.is_(None),
            bindparam("lead_is_online", type_=Boolean),
            _gone & bindparam("lead_exists", type_=Boolean),
        ),
    )
    .order_by(_served.c.order_key)
    .limit(AT_MOST_N)
)
_MISSING = Statement(
    union(
        select(_i.agent_id, _i.thread_id.label("lane_id")).where(
            is_due,
            _i.agent_id.is_not(None),
            ~exists().where(queue_heads.c.agent_id == _i.agent_id, queue_heads.c.lane_id == _i.thread_id),
        ),
        select(_t.agent_id, _t.lane_id).where(
            is_task_due, ~exists().where(queue_heads.c.agent_id == _t.agent_id, queue_heads.c.lane_id == _t.lane_id)
        ),
    ).order_by("agent_id", "lane_id")
)


def next_heads(tx: Transaction, agent_ids: Iterable[str], limit: int) -> list[QueueHead]:
    """Returns and locks, for each agent, the first lanes that have due work and no active run of the agent."""
    rows = [{"agent_id": agent_id} for agent_id in agent_ids]
    return [_queue_head(row) for row in _HEADS.all(tx, given=rows, n=limit)] if rows else []


def unserved_lanes(
    tx: Transaction, seen_before: int, *, lead_exists: bool, lead_is_online: bool, limit: int
) -> list[tuple[str, str]]:
    """Returns (thread, agent) pairs with work for an agent that is revoked, or offline since ``seen_before``.

    Only pairs that allow some action are returned: a lead can take the work, or the thread has no notice yet that
    nobody is available.
    """
    rows = _WAITING.all(tx, cutoff=seen_before, lead_exists=lead_exists, lead_is_online=lead_is_online, n=limit)
    return [(row["lane_id"], row["agent_id"]) for row in rows]


def refresh(tx: Transaction, agent_id: str, lane_id: str) -> None:
    """Recomputes an agent's head of a lane, and wakes the agent if work is due."""
    refresh_all(tx, [(agent_id, lane_id)])


def refresh_all(tx: Transaction, lanes: Iterable[Lane]) -> None:
    """Recomputes the heads of lanes, and wakes the agents of lanes with due work.

    The heads are locked first, so that on PostgreSQL the query that follows sees the latest commits of other writers.
    """
    rows = _given(lanes)
    if not rows:
        return
    there = _lock(tx, rows)
    heads: list[QueueHead] = []
    empty: list[Lane] = []
    for row in _LOWEST.all(tx, given=rows):
        keys = [key for key in (row["of_messages"], row["of_tasks"]) if key is not None]
        if keys:
            heads.append(QueueHead(agent_id=row["agent_id"], lane_id=row["lane_id"], order_key=min(keys)))
        else:
            empty.append((row["agent_id"], row["lane_id"]))
    # A head that did not exist before belongs to another writer with due work.
    if dropped := _given(lane for lane in empty if lane in there):
        _DROP_HEADS.run(tx, given=dropped)
    if moved := _given_rows(head for head in heads if head.lane in there):
        _MOVE_HEADS.run(tx, given=moved)
    if made := _given_rows(head for head in heads if head.lane not in there):
        _MAKE_HEADS.run(tx, given=made)
    for head in heads:
        tx.wake(head.agent_id)


def add(tx: Transaction, heads: Iterable[QueueHead]) -> None:
    """Records additional due work in lanes that are not held, and wakes their agents. Uses one statement, while
    `refresh_all` needs three.

    A writer that concurrently drops a head holds its lock and has not seen the new work; the head is created again.
    """
    lowest: dict[Lane, QueueHead] = {}
    for head in heads:
        lowest[head.lane] = min(head, lowest.get(head.lane, head), key=attrgetter("order_key"))
    if rows := _given_rows(lowest[lane] for lane in sorted(lowest)):
        _ADD_HEADS.run(tx, given=rows)
    for row in rows:
        tx.wake(str(row["agent_id"]))


def exhausted(tx: Transaction, lanes: Iterable[Lane]) -> None:
    """Drops locked heads after a claim took all the work it saw. A lane with a skipped locked row keeps its head."""
    rows = _given(lanes)
    if rows and (dropped := _EXHAUSTED.all(tx, given=rows)):
        _DROP_HEADS.run(tx, given=dropped)


def announce(tx: Transaction, lanes: Iterable[Lane]) -> None:
    """Wakes the agents with due work in lanes whose threads have just been released."""
    if rows := _given(lanes):
        for agent_id, _ in _lock(tx, rows):
            tx.wake(agent_id)


def repair(tx: Transaction) -> int:
    """Creates missing heads and returns their number. None should be missing; the sweep checks as a precaution."""
    lanes = [(row["agent_id"], row["lane_id"]) for row in _MISSING.all(tx)]
    refresh_all(tx, lanes)
    return len(lanes)


def _lock(tx: Transaction, rows: list[dict[str, object]]) -> dict[Lane, None]:
    """Locks the heads of the given lanes. Returns the lanes that have one."""
    return {(row["agent_id"], row["lane_id"]): None for row in _LOCK_HEADS.all(tx, given=rows)}


def _given(lanes: Iterable[Lane]) -> list[dict[str, object]]:
    return [{"agent_id": agent_id, "lane_id": lane_id} for agent_id, lane_id in sorted(set(lanes))]


def _given_rows(heads: Iterable[QueueHead]) -> list[dict[str, object]]:
    return [{"agent_id": head.agent_id, "lane_id": head.lane_id, "order_key": head.order_key} for head in heads]


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
    """Returns the threads of delayed messages whose delay is over."""
    return sorted({row["thread_id"] for row in _ENDED_DELAYS.all(tx, now=tx.now)})


def make_due(tx: Transaction, thread_id: str) -> None:
    """Makes due the messages of a thread whose delay has expired. The thread must be locked."""
    _refresh_heads(tx, _END_ENDED_DELAYS.all(tx, of_thread=thread_id, now=tx.now), thread_id)


def context_arrived(tx: Transaction, thread_id: str) -> None:
    """Makes due the messages that wait for the thread's history, once it was read or could not be read. The thread must
    be locked.
    """
    _refresh_heads(tx, _CONTEXT_ARRIVED.all(tx, of_thread=thread_id), thread_id)


def _refresh_heads(tx: Transaction, rows: Iterable[Row], thread_id: str) -> None:
    refresh_all(tx, {(row["agent_id"], thread_id) for row in rows if row["agent_id"]})


# Reads the first due row of each of the few agents, not the backlog.
_AGENTS = Statement(
    select(agents.c.id).where(
        agents.c.revoked_at.is_(None),
        or_(
            exists().where(queue_heads.c.agent_id == agents.c.id, ~_is_worked_on),
            exists().where(
                notices.c.agent_id == agents.c.id, notices.c.status == literally(NoticeStatus.UNREAD), is_notice_due
            ),
        ),
    )
)


def agents_with_due_work(tx: Transaction) -> set[str]:
    """Returns the ids of the agents whose poll would return something.

    These agents have unread notices, or work in a lane in which they have no active run.
    """
    return {row["id"] for row in _AGENTS.all(tx)}
