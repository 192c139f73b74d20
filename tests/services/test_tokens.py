"""Nothing is claimed with a token that has ended, whatever a process believes of it."""

from __future__ import annotations

import asyncio

import pytest

from swarm.clock import ManualClock
from swarm.domain.errors import Unauthorized
from swarm.domain.model.agents import Agent, Role, token_hash
from swarm.domain.model.leases import FinishOutcome
from swarm.services.ground.credentials import BELIEVED_SECONDS, READ_AGAIN_SECONDS, AgentTokenCache
from swarm.services.ground.idempotency import Caller
from swarm.store import agents
from swarm.store.bridge.database import Database
from tests.support.locks import held, somebody_waits
from tests.support.slack import FakeSlack
from tests.support.waiting import PATIENCE_SECONDS
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


async def test_a_renewal_and_a_finish_that_meet_a_rotation_do_not_wait_for_it_and_claim_nothing(
    postgres_url: str, clock: ManualClock
) -> None:
    async with Database(postgres_url, clock=clock) as database:
        there = World(database, clock)
        lea, _ = await lea_of(there)
        await there.says(f"{BOT} hello")
        token = (await there.only(lea)).lease_token
        message = await there.says(f"{BOT} hello again")
        work = there.services.work
        async with held(database, agents.rotate, lea.id, token_hash("another")), asyncio.timeout(PATIENCE_SECONDS):
            assert (await work.renew(lea, [token])).notices == ()
            ended = await work.finish(lea, [token], FinishOutcome.DISMISSED, "a test", next_limit=1)
        assert (ended.ended, ended.triggers) == ((token,), ())
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


async def test_work_that_ended_just_before_its_token_is_reported_as_ended(world: World) -> None:
    slow = SlowDirectory()
    slow.answers.set()
    process = World(world.database, world.clock, slack=slow)
    lea, _ = await lea_of(process)
    await process.says(f"{BOT} hello")
    token = (await process.only(lea)).lease_token
    following = await process.says(f"{BOT} hello again")
    slow.answers.clear()
    slow.asked.clear()
    finish = process.services.work.finish(lea, [token], FinishOutcome.DISMISSED, "a test", next_limit=1)
    finishing = asyncio.create_task(finish)
    await slow.asked.wait()
    await process.services.agents.rotate(lea.id)
    slow.answers.set()
    finished = await finishing
    assert (finished.ended, finished.triggers) == ((token,), ())
    inbox_message = await process.inbox_message(following)
    assert (inbox_message.status, inbox_message.claims) == ("unread", 0)


@pytest.mark.both_engines
async def test_a_claim_spares_its_answer_the_look_at_the_token(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    lea, _ = await lea_of(world)
    await world.says(f"{BOT} hello")
    world.services.agents.credentials._known.clear()
    monkeypatch.setattr(agents, "by_token", lambda tx, token_hash: None)
    assert len(await world.poll(lea)) == 1


class Moments:
    """The monotonic time, as a test chooses it."""

    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.both_engines
async def test_looks_for_ended_tokens_spare_known_tokens_their_own_lookups(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, token = await lea_of(world)
    moments = Moments()
    cache = AgentTokenCache(world.database, monotonic=moments)
    await cache.identify(token)
    monkeypatch.setattr(agents, "by_token", lambda tx, token_hash: None)
    for _ in range(int(READ_AGAIN_SECONDS) - 1):
        moments.now += BELIEVED_SECONDS - 0.01
        assert (await cache.identify(token)).name == "lea"
        await cache.look()
    moments.now += BELIEVED_SECONDS + 0.1
    await cache.look()
    with pytest.raises(Unauthorized):  # its agent is read again
        await cache.identify(token)


async def test_a_token_is_believed_for_a_second_at_most_without_a_look(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, token = await lea_of(world)
    moments = Moments()
    cache = AgentTokenCache(world.database, monotonic=moments)
    await cache.identify(token)
    await cache.look()
    monkeypatch.setattr(agents, "by_token", lambda tx, token_hash: None)
    moments.now += BELIEVED_SECONDS
    with pytest.raises(Unauthorized):
        await cache.identify(token)


@pytest.mark.both_engines
@pytest.mark.parametrize("end", ["rotate", "revoke"])
async def test_a_look_finds_the_end_of_a_token_in_another_process_whose_notification_is_lost(
    world: World, end: str
) -> None:
    lea, token = await lea_of(world)
    cache = AgentTokenCache(world.database, monotonic=Moments())
    await cache.identify(token)
    ending = world.services.agents.rotate if end == "rotate" else world.services.agents.revoke
    bump, world.database.wakeups.bump = world.database.wakeups.bump, lambda topics: None  # type: ignore[method-assign]
    await ending(lea.id)
    assert await cache.identify(token)  # nothing has been heard of it, and no look has been made
    await cache.look()
    with pytest.raises(Unauthorized):
        await cache.identify(token)
    world.database.wakeups.bump = bump  # type: ignore[method-assign]
