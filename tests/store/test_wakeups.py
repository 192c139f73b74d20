"""Wakeups: a waiter misses nothing that happened after it read the generation, and wakes for its own topic only."""

from __future__ import annotations

import asyncio

import pytest

from swarm.store.bridge.wakeups import Wakeups

LONG_SECONDS = 30.0

pytestmark = pytest.mark.req("LOOP-04")


async def waiting(wakeups: Wakeups, topic: str) -> asyncio.Task[bool]:
    """A task that is known to be waiting."""
    task = asyncio.ensure_future(wakeups.wait(topic, wakeups.generation(topic), LONG_SECONDS))
    await asyncio.sleep(0)
    assert not task.done()
    return task


async def test_a_bump_wakes_those_who_wait_for_its_topic_and_nobody_else() -> None:
    wakeups = Wakeups()
    first, second, other = [await waiting(wakeups, topic) for topic in ("ada", "ada", "bob")]
    wakeups.bump(["ada"])
    assert await first
    assert await second
    assert not other.done()
    other.cancel()


async def test_a_bump_between_look_and_wait_is_not_missed() -> None:
    wakeups = Wakeups()
    seen = wakeups.generation("ada")
    wakeups.bump(["ada"])
    assert await wakeups.wait("ada", seen, LONG_SECONDS)


async def test_a_wait_that_times_out_says_so() -> None:
    wakeups = Wakeups()
    assert not await wakeups.wait("ada", wakeups.generation("ada"), 0.0)


async def test_bump_all_wakes_every_topic_also_those_without_a_waiter() -> None:
    wakeups = Wakeups()
    tasks = [await waiting(wakeups, topic) for topic in ("ada", "bob")]
    seen = wakeups.generation("carol")
    wakeups.bump_all()
    assert await asyncio.gather(*tasks) == [True, True]
    assert await wakeups.wait("carol", seen, LONG_SECONDS)


async def test_close_ends_all_waits_and_later_ones_return_at_once() -> None:
    wakeups = Wakeups()
    task = await waiting(wakeups, "ada")
    wakeups.close()
    assert not await task
    assert not await wakeups.wait("ada", wakeups.generation("ada"), LONG_SECONDS)


async def test_a_waiter_that_was_cancelled_leaves_nothing_behind() -> None:
    wakeups = Wakeups()
    task = await waiting(wakeups, "ada")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert wakeups._waiters == {}
