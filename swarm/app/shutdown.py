"""The end of what was opened: side by side, and by one moment for all of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import structlog

STOP_SECONDS: Final = 7.5
"""So long everything together may take to end; `swarm.app.forced_exit` comes a while later."""

INSIST_SECONDS: Final = 0.5
"""So long what was cut off has to kill what it has started."""

Close = Callable[[], Awaitable[object]]

_log = structlog.get_logger(__name__)


class StopDeadline:
    """The moment by which all has to be over. Its time runs from the first use."""

    def __init__(self, seconds: float = STOP_SECONDS) -> None:
        self._seconds = seconds
        self._ends_at: float | None = None

    def left(self, *, reserve_seconds: float = 0.0) -> float:
        """The seconds that are left, but for those that are reserved for what comes later."""
        now = time.monotonic()
        if self._ends_at is None:
            self._ends_at = now + self._seconds
        return max(0.0, self._ends_at - now - reserve_seconds)


class ShutdownStack:
    """What is to be closed at the end, by name."""

    def __init__(self, deadline: StopDeadline) -> None:
        self._deadline = deadline
        self._closings: dict[str, Close] = {}

    def add(self, name: str, close: Close) -> None:
        """Close this as well. What stands under a name twice is an error of ours, and raises ValueError."""
        if name in self._closings:
            raise ValueError(name)
        self._closings[name] = close

    async def aclose(self) -> None:
        """Close everything; see `close_all`."""
        await close_all(self._closings, within_seconds=self._deadline.left())


async def close_all(closings: Mapping[str, Close], *, within_seconds: float) -> None:
    """Close everything, side by side. What takes too long is cut off and logged, what fails is logged.

    Raises nothing but CancelledError, and then everything is cut off.
    """
    tasks = [asyncio.create_task(_closed(name, close), name=name) for name, close in closings.items()]
    if not tasks:
        return
    try:
        await asyncio.wait(tasks, timeout=within_seconds)
        if late := [task.get_name() for task in tasks if not task.done()]:
            _log.warning("Something does not end in time and is cut off.", action="stop_late", late=late)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks, timeout=INSIST_SECONDS)


async def _closed(name: str, close: Close) -> None:
    try:
        await close()
    except Exception:  # noqa: BLE001 - everything else is closed all the same
        _log.exception("Something could not be closed.", action="stop_failed", what=name)
