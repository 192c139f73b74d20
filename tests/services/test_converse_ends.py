"""What ends a run before its end: people who stop it, and news of what it is about."""

from __future__ import annotations

import asyncio

import pytest

from swarm.domain.answers.events import Failed
from swarm.domain.model.agents import Role
from swarm.domain.model.deliveries import DeliveryKind
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.runs import RunStatus
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.requests.button_actions import (
    RETRY_RUN_ACTION,
    STOP_RUN_ACTION,
    STOP_TASK_ACTION,
)
from swarm.services.ground.idempotency import Caller
from swarm.services.runs import streaming_agents
from swarm.services.runs.run_ends import STOP_TEXT
from swarm.services.tasks.tasks import brief
from tests.support.conversing import begun, no_news, press, pressed, status
from tests.support.live import Gate, Scripted, ends, hired, playing, says
from tests.support.tasks import asked_and_handed, status_of
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.support.world import BOT, World, delete, edit

CHECK = "white_check_mark"


# Stops


@pytest.fixture
def never_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stops are heard of by wakeups, not by looking again, so that what comes comes at once."""
    monkeypatch.setattr(streaming_agents, "AGAIN_SECONDS", 3600)


@pytest.mark.usefixtures("never_looks_again")
@pytest.mark.req("STREAM-09")
async def test_a_stop_in_the_thread_ends_the_run_at_once_and_says_who_wanted_it(world: World) -> None:
    gate = Gate()
    async with playing(world, hired("ada", Scripted(gate))) as show:
        root = await world.says(f"{BOT} hello")
        await begun(show, gate, root)
        stop = await world.says("!stop", thread=root, by="U2")
        await asyncio.wait_for(gate.left.wait(), PATIENCE_SECONDS)
        (run,) = await show.over(root)
        (shown,) = show.live.of(root)
        await world.send()
    assert (shown.text, shown.streaming, shown.closing.note) == ("Some words.\n", False, "🛑 Stopped by <@U2>.")
    assert (run.status, await status(world, root)) == (RunStatus.STOPPED, InboxStatus.DISMISSED)
    assert (stop.ts, CHECK) in world.slack.reactions
    assert (root.ts, CHECK) not in world.slack.reactions


@pytest.mark.usefixtures("never_looks_again")
@pytest.mark.req("STREAM-09")
async def test_a_button_to_stop_a_run_comes_when_it_takes_its_time_and_goes_with_it(world: World) -> None:
    gate = Gate()
    async with playing(world, hired("ada", Scripted(gate)), stop_button_seconds=0.05) as show:
        root = await world.says(f"{BOT} hello")
        run = await begun(show, gate, root)

        async def offered() -> bool:
            await world.send()
            return STOP_TEXT in world.slack.posts

        await wait_until(offered)
        assert await pressed(world, press(STOP_RUN_ACTION, run.id, by="U2")) is None
        await asyncio.wait_for(gate.left.wait(), PATIENCE_SECONDS)
        await show.over(root)
        await world.send()
        assert show.live.of(root)[0].closing.note == "🛑 Stopped by <@U2>."
    gone = [done for done in world.slack.landed if done.kind is DeliveryKind.DELETE]
    assert len(gone) == 1


@pytest.mark.req("STREAM-09")
async def test_an_answer_that_comes_soon_has_no_button(world: World) -> None:
    async with playing(world, hired("ada", Scripted()), stop_button_seconds=30) as show:
        await show.over(await world.says(f"{BOT} hello"))
        await world.send()
    assert world.slack.posts == []


@pytest.mark.req("STREAM-09", "STREAM-07")
async def test_a_stop_that_meets_the_end_leaves_one_truth(world: World) -> None:
    ada = Scripted()
    async with playing(world, hired("ada", ada)) as show:
        for _ in range(8):
            gate = Gate()
            ada.scripts.append(gate)
            root = await world.says(f"{BOT} hello")
            await begun(show, gate, root)
            gate.opened.set()
            stop = await world.says("!stop", thread=root)
            came_too_late = bool(await world.inbox_messages(stop))  # it is a message like any other then
            run, *_ = await show.over(root, 2 if came_too_late else 1)
            shown, *_ = show.live.of(root)
            is_stopped = run.status is RunStatus.STOPPED
            assert not (is_stopped and came_too_late)
            assert ("Stopped" in shown.closing.note, shown.streaming) == (is_stopped, False)
            assert (await status(world, root) is InboxStatus.DISMISSED) == is_stopped


# News


@pytest.mark.req("LOOP-15")
async def test_a_message_that_is_deleted_ends_its_run(world: World) -> None:
    gate = Gate()
    async with playing(world, hired("ada", Scripted(gate))) as show:
        root = await world.says(f"{BOT} hello")
        await begun(show, gate, root)
        await world.ingest.handle(delete(root))
        await asyncio.wait_for(gate.left.wait(), PATIENCE_SECONDS)
        (run,) = await show.over(root)
        assert (run.status, await status(world, root)) == (RunStatus.STOPPED, InboxStatus.WITHDRAWN)
        assert not show.live.of(root)[0].streaming
        await no_news(world)


@pytest.mark.req("LOOP-15", "LOOP-12")
async def test_one_message_of_several_that_is_deleted_leaves_the_others_their_answer(world: World) -> None:
    first, gate = Gate(before=""), Gate()
    ada = Scripted()
    ada.scripts.extend([first, gate])
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} one")
        await first.arrived.wait()
        two = await world.says("two", thread=root)
        three = await world.says("three", thread=root)
        first.opened.set()
        await asyncio.wait_for(gate.arrived.wait(), PATIENCE_SECONDS)
        await world.ingest.handle(delete(two))
        await no_news(world)
        gate.opened.set()
        await show.over(root, 2)
        assert [await status(world, message) for message in (two, three)] == [
            InboxStatus.WITHDRAWN,
            InboxStatus.RESPONDED,
        ]


@pytest.mark.req("LOOP-15")
async def test_an_edit_while_it_is_answered_is_heard_and_changes_nothing(world: World) -> None:
    gate = Gate()
    async with playing(world, hired("ada", Scripted(gate))) as show:
        root = await world.says(f"{BOT} hello")
        await begun(show, gate, root)
        await world.ingest.handle(edit(root, f"{BOT} goodbye"))
        await no_news(world)
        gate.opened.set()
        (run,) = await show.over(root)
    assert run.status is RunStatus.ANSWERED


@pytest.mark.req("LOOP-15")
async def test_an_agent_that_may_not_run_more_hears_news_all_the_same(world: World) -> None:
    gate = Gate()
    async with playing(world, hired("ada", Scripted(gate), parallel=1)) as show:
        root = await world.says(f"{BOT} hello")
        await begun(show, gate, root)
        await world.ingest.handle(delete(root))
        await asyncio.wait_for(gate.left.wait(), PATIENCE_SECONDS)
        await show.over(root)


@pytest.mark.req("LOOP-16", "LOOP-09")
async def test_a_worker_runs_its_task_into_the_thread_and_its_answer_is_the_result(world: World) -> None:
    lead = await world.lead()
    doer = Scripted(says("It is done."))
    async with playing(world, hired("doer", doer, role=Role.WORKER)) as show:
        handed = await asked_and_handed(world, lead, await show.agent("doer"))
        await show.over(handed.root)
        (shown,) = show.live.of(handed.root)
        (task,) = await world.rows("SELECT status, result FROM tasks")
    assert (shown.text, shown.streaming) == ("It is done.", False)
    assert task == {"status": "completed", "result": "It is done."}
    assert len(doer.inputs) == 1


@pytest.mark.req("LOOP-16", "STREAM-07", "CHAN-06")
async def test_a_task_that_failed_is_set_aside_and_a_retry_runs_it_again(world: World) -> None:
    lead = await world.lead()
    doer = Scripted(says("It is done."))
    doer.scripts.append(ends(Failed(message="no such model")))
    async with playing(world, hired("doer", doer, role=Role.WORKER)) as show:
        handed = await asked_and_handed(world, lead, await show.agent("doer"))
        (run,) = await show.over(handed.root)
        assert await status_of(world, handed.task_id) is TaskStatus.DEAD
        await world.send()
        assert world.slack.posts == ["⚠️ There is no answer: no such model."]
        assert await pressed(world, press(RETRY_RUN_ACTION, run.id)) is None
        await show.over(handed.root, 2)
        assert await status_of(world, handed.task_id) is TaskStatus.COMPLETED
        assert [shown.text for shown in show.live.of(handed.root)] == ["It is done."]


@pytest.mark.req("LOOP-16")
async def test_a_task_without_a_thread_is_run_and_shown_nowhere(world: World) -> None:
    doer = Scripted(says("It is done."))
    async with playing(world, hired("doer", doer, role=Role.WORKER)) as show:
        await show.agent("doer")
        await world.services.tasks.create(None, brief("Count the stars"), agent="doer")

        async def look() -> str:
            (row,) = await world.rows("SELECT status FROM tasks")
            return str(row["status"])

        await wait_until(look, lambda now: now == "completed")
        assert show.live.calls == []


@pytest.mark.req("LOOP-16", "STREAM-09")
async def test_a_cancelled_task_ends_its_run_and_tells_who_cancelled_it(world: World) -> None:
    lead = await world.lead()
    gate = Gate()
    async with playing(world, hired("doer", Scripted(gate), role=Role.WORKER)) as show:
        handed = await asked_and_handed(world, lead, await show.agent("doer"))
        await begun(show, gate, handed.root)
        await world.says("!stop", thread=handed.root, by="U2")
        await asyncio.wait_for(gate.left.wait(), PATIENCE_SECONDS)
        (run,) = await show.over(handed.root)
        (shown,) = show.live.of(handed.root)
    assert (shown.closing.note, run.status) == ("🛑 Stopped by <@U2>.", RunStatus.STOPPED)
    assert await status_of(world, handed.task_id) is TaskStatus.CANCELLED
    await world.send()
    assert [post for post in world.slack.posts if "cancelled" in post or "topped" in post] == [], "it is said once"


@pytest.mark.req("LOOP-16", "STREAM-09")
@pytest.mark.parametrize("who", ["a stop", "a button", "its lead"])
async def test_a_cancel_before_anything_is_shown_makes_one_post(world: World, who: str) -> None:
    lead = await world.lead()
    gate = Gate(before="")
    async with playing(world, hired("doer", Scripted(gate), role=Role.WORKER)) as show:
        handed = await asked_and_handed(world, lead, await show.agent("doer"))
        await asyncio.wait_for(gate.arrived.wait(), PATIENCE_SECONDS)
        if who == "a stop":
            await world.says("!stop", thread=handed.root, by="U2")
        elif who == "a button":
            await pressed(world, press(STOP_TASK_ACTION, handed.task_id, by="U2"))
        else:
            await world.services.tasks.cancel(Caller(agent=lead), handed.task_id, "not needed")
        await show.over(handed.root)
        assert show.live.of(handed.root) == []
    await world.send()
    assert len([post for post in world.slack.posts if "cancelled" in post or "topped" in post]) == 1


@pytest.mark.req("LOOP-16", "STREAM-09")
@pytest.mark.parametrize("who", ["a person", "its lead"])
async def test_only_a_person_who_cancelled_a_task_is_named_below_its_answer(world: World, who: str) -> None:
    lead = await world.lead()
    gate = Gate()
    async with playing(world, hired("doer", Scripted(gate), role=Role.WORKER)) as show:
        handed = await asked_and_handed(world, lead, await show.agent("doer"))
        await begun(show, gate, handed.root)
        if who == "a person":
            assert await pressed(world, press(STOP_TASK_ACTION, handed.task_id, by="U2")) is None
        else:
            await world.services.tasks.cancel(Caller(agent=lead), handed.task_id, "not needed")
        await show.over(handed.root)
        (shown,) = show.live.of(handed.root)
    await world.send()
    assert len([post for post in world.slack.posts if "was cancelled" in post]) == (0 if who == "a person" else 1)
    assert shown.closing.note == ("🛑 Stopped by <@U2>." if who == "a person" else "🛑 Stopped.")
