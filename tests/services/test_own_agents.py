"""Agents that the coordinator runs itself: they have no token, and their names are their own."""

from __future__ import annotations

import asyncio

import pytest

from swarm.domain.errors import Conflict, Invalid
from swarm.domain.model.agents import Reach, Role
from swarm.domain.model.inbox import InboxStatus
from tests.support.world import BOT, World

pytestmark = pytest.mark.req("STREAM-01")


async def test_it_is_added_once_and_brought_up_to_date_at_each_start(world: World) -> None:
    ensure = world.services.agents.ensure
    first = await ensure("router", Role.LEAD, Reach.AGUI, "routes", ["chat"])
    assert (first.reach, await world.rows("SELECT * FROM agent_tokens")) == (Reach.AGUI, [])
    again = await ensure("router", Role.WORKER, Reach.AGUI, "works now")
    assert (again.id, again.role, again.description, again.capabilities) == (first.id, Role.WORKER, "works now", ())
    assert await world.services.agents.get("router") == again
    registered = await world.rows("SELECT reason FROM history WHERE change = 'agent.register'")
    assert [row["reason"] for row in registered] == ["lead router, reached by agui"]


async def test_of_several_processes_that_start_at_once_one_adds_it(world: World) -> None:
    started = await asyncio.gather(
        *(world.services.agents.ensure("router", Role.LEAD, Reach.BUILTIN) for _ in range(6))
    )
    assert len({agent.id for agent in started}) == 1


@pytest.mark.parametrize("reach", [Reach.AGUI, Reach.BUILTIN])
async def test_it_does_not_take_the_name_of_an_agent_that_is_reached_otherwise(world: World, reach: Reach) -> None:
    polling = await world.lead("router")
    with pytest.raises(Conflict, match="reached by polling"):
        await world.services.agents.ensure("router", Role.LEAD, reach)
    assert await world.services.agents.get("router") == await world.services.agents.get(polling.id)
    await world.services.agents.ensure("other", Role.LEAD, reach)
    with pytest.raises(Conflict, match="already registered"):
        await world.services.agents.register("other", Role.LEAD)


async def test_a_name_that_no_agent_can_have_is_refused(world: World) -> None:
    with pytest.raises(Invalid):
        await world.services.agents.ensure("all", Role.LEAD, Reach.AGUI)


async def test_it_gets_no_token_by_a_rotation(world: World) -> None:
    await world.services.agents.ensure("router", Role.LEAD, Reach.AGUI)
    with pytest.raises(Conflict, match="has no token"):
        await world.services.agents.rotate("router")
    assert await world.rows("SELECT * FROM agent_tokens") == []


async def test_what_waited_for_a_lead_goes_to_it(world: World) -> None:
    message = await world.says(f"{BOT} hello")
    lead = await world.services.agents.ensure("router", Role.LEAD, Reach.AGUI)
    inbox_message = await world.inbox_message(message)
    assert (inbox_message.agent_id, inbox_message.status) == (lead.id, InboxStatus.UNREAD)
