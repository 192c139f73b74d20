"""Background tasks, which run beside the code that starts them, and their owner.

asyncio keeps no reference to a running task, and reports the error of a task only when the task is collected. The owner
keeps the tasks until they end, logs an error that nobody awaits, and ends the tasks at a shutdown. Where the tasks end
with a block of code, an `asyncio.TaskGroup` is simpler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

import structlog

T = TypeVar("T")

_CHECKS: Final = ThreadPoolExecutor(max_workers=1, thread_name_prefix="checks")

_log = structlog.get_logger(__name__)


async def checked_in_turn(check: Callable[..., T], *given: object) -> T:
    """Returns the result of a check of what others wrote, which takes up to a tenth of a second, from a thread.

    There is one such thread: several would hold the interpreter from the event loop for several times as long.
    """
    return await asyncio.get_running_loop().run_in_executor(_CHECKS, partial(check, *given))


class BackgroundTasks:
    """The running tasks of one owner. ``failed`` is called with the error of a task; by default it is logged."""

    def __init__(self, failed: Callable[[Exception], object] | None = None) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._failed = failed

    def __len__(self) -> int:
        return len(self._tasks)

    def __iter__(self) -> Iterator[asyncio.Task[Any]]:
        """Iterates over the tasks that run now; tasks may end meanwhile."""
        return iter(list(self._tasks))

    def start(self, work: Coroutine[Any, Any, T], name: str | None = None) -> asyncio.Task[T]:
        """Starts a task."""
        task = asyncio.create_task(work, name=name)
        self.add(task)
        task.add_done_callback(self._report)
        return task

    def add(self, task: asyncio.Task[Any]) -> None:
        """Adds a task that was started elsewhere, where its error is handled."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def wait(self, seconds: float | None = None) -> None:
        """Waits until the tasks that run now have ended, or for a limited time."""
        if self._tasks:
            await asyncio.wait(set(self._tasks), timeout=seconds)

    def cancel(self) -> None:
        """Cancels all tasks."""
        for task in self:
            task.cancel()

    async def end(self, within_seconds: float = 0.0) -> None:
        """Waits for the tasks for a limited time, then cancels those that remain and waits for their end."""
        if within_seconds > 0:
            await self.wait(within_seconds)
        while self._tasks:
            self.cancel()
            await self.wait()

    def _report(self, task: asyncio.Task[Any]) -> None:
        error = None if task.cancelled() else task.exception()
        if not isinstance(error, Exception):
            return
        if self._failed:
            self._failed(error)
        else:
            _log.error("A background task failed.", action="background", task=task.get_name(), exc_info=error)
