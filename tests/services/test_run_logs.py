"""Logs of runs: once, whoever sends them again, and no longer than what they are about."""

from __future__ import annotations

import asyncio
import json

import pytest

from swarm.clock import ManualClock
from swarm.domain.errors import Conflict, NotFound, TooLarge
from swarm.domain.model.agents import Agent
from swarm.domain.model.leases import FinishOutcome
from swarm.domain.model.runs import RunStep
from swarm.domain.policy.operating import OperatingPolicy, Retention
from swarm.services.ground.idempotency import Caller
from swarm.services.inbox.run_logs import RunLogs
from swarm.services.runs.stream import AnswerStreams
from swarm.services.runs.stream_state import StillShown, Wanted
from swarm.services.use_cases import Services
from swarm.store.bridge.database import Database
from swarm.store.runs import runs
from tests.services.test_feedback import thumb
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


@pytest.mark.req("SEC-08")
async def test_a_log_has_no_secret_also_if_its_program_and_its_runner_let_it_through(world: World) -> None:
    lead = await world.lead()
    run_id = await run_of_message(world, lead)
    pieces = (b"key AKIAIOSFODNN7EXAMPLE\n", b"token ghp_4f9aQ2mX7bL0cV3n", b"Z8kR4f9aQ2mX7bL0\n")
    at = 0
    for piece in pieces:
        at = await world.services.run_logs.append(lead, run_id, at, piece)
    assert await logged(world, run_id) == "key AKIA[secret removed]\ntoken ghp_[secret removed]\n"
    assert at == sum(map(len, pieces))


@pytest.mark.both_engines
async def test_of_two_calls_at_the_same_moment_each_byte_counts_once(
    world: World, database_url: str, clock: ManualClock
) -> None:
    lead = await world.lead()
    run_id = await run_of_message(world, lead)
    whole = b"".join(f"line {number}\n".encode() for number in range(60))

    async def send(logs: RunLogs, size: int) -> None:
        for offset in range(0, len(whole), size):
            await logs.append(lead, run_id, offset, whole[offset : offset + size])

    async with Database(database_url, clock=clock) as other_database:
        other = World(other_database, clock).services.run_logs
        await asyncio.gather(send(world.services.run_logs, 7), send(other, 11))
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


@pytest.mark.both_engines
async def test_a_run_that_is_reported_and_streamed_at_the_same_moment_is_one(
    world: World, database_url: str, clock: ManualClock
) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    trigger = await world.only(lead, hold=True)
    about, caller = trigger.inbox_messages[0].id, holding(trigger, lead)

    async def opened(services: Services) -> str:
        return (await services.streams.open(caller, inbox_message_id=about))["turn_id"]

    async with Database(database_url, clock=clock) as other_database:
        both = (world.services, World(other_database, clock).services)
        calls = [services.run_logs.start(caller, inbox_message_id=about) for services in both * 3]
        ids = await asyncio.gather(*calls, *(opened(services) for services in both * 3))
    assert len(set(ids)) == 1
    assert [row["status"] for row in await world.rows("SELECT status FROM runs")] == ["running"]


@pytest.mark.req("RUN-06")
async def test_usage_log_and_opinions_of_one_lease_belong_to_one_run(world: World) -> None:
    lead = await world.lead()
    run_id = await run_of_message(world, lead)
    (message,) = await world.rows("SELECT id, lease_token FROM inbox_messages")
    caller = Caller(agent=lead, lease_token=message["lease_token"])
    await world.services.run_logs.append(lead, run_id, 0, b"before\n")
    opened = await world.services.streams.open(caller, inbox_message_id=message["id"], text="Hello.")
    await world.services.run_logs.append(lead, opened["turn_id"], 7, b"after\n")
    await world.services.streams.close(caller, run_id)
    assert await world.services.run_logs.start(caller, inbox_message_id=message["id"]) == run_id == opened["turn_id"]
    assert await logged(world, run_id) == "before\nafter\n"
    (run,) = await world.rows("SELECT id, status, ended_at FROM runs")
    assert (run["status"], run["ended_at"]) == ("running", None)  # until the stream is closed in Slack
    changes = await world.rows("SELECT change FROM history WHERE substr(change, 1, 5) = 'turn.' ORDER BY at")
    assert [row["change"] for row in changes] == ["turn.start", "turn.stream"]


