"""The twin's clock and its timers."""

import asyncio

import pytest
from slack_twin.clock import Clock

from tests.world import PATIENCE_SECONDS


def still() -> Clock:
    """Returns a clock that moves only when it is advanced."""
    return Clock(source=lambda: 1_000.0)


def test_the_clock_only_moves_forward() -> None:
    clock = still()
    assert clock.advance(5) == 1_005.0
    with pytest.raises(ValueError, match="forward"):
        clock.advance(-1)
    assert clock.now() == 1_005.0


async def test_timers_fire_in_the_order_of_their_moments_when_the_clock_is_advanced() -> None:
    clock, fired = still(), []
    clock.call_at(1_020, lambda: fired.append("late"))
    clock.call_at(1_010, lambda: fired.append("early"))
    clock.call_at(1_015, lambda: fired.append("cancelled")).cancel()
    clock.call_at(1_900, lambda: fired.append("never"))
    clock.advance(100)
    assert fired == ["early", "late"]


async def test_a_sleep_ends_when_the_clock_is_advanced_past_it() -> None:
    clock = still()
    sleeping = asyncio.create_task(clock.sleep(60))
    await asyncio.sleep(0)
    clock.advance(59)
    await asyncio.sleep(0)
    assert not sleeping.done()
    clock.advance(1)
    await asyncio.wait_for(sleeping, PATIENCE_SECONDS)


async def test_a_sleep_ends_by_itself_when_time_passes() -> None:
    await asyncio.wait_for(Clock().sleep(0.01), PATIENCE_SECONDS)
