"""Background tasks have one owner, which ends them and reports what nobody awaits; those that repeat wake together."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from swarm.clock import until_next
from swarm_base.processes.background import BackgroundTasks

pytestmark = pytest.mark.req("OPS-03")


async def fails() -> None:
    raise ArithmeticError("it fails")


async def test_tasks_are_kept_until_they_end() -> None:
    tasks, over = BackgroundTasks(), asyncio.Event()
    task = tasks.start(over.wait(), "one")
    assert (list(tasks), len(tasks), task.get_name()) == ([task], 1, "one")
    over.set()
    await tasks.wait()
    assert not tasks
    assert await task is True


async def test_an_error_is_logged_once_unless_somebody_handles_it() -> None:
    with capture_logs() as logs:
        tasks = BackgroundTasks()
        tasks.start(fails(), "one")
        await tasks.wait()
    assert [(line["action"], line["task"], str(line["exc_info"])) for line in logs] == [
        ("background", "one", "it fails")
    ]
    handled: list[Exception] = []
    with capture_logs() as logs:
        tasks = BackgroundTasks(handled.append)
        tasks.start(fails())
        await tasks.wait()
    assert ([str(error) for error in handled], logs) == (["it fails"], [])


async def test_a_task_that_was_started_elsewhere_is_kept_and_its_error_left_to_others() -> None:
    with capture_logs() as logs:
        tasks = BackgroundTasks()
        tasks.add(asyncio.create_task(fails()))
        (task,) = tasks
        await tasks.wait()
    assert isinstance(task.exception(), ArithmeticError)
    assert (len(tasks), logs) == (0, [])


async def test_the_end_waits_for_what_ends_in_time_and_cancels_the_rest_with_what_it_starts() -> None:
    tasks, ended = BackgroundTasks(), list[str]()

    async def ends() -> None:
        await asyncio.sleep(0)
        ended.append("ends")

    async def stays() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("stays")
            if len(ended) < 4:
                tasks.start(stays())
                await asyncio.sleep(0)  # the new task has begun

    tasks.start(ends())
    tasks.start(stays())
    with capture_logs() as logs:
        await tasks.end(0.05)
    assert (ended, len(tasks), logs) == (["ends", "stays", "stays", "stays"], 0, [])


@pytest.mark.parametrize(("now", "left"), [(100.0, 2.0), (100.5, 1.5), (101.75, 0.25), (101.9, 2.1)])
async def test_tasks_that_repeat_wait_for_the_same_moment(
    now: float, left: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Loop:
        def time(self) -> float:
            return now

    monkeypatch.setattr(asyncio, "get_running_loop", Loop)
    assert until_next(2.0) == pytest.approx(left)
    assert until_next(0) == 0
