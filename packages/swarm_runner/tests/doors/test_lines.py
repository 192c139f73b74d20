"""The events of a CLI that speaks in lines, from one turn to the next."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from packages.swarm_runner.tests.doors.conftest import Desk
from swarm_runner.doors.lines import LineProcess
from swarm_runner.port import TextAdded, TurnEnded, TurnOutcome

EVENTS_AND_MORE = 12


async def test_what_is_left_of_a_turn_that_nobody_follows_is_not_shown_in_the_next(desk: Desk) -> None:
    process = await LineProcess.start(["cat"], desk.wanted)
    writing: list[asyncio.Task[None]] = []

    async def writes_on() -> TurnEnded:
        old = [TextAdded(text=f"old {number}") for number in range(EVENTS_AND_MORE)]  # some wait for room
        writing.extend(asyncio.create_task(process.put(event)) for event in old)
        await asyncio.Event().wait()
        return TurnEnded(outcome=TurnOutcome.FAILED)

    async def answers() -> TurnEnded:
        await process.put(TextAdded(text="new"))
        return TurnEnded(outcome=TurnOutcome.DONE)

    async with aclosing(process.turn(writes_on)) as events:  # type: ignore[type-var]  # the protocol tells less
        assert await anext(events) == TextAdded(text="old 0")
    async with asyncio.timeout(5):
        await asyncio.wait(writing)
        second = [event async for event in process.turn(answers)]
    assert second == [TextAdded(text="new"), TurnEnded(outcome=TurnOutcome.DONE)]
    await process.close(0)
