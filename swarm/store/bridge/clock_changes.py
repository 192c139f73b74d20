"""Detects changes to the clock that transactions use, and shifts all due times by the same amount.

The time of a transaction is the database server's, or the machine's on SQLite. Each process also counts elapsed time
independently; this counter is never set and continues while the machine sleeps. A slow answer (network, suspended
process) does not count as a change: the server's time must lie outside the range allowed by the time between question
and answer.

Without the shift, a step of one hour would end all leases at once, or delay deliveries and retries by an hour. The
shift applies to deadlines and to the times that determine how open rows are processed (their age, their place in the
queue). Closed rows keep their times.

Who may act: the first process that detects the change. The other processes notice that the leases of
`swarm.store.locks` have moved; some process always holds one and renews it every few seconds. Guarantee: all rows
move in one transaction without overlapping writes, before the next write transaction of each process; a concurrent read
uses the old clock. On failure: nothing moves, and the next write tries again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog
from sqlalchemy import BigInteger, Column, ColumnElement, Table, bindparam, or_, select, update

from swarm.clock import SECOND, Clock, MeasuredClock, SystemClock
from swarm.domain.model.inbox import InboxStatus, NoticeStatus
from swarm.domain.model.leases import LockKind
from swarm.store.bridge.statements import Statement, literally
from swarm.store.bridge.transaction import Moment, Transaction
from swarm.store.tables import (
    agent_instances,
    agent_messages,
    agents,
    alerts,
    deliveries,
    early_messages,
    escalations,
    grants,
    inbox_messages,
    leases,
    listening,
    locks,
    notices,
    people,
    queue_heads,
    requests,
    run_messages,
    runs,
    sessions,
    tasks,
    thread_messages,
    threads,
    webhooks,
)

STEP_US: Final = 10 * SECOND
"""Smaller steps are ignored. Leases are renewed long before their last ten seconds, and the holder of an elected role
may renew it after its expiry (`swarm.store.locks`).
"""

_SHARP_US: Final = SECOND // 2  # a less precise reading is not used as a reference for later ones

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ClockReading:
    """A reading of the clock, with the elapsed time before the question and after the answer, in microseconds."""

    moment: int
    asked_at: int
    answered_at: int


class ClockWatch:
    """A watch on the clock of one database: ``clock``, or the server's time passed to `read`.

    ``on_step`` receives each step in seconds. A clock that does not measure elapsed time itself (not a `MeasuredClock`)
    never counts as changed.
    """

    def __init__(self, clock: Clock | None, on_step: Callable[[float], None]) -> None:
        self.settling = threading.Lock()  # held while due times are moved
        self._clock = clock
        self._is_believed = clock is not None and not isinstance(clock, MeasuredClock)
        self._elapsed_us = (clock if isinstance(clock, MeasuredClock) else SystemClock()).elapsed_us
        self._on_step = on_step
        self._opened_at = self._elapsed_us()
        self._listened_at: int | None = None  # None: `listens` is not called regularly
        self._asleep_us = 0
        self._last: ClockReading | None = None

    def listens(self, asleep_seconds: float) -> None:
        """Records that this process listens to agents and can write. A gap longer than ``asleep_seconds`` means that
        it could not.
        """
        now = self._elapsed_us()
        if self._listened_at is None:
            self._opened_at = now
        self._notice_sleep(now)
        self._listened_at, self._asleep_us = now, int(asleep_seconds * SECOND)

    def _notice_sleep(self, now: int) -> None:
        if self._listened_at is not None and now - self._listened_at > self._asleep_us:
            self._opened_at = self._listened_at = now

    def asked(self) -> int:
        """Returns the elapsed time for `read`. Callers ask the server for its time afterwards."""
        return self._elapsed_us()

    def read(self, server: int = 0, asked_at: int | None = None) -> tuple[ClockReading, int]:
        """Returns a reading, and the step since the previous reading in microseconds, usually 0."""
        if asked_at is None:
            asked_at = self._elapsed_us()
        moment = server if self._clock is None else self._clock.now_us()
        reading = ClockReading(moment, asked_at, self._elapsed_us())
        step = self._step(reading)
        if not step and reading.answered_at - asked_at <= _SHARP_US:
            self._last = reading
        return reading, step

    def moment(self, reading: ClockReading, step: int = 0) -> Moment:
        """Returns the time of a transaction. With ``step`` the time follows the clock from before the step."""
        self._notice_sleep(reading.answered_at)
        now = reading.moment - step
        return Moment(now, now - (reading.answered_at - self._opened_at))

    def settle(self, reading: ClockReading, step: int, moved: int | None) -> None:
        """Accepts the current clock and reports the step. ``moved`` counts the moved rows; None if another process
        moved them.
        """
        self._last = reading
        seconds = step / SECOND
        _log.warning(
            f"The clock was set {'forward' if step > 0 else 'back'} by {abs(seconds):.0f} s. Due times are moved.",
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
"""The longest lease of an elected role, as granted by `swarm.services.ground.locks`."""

_RECENT_US: Final = 600 * SECOND
"""Closed rows up to this age may still matter: for limits per minute, earlier attempts, the context of a run, and
copies of a message.
"""

_by = bindparam("by", type_=BigInteger)
_recent_since = bindparam("lately", type_=BigInteger)


@dataclass(frozen=True, slots=True)
class _Moved:
    """The columns of a table that move. ``rows`` and ``recent`` select the rows; without either, every row moves."""

    table: Table
    columns: tuple[str, ...]
    rows: ColumnElement[bool] | None = None
    recent: Column[int] | None = None  # selects closed rows whose time in this column is recent or in the future

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
    _Moved(leases, ("created_at", "expires_at"), leases.c.ended_at.is_(None)),
    _Moved(locks, ("expires_at",)),
    _Moved(deliveries, ("created_at", "due_at", "expires_at"), deliveries.c.due_at.is_not(None)),
    _Moved(webhooks, ("created_at", "due_at"), webhooks.c.due_at.is_not(None)),
    _Moved(inbox_messages, ("created_at", "due_at", "order_key"), inbox_messages.c.status.in_(_OPEN_MESSAGES)),
    _Moved(tasks, ("created_at", "due_at", "offer_ends_at", "order_key"), tasks.c.ended_at.is_(None)),
    _Moved(queue_heads, ("order_key",)),
    _Moved(
        notices,
        ("created_at",),
        notices.c.status.in_([literally(NoticeStatus.UNREAD), literally(NoticeStatus.CLAIMED)]),
    ),
    _Moved(agents, ("last_seen_at",), agents.c.revoked_at.is_(None)),
    _Moved(agent_instances, ("began_at", "seen_at", "called_at")),
    _Moved(listening, ("began_at", "until_at")),
    _Moved(threads, ("context_due_at",), threads.c.context_due_at.is_not(None)),
    _Moved(threads, ("status_at",), threads.c.status_at.is_not(None)),
    _Moved(early_messages, ("stored_at", "verify_at")),
    _Moved(people, ("window_started_at",), recent=people.c.window_started_at),
    _Moved(people, ("verified_at",), recent=people.c.verified_at),
    _Moved(thread_messages, ("stored_at",), recent=thread_messages.c.stored_at),
    _Moved(sessions, ("updated_at",), recent=sessions.c.updated_at),
    _Moved(agent_messages, ("created_at",), recent=agent_messages.c.created_at),
    _Moved(alerts, ("shown_at",), alerts.c.repeats > alerts.c.shown_repeats, recent=alerts.c.shown_at),
    _Moved(requests, ("expires_at", "tell_at"), requests.c.ended_at.is_(None)),
    _Moved(escalations, ("on_call_ends_at",), escalations.c.on_call_ends_at.is_not(None)),
    _Moved(grants, ("expires_at",), grants.c.revoked_at.is_(None)),
    _Moved(runs, ("started_at",), runs.c.ended_at.is_(None), recent=runs.c.started_at),
    _Moved(
        run_messages,
        ("began_at",),
        run_messages.c.run_id.in_(select(runs.c.id).where(runs.c.ended_at.is_(None))),
    ),
)
"""All columns that are moved."""

_MOVES: Final = [(moved.statement(), moved.recent is not None) for moved in MOVED]
# The row is locked, so that the second of several processes sees the result of the first.
_OFFICES = Statement(
    select(locks.c.holder, locks.c.expires_at)
    .where(locks.c.kind == literally(LockKind.OFFICE))
    .order_by(locks.c.key)
    .with_for_update()
)


def step(tx: Transaction, by_us: int) -> int | None:
    """Moves the due times after the clock was set by ``by_us``. Returns the number of rows; None if another process
    already moved them.
    """
    expiries = [row["expires_at"] for row in _OFFICES.all(tx) if row["holder"]]
    if expiries and _is_moved(max(expiries) - tx.now, by_us):
        return None
    return _shift(tx, by_us)


def started(tx: Transaction) -> int:
    """Checks once, when a process starts, whether the clock was set back while no process was running.

    Returns the smallest possible step in microseconds, usually 0, and moves the due times by it. A clock that was set
    forward in the meantime cannot be distinguished from elapsed time.
    """
    last = max((_last_seen(row["holder"], row["expires_at"]) for row in _OFFICES.all(tx)), default=tx.now)
    if last <= tx.now + STEP_US:
        return 0
    _shift(tx, tx.now - last)
    return last - tx.now


def _is_moved(left_us: int, by_us: int) -> bool:
    """Returns whether a lease ends as expected by the current clock: after now, and within its term."""
    return left_us > 0 if by_us > 0 else left_us <= TERM_US


def _last_seen(holder: str | None, expires_at: int) -> int:
    """Returns the latest time at which the holder is known to have acted: when it got the lease, or gave it up."""
    return expires_at - TERM_US if holder else expires_at


def _shift(tx: Transaction, by_us: int) -> int:
    recent_since = {"lately": tx.now - max(by_us, 0) - _RECENT_US}
    return sum(move.run(tx, by=by_us, **(recent_since if has_recent else {})) for move, has_recent in _MOVES)
