"""Unread messages of a thread go out together; one run of an agent in a thread; other threads are not held up."""

from __future__ import annotations

import asyncio

import pytest

from swarm.domain.model.inbox import BUNDLE_LIMIT
from tests.support.world import BOT, World, said, texts

pytestmark = pytest.mark.req("LOOP-12")


async def test_unread_messages_of_a_thread_come_together_in_their_order(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} one")
    late, early = said("three", thread_ts=root.ts), said("two", thread_ts=root.ts)
    early, late = sorted((late, early), key=lambda message: message.ts)
    for message in (late, early):
        await world.hears(message)
    trigger = await world.only(lead)
    assert [inbox_message.ts for inbox_message in trigger.inbox_messages] == [root.ts, early.ts, late.ts]
    assert trigger.thread_context[-1].ts == late.ts


async def test_a_bundle_has_at_most_twenty_messages_and_the_rest_follows(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} 0")
    for number in range(1, 25):
        await world.says(str(number), thread=root)
    first = await world.only(lead)
    assert len(first.inbox_messages) == BUNDLE_LIMIT
    assert first.thread_context[-1].text == "19"
    assert await world.poll(lead) == []
    await world.answers(lead, first, "answer")
    assert texts([await world.only(lead)]) == [["20", "21", "22", "23", "24"]]


async def test_one_thread_is_never_worked_on_by_two_runs_of_an_agent(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} one")
    await world.only(lead)
    await world.says("two", thread=root)
    assert await asyncio.gather(*(world.poll(lead) for _ in range(8))) == [[]] * 8


async def test_two_agents_may_work_in_one_thread(world: World) -> None:
    lead, second = await world.lead(), await world.lead("second")
    await world.says("swarm#all hello")
    assert len(await world.poll(lead)) == len(await world.poll(second)) == 1


async def test_other_threads_are_not_held_up(world: World) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} one")
    await world.only(lead)
    await world.says(f"{BOT} other")
    assert texts(await world.poll(lead)) == [["@UBOT other"]]
