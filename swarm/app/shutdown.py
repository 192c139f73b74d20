"""The end of the process: an orderly one by a common deadline, and a forced one if the orderly one hangs.

An orderly end may wait for a party that never answers: a database in the middle of a statement, a thread of a library,
a disk. So an independent thread ends the process and all its descendants when the time is over.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time
import traceback
from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import structlog

from swarm.processes.supervisor import kill_descendants

STOP_SECONDS: Final = 7.5
"""Time for the whole orderly end; `ForcedExit` comes a while later."""

INSIST_SECONDS: Final = 0.5
"""Time for cancelled work to kill its child processes."""

CUT_SECONDS: Final = 9.0
"""Seconds from the order to stop to the forced end; a supervisor usually waits for ten."""

_TELL_SECONDS: Final = 0.2  # for the log line, which may itself hang

Close = Callable[[], Awaitable[object]]

_log = structlog.get_logger(__name__)


class StopDeadline:
    """The common deadline of the end. The time runs from the first use."""

    def __init__(self, seconds: float = STOP_SECONDS) -> None:
        self._seconds = seconds
        self._ends_at: float | None = None

    def left(self, *, reserve_seconds: float = 0.0) -> float:
        """The remaining seconds, less the reserve for later steps."""
        now = time.monotonic()
        if self._ends_at is None:
            self._ends_at = now + self._seconds
        return max(0.0, self._ends_at - now - reserve_seconds)


class ShutdownStack:
    """Named functions to call at the end."""

    def __init__(self, deadline: StopDeadline) -> None:
        self._deadline = deadline
        self._closings: dict[str, Close] = {}

    def add(self, name: str, close: Close) -> None:
        """Close this as well. A name used twice is a bug, and raises ValueError."""
        if name in self._closings:
            raise ValueError(name)
        self._closings[name] = close

    async def aclose(self) -> None:
        """Call all functions; see `close_all`."""
        await close_all(self._closings, within_seconds=self._deadline.left())


async def close_all(closings: Mapping[str, Close], *, within_seconds: float) -> None:
    """Call all functions, side by side. Slow ones are cut off and logged, errors are logged.

    Raises nothing but CancelledError, and then all calls are cut off.
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
    except Exception:  # noqa: BLE001 - the other functions go on all the same
        _log.exception("Something could not be closed.", action="stop_failed", what=name)


class ForcedExit:
    """Ends the process ``seconds`` after `begin`, whatever the process does."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._reader, self._writer = os.pipe()  # not a lock: a signal handler may run at any point
        threading.Thread(target=self._wait, name="last resort", daemon=True).start()

    def begin(self, code: int) -> None:
        """Start the time limit; only the first call counts. ``code`` is the exit code of a forced end."""
        os.write(self._writer, bytes([code]))

    def _wait(self) -> None:
        (code,) = os.read(self._reader, 1)
        time.sleep(self._seconds)
        telling = threading.Thread(target=self._tell, args=(_stack_of_main_thread(),), daemon=True)
        telling.start()
        telling.join(_TELL_SECONDS)
        end_at_once(code)

    def _tell(self, stack: str) -> None:
        _log.error("The process does not end, and is cut off.", action="cut_off", seconds=self._seconds, where=stack)


def end_at_once(code: int) -> None:
    """Kill all descendants of this process, and end it."""
    kill_descendants()
    os._exit(code)


def _stack_of_main_thread() -> str:
    frame = sys._current_frames().get(threading.main_thread().ident or 0)
    return "".join(traceback.format_stack(frame)) if frame else ""
