"""Waiting in tests that watch other processes: look again and again, for a bounded time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

LOOK_EVERY_SECONDS = 0.02
PATIENCE_SECONDS = 20.0

T = TypeVar("T")


async def wait_until(
    look: Callable[[], Awaitable[T]],
    met: Callable[[T], object] = bool,
    *,
    within_seconds: float = PATIENCE_SECONDS,
    what: str = "",
) -> T:
    """What ``look`` sees once ``met`` is true of it. Fails with what was seen last, after the time was over."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within_seconds
    is_over = False
    while not met(seen := await look()):
        if is_over:
            raise AssertionError(f"not within {within_seconds:g} s: {what or 'what was waited for'}; last seen: {seen}")
        await asyncio.sleep(LOOK_EVERY_SECONDS)
        is_over = loop.time() > deadline  # whatever stood still meanwhile, there is one more look
    return seen
