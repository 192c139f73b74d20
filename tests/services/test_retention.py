"""Tidying: what nobody will ask for goes, in small steps; what may still be wanted stays."""

from __future__ import annotations

import pytest

from swarm.domain.answers.calls import Closing
from swarm.domain.model.inbox import InboxStep
from swarm.domain.model.leases import FinishOutcome
from swarm.domain.model.threads import SlackMessage
from swarm.domain.policy.operating import OperatingPolicy, Retention
from swarm.services.operate import sweep as retention
from swarm.services.speaking.system_messages import post_message
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import leases
from swarm.store.runs.runs import Run
from swarm.store.threads import threads
from tests.support.runs import asked, failed, place_of
from tests.support.world import BOT, World, said

DAY = 24 * 3600

pytestmark = pytest.mark.req("LOOP-03")


async def count(world: World, table: str, where: str = "1 = 1") -> int:
    (row,) = await world.rows(f"SELECT count(*) AS n FROM {table} WHERE {where}")
    return int(row["n"])


async def answered_thread(world: World) -> SlackMessage:
    lead = await world.lead()
    root = await world.says(f"{BOT} hello")
    await world.answers(lead, await world.only(lead), "good morning")
    await world.send()
    return root


@pytest.mark.parametrize("at_once", [2, 1000])
async def test_what_concerned_nobody_is_forgotten_after_a_week_in_batches(
    world: World, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", at_once)
    await answered_thread(world)
    kept = await count(world, "history")
    for _ in range(5):
        await world.hears(said("just talking"))
    assert await count(world, "history") == kept + 5
    world.clock.advance(7 * DAY)
    await world.sweeper.tidy()
    assert await count(world, "history") == kept + 5
    world.clock.advance(1)
    await world.hears(said("still talking"))
    await world.sweeper.tidy()
    assert await count(world, "history", "thread_id IS NULL AND substr(change, 1, 6) = 'route.'") == 1
    assert await count(world, "history", "change = 'agent.register'") == 1


async def test_one_round_takes_so_many_steps_and_the_next_one_does_the_rest(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 1)
    monkeypatch.setattr(retention, "TRANSACTIONS", 3)
    for _ in range(5):
        await world.hears(said("just talking"))
    world.clock.advance(8 * DAY)
    left = []
    for _ in range(2):
        await world.sweeper.tidy()
        left.append(await count(world, "history"))
    assert left == [2, 0]


@pytest.mark.parametrize("at_once", [1, 1000])
async def test_a_thread_without_activity_is_forgotten_after_ninety_days(
    world: World, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", at_once)
    await answered_thread(world)
    world.clock.advance(90 * DAY)
    await world.sweeper.tidy()
    await world.sweeper.tidy()
    assert await count(world, "thread_messages") == 2
    assert await count(world, "deliveries", "text = 'good morning'") == 1
    world.clock.advance(1)
    fresh = await world.says(f"{BOT} another thread")
    for _ in range(4):
        await world.sweeper.tidy()
    assert await world.rows("SELECT ts FROM thread_messages") == [{"ts": fresh.ts}]
    assert await count(world, "history", "thread_id IN (SELECT id FROM threads WHERE context = 'stale')") == 0
    assert await count(world, "history", "thread_id IS NOT NULL") > 0
    assert await count(world, "deliveries", "text = 'good morning'") == 0
    assert await count(world, "deliveries", "kind = 'post' AND text = ''") == 1, "that there was an answer is known"


@pytest.mark.both_engines
async def test_a_forgotten_thread_is_read_again_when_somebody_speaks_in_it(world: World) -> None:
    root = await answered_thread(world)
    world.clock.advance(91 * DAY)
    await world.sweeper.tidy()
    assert await count(world, "thread_messages") == 0
    lead = await world.services.agents.get("lead")
    await world.is_here(lead)
    again = said(f"{BOT} are you still there?", thread_ts=root.ts)
    world.slack.threads["C1", root.ts] = [root, again]
    await world.hears(again)
    assert await world.poll(lead) == []
    assert await world.backfill.read_due() == 1
    trigger = await world.only(lead)
    assert [one.text for one in trigger.thread_context] == ["@UBOT hello", "@UBOT are you still there?"]
    assert not trigger.context_incomplete


@pytest.mark.parametrize("state", ["unread", "claimed", "waiting", "dead", "delegated"])
async def test_a_thread_in_which_something_is_open_is_kept(world: World, state: str) -> None:
    await answered_thread(world)
    await world.change(f"UPDATE inbox_messages SET status = '{state}'")
    world.clock.advance(100 * DAY)
    await world.sweeper.tidy()
    assert await count(world, "thread_messages") == 2


async def test_leases_and_receipts_go_in_batches(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "AT_ONCE", 2)
    world = world.governed_by(OperatingPolicy())
    lead = await world.lead()
    for number in range(5):
        await world.says(f"{BOT} {number}")
    for trigger in await world.poll(lead):
        await world.answers(lead, trigger, "good morning")
    await world.says(f"{BOT} last")
    held = await world.only(lead)
    assert await count(world, "leases") == 6
    assert await count(world, "idempotency_keys") == 10  # of each answer: its receipt, and the count of answers
    world.clock.advance(DAY + 1)
    await world.sweeper.tidy()
    assert await world.rows("SELECT token FROM leases") == [{"token": held.lease_token}]
    assert await world.rows("SELECT token FROM lease_members") == [{"token": held.lease_token}]
    assert await count(world, "idempotency_keys") == 10
    world.clock.advance(2 * DAY)
    await world.sweeper.tidy()
    assert await count(world, "idempotency_keys") == 0


async def test_a_part_that_fails_keeps_no_other_from_tidying(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    await world.services.work.finish(lead, [trigger.lease_token], FinishOutcome.DISMISSED, "a test")

    def breaks(*args: object) -> int:
        raise RuntimeError("broken")

    monkeypatch.setattr(leases, "forget", breaks)
    await world.hears(said("just talking"))
    world.clock.advance(8 * DAY)
    await world.sweeper.tidy()
    assert await count(world, "leases") == 1
    assert await count(world, "history", "thread_id IS NULL AND substr(change, 1, 6) = 'route.'") == 0
    assert await count(world, "threads", "owner_id IS NOT NULL") == 0


@pytest.mark.req("CHAN-06")
async def test_a_message_that_people_may_retry_keeps_its_thread_no_longer(world: World) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    trigger = await world.only(lead)
    await world.services.work.finish(lead, [trigger.lease_token], FinishOutcome.DISMISSED, "stopped")
    world.clock.advance(90 * DAY + 1)
    await world.sweeper.tidy()
    assert await count(world, "thread_messages") == 0


@pytest.mark.req("STREAM-07")
async def test_what_stands_below_an_answer_is_forgotten_with_it(world: World) -> None:
    root, run = await asked(world, await world.lead())
    said = await world.database.write(_say_below, run, root)
    await world.send()
    await failed(world, run, step=InboxStep.DISMISS)
    assert await count(world, "deliveries", "closing IS NOT NULL") == len(said) == 1
    world.clock.advance(90 * DAY + 1)
    await world.sweeper.tidy()
    assert await count(world, "deliveries", "closing IS NOT NULL OR text = 'half of it'") == 0


def _say_below(tx: Transaction, run: Run, root: SlackMessage) -> list[str]:
    closing = Closing(note="it broke", retry=True)
    thread = threads.locked(tx, run.thread_id or "")
    return post_message(
        tx,
        thread,
        "half of it",
        closing=closing,
        place=place_of(run, root),
        inbox_message_id=run.inbox_message_ids[0],
    )


@pytest.mark.req("SEC-06")
async def test_periods_of_retention_are_the_operators(world: World) -> None:
    lead = await world.lead()
    _, run = await asked(world, lead, f"{BOT} first")
    await failed(world, run, step=InboxStep.DISMISS)
    await world.hears(said("just talking"))
    ruled = world.governed_by(OperatingPolicy(retention=Retention(threads_days=3, runs_days=9, routing_days=2)))
    kept = []
    for _ in range(4):
        kept.append([await count(world, table) for table in ("thread_messages", "runs")])
        kept[-1].append(await count(world, "history", "thread_id IS NULL AND substr(change, 1, 6) = 'route.'"))
        world.clock.advance(DAY + 1)
        for _ in range(3):
            await ruled.sweeper.tidy()
    assert kept == [[1, 1, 1], [1, 1, 1], [1, 1, 0], [0, 0, 0]], "no run is kept longer than its thread"
