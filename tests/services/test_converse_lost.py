"""What becomes of a run that is lost: its lease, its process, its agent, or the database."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from swarm.domain.answers.agents import OnRestart
from swarm.domain.answers.calls import CloseStream, OpenStream
from swarm.domain.answers.events import Broken, TextDelta
from swarm.domain.errors import Unavailable
from swarm.domain.model.agents import Role
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.runs import RunStatus
from swarm.domain.model.threads import SlackMessage
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.requests.button_actions import RETRY_RUN_ACTION
from swarm.services.runs import answer_run, event_sources, run_ends, streaming_agents
from swarm.services.runs.run_ends import RESTARTED, RESTARTED_TEXT
from swarm.services.speaking.system_messages import QUEUED_TEXT
from swarm.store.runs import runs
from swarm.store.runs.runs import Run
from tests.support.conversing import begun, press, pressed, status
from tests.support.live import FakeLive, Gate, Scripted, Show, ends, hired, playing, says, show
from tests.support.tasks import asked_and_handed
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.support.world import BOT, World


@pytest.fixture(autouse=True)
def nothing_lands_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that these tests hold never end."""
    monkeypatch.setattr("swarm.slack.outgoing.live.LANDING_SECONDS", 0.05)


# Agents that cannot be reached


@pytest.mark.req("LOOP-13")
async def test_a_message_for_an_agent_that_is_away_waits_for_it_and_the_thread_is_told_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming_agents, "HEALTH_SECONDS", 0.05)
    ada = Scripted()
    ada.reachable = False
    async with playing(world, hired("ada", ada)) as show:
        await show.agent("ada", is_here=False)
        root = await world.says(f"{BOT} hello")
        await world.says("are you there?", thread=root)
        await world.send()
        assert world.slack.posts == [QUEUED_TEXT]
        ada.reachable = True
        await show.over(root)
    assert [message.text for message in ada.inputs[0].messages] == ["hello", "are you there?"]


@pytest.mark.req("OPS-15", "LOOP-13")
async def test_what_did_not_reach_an_agent_waits_in_order_with_one_notice_and_is_served_when_it_is_back(
    world: World,
) -> None:
    away = ends(Broken(reason="it cannot be reached", is_away=True))
    ada = Scripted()
    ada.scripts.extend([away, away])
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} hello")
        await wait_until(lambda: was_released(world, 1), what="the first message waits")
        await world.says("are you there?", thread=root)
        await world.later(5)
        await wait_until(lambda: was_released(world, 2), what="both wait")
        await world.send()
        assert [post for post in world.slack.posts if "queued" in post] == world.slack.posts
        assert len(world.slack.posts) == 1
        assert "x" not in {emoji for _, emoji in world.slack.reactions}
        assert show.live.of(root) == []
        await world.later(60)
        await wait_until(lambda: answered(world, root), what="it is answered")
    assert [message.text for message in ada.inputs[-1].messages] == ["hello", "are you there?"]


@pytest.mark.req("LOOP-13")
async def test_an_agent_that_is_lost_after_it_was_reached_fails_as_before(world: World) -> None:
    ada = Scripted(says("Half of it"))
    ada.scripts.append(ends(TextDelta(text="Half", message_id="1"), Broken(reason="it hung up", is_away=True)))
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} hello")
        (run,) = await show.over(root)
    assert run.status is RunStatus.FAILED


async def was_released(world: World, times: int) -> bool:
    rows = await world.rows("SELECT reason FROM history WHERE change = 'inbox.release'")
    assert {row["reason"] for row in rows} <= {"it cannot be reached"}
    return len(rows) >= times


async def answered(world: World, root: SlackMessage) -> bool:
    return await status(world, root) is InboxStatus.RESPONDED


# Leases, and the office, lost in the middle


