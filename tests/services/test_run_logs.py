"""Logs of runs: once, whoever sends them again, and no longer than what they are about."""

from __future__ import annotations

import asyncio
import json

import pytest

from swarm.clock import ManualClock
from swarm.domain.errors import TooLarge
from swarm.domain.model.agents import Agent
from swarm.domain.model.leases import FinishOutcome
from swarm.domain.operating_policy import OperatingPolicy, Retention
from swarm.services.rules.idempotency import Caller
from swarm.store.bridge.database import Database
from tests.services.test_retention import DAY
from tests.support.scan import places_of
from tests.support.tasks import hand, work_of
from tests.support.world import BOT, World, delete, holding

pytestmark = pytest.mark.req("RUN-03")

WORD = "zebra-4711"
SECRET = f'the launch code is {WORD} "or so"'


async def run_of_message(world: World, lead: Agent, text: str = "hello") -> str:
    await world.says(f"{BOT} {text}")
    trigger = await world.only(lead, hold=True)
    return await world.services.run_logs.start(holding(trigger, lead), inbox_message_id=trigger.inbox_messages[0].id)


async def logged(world: World, run_id: str) -> str:
    text, after = "", -1
    while (part := await world.services.run_logs.read(None, run_id, max(0, after))).next > after:
        text, after = text + part.text, part.next
    return text


@pytest.mark.both_engines
async def test_of_two_calls_at_the_same_moment_each_byte_counts_once(
    world: World, database_url: str, clock: ManualClock
) -> None:
    lead = await world.lead()
    run_id = await run_of_message(world, lead)
    parts = [f"line {number}\n".encode() for number in range(20)]
    whole = b"".join(parts)
    async with Database(database_url, clock=clock) as other_database:
        logs = [world.services.run_logs, World(other_database, clock).services.run_logs]
        offset = 0
        for part in parts:
            both = [
                logs[0].append(lead, run_id, offset, part),
                logs[1].append(lead, run_id, 0, whole[: offset + len(part)]),
            ]
            offset += len(part)
            assert await asyncio.gather(*both) == [offset, offset]
    assert await logged(world, run_id) == whole.decode()


@pytest.mark.both_engines
async def test_two_calls_at_the_same_moment_start_one_run(world: World, database_url: str, clock: ManualClock) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    trigger = await world.only(lead, hold=True)
    async with Database(database_url, clock=clock) as other_database:
        other = World(other_database, clock)
        calls = [
            (world, other)[number % 2].services.run_logs.start(
                Caller(agent=lead, lease_token=trigger.lease_token), inbox_message_id=trigger.inbox_messages[0].id
            )
            for number in range(8)
        ]
        assert len(set(await asyncio.gather(*calls))) == 1
    assert len(await world.rows("SELECT id FROM runs")) == 1


@pytest.mark.req("SEC-06")
async def test_a_deleted_message_takes_the_logs_of_its_runs_along_and_its_copies_in_others(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    logs = world.services.run_logs
    root = await world.says(f"{BOT} {SECRET}")
    trigger = await world.only(lead, hold=True)
    own = await logs.start(holding(trigger, lead), inbox_message_id=trigger.inbox_messages[0].id)
    await logs.append(lead, own, 0, b"I think of zebras\n")
    task_id = await hand(world, lead, trigger, worker)
    work = await work_of(world, worker)
    delegated = await logs.start(holding(work, worker), task_id=task_id)
    await logs.append(worker, delegated, 0, b"zebras, zebras\n")
    await world.services.work.finish(lead, [trigger.lease_token], FinishOutcome.DONE)
    await world.says(f"swarm#{lead.name} and now?", thread=root)
    later = await work_of(world, lead)
    other = await logs.start(holding(later, lead), inbox_message_id=later.inbox_messages[0].id)
    said = f"before: {SECRET}\n{json.dumps({'text': SECRET})}\nafter\n".encode()
    await logs.append(lead, other, 0, said)
    await world.ingest.handle(delete(root))
    assert (await logged(world, own), await logged(world, delegated)) == ("", "")
    assert "before: " in await logged(world, other)
    assert "after" in await logged(world, other)
    assert "run_log_pieces.text" not in await places_of(world.database, WORD)
    assert await logs.append(lead, own, 18, f"still {SECRET}".encode()) > 18  # the program does not know yet
    assert "run_log_pieces.text" not in await places_of(world.database, WORD)


@pytest.mark.req("SEC-06")
async def test_logs_are_kept_for_their_own_time(world: World) -> None:
    ruled = world.governed_by(OperatingPolicy(retention=Retention(run_logs_days=3)))
    lead = await world.lead()
    run_id = await run_of_message(world, lead)
    await world.services.run_logs.append(lead, run_id, 0, b"one\n")
    world.clock.advance(2 * DAY)
    await world.services.run_logs.append(lead, run_id, 4, b"two\n")
    world.clock.advance(DAY + 1)
    await ruled.sweeper.tidy()
    part = await world.services.run_logs.read(None, run_id, 0)
    assert (part.text, part.start, part.next) == ("two\n", 4, 8)
    world.clock.advance(2 * DAY)
    await ruled.sweeper.tidy()
    assert await logged(world, run_id) == ""
    assert await world.rows("SELECT id FROM runs") != []
    world.clock.advance(90 * DAY)
    await ruled.sweeper.tidy()
    assert await world.rows("SELECT id FROM runs") == []


async def test_a_log_that_is_kept_for_nobody_is_refused_at_once(world: World) -> None:
    lead = await world.lead()
    run_id = await run_of_message(world, lead)
    world.services.run_logs.cap_bytes = 0
    with pytest.raises(TooLarge):
        await world.services.run_logs.append(lead, run_id, 0, b"one\n")
