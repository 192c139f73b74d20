"""Notices when the clock that transactions go by is set: it then goes on or back by more than the time that passed.

A transaction's moment comes from the database server, on SQLite from the machine. Beside it stands this process's own
count of the time that passes, which nobody sets and which goes on while the machine sleeps. An answer that took long (a
slow network, a suspended process) is no step: the moment must lie outside of everything that the time between question
and answer allows.

Who may act: every thread of one process. What is guaranteed: after a step no transaction that writes runs before what
is due was moved along (`swarm.store.bridge.clock_steps`); one that reads meanwhile goes by the clock as it was.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import structlog

from swarm.clock import SECOND, Clock, MeasuredClock, SystemClock
from swarm.store.bridge.transaction import Moment

STEP_US: Final = 10 * SECOND
"""Smaller steps are borne: leases are renewed long before their last ten seconds, and who holds an office may renew it
after its end (`swarm.store.records.elections`)."""

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
