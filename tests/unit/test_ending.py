"""The end of what was opened: side by side, by one moment, and nothing that hangs or fails is in another's way."""

from __future__ import annotations

import asyncio
import time
from functools import partial

import pytest
from structlog.testing import capture_logs

from swarm.app.process import ShutdownStack, StopDeadline, close_all

pytestmark = pytest.mark.req("OPS-12")


class Opened:
    """Something that takes its time to close, and kills what it has started if it is cut off."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.is_closed = False
        self.is_cut_off = False
        self._seconds = seconds

    async def aclose(self) -> None:
        try:
            await asyncio.sleep(self._seconds)
            self.is_closed = True
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            self.is_cut_off = True
            raise


async def test_what_hangs_is_cut_off_by_one_moment_for_all_and_named() -> None:
    quick, slow, slower = Opened(), Opened(600), Opened(900)
    closings = ShutdownStack(StopDeadline(0.2))
    for name, each in (("quick", quick), ("slow", slow), ("slower", slower)):
        closings.add(name, each.aclose)
    began = time.monotonic()
    with capture_logs() as logs:
        await closings.aclose()
    assert time.monotonic() - began < 5
    assert quick.is_closed
    assert slow.is_cut_off
    assert slower.is_cut_off
    assert [line["late"] for line in logs] == [["slow", "slower"]]


async def test_what_is_closed_later_has_only_what_is_left() -> None:
    deadline = StopDeadline(0.3)
    first, second = Opened(600), Opened(600)
    await close_all({"first": first.aclose}, within_seconds=deadline.left(reserve_seconds=0.1))
    assert 0 < deadline.left() <= 0.1 + 0.05
    await close_all({"second": second.aclose}, within_seconds=deadline.left())
    assert second.is_cut_off
    assert deadline.left() == 0


async def test_what_has_no_time_left_is_cut_off_all_the_same() -> None:
    late = Opened(600)
    await close_all({"late": late.aclose}, within_seconds=0)
    assert not late.is_closed


async def test_what_fails_is_logged_and_the_rest_is_closed() -> None:
    async def fail() -> None:
        raise ValueError("a mistake")

    rest = Opened(0.01)
    with capture_logs() as logs:
        await close_all({"broken": fail, "rest": rest.aclose}, within_seconds=20)
    assert rest.is_closed
    assert [(line["action"], line["what"]) for line in logs] == [("stop_failed", "broken")]


async def test_a_cancellation_cuts_everything_off_and_goes_on() -> None:
    slow = Opened(600)
    closing = asyncio.create_task(close_all({"slow": slow.aclose}, within_seconds=600))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert slow.is_cut_off


async def test_what_takes_no_notice_of_its_end_holds_nobody_up() -> None:
    over = asyncio.Event()

    async def deaf() -> None:
        while not over.is_set():
            try:
                await over.wait()
            except asyncio.CancelledError:
                continue

    async with asyncio.timeout(10):
        await close_all({"deaf": deaf}, within_seconds=0.05)
    over.set()


async def test_nothing_to_close_takes_no_time_and_no_name_is_used_twice() -> None:
    closings = ShutdownStack(StopDeadline())
    await closings.aclose()
    closings.add("one", partial(asyncio.sleep, 0))
    with pytest.raises(ValueError, match="one"):
        closings.add("one", partial(asyncio.sleep, 0))
