"""What every process needs: work that a stop ends."""

from __future__ import annotations

import asyncio

import pytest

from swarm import process
from tests.support.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.req("OPS-12")


async def test_work_that_ends_before_a_stop_gives_what_it_comes_to() -> None:
    async def work() -> int:
        return 42

    assert await process.unless_stopped(work(), asyncio.Event()) == 42


async def test_a_stop_ends_work_that_would_go_on_once_it_has_cleared_up() -> None:
    stop, began, cleared = asyncio.Event(), asyncio.Event(), False

    async def work() -> str:
        nonlocal cleared
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleared = True
        return "done"

    waiting = asyncio.create_task(process.unless_stopped(work(), stop))
    await began.wait()
    stop.set()
    async with asyncio.timeout(PATIENCE_SECONDS):
        assert await waiting is None
    assert cleared


async def test_an_error_of_the_work_is_raised_as_it_is() -> None:
    async def work() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await process.unless_stopped(work(), asyncio.Event())
