"""Watching over runs: silence, which people are told about, repeated failures, after which the runner pauses, and the
limits of accounts, after which another account is used."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

import structlog

from swarm_runner.port import StepShown, ToolState
from swarm_runner.settings import RunnerSettings

FAILURES: Final = 3
"""So many failures in a row let the runner pause."""

_MOST_PAUSE_SECONDS: Final = 900.0
_STEP: Final = "swarm-silence"

_log = structlog.get_logger(__name__)


class SilenceWatch:
    """Tells people when a CLI has been silent for ``after_seconds``, and gives up after ``limit_seconds``."""

    def __init__(self, after_seconds: float, limit_seconds: float | None, show: Callable[[StepShown], object]) -> None:
        self._after_seconds = after_seconds
        self._limit_seconds = limit_seconds
        self._show = show
        self._heard = asyncio.Event()
        self._waiting = 0  # questions to people, during which a CLI is silent for a good reason

    def beat(self) -> None:
        """Notes a sign of life."""
        self._heard.set()

    def hold(self, count: int) -> None:
        """Counts the questions that people have to answer; while there are any, no silence is measured."""
        self._waiting = count
        self._heard.set()

    async def watch(self) -> None:
        """Returns when the limit is reached; without a limit, watches until it is cancelled."""
        first = min(self._after_seconds, self._limit_seconds or self._after_seconds)
        rest = None if self._limit_seconds is None else self._limit_seconds - first
        while True:
            if await self._is_heard_within(first):
                continue
            words = f"no output for {_time(first)}"
            _log.warning("The CLI is silent.", action="runner_silent", seconds=first)
            self._show(StepShown(id=_STEP, title=words, state=ToolState.IN_PROGRESS))
            if not await self._is_heard_within(rest):
                self._show(StepShown(id=_STEP, title=words, state=ToolState.ERROR))
                return
            self._show(StepShown(id=_STEP, title=f"{words}, then it went on", state=ToolState.COMPLETE))

    async def _is_heard_within(self, seconds: float | None) -> bool:
        self._heard.clear()
        try:
            async with asyncio.timeout(None if self._waiting else seconds):
                await self._heard.wait()
        except TimeoutError:
            return False
        return True

    @property
    def reason(self) -> str:
        """Why the run is ended, for people."""
        return f"the agent's program wrote nothing for {_time(self._limit_seconds or 0)}"


class Breaker:
    """Stops taking work for a growing time after failures in a row; then one run tries again."""

    def __init__(self, pause_seconds: float) -> None:
        self._pause_seconds = pause_seconds
        self._failures = 0
        self._until = 0.0

    def record(self, *, failed: bool) -> None:
        """Notes the end of a run."""
        self._failures = self._failures + 1 if failed else 0
        if self._failures >= FAILURES:
            pause = min(self._pause_seconds * 2 ** (self._failures - FAILURES), _MOST_PAUSE_SECONDS)
            self._until = asyncio.get_running_loop().time() + pause
            _log.error(
                "Runs fail one after the other, so no work is taken for a while.",
                action="runner_paused",
                failures=self._failures,
                seconds=pause,
            )

    @property
    def pause_seconds(self) -> float:
        """The time for which no work is taken; 0: take work."""
        return max(0.0, self._until - asyncio.get_running_loop().time()) if self._failures >= FAILURES else 0.0

    @property
    def is_trying(self) -> bool:
        """Whether the next run tests if the failures are over."""
        return self._failures >= FAILURES


class Accounts:
    """The accounts of a runner, in the order in which they are used, and until when their limits are reached."""

    def __init__(self, settings: RunnerSettings) -> None:
        self._settings = (settings, *settings.fallbacks)
        self._until = [0.0] * len(self._settings)  # seconds since 1970

    @property
    def first(self) -> RunnerSettings:
        """The first account whose limit is not reached; otherwise the one whose limit ends first."""
        now = time.time()
        return min(self._settings, key=lambda one: max(self._until[one.account], now))

    @property
    def left_seconds(self) -> float:
        """The time until an account may be used; 0: now."""
        return max(0.0, min(self._until) - time.time())

    def has_other(self, account: int) -> bool:
        """Whether another account may be used now."""
        return any(until <= time.time() for at, until in enumerate(self._until) if at != account)

    def park(self, account: int, until: float) -> None:
        """Notes that the limit of an account is reached."""
        self._until[account] = max(self._until[account], until)


def _time(seconds: float) -> str:
    return f"{seconds / 60:g} min" if seconds % 60 == 0 else f"{seconds:g} s"
