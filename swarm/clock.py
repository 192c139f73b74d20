"""Time and identity, as sources that a test can hold in its hand.

Inside the system a moment is an integer: microseconds since 1970-01-01 UTC. The same number is exact in Python, in
SQLite and in PostgreSQL, sorts, and needs no conversion on the path of a poll. The doors show ISO 8601.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

import uuid_utils

SECOND = 1_000_000
"""Microseconds in a second."""

_LOOK_SECONDS: Final = 0.02  # whoever sleeps looks so often whether a test has moved the clock

ELAPSED: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""The machine's clock that nobody sets and that goes on while the machine sleeps, where there is such a one."""

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
        return time.time_ns() // 1_000 + int(offset.seconds() * SECOND)

    def elapsed_us(self) -> int:
        """Goes on while the machine sleeps, where there is such a clock."""
        return time.clock_gettime_ns(ELAPSED) // 1_000 + int(offset.seconds() * SECOND)


class ClockOffset:
    """How far this process's clocks are ahead of the machine's: 0, unless tests have named a file that says so.

    The file holds a number of seconds, which may only grow, and is read whenever somebody asks for the time. Whoever
    writes it replaces it as a whole. So several processes live through the same hour in a moment.
    """

    def __init__(self) -> None:
        self._path: Path | None = None
        self._seconds = 0.0

    def follow(self, path: Path) -> None:
        """From now on the file at ``path`` counts. Raises OSError or ValueError if it holds no number."""
        self._seconds = float(path.read_text())
        self._path = path

    def seconds(self) -> float:
        """How far ahead it is now; what was read last, while the file cannot be read."""
        if self._path is not None:
            with contextlib.suppress(OSError, ValueError):
                self._seconds = float(self._path.read_text())
        return self._seconds

    def after(self, source: Callable[[], float]) -> Callable[[], float]:
        """A clock in seconds that is ahead of ``source`` in the same way."""
        return lambda: source() + self.seconds()

    async def sleep(self, seconds: float) -> None:
        """Wait, in a test no longer than its clock says."""
        if self._path is None:
            return await asyncio.sleep(seconds)
        elapsed = self.after(time.monotonic)
        until = elapsed() + seconds
        while (rest := until - elapsed()) > 0:  # noqa: ASYNC110 - nobody tells when the file changes
            await asyncio.sleep(min(rest, _LOOK_SECONDS))
        return None


offset: Final = ClockOffset()
"""Of this process; who needs the time of day asks `SystemClock`."""


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


def new_trace_id() -> str:
    """A new id of a trace as W3C's Trace Context has it: 32 hex digits. https://www.w3.org/TR/trace-context/#trace-id"""
    return uuid_utils.uuid7().hex


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
