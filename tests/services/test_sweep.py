"""The sweep: one bad row ends neither the round nor the process, and is tried once in a round."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.leases import LEASE_SECONDS, FinishOutcome, LeaseEnd
from swarm.domain.policy.operating import OperatingPolicy
from swarm.services.operate import agents, failover, sweep
from swarm.services.work.leases import expire, lose
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import leases, queues
from tests.support.world import BOT, World, texts

pytestmark = pytest.mark.both_engines

PATIENCE_SECONDS = 20.0


@pytest.mark.req("LOOP-06")
async def test_a_lease_that_cannot_be_ended_keeps_no_other_from_ending(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead = await world.lead()
    for text in ("bad", "good", "fine"):
        await world.says(f"{BOT} {text}")
    bad, *_ = await world.poll(lead)
    tried: Counter[str] = Counter()

    def stumbles(tx: Transaction, token: str, operating_policy: OperatingPolicy) -> None:
        tried[token] += 1
        if token == bad.lease_token:
            raise RuntimeError("broken")
        expire(tx, token, operating_policy)

    monkeypatch.setattr(sweep, "BATCH", 1)
    monkeypatch.setattr(sweep, "expire", stumbles)
    await world.later(LEASE_SECONDS)
    assert sorted(texts(await world.poll(lead))) == [["@UBOT fine"], ["@UBOT good"]]
    assert set(tried.values()) == {1}
    monkeypatch.setattr(sweep, "expire", expire)
    await world.sweep()
    assert texts(await world.poll(lead)) == [["@UBOT bad"]]


@pytest.mark.req("LOOP-13")
async def test_a_part_that_fails_keeps_no_other_from_its_work(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    await world.services.work.release(lead, [(await world.only(lead)).lease_token], delay_seconds=5)

    def breaks(*args: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(leases, "expired", breaks)
    monkeypatch.setattr(failover, "find_work", breaks)
    await world.later(5)
    assert texts(await world.poll(lead)) == [["@UBOT hello"]]


@pytest.mark.req("LOOP-13")
async def test_a_thread_whose_hold_cannot_be_ended_keeps_no_other_waiting(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead = await world.lead()
    for text in ("bad", "good"):
        await world.says(f"{BOT} {text}")
    bad, good = await world.poll(lead)
    await world.services.work.release(lead, [bad.lease_token, good.lease_token], delay_seconds=5)
    (of_bad,) = await world.rows(f"SELECT thread_id FROM leases WHERE token = '{bad.lease_token}'")
    make_due = queues.make_due

    def stumbles(tx: Transaction, thread_id: str) -> None:
        if thread_id == of_bad["thread_id"]:
            raise RuntimeError("broken")
        make_due(tx, thread_id)

    monkeypatch.setattr(queues, "make_due", stumbles)
    await world.later(5)
    assert texts(await world.poll(lead)) == [["@UBOT good"]]


@pytest.mark.req("LOOP-13")
async def test_the_sweep_goes_on_after_an_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = 0
    again = asyncio.Event()

    def breaks(*args: object) -> None:
        nonlocal rounds
        rounds += 1
        if rounds == 4:  # two in the first sweep, one in its retention job, one in the second sweep
            loop.call_soon_threadsafe(again.set)
        raise RuntimeError("broken")

    loop = asyncio.get_running_loop()
    monkeypatch.setattr(sweep, "SWEEP_SECONDS", 0)
    monkeypatch.setattr(failover, "find_work", breaks)
    monkeypatch.setattr(queues, "repair", breaks)
    sweeping = asyncio.ensure_future(world.sweeper.run())
    async with asyncio.timeout(PATIENCE_SECONDS):
        await again.wait()
    assert not sweeping.done()
    sweeping.cancel()


@pytest.mark.req("LOOP-13")
async def test_thousands_that_wait_for_a_lead_are_given_to_it_in_batches(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failover, "BATCH", 2)
    for number in range(5):
        await world.says(f"{BOT} {number}")
    lead = await world.lead()
    assert len(await world.poll(lead)) == 2
    for _ in range(2):
        await world.sweep()
    assert len(await world.poll(lead)) == 3


@pytest.mark.req("LOOP-06")
async def test_each_lease_of_a_removed_agent_ends_in_a_transaction_of_its_own(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    await world.lead()
    second = await world.lead("second")
    messages = [await world.says(f"swarm#second {number}") for number in range(3)]
    assert len(await world.poll(second)) == 3
    transactions = []

    def noted(tx: Transaction, *args: Any) -> None:
        transactions.append(tx)
        lose(tx, *args)

    monkeypatch.setattr(agents, "lose", noted)
    await world.services.agents.revoke("second")
    assert len(set(map(id, transactions))) == 3
    lead = await world.services.agents.get("lead")
    inbox_messages = [await world.inbox_message(message) for message in messages]
    assert [(inbox_message.agent_id, inbox_message.status) for inbox_message in inbox_messages] == [
        (lead.id, InboxStatus.UNREAD)
    ] * 3
    assert await world.rows("SELECT DISTINCT ended_as FROM leases") == [{"ended_as": LeaseEnd.REVOKED}]


@pytest.mark.req("LOOP-05", "LOOP-13")
async def test_a_process_that_was_asleep_blames_nobody_for_what_it_could_not_hear(world: World) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    await world.later(1)
    world.database.listens(asleep_seconds=1 + LEASE_SECONDS / 3)
    world.clock.advance(LEASE_SECONDS)
    await world.sweep()
    assert (await world.services.work.renew(lead, [trigger.lease_token])).renewed.lost == ()
    await world.services.work.finish(lead, [trigger.lease_token], FinishOutcome.DISMISSED, "seen")


@pytest.mark.req("LOOP-05")
async def test_between_two_rounds_it_rests(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[None] = []

    async def sweep() -> None:
        rounds.append(None)

    async def tidy() -> None:
        pass

    monkeypatch.setattr(world.sweeper, "sweep", sweep)
    monkeypatch.setattr(world.sweeper, "tidy", tidy)
    running = asyncio.create_task(world.sweeper.run())
    for _ in range(100):  # without a rest there would be a round in each
        await asyncio.sleep(0)
    running.cancel()
    assert len(rounds) == 1
