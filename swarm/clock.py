"""Time and ids, from sources that a test can control.

Inside the system a time is an integer: microseconds since 1970-01-01 UTC. This number is exact in Python, SQLite and
PostgreSQL, can be sorted, and needs no conversion during a poll. The entry points show ISO 8601.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

import uuid_utils

from swarm_base.times import span

SECOND = 1_000_000
"""Microseconds in a second."""

_LOOK_SECONDS: Final = 0.02  # how often a sleeping task checks whether a test has moved the clock

ELAPSED: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The machine's clock that cannot be set and that continues while the machine sleeps, if such a clock exists."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def boottime() -> float:
    """Returns seconds on a clock that continues while the machine sleeps, if such a clock exists."""
    return time.clock_gettime(ELAPSED)


def until_next(seconds: float) -> float:
    """Returns the time until the next multiple of ``seconds`` on the event loop's clock, for a task that repeats.

    Tasks that wait for the same moment wake an idle process once instead of once each. A moment that is almost here
    counts as past, so that a timer that is early wakes nobody twice.
    """
    if seconds <= 0:
        return 0.0
    left = seconds - asyncio.get_running_loop().time() % seconds
    return left if left > seconds / 10 else left + seconds


class Clock(Protocol):
    """The source of the current time."""

    def now_us(self) -> int:
        """Returns microseconds since 1970-01-01 UTC."""
        ...


@runtime_checkable
class MeasuredClock(Clock, Protocol):
    """A clock that can tell elapsed time from changes to the system time."""

    def elapsed_us(self) -> int:
        """Returns microseconds since an arbitrary time, on a clock that cannot be set."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_us(self) -> int:
        return time.time_ns() // 1_000 + int(offset.seconds() * SECOND)

    def elapsed_us(self) -> int:
        """Continues while the machine sleeps, if such a clock exists."""
        return time.clock_gettime_ns(ELAPSED) // 1_000 + int(offset.seconds() * SECOND)


class ClockOffset:
    """How far this process's clocks are ahead of the machine's: 0 unless a test has specified a file.

    The file contains a number of seconds, which may only grow, and is read on every request for the time. Writers
    replace the file atomically. Several processes can thus pass through the same hour in a moment.
    """

    def __init__(self) -> None:
        self._path: Path | None = None
        self._seconds = 0.0

    def follow(self, path: Path) -> None:
        """Starts using the file at ``path``. Raises OSError or ValueError if it contains no number."""
        self._seconds = float(path.read_text())
        self._path = path

    def seconds(self) -> float:
        """Returns the current offset; the last value read while the file cannot be read."""
        if self._path is not None:
            with contextlib.suppress(OSError, ValueError):
                self._seconds = float(self._path.read_text())
        return self._seconds

    def after(self, source: Callable[[], float]) -> Callable[[], float]:
        """Returns a clock in seconds that is ahead of ``source`` by this offset."""
        return lambda: source() + self.seconds()

    async def sleep(self, seconds: float) -> None:
        """Waits; in a test, only until the shifted clock has advanced by this time."""
        if self._path is None:
            return await asyncio.sleep(seconds)
        elapsed = self.after(time.monotonic)
        until = elapsed() + seconds
        while (rest := until - elapsed()) > 0:  # noqa: ASYNC110 - nobody tells when the file changes
            await asyncio.sleep(min(rest, _LOOK_SECONDS))
        return None


offset: Final = ClockOffset()
"""The offset of this process. `SystemClock` gives the time of day."""


class ManualClock:
    """A clock that advances only when a test moves it."""

    def __init__(self, start_us: int = 1_700_000_000 * SECOND) -> None:
        self._set_to_us = start_us
        self._elapsed_us = 0

    def now_us(self) -> int:
        return self._set_to_us + self._elapsed_us

    def elapsed_us(self) -> int:
        return self._elapsed_us

    def advance(self, seconds: float) -> None:
        """Lets time pass."""
        self._elapsed_us += int(seconds * SECOND)

    def step(self, seconds: float) -> None:
        """Sets the clock forward or back without elapsed time."""
        self._set_to_us += int(seconds * SECOND)


def new_id() -> str:
    """Returns a new UUID version 7: unique, and ordered by creation time."""
    return str(uuid_utils.uuid7())


def new_trace_id() -> str:
    """Returns a new trace id in the format of W3C Trace Context: 32 hex digits.
    https://www.w3.org/TR/trace-context/#trace-id
    """
    return uuid_utils.uuid7().hex


@lru_cache(maxsize=1024)  # an answer contains the same times several times
def to_iso(moment_us: int) -> str:
    """Returns a time in microseconds as ISO 8601 in UTC, for example ``2026-11-21T09:30:00.000250Z``."""
    return (_EPOCH + timedelta(microseconds=moment_us)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def from_iso(text: str) -> int:
    """Parses an ISO 8601 time to microseconds; UTC without an offset. Raises ValueError."""
    moment = datetime.fromisoformat(text)
    return round((moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() * SECOND)


def us_to_slack_ts(moment_us: int) -> str:
    """Returns a time in microseconds in Slack's format for timestamps, for example ``1700000000.000100``."""
    return f"{moment_us // SECOND}.{moment_us % SECOND:06d}"


def ago(at_us: int, now_us: int) -> str:
    """Returns how long ago a time was, such as "2 days ago"; empty for less than six hours."""
    seconds = (now_us - at_us) // SECOND
    return f"{span(seconds)} ago" if seconds >= 6 * 3600 else ""


def slack_ts_to_us(ts: str) -> int:
    """Returns a Slack timestamp such as ``1700000000.000100`` in microseconds."""
    seconds, _, fraction = ts.partition(".")
    return int(seconds) * SECOND + int(fraction.ljust(6, "0")[:6] or 0)
