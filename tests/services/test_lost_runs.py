"""A run is lost: one transaction decides whether its answer counts or its work is done anew, whoever else acts then.

A process that has slept wakes up in the middle of all this, so the same is told by it as well, late.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from functools import partial

import pytest

from swarm.clock import boottime
from swarm.domain.answers.agents import OnRestart
from swarm.domain.answers.calls import NOTHING_BELOW, AnswerTarget, CloseStream, OpenStream
from swarm.domain.answers.events import Answered, RunInput, TextDelta
from swarm.domain.answers.showing import AnswerLost, AnswerShown
from swarm.domain.model.agents import Agent
from swarm.domain.model.deliveries import DeliveryAccepted, DeliveryRefused
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.leases import MOST_INTERRUPTIONS, LeaseEnd
from swarm.domain.model.runs import PageKind, PagePhase, RunOutcome, RunStatus
from swarm.domain.model.threads import SlackMessage
from swarm.services.runs import event_sources, streaming_agents
from swarm.services.runs.answer_run import RunRecord
from swarm.services.runs.run_ends import RESTARTED_TEXT, LeaseLossOutcome, Loss, break_off, end_run, keep
from swarm.store.inbox import leases
from swarm.store.runs import run_pages, runs
from swarm.store.runs.runs import Run
from tests.services.test_converse_again import unheard
from tests.support.conversing import begun, status
from tests.support.live import Events, FakeLive, Gate, Scripted, hired, playing, show
from tests.support.runs import begun as run_begun
from tests.support.runs import now, place_of
from tests.support.waiting import PATIENCE_SECONDS, wait_until
from tests.support.world import BOT, World

pytestmark = [pytest.mark.both_engines, pytest.mark.req("STREAM-10", "LOOP-06")]

LOSS = Loss(runs_again=True, counts=True)


@dataclass(frozen=True, kw_only=True)
class LostRun:
    """A run of an agent as the database has it, and what its process and whoever finds it may do at once."""

    world: World
    agent: Agent
    root: SlackMessage
    run: Run

    @property
    def place(self) -> AnswerTarget:
        return place_of(self.run, self.root)

    async def told(self) -> bool:
        """The run tells that its answer is whole; False if it is too late."""
        return await self.world.database.write(
            runs.closing, self.run.id, text="All of it.", closing=NOTHING_BELOW, outcome=RunOutcome.ANSWERED
        )

    async def lost(self, loss: Loss = LOSS) -> None:
        await self.world.database.write(break_off, self.run.id, loss, self.place, self.world.operating_policy)

    async def kept(self) -> LeaseLossOutcome:
        return await self.world.database.write(keep, self.run.id, 60.0)

    async def ended(self) -> None:
        ending = AnswerShown(outcome=Answered(), text="All of it.")
        await self.world.database.write(end_run, self.run.id, ending, self.place, self.world.operating_policy)

    async def state(self) -> tuple[RunStatus, InboxStatus, LeaseEnd | None]:
        """Of the run, of its message, and how the lease has ended."""
        lease = await self.world.database.read(leases.peek, self.run.lease_token)
        assert lease is not None
        return (await now(self.world, self.run)).status, await status(self.world, self.root), lease.ended_as


async def running(world: World, agent: Agent | None = None) -> LostRun:
    agent = agent or await world.lead()
    root = await world.says(f"{BOT} hello")
    return LostRun(world=world, agent=agent, root=root, run=await run_begun(world, agent, await world.only(agent)))


ABANDONED = (RunStatus.ABANDONED, InboxStatus.UNREAD, LeaseEnd.EXPIRED)
CLOSING = (RunStatus.CLOSING, InboxStatus.CLAIMED, None)
ANSWERED = (RunStatus.ANSWERED, InboxStatus.RESPONDED, LeaseEnd.RESOLVED)


# One truth


async def test_an_answer_that_was_told_counts_however_late_it_is_shown(world: World) -> None:
    run = await running(world)
    assert await run.told()
    world.clock.advance(120)
    await world.sweep()
    await run.lost()
    assert await run.state() == CLOSING
    assert await world.poll(run.agent) == []
    await run.ended()
    await world.sweep()
    assert await run.state() == ANSWERED
    assert await world.poll(run.agent) == []


async def test_work_that_was_handed_out_again_takes_no_late_answer(world: World) -> None:
    run = await running(world)
    world.clock.advance(120)
    await world.sweep()
    assert await run.state() == (RunStatus.RUNNING, InboxStatus.CLAIMED, None)  # a sweep alone decides nothing
    await run.lost()
    assert await run.state() == ABANDONED
    assert not await run.told()
    assert await run.kept() is LeaseLossOutcome.TAKEN
    await run.ended()
    assert await run.state() == ABANDONED
    assert (await world.only(run.agent)).attempt == 2


async def test_of_an_answer_and_its_loss_at_the_same_moment_one_counts(world: World) -> None:
    seen = set()
    lead = await world.lead()
    for number in range(12):
        await world.is_here(lead)
        run = await running(world, lead)
        world.clock.advance(120)
        acts = [run.told(), world.sweep(), run.kept(), run.lost()]
        acts = acts if number % 2 else acts[::-1]
        # One after the other at first, so that each has won once, however the machine schedules the others.
        done = [await act for act in acts] if number < 2 else await asyncio.gather(*acts)
        told = done[0 if number % 2 else -1]
        assert await run.state() == (CLOSING if told else ABANDONED)
        seen.add(told)
        await run.ended()
        again = await world.poll(lead)
        assert len(again) == (0 if told else 1)
        for trigger in again:
            await world.answers(lead, trigger, "All of it, again.")
        assert await status(world, run.root) is InboxStatus.RESPONDED
    assert seen == {True, False}


async def test_a_run_keeps_its_work_after_the_time_of_its_lease_until_it_is_taken_away(world: World) -> None:
    run = await running(world)
    world.clock.advance(120)
    assert await run.kept() is LeaseLossOutcome.OURS
    assert await run.told()
    await run.ended()
    assert await run.state() == ANSWERED
    assert await run.kept() is LeaseLossOutcome.TAKEN


async def test_the_last_attempt_that_is_lost_says_that_there_is_no_answer_instead_of_a_new_one(world: World) -> None:
    run = await running(world)
    await world.change(f"UPDATE inbox_messages SET interruptions = {MOST_INTERRUPTIONS - 1}")
    await run.lost()
    assert (await run.state())[:2] == (RunStatus.FAILED, InboxStatus.DEAD)
    await world.send()
    (post,) = world.slack.posts
    assert "There is no answer" in post
    assert "anew" not in post


# What people see


@pytest.mark.parametrize(
    ("runs_again", "is_stopped", "says"),
    [
        pytest.param(True, False, RESTARTED_TEXT, id="done again"),
        pytest.param(False, False, "⚠️ There is no answer", id="failed"),
        pytest.param(True, True, "🛑 Stopped by <@U1>.", id="stopped"),
    ],
)
async def test_a_run_that_nobody_has_seen_anything_of_says_its_end_once_whoever_finds_it(
    world: World, *, runs_again: bool, is_stopped: bool, says: str
) -> None:
    run = await running(world)
    if is_stopped:
        await world.database.write(partial(runs.request_stop, by="U1", run_id=run.run.id))
    await asyncio.gather(*(run.lost(Loss(runs_again=runs_again, counts=True)) for _ in range(3)))
    finds = show(world, hired("lead", Scripted()))
    await finds.recovery.recover(lambda run_id: False, finds.term.is_ours)
    await world.send()
    (post,) = world.slack.posts
    assert post.startswith(says)


async def test_a_run_whose_agent_was_not_called_yet_is_done_again_without_a_word(world: World) -> None:
    run = await running(world)
    await run.lost(Loss(runs_again=True, counts=True, was_called=False))
    assert await run.state() == ABANDONED
    await world.send()
    assert world.slack.posts == []


@pytest.mark.req("STREAM-06")
async def test_an_abandoned_answer_says_so_on_its_first_message_and_on_its_last(world: World) -> None:
    lines = "".join(f"Line {number} of a long answer.\n\n" for number in range(400))
    gate, live = Gate(before=lines), FakeLive()
    async with playing(world, hired("ada", Scripted(gate)), live=live) as first:
        root = await world.says(f"{BOT} hello")
        await begun(first, gate, root)

        async def second_message() -> bool:
            return len(live.of(root)) == 2 and live.of(root)[1].streaming

        await wait_until(second_message)
        texts = [shown.text for shown in live.of(root)]
        await first.deposed()
    async with playing(world, hired("ada", Scripted()), live=live) as second:
        await second.over(root, 2)
    *abandoned, whole = live.of(root)
    assert [shown.closing.note for shown in abandoned] == [RESTARTED_TEXT] * 2
    assert [shown.streaming for shown in abandoned] == [False, False]
    assert [shown.text for shown in abandoned] == texts
    assert (whole.text, whole.closing.note) == ("Hello.", "")
    assert world.slack.posts == []


async def test_a_first_message_that_was_closed_and_not_known_to_be_says_so_as_well(world: World) -> None:
    lines = "".join(f"Line {number} of a long answer.\n\n" for number in range(400))
    gate, live = Gate(before=lines), FakeLive(hold={CloseStream: asyncio.Event()})
    async with playing(world, hired("ada", Scripted(gate)), live=live) as first:
        root = await world.says(f"{BOT} hello")
        await begun(first, gate, root)

        async def is_closed() -> bool:
            return not live.of(root)[0].streaming

        await wait_until(is_closed)
        (shown,) = live.of(root)
        text = shown.text
        await first.deposed()
    live.hold.clear()
    live.script.append(lambda live, place, call: DeliveryRefused(error="message_not_in_streaming_state"))
    lost = show(world, hired("ada", Scripted()), live=live)
    await lost.recovery.recover(lambda run_id: False, lost.term.is_ours)
    assert (shown.text, shown.closing.note) == (text, RESTARTED_TEXT)
    await world.send()
    assert world.slack.posts == []


async def test_where_slack_does_not_let_the_message_say_so_a_post_does(world: World) -> None:
    gate, live = Gate(), FakeLive()
    async with playing(world, hired("ada", Scripted(gate)), live=live) as first:
        root = await world.says(f"{BOT} hello")
        await begun(first, gate, root)
        await first.deposed()
    live.script.append(lambda live, place, call: DeliveryRefused(error="message_not_in_streaming_state"))
    lost = show(world, hired("ada", Scripted()), live=live)
    await lost.recovery.recover(lambda run_id: False, lost.term.is_ours)
    await world.send()
    assert world.slack.posts == [RESTARTED_TEXT]


async def test_no_run_begins_beside_a_message_that_does_not_say_yet_that_it_was_abandoned(world: World) -> None:
    run = await running(world)
    await world.database.write(run_pages.open_page, run.run.id, 1, PageKind.STREAM)
    await world.database.write(run_pages.page_opened, run.run.id, 1, "1700000000.000900")
    await run.lost()
    assert await world.database.read(run_pages.unsealed) == [run.run.id]
    thread_id = run.run.thread_id or ""
    assert await world.database.read(run_pages.is_unsealed_in_thread, thread_id, run.agent.id)
    assert not await world.database.read(run_pages.is_unsealed_in_thread, thread_id, "another")


async def test_a_message_that_came_to_slack_after_its_answer_was_abandoned_is_sealed(world: World) -> None:
    """A process slept between its last look at the office and the call."""
    run = await running(world)
    record = RunRecord(world.database, run.run.id, world.operating_policy)
    await record.beginning(1, is_post=False)
    lost = show(world, hired("lead", Scripted()))
    await lost.recovery.bring_to_end(run.run.id, lost.term.is_ours, counts=True)
    (page,) = await world.database.read(run_pages.of_run, run.run.id)
    assert (page.phase, page.ts) == (PagePhase.CLOSED, None)
    begun = await lost.live.call(run.place, OpenStream(page=1, chunks=()))
    assert isinstance(begun, DeliveryAccepted)
    assert begun.ts
    with pytest.raises(AnswerLost):
        await record.began(1, begun.ts)
    with pytest.raises(AnswerLost):
        await record.beginning(2, is_post=False)
    await lost.recovery.recover(lambda run_id: False, lost.term.is_ours)
    (late,) = lost.live.of(run.root)
    assert (late.streaming, late.closing.note) == (False, RESTARTED_TEXT)
    assert await world.database.read(run_pages.unsealed) == []


# Agents are run once


async def test_a_process_that_slept_before_it_began_a_run_does_not_begin_it(world: World) -> None:
    """Its lease was over, and somebody else has done the work."""
    ada = Scripted()
    one = hired("ada", ada)
    agent = await world.database.write(streaming_agents.register, one.spec)
    await world.is_here(agent)
    root = await world.says("swarm#ada hello")
    slept = await world.only(agent)
    world.clock.advance(120)
    await world.sweep()
    await world.is_here(agent)
    await world.answers(agent, await world.only(agent), "Hello.")
    idle = show(world, one)
    idle.running.begin_term(idle.term)
    idle.running.begin(agent, one, slept, unheard)

    async def is_over() -> bool:
        return idle.running.has_room(agent.id, 1)

    await wait_until(is_over)
    assert ada.inputs == []
    assert await idle.runs(root) == []


@pytest.mark.req("CHAN-06")
async def test_what_must_not_be_done_twice_is_not_done_again_by_a_sweep(world: World) -> None:
    gate, live, ada = Gate(), FakeLive(), Scripted()
    careful = hired("ada", ada, on_restart=OnRestart.ASK)
    ada.scripts.append(gate)
    async with playing(world, careful, live=live) as first:
        root = await world.says(f"{BOT} hello")
        await begun(first, gate, root)
        await first.deposed()
    world.clock.advance(120)
    await world.sweep()
    assert await status(world, root) is InboxStatus.CLAIMED
    async with playing(world, careful, live=live) as second:
        await second.over(root)
    assert await status(world, root) is InboxStatus.DEAD
    assert len(ada.inputs) == 1


async def test_who_has_slept_past_the_time_of_its_lease_asks_before_the_next_call(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It wakes up in office, and nothing has told it yet that its work was given to somebody else."""
    slept = 0.0
    monkeypatch.setattr(event_sources, "boottime", lambda: boottime() + slept)
    woken, hung_up = asyncio.Event(), asyncio.Event()

    async def endless(run: RunInput) -> Events:
        try:
            yield TextDelta(text="Some words.\n", message_id="1")
            await woken.wait()
            yield TextDelta(text="More.\n", message_id="1")
            await asyncio.Event().wait()
        finally:
            hung_up.set()

    live, ada = FakeLive(), Scripted()
    ada.scripts.append(endless)
    async with playing(world, hired("ada", ada), live=live) as first:
        root = await world.says(f"{BOT} hello")
        await wait_until(lambda: first.runs(root), lambda seen: bool(live.of(root)))
        (run,) = await first.runs(root)
        slept = 50.0
        await world.database.write(break_off, run.id, LOSS, place_of(run, root), world.operating_policy)
        woken.set()
        await asyncio.wait_for(hung_up.wait(), PATIENCE_SECONDS)
        await first.over(root, 2)
    assert [(shown.text, shown.closing.note) for shown in live.of(root)] == [
        ("Some words.\n", RESTARTED_TEXT),
        ("Hello.", ""),
    ]