@pytest.mark.req("LOOP-06", "STREAM-10")
async def test_a_run_whose_work_was_taken_from_it_is_stopped_and_the_work_runs_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_sources, "RELEASE_SECONDS", 0.0)
    world = world.governed_by(OperatingPolicy(lease_seconds=1.5))
    gate = Gate()
    ada = Scripted()
    ada.scripts.append(gate)
    async with playing(world, hired("ada", ada)) as first:
        root = await world.says(f"{BOT} hello")
        run = await begun(first, gate, root)
        another = show(world, hired("ada", ada), live=first.live)
        await another.recovery.bring_to_end(run.id, another.term.is_ours, counts=True)
        await asyncio.wait_for(gate.left.wait(), PATIENCE_SECONDS)
        await first.over(root, 2)
        abandoned, whole = first.live.of(root)
    assert (abandoned.streaming, abandoned.closing.note) == (False, RESTARTED_TEXT)
    assert (whole.streaming, whole.text, whole.closing.note) == (False, "Hello.", "")
    assert len(ada.inputs) == 2
    assert await status(world, root) is InboxStatus.RESPONDED
    assert (await world.inbox_message(root)).interruptions == 1


@pytest.mark.req("LOOP-06")
@pytest.mark.parametrize("renewed", [False, True])
async def test_an_answer_that_comes_after_the_time_of_its_lease_is_the_only_one(world: World, renewed: bool) -> None:
    """Whoever is to take the work away does so in one transaction with the run; the sweep alone does not."""
    world = world.governed_by(OperatingPolicy(lease_seconds=1.5 if renewed else 60))
    gate = Gate()
    ada = Scripted()
    ada.scripts.append(gate)
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} hello")
        await begun(show, gate, root)
        world.clock.advance(120)
        await world.sweep()
        if renewed:

            async def holds() -> bool:
                (lease,) = await world.rows("SELECT expires_at FROM leases WHERE ended_at IS NULL")
                return bool(lease["expires_at"] > world.clock.now_us())

            await wait_until(holds, what="the lease is prolonged")
        gate.opened.set()
        (run,) = await show.over(root)
        await world.sweep()
        assert [shown.text for shown in show.live.of(root)] == ["Some words.\nThe end."]
    assert (run.status, await status(world, root)) == (RunStatus.ANSWERED, InboxStatus.RESPONDED)
    assert (len(ada.inputs), (await world.inbox_message(root)).attempts) == (1, 0)


@pytest.mark.req("STREAM-10")
async def test_who_loses_the_office_makes_no_further_call_and_the_next_one_seals_and_runs_again(world: World) -> None:
    gate, live = Gate(), FakeLive()
    async with playing(world, hired("ada", Scripted(gate)), live=live) as first:
        root = await world.says(f"{BOT} hello")
        await begun(first, gate, root)
        calls = len(live.calls)
        await first.deposed()
        assert gate.left.is_set()
        assert len(live.calls) == calls
        assert live.of(root)[0].streaming
    async with playing(world, hired("ada", Scripted()), live=live) as second:
        await second.over(root, 2)
    sealed, whole = live.of(root)
    assert (sealed.streaming, sealed.closing.note) == (False, RESTARTED_TEXT)
    assert (whole.streaming, whole.text) == (False, "Hello.")
    assert (await world.inbox_message(root)).interruptions == 1


@pytest.mark.req("STREAM-10")
async def test_a_stop_of_the_coordinator_seals_at_once_and_counts_no_attempt(world: World) -> None:
    gate, live = Gate(), FakeLive()
    async with playing(world, hired("ada", Scripted(gate)), live=live) as first:
        root = await world.says(f"{BOT} hello")
        await begun(first, gate, root)
    (sealed,) = live.of(root)
    assert (sealed.streaming, sealed.closing.note) == (False, RESTARTED_TEXT)
    inbox_message = await world.inbox_message(root)
    assert (inbox_message.status, inbox_message.attempts) == (InboxStatus.UNREAD, 0)
    assert live.statuses[root.ts] == ""


