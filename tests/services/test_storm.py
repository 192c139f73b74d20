"""Everything at once: whatever the order, nothing is lost, nothing is done twice, and no queue forgets its head."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Coroutine, Iterator

import pytest

from swarm.domain.errors import Conflict
from swarm.domain.model.agents import Agent
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.leases import LEASE_SECONDS, FinishOutcome
from swarm.domain.model.threads import SlackMessage
from swarm.domain.model.triggers import Trigger
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import queues
from tests.support.quick import quick
from tests.support.world import BOT, World, delete, edit, holding, said

pytestmark = pytest.mark.both_engines

WORKERS = 8


def all_heads(tx: Transaction) -> dict[tuple[str, str], int]:
    _, rows = tx.fetch("SELECT agent_id, lane_id AS thread_id, order_key FROM queue_heads", {})
    return {(agent, thread): key for agent, thread, key in rows}


def wanted_heads(tx: Transaction) -> dict[tuple[str, str], int]:
    _, rows = tx.fetch(
        "SELECT agent_id, thread_id, MIN(order_key) FROM inbox_messages"
        " WHERE status = 'unread' AND delay_reason IS NULL AND agent_id IS NOT NULL GROUP BY agent_id, thread_id",
        {},
    )
    return {(agent, thread): key for agent, thread, key in rows}


async def heads_are_right(world: World) -> None:
    assert await world.database.write(queues.repair) == 0
    wanted, there = await world.database.read(wanted_heads), await world.database.read(all_heads)
    assert wanted.keys() <= there.keys()


@pytest.mark.req("LOOP-01")
async def test_messages_of_one_thread_from_eight_tasks_are_stored_once_each(world: World) -> None:
    await world.lead()
    root = await world.says(f"{BOT} hello")
    messages = [said(f"number {number}", thread_ts=root.ts) for number in range(40)]

    async def deliver(seed: int) -> None:
        shuffled = random.Random(seed).sample(messages, len(messages))
        for message in shuffled:
            await world.hears(message)

    await asyncio.gather(*(deliver(seed) for seed in range(WORKERS)))
    for message in messages:
        assert len(await world.inbox_messages(message)) == 1
    await heads_are_right(world)


@pytest.mark.req("LOOP-04", "LOOP-12")
async def test_claims_and_messages_of_the_same_threads_do_not_get_in_each_others_way(world: World) -> None:
    lead = await world.lead()
    roots = [await world.says(f"{BOT} {number}") for number in range(4)]
    asked = [said("more", thread_ts=roots[number % 4].ts) for number in range(60)]
    answered: Counter[str] = Counter()
    left = iter(asked)

    async def talk() -> None:
        for message in left:
            await world.hears(message)

    async def work() -> None:
        idle = 0
        while idle < 3:
            triggers = await world.poll(lead, limit=2)
            idle = 0 if triggers else idle + 1
            for trigger in triggers:
                await world.answers(lead, trigger, "answer")
                answered.update(inbox_message.ts for inbox_message in trigger.inbox_messages)

    await asyncio.gather(*(talk() for _ in range(4)), *(work() for _ in range(4)))
    await work()
    assert answered == Counter(message.ts for message in [*roots, *asked])
    await heads_are_right(world)


@pytest.mark.req("LOOP-06")
async def test_an_answer_that_races_its_own_expiry_either_counts_or_is_refused(world: World) -> None:
    lead = await world.lead()
    messages = [await world.says(f"{BOT} {number}") for number in range(24)]
    triggers = {trigger.id: trigger for trigger in await world.poll(lead)}
    triggers |= {trigger.id: trigger for trigger in await world.poll(lead)}
    world.clock.advance(LEASE_SECONDS - 1)
    outcomes: dict[str, bool] = {}

    async def answer(trigger: Trigger) -> None:
        try:
            await world.answers(lead, trigger, "answer")
            outcomes[trigger.id] = True
        except Conflict:
            outcomes[trigger.id] = False

    async def finish(trigger: Trigger) -> None:
        await world.services.work.finish(lead, [trigger.lease_token], FinishOutcome.DISMISSED, "a race")

    async def expire() -> None:
        await world.sweep()
        world.clock.advance(1)
        await world.sweep()

    ordered = list(triggers.values())
    await asyncio.gather(
        *(answer(trigger) for trigger in ordered[::2]),
        expire(),
        *(finish(trigger) for trigger in ordered[1::2]),
        expire(),
    )
    assert len(ordered) == len(messages)
    for message in messages:
        inbox_message = await world.inbox_message(message)
        if inbox_message.id in outcomes:
            assert inbox_message.status is (InboxStatus.RESPONDED if outcomes[inbox_message.id] else InboxStatus.UNREAD)
        assert inbox_message.status in (InboxStatus.RESPONDED, InboxStatus.DISMISSED, InboxStatus.UNREAD)
        assert inbox_message.attempts == (1 if inbox_message.status is InboxStatus.UNREAD else 0)
    assert await world.rows("SELECT token FROM leases WHERE ended_at IS NULL") == []
    await heads_are_right(world)


def hands(
    world: World, leads: list[Agent], roots: list[SlackMessage], one_sweep: asyncio.Lock, seed: int
) -> Iterator[Coroutine[None, None, None]]:
    """An endless choice of things that people, agents and time may do."""
    dice = random.Random(seed)
    held: list[tuple[Agent, Trigger]] = []
    heard: list[SlackMessage] = list(roots)

    async def talk() -> None:
        to = dice.choice(["", "", "", "swarm#second ", "swarm#lead ", "swarm#all "])
        heard.append(await world.hears(said(f"{to}hello", thread_ts=dice.choice(roots).ts)))

    async def change() -> None:
        await world.ingest.handle(edit(dice.choice(heard), f"hello {dice.random()}"))

    async def remove() -> None:
        await world.ingest.handle(delete(dice.choice(heard[len(roots) :] or heard)))

    async def poll() -> None:
        agent = dice.choice(leads)
        held.extend((agent, trigger) for trigger in await world.poll(agent, limit=3))

    async def settle() -> None:
        if held:
            agent, trigger = held.pop(dice.randrange(len(held)))
            tokens = [trigger.lease_token]
            match dice.randrange(5):
                case 0:
                    await world.services.work.release(agent, tokens, dice.choice([0, 5]))
                case 1:
                    await world.services.work.finish(agent, tokens, FinishOutcome.FAILED, "a storm")
                case 2:
                    await world.services.work.finish(agent, tokens, FinishOutcome.DISMISSED, "a storm")
                case _ if trigger.notice is None:
                    await world.services.replies.reply(holding(trigger, agent), trigger.inbox_messages[0].id, "answer")
                case _:
                    await world.services.work.renew(agent, tokens)

    async def time_goes_by() -> None:
        async with one_sweep:
            world.clock.advance(dice.choice([1, 10, LEASE_SECONDS]))
            await world.is_here(dice.choice(leads))
            await world.sweep()

    while True:
        yield dice.choices([talk, change, remove, poll, settle, time_goes_by], [6, 1, 1, 4, 5, 1])[0]()


@pytest.mark.req("LOOP-04", "LOOP-06", "LOOP-15")
@pytest.mark.parametrize("deeds", quick([25, 60]))
async def test_after_a_storm_every_message_can_still_be_served(world: World, deeds: int) -> None:
    leads = [await world.lead(), await world.lead("second")]
    roots = [await world.says(f"{BOT} {number}") for number in range(3)]
    refused: Counter[str] = Counter()
    one_sweep = asyncio.Lock()  # one process sweeps

    async def act(seed: int) -> None:
        for _, deed in zip(range(deeds), hands(world, leads, roots, one_sweep, seed), strict=False):
            try:
                await deed
            except Conflict as error:  # a run that came too late, or a message that was deleted
                refused[error.code] += 1

    await asyncio.gather(*(act(seed) for seed in range(WORKERS)))
    await heads_are_right(world)
    while True:
        await world.later(LEASE_SECONDS)
        for agent in leads:
            await world.is_here(agent)
        triggers = [(agent, trigger) for agent in leads for trigger in await world.poll(agent)]
        if not triggers:
            break
        for agent, trigger in triggers:
            await world.services.work.finish(agent, [trigger.lease_token], FinishOutcome.DISMISSED, "the storm is over")
    left = await world.rows(
        "SELECT status, delay_reason FROM inbox_messages WHERE status IN ('unread', 'claimed', 'waiting')"
    )
    assert left == []
    assert await world.rows("SELECT status FROM notices WHERE status IN ('unread', 'claimed')") == []
    assert await world.rows("SELECT token FROM leases WHERE ended_at IS NULL") == []
    assert refused.keys() <= {"lease_lost", "withdrawn", "conflict"}


@pytest.mark.req("LOOP-04")
async def test_a_thread_in_which_nothing_is_due_any_more_leaves_the_queue(world: World) -> None:
    lead = await world.lead()
    message = await world.says(f"{BOT} hello")
    assert len(await world.database.read(all_heads)) == 1
    await world.ingest.handle(delete(message))
    assert await world.database.read(all_heads) == {}
    assert await world.poll(lead) == []
