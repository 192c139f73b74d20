"""The ticker: what a lost notification would have told, a poll hears of it all the same."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import pytest

from swarm.domain.model.agents import Agent
from swarm.domain.model.leases import FinishOutcome
from swarm.domain.model.triggers import Trigger
from swarm.services.operate.sweep import Ticker
from swarm.store.bridge.database import Database
from swarm.store.inbox import queues
from tests.support.doors import WatchedWakeups
from tests.support.world import BOT, World, edit

pytestmark = pytest.mark.req("OPS-03", "LOOP-04")

PATIENCE_SECONDS = 20.0


hears = ContextVar("hears", default=False)


class Deaf(WatchedWakeups):
    """Wakeups of a process that hears nothing of what others commit: they are bumped only where `hears` is set."""

    def bump(self, topics: Iterable[str]) -> None:
        if hears.get():
            super().bump(topics)


@dataclass
class Elsewhere:
    """Another process on the same database, which hears nothing."""

    world: World
    wakeups: Deaf

    @asynccontextmanager
    async def waiting(self, agent: Agent) -> AsyncIterator[asyncio.Task[list[Trigger]]]:
        """A poll that is known to wait."""
        poll = asyncio.create_task(self.world.services.polls.poll(agent, wait_seconds=PATIENCE_SECONDS, limit=1))
        await self.wakeups.until(1)
        try:
            yield poll
        finally:
            poll.cancel()
            await asyncio.gather(poll, return_exceptions=True)

    async def ticks(self) -> None:
        heard = hears.set(True)
        await Ticker(self.world.database).tick()
        hears.reset(heard)


@pytest.fixture
async def elsewhere(database_url: str, world: World) -> AsyncIterator[Elsewhere]:
    wakeups = Deaf()
    async with Database(database_url, clock=world.clock, wakeups=wakeups, tick_seconds=3600) as database:
        yield Elsewhere(World(database, world.clock), wakeups)


async def due_for(world: World, agent: Agent) -> bool:
    return agent.id in await world.database.read(queues.agents_with_due_work)


async def test_a_poll_that_was_told_nothing_of_a_message_gets_it_with_the_next_tick(
    world: World, elsewhere: Elsewhere
) -> None:
    lead = await world.lead()
    async with elsewhere.waiting(lead) as poll:
        await world.says(f"{BOT} hello")
        assert not poll.done()
        await elsewhere.ticks()
        assert len(await asyncio.wait_for(poll, PATIENCE_SECONDS)) == 1


async def test_a_short_poll_gets_what_it_was_told_nothing_of_without_a_tick(world: World, elsewhere: Elsewhere) -> None:
    lead, polls = await world.lead(), elsewhere.world.services.polls
    assert await polls.poll(lead, wait_seconds=0.01, limit=1) == []
    await world.says(f"{BOT} hello")
    assert len(await polls.poll(lead, wait_seconds=0.01, limit=1)) == 1


async def test_those_for_whom_there_is_nothing_are_not_woken(world: World, elsewhere: Elsewhere) -> None:
    lead, idle = await world.lead(), await world.lead("idle")
    async with elsewhere.waiting(idle):
        await world.says(f"{BOT} hello")
        before = [elsewhere.wakeups.generation(agent.id) for agent in (lead, idle)]
        await elsewhere.ticks()
        assert await due_for(world, lead)  # who does not wait here
        assert [elsewhere.wakeups.generation(agent.id) for agent in (lead, idle)] == before


async def test_the_running_ticker_looks_again_and_again(world: World, elsewhere: Elsewhere) -> None:
    lead = await world.lead()
    async with elsewhere.waiting(lead) as poll:
        heard = hears.set(True)
        ticking = asyncio.create_task(Ticker(elsewhere.world.database, tick_seconds=0.01).run())
        hears.reset(heard)
        await world.says(f"{BOT} hello")
        assert len(await asyncio.wait_for(poll, PATIENCE_SECONDS)) == 1
        ticking.cancel()
        await asyncio.gather(ticking, return_exceptions=True)


async def test_due_is_what_a_claim_would_find(world: World) -> None:
    lead = await world.lead()
    assert not await due_for(world, lead)
    message = await world.says(f"{BOT} hello")
    assert await due_for(world, lead)
    trigger = await world.only(lead)
    assert not await due_for(world, lead)
    await world.says(f"{BOT} and more", thread=message)  # its thread is locked by the run that works
    assert not await due_for(world, lead)
    await world.ingest.handle(edit(message, f"{BOT} hello, I mean"))
    assert await due_for(world, lead)  # news come at once
    await world.only(lead)
    assert not await due_for(world, lead)
    await world.services.work.finish(lead, [trigger.lease_token], FinishOutcome.DISMISSED, "done")
    assert await due_for(world, lead)


@pytest.mark.both_engines
async def test_nothing_is_due_for_an_agent_that_was_removed(world: World) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    await world.services.agents.revoke(lead.id)
    assert not await due_for(world, lead)
