"""Signs of life are written now and then, and disturb nobody who knows already that the agent is there."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from swarm.clock import SECOND
from swarm.domain.model.agents import SEEN_EVERY_SECONDS, Agent
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.policy.roster import Roster
from swarm.services.operate.team import Presence
from swarm.services.speaking import participants
from swarm.services.speaking.participants import Rosters, read_roster
from swarm.store.agents import AGENTS
from swarm.store.bridge.transaction import Transaction
from tests.support.world import World

pytestmark = pytest.mark.req("LOOP-17")


async def last_seen(world: World, agent: Agent) -> int | None:
    return (await world.services.agents.get(agent.id)).last_seen_at


async def test_polls_and_renewals_write_a_sign_of_life_once_in_a_while(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead = await world.lead(online=False)
    loop = asyncio.get_running_loop()
    moment = loop.time()
    monkeypatch.setattr(loop, "time", lambda: moment)
    began = world.clock.now_us()
    await world.poll(lead)
    for _ in range(3):
        world.clock.advance(5)
        await world.services.work.renew(lead, [])
        await world.poll(lead)
    assert await last_seen(world, lead) == began
    moment += SEEN_EVERY_SECONDS
    await world.services.work.renew(lead, [])
    assert await last_seen(world, lead) == began + 15 * SECOND


async def test_where_silence_counts_early_signs_of_life_are_written_more_often(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead = await world.lead(online=False)
    presence = Presence(world.database, replace(OperatingPolicy(), offline_after_seconds=6))
    loop = asyncio.get_running_loop()
    moment = loop.time()
    monkeypatch.setattr(loop, "time", lambda: moment)
    for _ in range(4):
        await presence.note(lead)
        moment += 2
        world.clock.advance(2)
    assert await last_seen(world, lead) == world.clock.now_us() - 2 * SECOND


async def test_only_an_agent_that_comes_back_makes_others_look(world: World) -> None:
    lead = await world.lead(online=False)
    rosters = Rosters(world.database, world.operating_policy, kept_seconds=3600)
    wakeups = world.database.wakeups
    assert not (await rosters.current()).agents[0].online
    await world.is_here(lead)
    assert (await rosters.current()).agents[0].online, "that one came is noticed at once"
    before = wakeups.generation(AGENTS)
    world.clock.advance(119)
    await world.is_here(lead)
    assert wakeups.generation(AGENTS) == before
    world.clock.advance(120)
    await world.is_here(lead)
    assert wakeups.generation(AGENTS) > before


async def test_many_who_ask_at_once_look_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    looks = 0

    def counted(tx: Transaction, operating_policy: OperatingPolicy) -> Roster:
        nonlocal looks
        looks += 1
        return read_roster(tx, operating_policy)

    monkeypatch.setattr(participants, "read_roster", counted)
    rosters = Rosters(world.database, world.operating_policy, kept_seconds=3600)
    await asyncio.gather(*(rosters.current() for _ in range(50)))
    assert looks == 1
    lead = await world.lead(online=False)
    found = await asyncio.gather(*(rosters.current() for _ in range(50)))
    assert looks == 2
    assert {candidate.id for seen in found for candidate in seen.agents} == {lead.id}


async def test_what_is_remembered_of_agents_does_not_grow_for_ever(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    presence = Presence(world.database, world.operating_policy)
    loop = asyncio.get_running_loop()
    moment = loop.time()
    monkeypatch.setattr(loop, "time", lambda: moment)
    for number in range(4):
        await presence.note(await world.worker(f"worker-{number}", online=False))
        moment += SEEN_EVERY_SECONDS
    assert len(presence._written) == 1
