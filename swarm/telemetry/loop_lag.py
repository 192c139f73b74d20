"""How late the event loop is: everything that this process does waits so long before it goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

TICK_SECONDS: Final = 0.05


async def watch(learn: Callable[[float], None]) -> None:
    """Sleep over and over, and tell ``learn`` how many seconds longer than wanted that took. Runs until cancelled.

    A moment in which the loop is stuck is noticed by the next wake-up; the timer itself is about a millisecond late.
    """
    while True:
        begun = time.perf_counter()
        await asyncio.sleep(TICK_SECONDS)
        learn(max(0.0, time.perf_counter() - begun - TICK_SECONDS))
