"""What people do after a failed answer: have it run again, once."""

from __future__ import annotations

import asyncio

import pytest

from swarm.domain.model.inbox import InboxStatus, InboxStep
from swarm.domain.model.leases import MAX_MESSAGE_ATTEMPTS, MAX_TASK_ATTEMPTS, FinishOutcome, LeaseEnd
from swarm.domain.model.runs import RunStep
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.model.threads import Author, AuthorKind, Standing
from swarm.domain.policy.channels import ChannelPolicy
from swarm.domain.requests.button_actions import RETRY_RUN_ACTION, ButtonPressed
from swarm.services.runs.run_control import NO_RETRY_TEXT, RETRIED_TEXT, _retry_run
from swarm.services.tasks.tasks import cancel_by_person
from swarm.services.work.leases import lose
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import leases
from swarm.store.runs import runs
from swarm.store.runs.runs import Run
from tests.services.test_locks import under_way
from tests.services.test_task_races import once_it_waits
from tests.support.policies import governing
from tests.support.runs import asked, begun, failed, now
from tests.support.tasks import asked_and_handed, status_of, work_of
from tests.support.world import World, delete, texts

ONLY_U1 = governing(everywhere=ChannelPolicy(allowed_users=frozenset({"U1"})))


def press(run: Run, *, key: str = "press:1", by: str = "U1", channel: str = "C1") -> ButtonPressed:
    return pressed(RETRY_RUN_ACTION, run.id, key=key, by=by, channel=channel)


def pressed(action_id: str, value: str, *, key: str, by: str, channel: str) -> ButtonPressed:
    return ButtonPressed(
        key=key,
        action_id=action_id,
        value=value,
        user_id=by,
        channel=channel,
        message_ts="1700000000.000900",
        thread_ts=None,
    )


def _end_lease(tx: Transaction, run: Run) -> None:
    leases.end(tx, run.lease_token, LeaseEnd.FINISHED)


# Retry


@pytest.mark.req("CHAN-06", "STREAM-07")
@pytest.mark.parametrize("step", [InboxStep.BURY, InboxStep.DISMISS])
async def test_what_failed_or_was_stopped_is_run_again_with_all_its_messages(world: World, step: InboxStep) -> None:
    lead = await world.lead()
    root = await world.says("swarm#lead one")
    await world.says("two", thread=root)
    trigger = await world.only(lead)
    run = await begun(world, lead, trigger)
    await failed(world, run, step=step)
    await world.database.write(_end_lease, run)
    assert await world.poll(lead) == []
    assert await world.buttons.press(press(run)) is None
    assert (await world.inbox_message(root)).attempts == 0
    again = await world.only(lead)
    assert texts([again]) == [["swarm#lead one", "two"]]
    assert (await now(world, run)).retried_at is not None
    assert (await begun(world, lead, again)).id != run.id


@pytest.mark.req("CHAN-06")
async def test_a_message_that_was_tried_too_often_may_be_tried_as_often_again(world: World) -> None:
    lead = await world.lead()
    root, run = await asked(world, lead)
    for _ in range(MAX_MESSAGE_ATTEMPTS - 1):
        await world.database.write(lose, run.lease_token, LeaseEnd.FAILED, "it broke", world.operating_policy)
        await world.later(60)
        await world.database.write(runs.end, run.id, RunStep.ABANDON)
        run = await begun(world, lead, await world.only(lead))
    await failed(world, run)
    await world.database.write(_end_lease, run)
    await world.buttons.press(press(run))
    inbox_message = await world.inbox_message(root)
    assert (inbox_message.status, inbox_message.attempts) == (InboxStatus.UNREAD, 0)


@pytest.mark.req("CHAN-06")
async def test_of_several_presses_at_once_one_counts_and_the_others_hear_so(world: World) -> None:
    lead = await world.lead()
    _, run = await asked(world, lead)
    await failed(world, run)
    await world.database.write(_end_lease, run)
    buttons = world.buttons
    presses = [press(run, key=f"press:{n}", by=f"U{n}") for n in (1, 2, 3)]
    said = await asyncio.gather(*map(buttons.press, presses))
    assert (said.count(None), said.count(RETRIED_TEXT)) == (1, 2)
    assert len(await world.poll(lead)) == 1
    told = await world.rows("SELECT change FROM history WHERE change IN ('turn.retry', 'inbox.retry') ORDER BY change")
    assert [row["change"] for row in told] == ["inbox.retry", "turn.retry"]


@pytest.mark.both_engines
@pytest.mark.req("CHAN-06")
async def test_the_same_press_told_twice_is_one(world: World) -> None:
    _, run = await asked(world, await world.lead())
    await failed(world, run)
    buttons = world.buttons
    assert [await buttons.press(press(run)) for _ in range(2)] == [None, None]


