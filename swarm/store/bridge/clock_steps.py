"""What is done when the database's clock was set: all that is due moves along, so that it keeps its distance from now.

A step of an hour would otherwise end all leases at once, or let deliveries and retries wait for an hour. Moved are
deadlines, and of what is still open the moments that decide (its age, its place in the queue). What is over keeps the
moment that the clock showed then.

Who may act: of all processes the one that notices first; the others find the office of `swarm.store.records.elections`
moved, since somebody always holds it and renews it every few seconds. What is guaranteed: the rows move together, in
one transaction that no other write overlaps. What happens on failure: nothing is moved, and the next write tries again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from sqlalchemy import BigInteger, Column, ColumnElement, Table, bindparam, or_, select, update

from swarm.clock import SECOND
from swarm.domain.documents.documents import DocumentStatus
from swarm.domain.model.inbox import InboxStatus, NoticeStatus
from swarm.store.bridge.clock_watch import STEP_US
from swarm.store.bridge.conditions import literally
from swarm.store.bridge.statements import Statement
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import (
    agent_messages,
    agents,
    deliveries,
    documents,
    early_messages,
    elections,
    inbox_heads,
    inbox_messages,
    leases,
    notices,
    people,
    sessions,
    talks,
    tasks,
    thread_messages,
    threads,
    turn_messages,
    turns,
)

TERM_US: Final = 10 * SECOND
"""The longest lease of an office, which `swarm.services.outbox.elections` gives."""

_LATELY_US: Final = 600 * SECOND
"""What has happened within this time may still count: limits for a minute, an attempt before this one, what an agent
was told before it began, and what may hold a copy of a message."""

_by = bindparam("by", type_=BigInteger)
_lately = bindparam("lately", type_=BigInteger)


@dataclass(frozen=True, slots=True)
class Moved:
    """The columns of a table that move, and the rows in which they do."""

    table: Table
    columns: tuple[str, ...]
    rows: ColumnElement[bool] | None = None


def _since(*moments: Column[int]) -> ColumnElement[bool]:
    """Of what is over: what has happened lately, or would lie in the future."""
    return or_(*(moment > _lately for moment in moments))


_OPEN_ENTRIES: Final = [
    literally(status)
    for status in (InboxStatus.UNREAD, InboxStatus.CLAIMED, InboxStatus.WAITING, InboxStatus.DELEGATED)
]

MOVED: Final = (
    Moved(leases, ("created_at", "expires_at"), leases.c.ended_at.is_(None)),
    Moved(elections, ("since", "expires_at")),
    Moved(talks, ("expires_at",)),
    Moved(deliveries, ("created_at", "due_at", "expires_at"), deliveries.c.due_at.is_not(None)),
    Moved(inbox_messages, ("created_at", "due_at", "order_key"), inbox_messages.c.status.in_(_OPEN_ENTRIES)),
    Moved(tasks, ("created_at", "due_at", "offer_ends_at", "order_key"), tasks.c.ended_at.is_(None)),
    Moved(inbox_heads, ("order_key",)),
    Moved(
        notices,
        ("created_at",),
        notices.c.status.in_([literally(NoticeStatus.UNREAD), literally(NoticeStatus.CLAIMED)]),
    ),
    Moved(agents, ("last_seen_at",), agents.c.revoked_at.is_(None)),
    Moved(threads, ("context_due_at",), threads.c.context_due_at.is_not(None)),
    Moved(early_messages, ("stored_at", "verify_at")),
    Moved(documents, ("created_at",), documents.c.status == literally(DocumentStatus.LOADING)),
    Moved(people, ("window_started_at",), _since(people.c.window_started_at)),
    Moved(people, ("verified_at",), _since(people.c.verified_at)),
    Moved(thread_messages, ("stored_at",), _since(thread_messages.c.stored_at)),
    Moved(sessions, ("updated_at",), _since(sessions.c.updated_at)),
    Moved(agent_messages, ("created_at",), _since(agent_messages.c.created_at)),
    Moved(turns, ("started_at",), turns.c.ended_at.is_(None) | _since(turns.c.started_at)),
    Moved(
        turn_messages,
        ("began_at",),
        turn_messages.c.turn_id.in_(select(turns.c.id).where(turns.c.ended_at.is_(None))),
    ),
)
"""All that moves."""


def _move(moved: Moved) -> Statement:
    values = {name: moved.table.c[name] + _by for name in moved.columns}
    statement = update(moved.table).values(values)
    return Statement(statement if moved.rows is None else statement.where(moved.rows))


_MOVES: Final = [_move(moved) for moved in MOVED]
_USES_LATELY: Final = [moved.rows is not None and "lately" in str(moved.rows) for moved in MOVED]
# Locked, so that of several processes the second finds what the first has done.
_OFFICES = Statement(select(elections.c.holder, elections.c.expires_at).order_by(elections.c.role).with_for_update())


def step(tx: Transaction, by_us: int) -> int | None:
    """Move along what is due, for a clock that was set by ``by_us``; how many rows, None if another process has."""
    offices = [row["expires_at"] for row in _OFFICES.all(tx) if row["holder"]]
    if offices and _is_moved(max(offices) - tx.now, by_us):
        return None
    return _shift(tx, by_us)


def started(tx: Transaction) -> int:
    """Called once when a process starts: the clock may have been set back while none ran.

    Returns by how much, in microseconds, at least; 0 as a rule. A clock that was set forth meanwhile cannot be told
    from time that passed.
    """
    last = max((_last_seen(row["holder"], row["expires_at"]) for row in _OFFICES.all(tx)), default=tx.now)
    if last <= tx.now + STEP_US:
        return 0
    _shift(tx, tx.now - last)
    return last - tx.now


def _is_moved(left_us: int, by_us: int) -> bool:
    """Whether an office ends as it should by the clock as it is now: after now, and within its term."""
    return left_us > 0 if by_us > 0 else left_us <= TERM_US


def _last_seen(holder: str | None, expires_at: int) -> int:
    """When somebody was in office at the latest: the lease was granted then, or given up."""
    return expires_at - TERM_US if holder else expires_at


def _shift(tx: Transaction, by_us: int) -> int:
    lately = {"lately": tx.now - max(by_us, 0) - _LATELY_US}
    moves = zip(_MOVES, _USES_LATELY, strict=True)
    return sum(move.run(tx, by=by_us, **(lately if uses_lately else {})) for move, uses_lately in moves)
