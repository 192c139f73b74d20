"""The event loop's lag: all work of this process waits so long before it goes on."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final

TICK_SECONDS: Final = 0.05


async def watch(learn: Callable[[float], None]) -> None:
    """Sleep again and again, and pass each delay in seconds to ``learn``. Runs until cancelled.

    A stuck loop shows at the next wake-up; the timer itself is about a millisecond late.
    """
    while True:
        begun = time.perf_counter()
        await asyncio.sleep(TICK_SECONDS)
        learn(max(0.0, time.perf_counter() - begun - TICK_SECONDS))
