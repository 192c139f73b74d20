"""What every process needs: work that a stop ends."""

from __future__ import annotations

import asyncio
import resource

import pytest

from swarm.app import process
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


@pytest.mark.req("SEC-05")
@pytest.mark.parametrize(
    ("soft", "hard", "possible", "raised_to"),
    [
        (1024, 100_000, 10_000, 10_000 + process.SPARE_FILES),
        (1024, resource.RLIM_INFINITY, 10_000, 10_000 + process.SPARE_FILES),
        (1024, 4096, 4096 - process.SPARE_FILES, 4096),
        (256, 256, 128, 256),
        (50_000, 100_000, 10_000, 50_000),
        (resource.RLIM_INFINITY, resource.RLIM_INFINITY, 10_000, resource.RLIM_INFINITY),
    ],
)
def test_the_limit_of_open_files_is_raised_and_kept_to(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, possible: int, raised_to: int
) -> None:
    limits = [(soft, hard)]
    monkeypatch.setattr(resource, "getrlimit", lambda kind: limits[0])
    monkeypatch.setattr(resource, "setrlimit", lambda kind, wanted: limits.__setitem__(0, wanted))
    assert process.possible_connections(10_000) == possible
    assert limits[0] == (raised_to, hard)