@pytest.mark.req("STREAM-10")
async def test_a_stop_of_the_coordinator_while_a_run_is_being_stored_gives_its_work_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, go_on, real = threading.Event(), threading.Event(), runs.start

    def slow_start(*args: Any, **values: Any) -> Run | None:
        entered.set()
        go_on.wait(10)
        return real(*args, **values)

    monkeypatch.setattr(runs, "start", slow_start)
    async with playing(world, hired("ada", Scripted(Gate()))) as show:
        root = await world.says(f"{BOT} hello")
        await asyncio.to_thread(entered.wait, 10)
        stopping = asyncio.create_task(show.stop())
        for _ in range(20):
            await asyncio.sleep(0)  # the run hears that it is to stop
        go_on.set()
        await stopping
        (run,) = await show.runs(root)
    inbox_message = await world.inbox_message(root)
    assert (run.status, inbox_message.status, inbox_message.attempts) == (RunStatus.ABANDONED, InboxStatus.UNREAD, 0)


@pytest.mark.req("STREAM-09", "STREAM-10")
async def test_a_stop_of_the_coordinator_before_the_first_word_clears_the_status(world: World) -> None:
    gate, live = Gate(before=""), FakeLive()
    async with playing(world, hired("ada", Scripted(gate)), live=live):
        root = await world.says(f"{BOT} hello")
        await asyncio.wait_for(gate.arrived.wait(), PATIENCE_SECONDS)

        async def look() -> str | None:
            return live.statuses.get(root.ts)

        await wait_until(look)
    assert live.statuses[root.ts] == ""
    assert live.of(root) == []


@pytest.mark.req("STREAM-10", "CHAN-06")
async def test_what_must_not_be_done_twice_is_offered_for_retry_after_a_restart(world: World) -> None:
    gate, live = Gate(), FakeLive()
    async with playing(world, hired("ada", Scripted(gate), on_restart=OnRestart.ASK), live=live) as first:
        root = await world.says(f"{BOT} hello")
        run = await begun(first, gate, root)
        await first.deposed()
    async with playing(world, hired("ada", Scripted(), on_restart=OnRestart.ASK), live=live) as second:
        await second.over(root)
        (sealed,) = live.of(root)
        assert (sealed.streaming, sealed.closing.retry) == (False, True)
        assert RESTARTED in sealed.closing.note
        assert await status(world, root) is InboxStatus.DEAD
        assert await pressed(world, press(RETRY_RUN_ACTION, run.id)) is None
        await second.over(root, 2)
        assert live.of(root)[1].text == "Hello."


@pytest.mark.req("STREAM-10")
async def test_a_crash_between_the_end_and_its_last_call_loses_nothing(world: World) -> None:
    live = FakeLive(hold={CloseStream: asyncio.Event()})
    async with playing(world, hired("ada", Scripted(says("All of it."))), live=live) as first:
        root = await world.says(f"{BOT} hello")

        async def closing() -> bool:
            return any(isinstance(call, CloseStream) for _, call in live.calls)

        await wait_until(closing)
        first.term.end()
        live.hold.clear()
        await first.stop()
    ada = Scripted()
    async with playing(world, hired("ada", ada), live=live) as second:
        await second.over(root)
    (shown,) = live.of(root)
    assert (shown.text, shown.streaming, shown.closing.feedback) == ("All of it.", False, True)
    assert ada.inputs == []
    assert await status(world, root) is InboxStatus.RESPONDED


