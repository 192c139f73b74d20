"""Coming to an end in spite of a cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Do it to its end, also if we are cancelled meanwhile, even several times; only then the cancellation goes on.

    For work that takes a bounded time: what ends processes, or a write in a thread, which nothing can interrupt.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.exception()  # looked at, so that it is not reported as lost
        raise cancelled
    return task.result()