@pytest.mark.req("CHAN-06")
async def test_when_the_second_run_fails_too_its_own_button_counts_and_the_first_one_no_more(world: World) -> None:
    lead = await world.lead()
    root, first = await asked(world, lead)
    await failed(world, first)
    await world.database.write(_end_lease, first)
    buttons = world.buttons
    await buttons.press(press(first))
    second = await begun(world, lead, await world.only(lead))
    await failed(world, second)
    assert await buttons.press(press(first, key="press:2")) == RETRIED_TEXT
    assert (await world.inbox_message(root)).status is InboxStatus.DEAD
    assert await buttons.press(press(second, key="press:3")) is None
    assert (await world.inbox_message(root)).status is InboxStatus.UNREAD


@pytest.mark.req("CHAN-06")
async def test_it_works_after_the_lease_was_forgotten(world: World) -> None:
    lead = await world.lead()
    root, run = await asked(world, lead)
    await failed(world, run)
    await world.database.write(_end_lease, run)
    world.clock.advance(2 * 24 * 3600)
    await world.sweeper.tidy()
    assert await world.rows("SELECT * FROM leases") == []
    await world.is_here(lead)
    assert await world.buttons.press(press(run)) is None
    assert (await world.inbox_message(root)).status is InboxStatus.UNREAD


@pytest.mark.req("CHAN-06")
@pytest.mark.parametrize("status", ["running", "answered", "abandoned", "elsewhere", "unknown"])
async def test_what_did_not_fail_here_is_not_run_again(world: World, status: str) -> None:
    root, run = await asked(world, await world.lead())
    if status in ("answered", "abandoned"):
        await world.database.write(runs.end, run.id, RunStep.ANSWER if status == "answered" else RunStep.ABANDON)
    if status == "elsewhere":
        await failed(world, run)
    before = await world.inbox_message(root)
    click = press(run, channel="C2" if status == "elsewhere" else "C1")
    if status == "unknown":
        click = pressed(RETRY_RUN_ACTION, "nothing", key="press:1", by="U1", channel="C1")
    assert await world.buttons.press(click) == NO_RETRY_TEXT
    assert await world.inbox_message(root) == before
    assert (await now(world, run)).retried_at is None


@pytest.mark.req("CHAN-06")
async def test_a_question_that_was_deleted_meanwhile_is_not_asked_again(world: World) -> None:
    root, run = await asked(world, await world.lead())
    await world.database.write(runs.end, run.id, RunStep.FAIL, "it broke")
    await world.ingest.handle(delete(root))
    assert await world.buttons.press(press(run)) == NO_RETRY_TEXT


@pytest.mark.req("CHAN-06")
async def test_what_is_tried_again_of_itself_needs_no_press(world: World) -> None:
    _, run = await asked(world, await world.lead())
    await world.database.write(runs.end, run.id, RunStep.FAIL, "it broke")
    await world.later(61)
    assert await world.buttons.press(press(run)) == RETRIED_TEXT


@pytest.mark.req("CHAN-06", "CHAN-09")
async def test_who_may_not_speak_here_may_not_run_anything_again(world: World) -> None:
    root, run = await asked(world, await world.lead())
    await failed(world, run)
    told = await world.governed_by(ONLY_U1).buttons.press(press(run, by="U2"))
    assert str(told).startswith("You may not do that here")
    assert (await world.inbox_message(root)).status is InboxStatus.DEAD


@pytest.mark.req("CHAN-06")
async def test_a_task_that_was_given_up_is_run_again_and_a_cancelled_one_is_not(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    for _ in range(MAX_TASK_ATTEMPTS):
        work = await work_of(world, worker)
        run = await begun(world, worker, work)
        await world.database.write(runs.end, run.id, RunStep.FAIL, "it broke")
        await world.services.work.finish(worker, [work.lease_token], FinishOutcome.FAILED, "it broke")
        await world.later(60)
        await world.is_here(worker)
    assert await status_of(world, handed.task_id) is TaskStatus.DEAD
    buttons = world.buttons
    assert await buttons.press(press(run)) is None
    assert await status_of(world, handed.task_id) is TaskStatus.PENDING
    assert await buttons.press(press(run, key="press:2")) == RETRIED_TEXT
    again = await begun(world, worker, await work_of(world, worker))
    await world.database.write(runs.end, again.id, RunStep.STOP)
    await world.database.write(cancel_by_person, handed.task_id, "C1", "U1", world.operating_policy)
    assert await buttons.press(press(again, key="press:3")) == NO_RETRY_TEXT


@pytest.mark.req("CHAN-06")
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_a_press_that_meets_another_waits_and_hears_that_it_came_second(world: World) -> None:
    _, run = await asked(world, await world.lead())
    await failed(world, run)
    buttons = world.buttons
    person = Author(id="U1", kind=AuthorKind.USER, standing=Standing.MEMBER)
    async with under_way(world, buttons._once, press(run), person, _retry_run) as go_on:
        said = await once_it_waits(world, go_on, buttons.press(press(run, key="press:2", by="U2")))
    assert said == RETRIED_TEXT
    assert (await world.rows("SELECT retried_by FROM runs"))[0]["retried_by"] == "U1"


async def test_a_button_that_is_none_of_ours_does_nothing(world: World) -> None:
    click = pressed("something_else", "x", key="1", by="U1", channel="C1")
    assert await world.buttons.press(click) is None
    assert await world.rows("SELECT * FROM idempotency_keys") == []