@pytest.mark.parametrize("patience", [event_sources.SEAL_SECONDS, 0.0])
async def test_a_run_waits_until_the_answer_before_it_says_that_it_was_abandoned(
    world: World, monkeypatch: pytest.MonkeyPatch, patience: float
) -> None:
    """Where that takes long, the work is given back meanwhile, and comes again."""
    monkeypatch.setattr(event_sources, "SEAL_SECONDS", patience)
    monkeypatch.setattr(event_sources, "RELEASE_SECONDS", 0.0)
    gate, live, ada = Gate(), FakeLive(), Scripted()
    async with playing(world, hired("ada", Scripted(gate)), live=live) as first:
        root = await world.says(f"{BOT} hello")
        await begun(first, gate, root)
        await first.deposed()
    sealing = live.hold[CloseStream] = asyncio.Event()
    async with playing(world, hired("ada", ada), live=live) as second:

        async def claimed_again() -> bool:
            inbox_message = await world.inbox_message(root)
            return inbox_message.claims > 1 and inbox_message.interruptions == 1

        await wait_until(claimed_again)
        for _ in range(10):
            assert ada.inputs == []
            await asyncio.sleep(0.02)
        sealing.set()
        await second.over(root, 2)
    assert [shown.text for shown in live.of(root)] == ["Some words.\n", "Hello."]
