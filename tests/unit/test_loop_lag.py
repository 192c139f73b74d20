"""The event loop's lag is noticed."""

from __future__ import annotations

import asyncio
import time

import pytest

from swarm.telemetry.metrics import Metrics
from swarm.telemetry.setup import watch_loop
from tests.support.waiting import PATIENCE_SECONDS

STUCK_SECONDS = 0.3


@pytest.mark.req("OPS-06")
async def test_a_loop_that_was_stuck_is_told_of() -> None:
    metrics = Metrics(version="1", database="sqlite")
    late, told = asyncio.Event(), list[float]()

    def learn(seconds: float) -> None:
        metrics.count.event_loop_lag_seconds.observe(seconds)
        told.append(seconds)
        if seconds > STUCK_SECONDS / 2:
            late.set()

    watching = asyncio.create_task(watch_loop(learn))
    await asyncio.sleep(0)  # the watcher sleeps now
    time.sleep(STUCK_SECONDS)
    await asyncio.wait_for(late.wait(), PATIENCE_SECONDS)
    watching.cancel()
    found = metrics.registry.get_sample_value("swarm_event_loop_lag_seconds_sum")
    assert found == pytest.approx(sum(told))
    assert all(seconds >= 0 for seconds in told)