async def test_a_reply_that_is_not_streamed_is_rated_as_the_run_of_its_lease(world: World) -> None:
    lead = await world.lead()
    run_id = await run_of_message(world, lead)
    (message,) = await world.rows("SELECT id, lease_token FROM inbox_messages")
    caller = Caller(agent=lead, lease_token=message["lease_token"])
    await world.services.replies.reply(caller, message["id"], "Hello.")
    await world.send()
    (posted,) = [said.place for said in world.slack.landed if said.place]
    assert posted.run_id == run_id
    await thumb(world, run_id, up=True, key="k1")
    (opinion,) = await world.rows("SELECT answer_id, run_id FROM feedback")
    assert (opinion["answer_id"], opinion["run_id"]) == (run_id, run_id)


async def test_a_second_stream_under_a_lease_is_a_run_of_its_own(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    await world.says(f"{BOT} hello")
    await hand(world, lead, await world.only(lead, hold=True), worker)
    work = await work_of(world, worker)
    caller, task_id = holding(work, worker), work.id
    first = (await world.services.streams.open(caller, task_id=task_id))["turn_id"]
    await world.services.streams.close(caller, first, "The first part.")
    await world.database.write(runs.end, first, RunStep.ANSWER)
    second = (await world.services.streams.open(caller, task_id=task_id))["turn_id"]
    assert second != first
    assert await world.services.run_logs.start(caller, task_id=task_id) == second


async def test_a_reported_run_streams_only_after_the_earlier_stream_of_its_work_has_ended(world: World) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    earlier = await world.only(lead, hold=True)
    about = earlier.inbox_messages[0].id
    await world.services.streams.open(holding(earlier, lead), inbox_message_id=about)
    await world.services.work.release(lead, [earlier.lease_token])
    later = holding(await world.only(lead, hold=True), lead)
    run_id = await world.services.run_logs.start(later, inbox_message_id=about)
    wanted = Wanted(inbox_message_id=about, task_id=None)
    with pytest.raises(StillShown):
        await world.database.write(AnswerStreams._open, later, wanted, "")
    (before,) = await world.rows("SELECT id FROM runs WHERE status = 'running'")
    await world.database.write(runs.end, before["id"], RunStep.ABANDON)
    assert (await world.database.write(AnswerStreams._open, later, wanted, ""))["turn_id"] == run_id


@pytest.mark.req("RUN-10", "RUN-06")
async def test_news_about_a_task_has_a_run_of_its_own_that_knows_whether_its_lead_has_answered(world: World) -> None:
    lead, worker, logs = await world.lead(), await world.worker(), world.services.run_logs
    await world.says(f"{BOT} hello")
    trigger = await world.only(lead, hold=True)
    about, caller = trigger.inbox_messages[0].id, holding(trigger, lead)
    await logs.start(caller, inbox_message_id=about)
    task_id = await hand(world, lead, trigger, worker)
    assert await logs.answers(caller) == 0  # a delegation says nothing to people
    await world.services.replies.reply(caller, about, "I have passed it on.")
    assert await logs.answers(caller) == 1
    world.clock.advance(1)
    work = await work_of(world, worker)
    on_task = await logs.start(holding(work, worker), task_id=task_id)
    await world.services.task_work.complete(holding(work, worker), task_id, "Done.", reply="It is done.")
    news = await world.only(lead)
    caller = holding(news, lead)
    run_id = await logs.start(caller, task_id=task_id)
    assert await logs.start(caller, task_id=task_id) == run_id
    assert await logs.answers(caller) == 0  # what the worker has said, and the lead before, does not count
    await logs.append(lead, run_id, 0, b"thinks\n")
    assert [one.id for one in await logs.of_task(task_id)] == [on_task]
    await world.services.replies.reply_to_task(caller, task_id, "All is done.")
    assert await logs.answers(caller) == 1
    (run,) = await world.rows(f"SELECT thread_id, requester, task_id FROM runs WHERE id = '{run_id}'")
    assert (bool(run["thread_id"]), run["requester"], run["task_id"]) == (True, "U1", None)
    with pytest.raises((Conflict, NotFound)):
        await logs.start(Caller(agent=lead, lease_token=trigger.lease_token), task_id=task_id)


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
