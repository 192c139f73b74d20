"""Nothing is claimed with a token that has ended, whatever a process believes of it."""

from __future__ import annotations

import asyncio

import pytest

from swarm.clock import ManualClock
from swarm.domain.errors import Unauthorized
from swarm.domain.model.agents import Agent, Role, token_hash
from swarm.services.rules.idempotency import Caller
from swarm.store import agents
from swarm.store.bridge.database import Database
from tests.support.locks import held, somebody_waits
from tests.support.slack import FakeSlack
from tests.support.world import BOT, World

pytestmark = pytest.mark.req("SEC-01")


async def lea_of(world: World) -> tuple[Agent, str]:
    """A lead as it is known by its token."""
    registered = await world.services.agents.register("lea", Role.LEAD)
    await world.is_here(registered.agent)
    return await world.services.agents.credentials.identify(registered.token), registered.token


async def test_a_token_that_has_ended_claims_neither_work_nor_news(world: World) -> None:
    lea, token = await lea_of(world)
    new = await world.services.agents.rotate(lea.id)
    message = await world.says(f"{BOT} hello")
    await world.services.messages.send(Caller(agent=await world.worker("wim")), "psst", to="lea")
    assert await world.poll(lea) == []  # by somebody who was let in before
    assert (await world.services.work.renew(lea, [])).notices == ()
    assert (await world.inbox_message(message)).claims == 0
    with pytest.raises(Unauthorized):
        await world.services.agents.credentials.identify(token)
    known = await world.services.agents.credentials.identify(new.token)
    assert len((await world.services.work.renew(known, [])).notices) == len(await world.poll(known)) == 1


async def test_a_claim_that_meets_a_rotation_waits_for_it_and_finds_nothing(
    postgres_url: str, clock: ManualClock
) -> None:
    async with Database(postgres_url, clock=clock) as database:
        there = World(database, clock)
        lea, _ = await lea_of(there)
        message = await there.says(f"{BOT} hello")
        async with held(database, agents.rotate, lea.id, token_hash("another")):
            poll = asyncio.create_task(there.poll(lea))
            await somebody_waits(database)
        assert await poll == []
        assert (await there.inbox_message(message)).claims == 0


class SlowDirectory(FakeSlack):
    """Takes its time to look a name up."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.answers = asyncio.Event(), asyncio.Event()

    async def channel_name(self, channel_id: str) -> str:
        self.asked.set()
        await self.answers.wait()
        return await super().channel_name(channel_id)


async def test_what_was_claimed_just_before_its_token_ended_is_given_back(world: World) -> None:
    slow = SlowDirectory()
    process = World(world.database, world.clock, slack=slow)
    lea, _ = await lea_of(process)
    message = await process.says(f"{BOT} hello")
    poll = asyncio.create_task(process.poll(lea))
    await slow.asked.wait()
    assert (await process.inbox_message(message)).claims == 1
    await process.services.agents.rotate(lea.id)
    slow.answers.set()
    with pytest.raises(Unauthorized):
        await poll
    inbox_message = await process.inbox_message(message)
    assert (inbox_message.status, inbox_message.attempts, inbox_message.claims) == ("unread", 0, 0)


@pytest.mark.both_engines
async def test_a_claim_spares_its_answer_the_look_at_the_token(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    lea, _ = await lea_of(world)
    await world.says(f"{BOT} hello")
    world.services.agents.credentials._known.clear()
    monkeypatch.setattr(agents, "by_token", lambda tx, token_hash: None)
    assert len(await world.poll(lea)) == 1
