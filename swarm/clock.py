"""Time and identity, as sources that a test can hold in its hand.

Inside the system a moment is an integer: microseconds since 1970-01-01 UTC. The same number is exact in Python, in
SQLite and in PostgreSQL, sorts, and needs no conversion on the path of a poll. The doors show ISO 8601.
"""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol, runtime_checkable

import uuid_utils

SECOND = 1_000_000
"""Microseconds in a second."""

_ELAPSED = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """Where the present moment comes from."""

    def now_us(self) -> int:
        """Microseconds since 1970-01-01 UTC."""
        ...


@runtime_checkable
class MeasuredClock(Clock, Protocol):
    """A clock whose steps can be told from the time that passes."""

    def elapsed_us(self) -> int:
        """Microseconds since some moment, on a clock that nobody sets."""
        ...


class SystemClock:
    """The machine's own clock."""

    def now_us(self) -> int:
        return time.time_ns() // 1_000

    def elapsed_us(self) -> int:
        """Goes on while the machine sleeps, where there is such a clock."""
        return time.clock_gettime_ns(_ELAPSED) // 1_000


class ManualClock:
    """A clock that stands still until a test moves it."""

    def __init__(self, start_us: int = 1_700_000_000 * SECOND) -> None:
        self._set_to_us = start_us
        self._elapsed_us = 0

    def now_us(self) -> int:
        return self._set_to_us + self._elapsed_us

    def elapsed_us(self) -> int:
        return self._elapsed_us

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        self._elapsed_us += int(seconds * SECOND)

    def step(self, seconds: float) -> None:
        """Set the clock forth or back, without any time that passes."""
        self._set_to_us += int(seconds * SECOND)


def new_id() -> str:
    """A new UUID version 7: unique, and ordered by the time of its making."""
    return str(uuid_utils.uuid7())


def to_iso(moment_us: int) -> str:
    """A moment in microseconds as ISO 8601 in UTC, for example ``2026-11-21T09:30:00.000250Z``."""
    return (_EPOCH + timedelta(microseconds=moment_us)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def us_to_slack_ts(moment_us: int) -> str:
    """A moment in microseconds as Slack writes timestamps, for example ``1700000000.000100``."""
    return f"{moment_us // SECOND}.{moment_us % SECOND:06d}"


def slack_ts_to_us(ts: str) -> int:
    """A Slack timestamp such as ``1700000000.000100`` in microseconds."""
    seconds, _, fraction = ts.partition(".")
    return int(seconds) * SECOND + int(fraction.ljust(6, "0")[:6] or 0)
