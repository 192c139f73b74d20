"""One agent is served by one program: a second instance is refused while the first is there, at whatever moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from swarm.clock import ManualClock
from swarm.domain.errors import Conflict
from swarm.domain.model.agents import Agent, Role
from swarm.domain.model.leases import LEASE_SECONDS, FinishOutcome
from swarm.domain.model.triggers import Trigger
from swarm.domain.policy.operating import OperatingPolicy
from swarm.services.operate.agents import LEFT_SECONDS
from swarm.store.bridge.database import Database
from swarm.store.bridge.statements import Row
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.support.world import BOT, World

pytestmark = pytest.mark.req("RUN-01")

A, B = "0190a0c4-7d3e-7000-8000-00000000000a", "0190a0c4-7d3e-7000-8000-00000000000b"


async def lea_of(world: World) -> Agent:
    """A lead as it is known by its token."""
    registered = await world.services.agents.register("lea", Role.LEAD)
    await world.is_here(registered.agent)
    return await world.services.agents.credentials.identify(registered.token)


async def poll(world: World, agent: Agent, instance: str | None, *, wait_seconds: float = 0) -> list[Trigger]:
    return await world.services.polls.poll(agent, wait_seconds=wait_seconds, limit=5, hold=True, instance_id=instance)


async def refused(call: Awaitable[object]) -> Conflict:
    with pytest.raises(Conflict) as caught:
        await call
    return caught.value


async def seen(world: World) -> list[Row]:
    return await world.rows("SELECT seen_at FROM agent_instances")


async def waiting(world: World, agent: Agent) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while agent.id not in world.database.wakeups._waiters:
            await asyncio.sleep(0)


@pytest.mark.both_engines
async def test_another_instance_is_refused_until_the_first_has_been_silent_for_a_lease(world: World) -> None:
    lea = await lea_of(world)
    assert await poll(world, lea, A) == []
    world.clock.advance(12)
    error = await refused(poll(world, lea, B))
    assert "'lea'" in error.message
    assert "last seen 12 s ago" in error.message
    assert "60 s" in (error.hint or "")
    world.clock.advance(LEASE_SECONDS - 12 - 1)
    await refused(poll(world, lea, B))
    assert await poll(world, lea, A) == []  # seen again
    world.clock.advance(LEASE_SECONDS - 1)
    await refused(poll(world, lea, B))
    world.clock.advance(1)
    assert await poll(world, lea, B) == []
    await refused(poll(world, lea, A))  # it has come back too late


@pytest.mark.both_engines
async def test_a_refused_instance_gets_no_work_extends_nothing_and_ends_nothing(world: World) -> None:
    lea = await lea_of(world)
    await world.says(f"{BOT} hello")
    (trigger,) = await poll(world, lea, A)
    await world.says(f"{BOT} hello again")
    token, work = trigger.lease_token, world.services.work
    until = await world.rows("SELECT expires_at FROM leases")
    world.clock.advance(5)
    await refused(poll(world, lea, B))
    await refused(work.renew(lea, [token], B))
    await refused(work.finish(lea, [token], FinishOutcome.DISMISSED, "no", 5, B))
    assert await world.rows("SELECT expires_at FROM leases WHERE ended_at IS NULL") == until
    (again,) = await poll(world, lea, A)
    assert again.inbox_messages[0].text.endswith("again")
    assert (await work.renew(lea, [token], A)).renewed.lost == ()
    assert (await work.finish(lea, [token], FinishOutcome.DISMISSED, "no", 0, A)).ended == (token,)


async def test_a_call_without_an_instance_gets_no_work_beside_one_that_has_but_ends_what_it_holds(
    world: World,
) -> None:
    lea = await lea_of(world)
    await world.says(f"{BOT} hello")
    (trigger,) = await poll(world, lea, None)  # as agents have always done
    token, work = trigger.lease_token, world.services.work
    await world.says(f"{BOT} hello again")
    world.clock.advance(5)
    assert (await work.renew(lea, [], A)).notices == ()  # the first sign of an instance
    await refused(poll(world, lea, None))
    assert (await work.renew(lea, [token])).renewed.lost == ()
    finished = await work.finish(lea, [token], FinishOutcome.DISMISSED, "no", 5)
    assert (finished.ended, finished.triggers) == ((token,), ())
    assert len(await poll(world, lea, A)) == 1


async def test_an_instance_that_leaves_frees_the_name_at_once_and_only_its_own(world: World) -> None:
    lea = await lea_of(world)
    await poll(world, lea, A)
    for _ in range(2):
        await world.services.agents.leave(lea, B)
    await refused(poll(world, lea, B))
    for _ in range(2):
        await world.services.agents.leave(lea, A)
    assert await poll(world, lea, B) == []
    await world.services.agents.leave(lea, A)
    await refused(poll(world, lea, A))


@pytest.mark.both_engines
async def test_an_agent_whose_instance_has_left_is_soon_offline_until_an_instance_begins(world: World) -> None:
    async def is_online() -> bool:
        (present,) = await world.services.agents.present()
        return present.online

    lea = await lea_of(world)
    world.clock.advance(1000)  # since the start of the coordinator, before which nobody counts as offline
    assert await poll(world, lea, A) == []
    await world.services.agents.leave(lea, B)
    world.clock.advance(LEFT_SECONDS)
    assert await is_online()  # the other instance has changed nothing
    await world.services.agents.leave(lea, A)
    world.clock.advance(LEFT_SECONDS - 1)
    assert await is_online()  # a restart takes its time
    world.clock.advance(1)
    assert not await is_online()
    assert await poll(world, lea, B) == []  # its presence was written a moment ago, which saves no write here
    assert await is_online()
    world.clock.advance(LEFT_SECONDS)
    await world.services.agents.leave(lea, A)
    assert await is_online()


async def test_a_new_token_and_a_removed_agent_begin_without_an_instance(world: World) -> None:
    lea = await lea_of(world)
    await poll(world, lea, A)
    rotated = await world.services.agents.rotate(lea.id)
    lea = await world.services.agents.credentials.identify(rotated.token)
    assert await poll(world, lea, B) == []
    await world.services.agents.revoke(lea.id)
    assert await world.rows("SELECT * FROM agent_instances") == []


@pytest.mark.both_engines
async def test_of_two_that_begin_at_the_same_moment_at_two_coordinators_one_is_refused(
    world: World, database_url: str, clock: ManualClock
) -> None:
    lea = await lea_of(world)
    async with Database(database_url, clock=clock) as other_database:
        other = World(other_database, clock)
        for number in range(20):
            instances = [f"0190a0c4-7d3e-7000-8000-0000{number:04d}{place:04d}" for place in range(6)]
            calls = [poll((world, other)[place % 2], lea, instance) for place, instance in enumerate(instances)]
            answers = await asyncio.gather(*calls, return_exceptions=True)
            winners = [one for one, answer in zip(instances, answers, strict=True) if answer == []]
            assert len(winners) == 1, answers
            assert sum(isinstance(answer, Conflict) for answer in answers) == 5
            await world.services.agents.leave(lea, winners[0])


async def test_while_a_poll_waits_its_instance_is_there_however_long(world: World) -> None:
    brief = world.governed_by(OperatingPolicy(lease_seconds=0.3))
    lea = await lea_of(brief)
    waits = asyncio.ensure_future(poll(brief, lea, A, wait_seconds=60))
    await waiting(brief, lea)
    for _ in range(4):
        (before,) = await seen(world)
        world.clock.advance(0.2)
        await wait_until(lambda: seen(world), lambda now: before not in now, what="it is seen again")  # noqa: B023
        await refused(poll(brief, lea, B))
    await world.says(f"{BOT} hello")
    assert len(await waits) == 1


async def test_another_instance_does_not_wait_beside_a_waiting_poll(world: World) -> None:
    lea = await lea_of(world)
    waits = asyncio.ensure_future(poll(world, lea, A, wait_seconds=60))
    await waiting(world, lea)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await refused(poll(world, lea, B, wait_seconds=60))
        await refused(poll(world, lea, None, wait_seconds=60))
    await world.says(f"{BOT} hello")
    assert len(await waits) == 1


async def test_a_waiting_poll_whose_name_was_taken_gets_nothing(world: World) -> None:
    lea = await lea_of(world)
    waits = asyncio.ensure_future(poll(world, lea, A, wait_seconds=60))
    await waiting(world, lea)
    world.clock.advance(LEASE_SECONDS)  # this coordinator was away: nothing has shown that the first is there
    assert await poll(world, lea, B) == []
    message = await world.says(f"{BOT} hello")
    await refused(waits)
    assert (await world.inbox_message(message)).claims == 0
    assert len(await poll(world, lea, B)) == 1


async def test_a_poll_that_still_waits_does_not_take_the_name_that_its_instance_has_left(world: World) -> None:
    """The poll of a program that has stopped may go on for a while, such as behind a proxy."""
    brief = world.governed_by(OperatingPolicy(lease_seconds=0.3))
    lea = await lea_of(brief)
    waits = asyncio.ensure_future(poll(brief, lea, A, wait_seconds=0.5))
    await waiting(brief, lea)
    await brief.services.agents.leave(lea, A)
    message = await world.says(f"{BOT} hello")
    assert await waits == []  # it has claimed several times
    assert await world.rows("SELECT * FROM agent_instances") == []
    assert (await world.inbox_message(message)).claims == 0
    assert len(await poll(brief, lea, B)) == 1


async def test_polls_write_only_now_and_then(world: World) -> None:
    lea = await lea_of(world)
    await poll(world, lea, A)
    (first,) = await world.rows("SELECT seen_at FROM agent_instances")
    for _ in range(11):
        world.clock.advance(1)
        await poll(world, lea, A)
    assert await world.rows("SELECT seen_at FROM agent_instances") == [first]
    world.clock.advance(1)
    await poll(world, lea, A)
    assert await world.rows("SELECT seen_at FROM agent_instances") != [first]
