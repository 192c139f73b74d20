"""The lag of an event loop: the coordinator's, from its metrics, and that of this process."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

_TICK_SECONDS: Final = 0.05
"""The interval of the coordinator's own checks of its loop."""

_BUCKET: Final = re.compile(r'^swarm_event_loop_lag_seconds_bucket\{le="([^"]+)"\} (\S+)$', re.MULTILINE)


@dataclass(frozen=True, kw_only=True, slots=True)
class Lag:
    """The number of checks with at most a given lag, by upper bound in seconds."""

    within: Mapping[float, float]

    def since(self, before: Lag) -> Lag:
        """Returns the checks made after ``before``."""
        return Lag(within={bound: count - before.within.get(bound, 0) for bound, count in self.within.items()})

    def percentile(self, share: float) -> float:
        """Returns a percentile in seconds, interpolated linearly between two bounds. Returns the last bound for larger
        values, and 0 without checks."""
        wanted = share * max(self.within.values(), default=0)
        low, below = 0.0, 0.0
        for bound, count in sorted(self.within.items()):
            if count >= wanted and count > below:
                return low if math.isinf(bound) else low + (bound - low) * (wanted - below) / (count - below)
            low, below = bound, count
        return 0.0


def lag_on(page: str) -> Lag:
    """Reads the histogram on a page of metrics."""
    return Lag(within={float(bound): float(count) for bound, count in _BUCKET.findall(page)})


@asynccontextmanager
async def own_lag() -> AsyncIterator[list[float]]:
    """Collects the lag of this process's loop in seconds."""
    found = list[float]()
    watching = asyncio.create_task(_watch(found))
    try:
        yield found
    finally:
        watching.cancel()


async def _watch(found: list[float]) -> None:
    while True:
        begun = time.perf_counter()
        await asyncio.sleep(_TICK_SECONDS)
        found.append(max(0.0, time.perf_counter() - begun - _TICK_SECONDS))
