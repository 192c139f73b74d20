"""Holds: why an unread inbox message is not due yet, and when it becomes due."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import bindparam, select, update

from swarm.clock import SECOND
from swarm.domain.model.inbox import InboxHold, InboxStatus
from swarm.store.bridge.conditions import literally
from swarm.store.bridge.statements import Row, Statement
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import queue_heads
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.tables import inbox_messages

_i = inbox_messages.c
_is_unread = _i.status == literally(InboxStatus.UNREAD)
_over = _i.due_at.is_not(None) & (_i.due_at <= bindparam("now")) & _is_unread

_DELAY = Statement(
    update(inbox_messages)
    .where(_i.id == bindparam("entry_id"), _is_unread)
    .values(held_by=InboxHold.DELAY.value, due_at=bindparam("new_due_at"))
)
_OVER = Statement(select(_i.thread_id).where(_over))
_END_OVER = Statement(
    update(inbox_messages)
    .where(_i.thread_id == bindparam("of_thread"), _over)
    .values(held_by=None, due_at=None)
    .returning(_i.agent_id)
)
_CONTEXT_CAME = Statement(
    update(inbox_messages)
    .where(_i.thread_id == bindparam("of_thread"), _i.held_by == InboxHold.CONTEXT.value)
    .values(held_by=None, due_at=None)
    .returning(_i.agent_id)
)


def delay(tx: Transaction, entry: InboxMessage, seconds: float) -> None:
    """Keep an unread entry back for a while."""
    _DELAY.run(tx, entry_id=entry.id, new_due_at=tx.now + int(seconds * SECOND))
    if entry.agent_id:
        queue_heads.refresh(tx, entry.agent_id, entry.thread_id)


def over(tx: Transaction) -> list[str]:
    """Threads with holds whose time is over."""
    return sorted({row["thread_id"] for row in _OVER.all(tx, now=tx.now)})


def make_due(tx: Transaction, thread_id: str) -> None:
    """End the holds of a thread whose time is over. The thread must be locked."""
    _refresh_heads(tx, _END_OVER.all(tx, of_thread=thread_id, now=tx.now), thread_id)


def context_came(tx: Transaction, thread_id: str) -> None:
    """A thread has been read, or cannot be: what waited for that is due. The thread must be locked."""
    _refresh_heads(tx, _CONTEXT_CAME.all(tx, of_thread=thread_id), thread_id)


def _refresh_heads(tx: Transaction, rows: Iterable[Row], thread_id: str) -> None:
    for agent_id in sorted({row["agent_id"] for row in rows if row["agent_id"]}):
        queue_heads.refresh(tx, agent_id, thread_id)
