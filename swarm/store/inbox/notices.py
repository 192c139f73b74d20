"""Notices: messages of the coordinator to an agent in addition to its work."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import BigInteger, Boolean, Text, bindparam, exists, func, insert, or_, select, update

from swarm.clock import new_id
from swarm.domain.model.deliveries import DeliveryKind
from swarm.domain.model.inbox import FOR_CREATORS, NOTICE_TRANSITIONS, NoticeKind, NoticeStatus, NoticeStep
from swarm.domain.model.tasks import TaskStatus
from swarm.store import history
from swarm.store.bridge.statements import (
    AT_MOST_N,
    Statement,
    arrive,
    every_column,
    first_of_each,
    given,
    literally,
    may,
    row_mapper,
)
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import queues
from swarm.store.tables import agents
from swarm.store.tables.effects import deliveries
from swarm.store.tables.work import notices, tasks


@dataclass(frozen=True, kw_only=True, slots=True)
class Notice:
    """One row of `notices`."""

    id: str
    kind: NoticeKind
    agent_id: str
    thread_id: str | None
    inbox_message_id: str | None
    actor: str | None
    text: str | None
    attempts: int
    created_at: int
    task_id: str | None = None
    agent_message_id: str | None = None
    request_id: str | None = None
    interruptions: int = 0  # deaths of the coordinator while it was worked on


_notice = row_mapper(Notice)
_n = notices.c
_ADD = Statement(
    insert(notices).values(
        every_column(
            notices, status=NoticeStatus.UNREAD.value, attempts=0, interruptions=0, created_at=bindparam("now")
        )
    )
)
_given_agents = given(agent_id=Text)
_is_unread = (_n.agent_id == _given_agents.c.agent_id) & (_n.status == literally(NoticeStatus.UNREAD))
_UNREAD = Statement(first_of_each(_given_agents, notices, _is_unread & queues.is_notice_due, _n.created_at, _n.id))
_WAITS = Statement(
    select(_n.id)
    .where(
        _n.agent_id == bindparam("agent_id"),
        _n.inbox_message_id == bindparam("inbox_message_id"),
        _n.kind == bindparam("kind"),
        _n.status == literally(NoticeStatus.UNREAD),
    )
    .limit(1)
)
_GET = Statement(select(notices).where(_n.id == bindparam("notice_id")))
_gone = agents.c.revoked_at.is_not(None)
_UNDELIVERABLE = Statement(
    select(notices)
    .join(agents, agents.c.id == _n.agent_id)
    .where(
        _n.status == literally(NoticeStatus.UNREAD),
        _n.kind.in_([literally(kind) for kind in sorted(FOR_CREATORS)]),
        or_(
            _gone,
            bindparam("lead_is_online", type_=Boolean)
            & (func.coalesce(agents.c.last_seen_at, 0) < bindparam("seen_before", type_=BigInteger)),
        ),
    )
    .order_by(_n.created_at, _n.id)
    .limit(AT_MOST_N)
)
# An online agent reports its result itself. An agent that comes back online can add to the report.
_UNREPORTED_RESULTS = Statement(
    select(notices)
    .join(agents, agents.c.id == _n.agent_id)
    .join(tasks, tasks.c.id == _n.task_id)
    .where(
        _n.status == literally(NoticeStatus.UNREAD),
        _n.kind == literally(NoticeKind.TASK_FINISHED),
        _n.thread_id.is_not(None),
        tasks.c.status == literally(TaskStatus.COMPLETED),
        or_(_gone, func.coalesce(agents.c.last_seen_at, 0) < bindparam("seen_before", type_=BigInteger)),
        ~exists().where(
            deliveries.c.task_id == _n.task_id,
            deliveries.c.kind == literally(DeliveryKind.POST),
            deliveries.c.idempotency_key.is_(None),
            deliveries.c.created_at >= tasks.c.ended_at,
        ),
    )
    .order_by(_n.created_at, _n.id)
    .limit(AT_MOST_N)
)
_READDRESS = Statement(
    update(notices)
    .where(
        _n.id == bindparam("notice_id"),
        _n.agent_id == bindparam("old_agent_id"),
        _n.status == literally(NoticeStatus.UNREAD),
    )
    .values(agent_id=bindparam("new_agent_id"), attempts=0, interruptions=0)
)


def _move(step: NoticeStep) -> Statement:
    values: dict[str, object] = dict(arrive(NOTICE_TRANSITIONS[step]))
    if step is NoticeStep.LOSE:
        values["attempts"] = _n.attempts + 1
    guard = may(_n.status, NOTICE_TRANSITIONS[step])
    return Statement(update(notices).where(_n.id == bindparam("notice_id"), guard).values(**values))


_MOVES = {step: _move(step) for step in NoticeStep}


def add(
    tx: Transaction,
    kind: NoticeKind,
    agent_id: str,
    *,
    thread_id: str | None = None,
    inbox_message_id: str | None = None,
    actor: str | None = None,
    text: str | None = None,
    task_id: str | None = None,
    agent_message_id: str | None = None,
    request_id: str | None = None,
) -> None:
    """Adds a notice and wakes the agent."""
    notice_id = new_id()
    _ADD.run(
        tx,
        id=notice_id,
        kind=kind,
        agent_id=agent_id,
        thread_id=thread_id,
        inbox_message_id=inbox_message_id,
        actor=actor,
        text=text,
        task_id=task_id,
        agent_message_id=agent_message_id,
        request_id=request_id,
        now=tx.now,
    )
    history.record(tx, f"notice.{kind}", notice_id, thread_id=thread_id, agent_id=agent_id)
    tx.wake(agent_id)


def unread(tx: Transaction, agent_ids: Iterable[str], limit: int) -> list[Notice]:
    """Returns and locks the unread notices of agents, oldest first for each agent. Locked notices are skipped."""
    rows = [{"agent_id": agent_id} for agent_id in agent_ids]
    return [_notice(row) for row in _UNREAD.all(tx, given=rows, n=limit)] if rows else []


def waits(tx: Transaction, kind: NoticeKind, agent_id: str, inbox_message_id: str) -> bool:
    """Returns whether an unread notice of this kind about an inbox message exists."""
    return _WAITS.first(tx, kind=kind, agent_id=agent_id, inbox_message_id=inbox_message_id) is not None


def undeliverable(tx: Transaction, seen_before: int, limit: int, *, lead_is_online: bool) -> list[Notice]:
    """Returns unread notices for creators of work whose agent is revoked, or is offline while a lead is online.

    Oldest first, not locked.
    """
    rows = _UNDELIVERABLE.all(tx, seen_before=seen_before, lead_is_online=lead_is_online, n=limit)
    return [_notice(row) for row in rows]


def unreported_results(tx: Transaction, seen_before: int, limit: int) -> list[Notice]:
    """Returns unread notices of completed tasks without a post in their thread, for agents offline since
    ``seen_before``.

    Not locked.
    """
    return [_notice(row) for row in _UNREPORTED_RESULTS.all(tx, seen_before=seen_before, n=limit)]


def readdress(tx: Transaction, notice: Notice, agent_id: str, reason: str) -> None:
    """Reassigns a notice to another agent, unless the first agent has read it in the meantime."""
    if _READDRESS.run(tx, notice_id=notice.id, old_agent_id=notice.agent_id, new_agent_id=agent_id):
        history.record(tx, "notice.readdress", notice.id, thread_id=notice.thread_id, agent_id=agent_id, reason=reason)
        tx.wake(agent_id)


def get(tx: Transaction, notice_id: str) -> Notice | None:
    row = _GET.first(tx, notice_id=notice_id)
    return _notice(row) if row else None


def move(tx: Transaction, step: NoticeStep, notice_id: str) -> bool:
    """Takes a step of the state machine. Returns False if the notice's status does not allow it."""
    return bool(_MOVES[step].run(tx, notice_id=notice_id))
