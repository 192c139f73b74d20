"""Escalations: at most one for each thread, and the question who is on call."""

from __future__ import annotations

from sqlalchemy import bindparam, delete, select, update

from swarm.clock import SECOND, new_id
from swarm.domain.policy.escalations import Escalation, EscalationAsker, OnCall
from swarm.store import history
from swarm.store.bridge.statements import AT_MOST_N, Statement, every_column, literally, row_mapper
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import agents
from swarm.store.tables.requests import escalations

_e = escalations.c
_agent = select(agents.c.name).where(agents.c.id == _e.agent_id).scalar_subquery()
_all = select(escalations, _agent.label("agent"))
_is_asked = _e.on_call == literally(OnCall.ASKED)
_ADD = Statement(
    lambda insert: (
        insert(escalations)
        .values(
            every_column(
                escalations,
                **dict.fromkeys(("on_call", "on_call_task_id", "on_call_person", "on_call_note", "on_call_ends_at")),
                created_at=bindparam("now"),
            )
        )
        .on_conflict_do_nothing()
    )
)
_GET = Statement(_all.where(_e.id == bindparam("id")))
_OF_THREAD = Statement(_all.where(_e.thread_id == bindparam("thread_id")))
_ASK = Statement(
    update(escalations)
    .where(_e.id == bindparam("escalation_id"), _e.on_call.is_(None))
    .values(
        on_call=OnCall.ASKED.value, on_call_task_id=bindparam("task_id"), on_call_ends_at=bindparam("until")
    )
)  # fmt: skip
_END = {
    OnCall.FOUND: Statement(
        update(escalations)
        .where(_e.id == bindparam("escalation_id"), _e.on_call == OnCall.ASKED.value)
        .values(on_call=OnCall.FOUND.value, on_call_person=bindparam("said"))
    ),
    OnCall.NOT_FOUND: Statement(
        update(escalations)
        .where(_e.id == bindparam("escalation_id"), (_e.on_call == OnCall.ASKED.value) | _e.on_call.is_(None))
        .values(on_call=OnCall.NOT_FOUND.value, on_call_note=bindparam("said"))
    ),
}
_ASKED = Statement(_all.where(_is_asked).order_by(_e.id).limit(AT_MOST_N))
_FORGET = Statement(delete(escalations).where(_e.thread_id == bindparam("thread_id")))

_escalation = row_mapper(Escalation)


def add(
    tx: Transaction, thread_id: str, asker: EscalationAsker, reason: str, *, emoji: str | None, team: str
) -> Escalation | None:
    """Stores the escalation of a thread. Returns None if the thread has one. ``team`` is on call."""
    escalation_id = new_id()
    added = _ADD.run(
        tx,
        id=escalation_id,
        thread_id=thread_id,
        door=asker.door.value,
        person=asker.person,
        agent_id=asker.agent_id,
        reason=reason,
        emoji=emoji,
        on_call_team=team,
        now=tx.now,
    )
    if not added:
        return None
    by = f"by <@{asker.person}>" if asker.person else None
    why = ": ".join(filter(None, (by, reason))) or None
    _note(tx, "ask", escalation_id, thread_id, asker.agent_id, why)
    return get(tx, escalation_id)


def get(tx: Transaction, escalation_id: str) -> Escalation | None:
    row = _GET.first(tx, id=escalation_id)
    return _escalation(row) if row else None


def of_thread(tx: Transaction, thread_id: str) -> Escalation | None:
    """Returns the escalation of a thread."""
    row = _OF_THREAD.first(tx, thread_id=thread_id)
    return _escalation(row) if row else None


def on_call_asked(tx: Transaction, escalation: Escalation, task_id: str, agent_id: str, seconds: float) -> None:
    """Stores the task that asks an agent who is on call."""
    _ASK.run(tx, escalation_id=escalation.id, task_id=task_id, until=tx.now + int(seconds * SECOND))
    _note(tx, "on_call_asked", escalation.id, escalation.thread_id, agent_id, f"with task {task_id}")


def on_call_ended(tx: Transaction, escalation: Escalation, how: OnCall, said: str) -> bool:
    """Stores the person on call, or why nobody was found. Returns False if that has been stored already."""
    if not _END[how].run(tx, escalation_id=escalation.id, said=said):
        return False
    reason = f"<@{said}>" if how is OnCall.FOUND else said
    _note(tx, f"on_call_{how.value}", escalation.id, escalation.thread_id, None, reason)
    return True


def waiting_for_on_call(tx: Transaction, limit: int) -> list[Escalation]:
    """Returns the escalations whose on-call agent was asked, oldest first."""
    return [_escalation(row) for row in _ASKED.all(tx, n=limit)]


def forget(tx: Transaction, thread_id: str) -> None:
    """Deletes the escalation of a thread."""
    _FORGET.run(tx, thread_id=thread_id)


def _note(
    tx: Transaction, what: str, escalation_id: str, thread_id: str, agent_id: str | None, reason: str | None
) -> None:
    history.record(tx, f"escalation.{what}", escalation_id, thread_id=thread_id, agent_id=agent_id, reason=reason)