@pytest.mark.req("STREAM-10", "LOOP-16")
async def test_a_crash_at_the_end_of_a_task_keeps_the_whole_result(world: World) -> None:
    lead = await world.lead()
    lines = "".join(f"Line {number}: 1 < 2 & so on.\n\n" for number in range(600))
    live = FakeLive()
    async with playing(world, hired("doer", Scripted(says(lines)), role=Role.WORKER), live=live) as first:
        live.hold[CloseStream] = HoldsLast(live, asyncio.Event())
        handed = await asked_and_handed(world, lead, await first.agent("doer"))

        async def at_the_end() -> bool:
            return any(isinstance(call, CloseStream) and call.is_last for _, call in live.calls)

        await wait_until(at_the_end)
        first.term.end()
        await first.stop()
        live.hold.clear()
    async with playing(world, hired("doer", Scripted(), role=Role.WORKER), live=live) as second:
        await second.over(handed.root)
    (task,) = await world.rows("SELECT status, result FROM tasks")
    assert task["status"] == "completed"
    assert task["result"].split() == lines.split()


@pytest.mark.req("STREAM-10")
async def test_a_run_that_could_not_be_ended_is_ended_later_by_the_same_process(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streaming_agents, "RECOVER_SECONDS", 0.05)
    ada = Scripted()
    gate = Gate()
    ada.scripts.append(gate)
    async with playing(world, hired("ada", ada)) as playing_now:
        root = await world.says(f"{BOT} hello")
        run = await begun(playing_now, gate, root)
        away = Away(playing_now, run)
        with monkeypatch.context() as patched:
            away.begin(patched)
            gate.opened.set()
            await asyncio.wait_for(away.refused.wait(), PATIENCE_SECONDS)
        await playing_now.over(root, 2)
    assert await status(world, root) is InboxStatus.RESPONDED


class HoldsLast(asyncio.Event):
    """Keeps only the last message of an answer from being closed."""

    def __init__(self, live: FakeLive, never: asyncio.Event) -> None:
        super().__init__()
        self.live = live
        self.never = never

    async def wait(self) -> bool:  # type: ignore[override]
        _, call = self.live.calls[-1]
        if isinstance(call, CloseStream) and call.is_last:
            await self.never.wait()
        return True


class Away:
    """A database that is away for what a run notes of its messages, and for whoever wants to end it."""

    def __init__(self, show: Show, run: Run) -> None:
        self.show = show
        self.run = run
        self.refused = asyncio.Event()

    def begin(self, patched: pytest.MonkeyPatch) -> None:
        async def ending(*_: object) -> None:
            raise Unavailable("the database is away")

        async def bring_to_end(*_: object, **__: object) -> None:
            self.refused.set()
            raise Unavailable("the database is away")

        patched.setattr("swarm.services.runs.answer_run.RunRecord.ending", ending)
        patched.setattr(self.show.recovery, "bring_to_end", bring_to_end)


@pytest.mark.req("STREAM-10", "STREAM-07")
async def test_the_end_of_a_run_waits_for_the_database(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_run, "_AGAIN_SECONDS", 0.01)
    real, tries = run_ends.end_run, 0

    def end_turn(*args: object) -> object:
        nonlocal tries
        tries += 1
        if tries < 4:
            raise Unavailable("the database is away")
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(answer_run, "end_run", end_turn)
    async with playing(world, hired("ada", Scripted())) as show:
        root = await world.says(f"{BOT} hello")
        (run,) = await show.over(root)
    assert (run.status, tries) == (RunStatus.ANSWERED, 4)


@pytest.mark.req("STREAM-10")
async def test_a_start_in_doubt_is_searched_for_and_begun_once(world: World) -> None:
    live = FakeLive(hold={OpenStream: asyncio.Event()})
    async with playing(world, hired("ada", Scripted()), live=live) as first:
        root = await world.says(f"{BOT} hello")

        async def opening() -> bool:
            return bool(live.calls)

        await wait_until(opening)
        first.term.end()
        await first.stop()
        live.hold.clear()
    async with playing(world, hired("ada", Scripted()), live=live) as second:
        await second.over(root, 2)
    assert [shown.streaming for shown in live.of(root)] == [False, False]
    assert [shown.text for shown in live.of(root)][-1] == "Hello."
