"""Completion of work in spite of a cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` to its end in spite of cancellations, even several; the cancellation is raised afterwards.

    For work of bounded time: ending of processes, or a write in a thread, which nothing can interrupt.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.exception()  # marks the error as seen, so that it is not reported as lost
        raise cancelled
    return task.result()
