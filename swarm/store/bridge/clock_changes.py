"""Notices when the clock that transactions go by is set: it then goes on or back by more than the time that passed.

A transaction's moment comes from the database server, on SQLite from the machine. Beside it stands this process's own
count of the time that passes, which nobody sets and which goes on while the machine sleeps. An answer that took long (a
slow network, a suspended process) is no step: the moment must lie outside of everything that the time between question
and answer allows.

Who may act: every thread of one process. What is guaranteed: after a step no transaction that writes runs before what
is due was moved along (`swarm.store.bridge.clock_changes`); one that reads meanwhile goes by the clock as it was.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog
from sqlalchemy import BigInteger, Column, ColumnElement, Table, bindparam, or_, select, update

from swarm.clock import SECOND, Clock, MeasuredClock, SystemClock
from swarm.domain.documents.document_index import DocumentStatus
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.notices import NoticeStatus
from swarm.store.bridge.statements import Statement, literally
from swarm.store.bridge.transaction import Moment, Transaction
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

STEP_US: Final = 10 * SECOND
"""Smaller steps are borne: leases are renewed long before their last ten seconds, and who holds an office may renew it
after its end (`swarm.store.elections`)."""

_SHARP_US: Final = SECOND // 2  # a moment that is known less sharply is not measured against later

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ClockReading:
    """What the clock says, and the time that had passed when it was asked and when it had answered. Microseconds."""

    moment: int
    asked_at: int
    answered_at: int


class ClockWatch:
    """Watches the clock of one database: ``clock``, or without one the server's, which `read` is told.

    ``on_step`` is told of each step, in seconds. A clock that counts no time by itself (`MeasuredClock`) is believed.
    """

    def __init__(self, clock: Clock | None, on_step: Callable[[float], None]) -> None:
        self.settling = threading.Lock()  # of whoever moves along what is due
        self._clock = clock
        self._is_believed = clock is not None and not isinstance(clock, MeasuredClock)
        self._elapsed_us = (clock if isinstance(clock, MeasuredClock) else SystemClock()).elapsed_us
        self._on_step = on_step
        self._opened_at = self._elapsed_us()
        self._listened_at: int | None = None  # None: nobody says so regularly
        self._asleep_us = 0
        self._last: ClockReading | None = None

    def listens(self, asleep_seconds: float) -> None:
        """Note that this process is awake; a longer time without that means that it was asleep."""
        now = self._elapsed_us()
        self._notice_sleep(now)
        self._listened_at, self._asleep_us = now, int(asleep_seconds * SECOND)

    def _notice_sleep(self, now: int) -> None:
        if self._listened_at is not None and now - self._listened_at > self._asleep_us:
            self._opened_at = self._listened_at = now

    def asked(self) -> int:
        """To be noted before the server is asked."""
        return self._elapsed_us()

    def read(self, server: int = 0, asked_at: int | None = None) -> tuple[ClockReading, int]:
        """What the clock says, and by how many microseconds it was set since the last reading; 0 as a rule."""
        if asked_at is None:
            asked_at = self._elapsed_us()
        moment = server if self._clock is None else self._clock.now_us()
        reading = ClockReading(moment, asked_at, self._elapsed_us())
        step = self._step(reading)
        if not step and reading.answered_at - asked_at <= _SHARP_US:
            self._last = reading
        return reading, step

    def moment(self, reading: ClockReading, step: int = 0) -> Moment:
        """The moment of a transaction; with ``step`` by the clock as it was before."""
        self._notice_sleep(reading.answered_at)
        now = reading.moment - step
        return Moment(now, now - (reading.answered_at - self._opened_at))

    def settle(self, reading: ClockReading, step: int, moved: int | None) -> None:
        """From now on the clock is right as it is. ``moved``: so many rows were; None: another process has done it."""
        self._last = reading
        seconds = step / SECOND
        _log.warning(
            f"The clock was set {'forth' if step > 0 else 'back'} by {abs(seconds):.0f} s. What is due is moved along.",
            action="clock_stepped",
            seconds=round(seconds, 1),
            rows=moved,
        )
        self._on_step(seconds)

    def _step(self, now: ClockReading) -> int:
        last = self._last
        if last is None or self._is_believed:
            return 0
        least = last.moment + now.asked_at - last.answered_at
        most = last.moment + now.answered_at - last.asked_at
        if least - STEP_US <= now.moment <= most + STEP_US:
            return 0
        return now.moment - (least + most) // 2


TERM_US: Final = 10 * SECOND
"""The longest lease of an office, which `swarm.services.outbox.elections` gives."""

_RECENT_US: Final = 600 * SECOND
"""What has happened within this time may still count: limits for a minute, an attempt before this one, what an agent
was told before it began, and what may hold a copy of a message."""

_by = bindparam("by", type_=BigInteger)
_recent_since = bindparam("lately", type_=BigInteger)


@dataclass(frozen=True, slots=True)
class Moved:
    """The columns of a table that move, and the rows in which they do: ``rows`` and the ``recent`` ones; None: all."""

    table: Table
    columns: tuple[str, ...]
    rows: ColumnElement[bool] | None = None
    recent: Column[int] | None = None  # closed rows whose moment in this column is recent or in the future

    def statement(self) -> Statement:
        statement = update(self.table).values({name: self.table.c[name] + _by for name in self.columns})
        conditions = [] if self.rows is None else [self.rows]
        if self.recent is not None:
            conditions.append(self.recent > _recent_since)
        return Statement(statement.where(or_(*conditions)) if conditions else statement)


_OPEN_MESSAGES: Final = [
    literally(status)
    for status in (InboxStatus.UNREAD, InboxStatus.CLAIMED, InboxStatus.WAITING, InboxStatus.DELEGATED)
]

MOVED: Final = (
    Moved(leases, ("created_at", "expires_at"), leases.c.ended_at.is_(None)),
    Moved(elections, ("since", "expires_at")),
    Moved(talks, ("expires_at",)),
    Moved(deliveries, ("created_at", "due_at", "expires_at"), deliveries.c.due_at.is_not(None)),
    Moved(inbox_messages, ("created_at", "due_at", "order_key"), inbox_messages.c.status.in_(_OPEN_MESSAGES)),
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
    Moved(people, ("window_started_at",), recent=people.c.window_started_at),
    Moved(people, ("verified_at",), recent=people.c.verified_at),
    Moved(thread_messages, ("stored_at",), recent=thread_messages.c.stored_at),
    Moved(sessions, ("updated_at",), recent=sessions.c.updated_at),
    Moved(agent_messages, ("created_at",), recent=agent_messages.c.created_at),
    Moved(turns, ("started_at",), turns.c.ended_at.is_(None), recent=turns.c.started_at),
    Moved(
        turn_messages,
        ("began_at",),
        turn_messages.c.turn_id.in_(select(turns.c.id).where(turns.c.ended_at.is_(None))),
    ),
)
"""All that moves."""


_MOVES: Final = [(moved.statement(), moved.recent is not None) for moved in MOVED]
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
    recent_since = {"lately": tx.now - max(by_us, 0) - _RECENT_US}
    return sum(move.run(tx, by=by_us, **(recent_since if has_recent else {})) for move, has_recent in _MOVES)
