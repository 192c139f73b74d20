"""Runs in the database: one run for one trigger, whoever tries; what a run shows, asks and leaves behind."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import pytest

from swarm.domain.answers.calls import AnswerTarget, Closing, TaskDisplay
from swarm.domain.model.deliveries import DeliveryKind
from swarm.domain.model.runs import (
    PageKind,
    PagePhase,
    RunOutcome,
    RunStatus,
    RunStep,
)
from swarm.services.speaking.system_messages import post_message
from swarm.store import deliveries, history
from swarm.store.bridge.statements import Statement
from swarm.store.bridge.transaction import Transaction
from swarm.store.deliveries import delivery
from swarm.store.runs import run_pages, runs
from swarm.store.threads import threads
from tests.services.test_retention import DAY, count
from tests.support.runs import asked, begin, begun, now, place_of
from tests.support.world import BOT, World

CLOSING = Closing(note="The agent fell silent.", retry=True, footer=True)
pytestmark = pytest.mark.req("STREAM-10")


# One run for one trigger


@pytest.mark.both_engines
async def test_of_several_that_start_one_trigger_at_once_one_does(world: World) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    trigger = await world.only(lead, hold=True)
    started = await asyncio.gather(*(world.database.write(begin, lead, trigger) for _ in range(8)))
    (run,) = [run for run in started if run]
    assert (run.status, run.inbox_message_ids) == (RunStatus.RUNNING, (trigger.inbox_messages[0].id,))
    assert await world.database.read(runs.in_hand, trigger.id) == run


@pytest.mark.parametrize("same", ["trigger", "lease"])
async def test_a_run_that_is_not_over_keeps_others_from_its_trigger_and_from_its_lease(world: World, same: str) -> None:
    lead = await world.lead()
    await world.says(f"{BOT} hello")
    trigger = await world.only(lead, hold=True)
    first = await begun(world, lead, trigger)
    other = (
        replace(trigger, lease=replace(trigger.lease, token="other"))
        if same == "trigger"
        else replace(trigger, id="other")
    )
    assert await world.database.write(begin, lead, other) is None
    await close(world, first.id)
    assert await world.database.write(begin, lead, other) is None
    await world.database.write(runs.end, first.id, RunStep.ABANDON, "its process went away")
    again = await begun(world, lead, other)
    assert [run.id for run in await world.database.read(runs.unfinished)] == [again.id]


async def test_what_is_closing_is_known_whole_by_whoever_finds_it(world: World) -> None:
    _, run = await asked(world, await world.lead())
    assert await close(world, run.id)
    (found,) = await world.database.read(runs.unfinished)
    assert (found.status, found.outcome, found.outcome_note) == (RunStatus.CLOSING, RunOutcome.FAILED, "it broke")
    assert (found.final_text, found.final_closing, found.ended_at) == ("What *I* know", CLOSING, None)
    assert await world.database.write(runs.end, run.id, RunOutcome.FAILED.step)
    over = await now(world, run)
    assert (over.status, over.outcome_note) == (RunStatus.FAILED, "it broke")
    assert over.ended_at is not None
    assert await world.database.read(runs.unfinished) == []


async def test_a_process_whose_run_was_taken_from_it_changes_nothing_any_more(world: World) -> None:
    _, run = await asked(world, await world.lead())
    assert await world.database.write(runs.end, run.id, RunStep.ABANDON, "its process went away")
    before = await now(world, run)
    assert not await close(world, run.id)
    for step in RunStep:
        if step not in (RunStep.CLOSE, RunStep.STREAM):
            assert not await world.database.write(runs.end, run.id, step)
    assert await now(world, run) == before


async def test_the_timeline_of_a_thread_tells_each_step_of_its_runs(world: World) -> None:
    _, run = await asked(world, await world.lead())
    await world.database.write(runs.request_stop, "U2", run_id=run.id)
    await close(world, run.id, RunOutcome.STOPPED)
    await world.database.write(runs.end, run.id, RunStep.STOP)
    told = await world.database.read(history.of_subject, run.id)
    assert [row["change"] for row in told] == ["turn.start", "turn.stop_requested", "turn.close", "turn.stop"]
    assert {(row["thread_id"], row["agent_id"]) for row in told} == {(run.thread_id, run.agent_id)}
    assert told[1]["reason"] == "by <@U2>"


@pytest.mark.both_engines
@pytest.mark.req("STREAM-09")
async def test_of_two_who_stop_a_run_at_once_one_is_first_and_whoever_runs_it_is_woken_once(world: World) -> None:
    _, run = await asked(world, await world.lead())
    seen = world.database.wakeups.generation(runs.RUNS)
    flagged = await asyncio.gather(*(world.database.write(runs.request_stop, by, run_id=run.id) for by in ("U1", "U2")))
    assert sorted(flagged) == [0, 1]
    assert world.database.wakeups.generation(runs.RUNS) == seen + 1
    assert await world.database.read(runs.stops_wanted) == [run.id]
    assert (await now(world, run)).stop_requested_by == ("U1" if flagged[0] else "U2")


@pytest.mark.req("STREAM-09")
async def test_a_run_that_is_over_cannot_be_stopped_any_more(world: World) -> None:
    _, run = await asked(world, await world.lead())
    await close(world, run.id, RunOutcome.ANSWERED)
    assert await world.database.write(runs.request_stop, "U1", run_id=run.id) == 0
    assert await world.database.read(runs.stops_wanted) == []


@pytest.mark.both_engines
@pytest.mark.req("STREAM-09")
async def test_a_stop_and_an_end_at_once_leave_one_truth(world: World) -> None:
    lead = await world.lead()
    for _ in range(10):
        _, run = await asked(world, lead)
        flagged, closed = await asyncio.gather(
            world.database.write(runs.request_stop, "U1", run_id=run.id), close(world, run.id)
        )
        assert closed
        assert ((await now(world, run)).stop_requested_at is not None) == bool(flagged)
        await world.database.write(runs.end, run.id, RunStep.FAIL)


@pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)
async def test_what_is_asked_of_runs_reads_an_index_and_not_all_runs(world: World) -> None:
    asked_of = {name: found for name, found in vars(runs).items() if isinstance(found, Statement)} | runs._MOVES
    del asked_of["_START"]
    for name, statement in asked_of.items():
        plan = await world.database.read(_plan, statement.sql("sqlite"))
        assert not [line for line in plan if "runs" in line and "INDEX" not in line], (name, plan)


def _plan(tx: Transaction, sql: str) -> list[str]:
    nothing = dict.fromkeys(re.findall(r":(\w+)", sql))
    return [row[3] for row in tx.fetch(f"EXPLAIN QUERY PLAN {sql}", nothing)[1]]


# Its messages


@pytest.mark.req("STREAM-06")
async def test_a_message_is_stored_before_slack_is_asked_and_known_when_slack_has_it(world: World) -> None:
    _, run = await asked(world, await world.lead())
    write = world.database.write
    assert await write(run_pages.open_page, run.id, 1, PageKind.STREAM)
    assert not await write(run_pages.open_page, run.id, 1, PageKind.STREAM)
    (page,) = await world.database.read(run_pages.of_run, run.id)
    assert (page.phase, page.ts, page.began_at) == (PagePhase.OPENING, None, world.clock.now_us())
    assert await write(run_pages.page_opened, run.id, 1, "1.5")
    assert await write(run_pages.page_text, run.id, 1, "all of it")
    assert await write(run_pages.page_closed, run.id, 1)
    assert not await write(run_pages.page_closed, run.id, 1)
    assert not await write(run_pages.page_text, run.id, 1, "more")
    assert not await write(run_pages.page_opened, run.id, 1, "1.6")
    await write(run_pages.open_page, run.id, 2, PageKind.POST)
    first, second = await world.database.read(run_pages.of_run, run.id)
    assert (first.phase, first.ts, first.text) == (PagePhase.CLOSED, "1.5", "all of it")
    assert (second.page, second.kind, second.phase) == (2, PageKind.POST, PagePhase.OPENING)


# What is queued for Slack


@pytest.mark.req("STREAM-07", "STREAM-12")
async def test_a_long_text_shows_what_stands_below_it_on_its_last_part_alone(world: World) -> None:
    root, run = await asked(world, await world.lead())
    place = replace(place_of(run, root), display=TaskDisplay.TIMELINE, footer="be kind")
    wanted = await say(world, run, "a <b> " * 800, CLOSING, place)
    assert len(wanted) == 3
    sent = [delivery(row) for row in [await world.database.read(deliveries.get, one) for one in wanted] if row]
    assert [(one.closing, one.place) for one in sent] == [(None, None), (None, None), (CLOSING, place)]
    assert all("&lt;b&gt;" in one.text for one in sent)


@pytest.mark.req("STREAM-07")
async def test_where_there_is_no_text_the_note_is_the_text_and_where_there_is_nothing_nothing_is_said(
    world: World,
) -> None:
    root, run = await asked(world, await world.lead())
    (wanted,) = await say(world, run, " \n", CLOSING, place_of(run, root))
    row = await world.database.read(deliveries.get, wanted)
    assert row is not None
    assert delivery(row).text == "The agent fell silent."
    assert delivery(row).closing == replace(CLOSING, note="")
    assert await say(world, run, "", Closing(feedback=True), place_of(run, root)) == []


async def test_a_text_that_was_made_safe_before_is_not_escaped_again(world: World) -> None:
    root, run = await asked(world, await world.lead())
    (wanted,) = await say(world, run, "a &lt; b", CLOSING, place_of(run, root), is_safe=True)
    row = await world.database.read(deliveries.get, wanted)
    assert row is not None
    assert row["text"] == "a &lt; b"


@pytest.mark.req("STREAM-09")
async def test_the_button_that_stops_a_run_is_posted_once_and_goes_away(world: World) -> None:
    root, run = await asked(world, await world.lead())
    for act in (offered, offered, withdrawn, withdrawn):
        await world.database.write(act, run.thread_id or "", run.id)
    await world.send()
    (post,) = [done for done in world.slack.landed if done.kind is DeliveryKind.POST]
    (gone,) = [done for done in world.slack.landed if done.kind is DeliveryKind.DELETE]
    assert (post.stops_run_id, post.thread_ts) == (run.id, root.ts)
    assert gone.target_ts == world.slack.timestamps[post.id]


# How long it is kept


@pytest.mark.parametrize("at_once", [1, 1000])
async def test_runs_are_forgotten_ninety_days_after_their_end_with_all_that_belongs_to_them(
    world: World, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    monkeypatch.setattr("swarm.services.operate.sweep.AT_ONCE", at_once)
    run = await waiting(world)
    await world.database.write(run_pages.open_page, run.id, 1, PageKind.STREAM)
    world.clock.advance(91 * DAY)
    await world.sweeper.tidy()
    assert await count(world, "runs") == 1  # it still waits for people
    await world.database.write(runs.end, run.id, RunStep.SUPERSEDE)
    world.clock.advance(90 * DAY)
    await world.sweeper.tidy()
    assert await count(world, "runs") == 1
    world.clock.advance(1)
    await world.sweeper.tidy()
    assert [await count(world, table) for table in ("runs", "run_messages")] == [0, 0]


# Helpers


async def close(world: World, run_id: str, outcome: RunOutcome = RunOutcome.FAILED) -> bool:
    return await world.database.write(
        runs.closing, run_id, text="What *I* know", closing=CLOSING, outcome=outcome, note="it broke"
    )


async def waiting(world: World) -> runs.Run:
    _, run = await asked(world, await world.lead())
    await close(world, run.id, RunOutcome.WAITING)
    await world.database.write(runs.end, run.id, RunOutcome.WAITING.step)
    return await now(world, run)


async def say(
    world: World, run: runs.Run, text: str, closing: Closing, place: AnswerTarget, *, is_safe: bool = False
) -> list[str]:
    def said(tx: Transaction) -> list[str]:
        assert run.thread_id is not None
        return post_message(tx, threads.locked(tx, run.thread_id), text, closing=closing, place=place, is_safe=is_safe)

    return await world.database.write(said)


def offered(tx: Transaction, thread_id: str, run_id: str) -> None:
    deliveries.add(
        tx,
        DeliveryKind.POST,
        threads.locked(tx, thread_id),
        text="Working on it …",
        idempotency_key=f"stop:{run_id}",
        stops_run_id=run_id,
    )


def withdrawn(tx: Transaction, thread_id: str, run_id: str) -> None:
    deliveries.take_down(tx, threads.locked(tx, thread_id), f"stop:{run_id}")
