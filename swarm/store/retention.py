"""Deletes old rows in portions, and messages and history of idle threads.

The thread, its inbox messages and the deliveries for them are kept without their texts. If such a thread gets a new
message, it is read from Slack again.
"""

from __future__ import annotations

from typing import Any, Final

from sqlalchemy import Column, ColumnElement, Table, bindparam, delete, exists, or_, select, tuple_, update

from swarm.domain.model.inbox import BY_PERSON, INBOX_TRANSITIONS
from swarm.domain.model.threads import Thread
from swarm.store.bridge.statements import AT_MOST_N, Statement, literally
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import threads
from swarm.store.tables.effects import deliveries, history
from swarm.store.tables.threads import thread_messages
from swarm.store.tables.work import inbox_messages, tasks


def delete_oldest(table: Table, by: Column[Any], *conditions: ColumnElement[bool]) -> Statement:
    """Returns the statement that deletes up to ``n`` rows, those with the lowest ``by`` first.

    The conditions are checked again for the rows found, because these may have changed concurrently.
    """
    key = tuple_(*table.primary_key) if len(table.primary_key) > 1 else table.primary_key.columns[0]
    oldest = select(*table.primary_key).where(*conditions).order_by(by).limit(AT_MOST_N).correlate(None)
    return Statement(delete(table).where(key.in_(oldest), *conditions))


# A message that can take another step may be read again; a dead message is read again after an operator redrives it.
# People can have a message answered again only while its thread is stored.
_OPEN: Final = {
    source for step, transition in INBOX_TRANSITIONS.items() if step not in BY_PERSON for source in transition.sources
}

_t = threads.c
_m = thread_messages.c
_is_idle = (_t.active_at < bindparam("before")) & ~exists().where(
    inbox_messages.c.thread_id == _t.id, inbox_messages.c.status.in_([literally(status) for status in sorted(_OPEN)])
)
_has_something = or_(
    exists().where(_m.team == _t.team, _m.channel == _t.channel, _m.thread_ts == _t.thread_ts),
    exists().where(history.c.thread_id == _t.id),
)
_WALK = Statement(
    select(_t.id, (_is_idle & _has_something).label("forgettable"))
    .where(_t.id > bindparam("after"))
    .order_by(_t.id)
    .limit(AT_MOST_N)
)
_IDLE = Statement(select(_t.id).where(_t.id == bindparam("thread_id"), _is_idle))
_FORGET_SAID = delete_oldest(
    thread_messages,
    _m.ts,
    _m.team == bindparam("of_team"),
    _m.channel == bindparam("in_channel"),
    _m.thread_ts == bindparam("in_thread"),
)
_FORGET_HISTORY = delete_oldest(history, history.c.seq, history.c.thread_id == bindparam("of_thread"))
# Selected by message and by task, because these are indexed. Posts without either contain the coordinator's own texts.
_FORGET_ANSWERS = [
    Statement(
        update(deliveries)
        .where(
            deliveries.c.seq.in_(
                select(deliveries.c.seq)
                .where(
                    about.in_(select(concerned.c.id).where(concerned.c.thread_id == bindparam("of_thread"))),
                    deliveries.c.due_at.is_(None),
                    deliveries.c.text != "",
                )
                .limit(AT_MOST_N)
            )
        )
        .values(text="", closing=None)
    )
    for about, concerned in ((deliveries.c.inbox_message_id, inbox_messages), (deliveries.c.task_id, tasks))
]
_i = inbox_messages.c
_FORGET_RENDERED = Statement(
    update(inbox_messages)
    .where(
        _i.id.in_(select(_i.id).where(_i.thread_id == bindparam("of_thread"), _i.message.is_not(None)).limit(AT_MOST_N))
    )
    .values(message=None)
)


def walk(tx: Transaction, after: str, limit: int, before: int) -> list[tuple[str, bool]]:
    """Returns the threads whose ids follow ``after``; for each, whether it has been idle since ``before`` and has data
    to delete.

    The walk follows the primary key, so each step costs the same for any number of threads and needs no other index.
    """
    return [(row["id"], bool(row["forgettable"])) for row in _WALK.all(tx, after=after, n=limit, before=before)]


def is_idle(tx: Transaction, thread_id: str, before: int) -> bool:
    """Returns whether a thread has no activity since ``before`` and no open work. The thread must be locked."""
    return _IDLE.first(tx, thread_id=thread_id, before=before) is not None


def forget_said(tx: Transaction, thread: Thread, limit: int) -> int:
    """Deletes up to ``limit`` messages of a thread, oldest first. Returns their number."""
    return _FORGET_SAID.run(tx, of_team=thread.team, in_channel=thread.channel, in_thread=thread.thread_ts, n=limit)


def forget_answers(tx: Transaction, thread_id: str, limit: int) -> int:
    """Blanks up to ``limit`` posts for a thread's messages, and up to ``limit`` for its tasks. Returns the larger
    count.
    """
    return max(statement.run(tx, of_thread=thread_id, n=limit) for statement in _FORGET_ANSWERS)


def forget_rendered(tx: Transaction, thread_id: str, limit: int) -> int:
    """Deletes up to ``limit`` texts that were made for the agents of a thread's messages. Returns the number."""
    return _FORGET_RENDERED.run(tx, of_thread=thread_id, n=limit)


def forget_history(tx: Transaction, thread_id: str, limit: int) -> int:
    """Deletes up to ``limit`` entries of a thread's history, oldest first. Returns the number deleted."""
    return _FORGET_HISTORY.run(tx, of_thread=thread_id, n=limit)
