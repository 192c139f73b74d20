"""Polling agents that answer live: what their calls store, settle and refuse, and what people see of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from swarm.clock import ManualClock
from swarm.domain.answers.agent_events import MAX_ANSWER_CHARACTERS
from swarm.domain.answers.calls import (
    AppendStream,
    Card,
    CloseStream,
    Closing,
    Growth,
    OpenStream,
    PostPage,
    Slot,
    UpdatePage,
)
from swarm.domain.answers.events import MAX_PIECE_CHARACTERS, StepStatus
from swarm.domain.errors import Conflict, Invalid, LeaseLost, NotFound, SwarmError, TooLarge, Unavailable, Withdrawn
from swarm.domain.model.agents import Agent
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.leases import FinishOutcome, LeaseEnd
from swarm.domain.model.runs import RunStatus
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.model.threads import AuthorKind, Thread
from swarm.domain.policy.channels import ChannelPolicy
from swarm.domain.policy.operating import OperatingPolicy
from swarm.services.ground.idempotency import Caller
from swarm.services.runs import answer_run, event_sources, stream
from swarm.services.runs.run_control import Retried, retry_run
from swarm.services.runs.run_ends import RESTARTED_TEXT
from swarm.services.runs.stream import Streamed
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import leases
from swarm.store.runs import run_events, runs
from swarm.store.runs.runs import Run
from tests.services.test_retention import DAY
from tests.support.live import FakeLive, Show, playing, show
from tests.support.policies import governing
from tests.support.streams import Writing, begun, begun_for
from tests.support.tasks import asked_and_handed, status_of, task_of
from tests.support.waiting import wait_until
from tests.support.world import BOT, World, delete, holding, said

pytestmark = pytest.mark.req("STREAM-11")

CHECK, CROSS = "white_check_mark", "x"


async def lease_end(world: World, writing: Writing) -> LeaseEnd | None:
    lease = await world.database.read(leases.peek, writing.trigger.lease_token)
    assert lease is not None
    return lease.ended_as


async def entry_status(writing: Writing) -> InboxStatus:
    return (await writing.world.inbox_message(writing.root)).status


def cards_of(show: Show) -> list[Card]:
    calls = [call for _, call in show.live.calls if isinstance(call, OpenStream | AppendStream | CloseStream)]
    return [chunk for call in calls for chunk in call.chunks if isinstance(chunk, Card)]


async def until(met: Callable[[], bool]) -> None:
    async def look() -> bool:
        return met()

    await wait_until(look)


@asynccontextmanager
async def at_work(world: World, text: str = "", **how: Any) -> AsyncIterator[tuple[Writing, Show, Agent]]:
    """A lead that has begun an answer; people see the first words of its text."""
    lead = await world.lead()
    async with playing(world) as show:
        writing = await begun(world, lead, **how)
        if text:
            await writing.append(text)
            await writing.until_shown(show, " ".join(text.split()[:2]))
        yield writing, show, lead


# While it is written


async def test_people_see_each_piece_before_the_agent_says_the_next_and_closing_answers(world: World) -> None:
    async with at_work(world) as (writing, show, _):
        for number in range(3):
            await writing.append(f"Line {number}.\n")
            await writing.until_shown(show, f"Line {number}.\n")
        closed = await writing.close("The end.")
        assert closed == Streamed(turn_id=writing.run_id, status="closed", characters=32)
        assert await entry_status(writing) is InboxStatus.RESPONDED
        assert await lease_end(world, writing) is LeaseEnd.RESOLVED
        message = await writing.over(show)
    assert (message.text, message.streaming) == ("Line 0.\nLine 1.\nLine 2.\nThe end.", False)
    assert message.closing == Closing(feedback=True, footer=True)
    assert message.place.agent_name == "lead"
    assert (await writing.run()).status is RunStatus.ANSWERED
    await world.send()
    assert (writing.root.ts, CHECK) in world.slack.reactions
    assert world.slack.posts == []


@pytest.mark.req("STREAM-15")
async def test_once_a_second_person_writes_everybody_sees_the_answer_grow(world: World) -> None:
    lead = await world.lead()
    async with playing(world) as show:
        writing = await begun(world, lead)
        await writing.append("For one.\n")
        await writing.until_shown(show, "For one.\n")
        await world.says("And I?", thread=writing.root, by="U2")
        await until(lambda: not show.live.of(writing.root)[0].streaming)
        await writing.append("For all.\n")
        await writing.until_shown(show, "For all.\n")
        assert show.live.of(writing.root)[1].text == "For all.\n"
        await writing.close("The end.")
        await writing.ended()
    assert [type(call) for _, call in show.live.calls][-2:] == [PostPage, UpdatePage]
    assert [message.text for message in show.live.of(writing.root)] == ["For one.\n", "For all.\nThe end."]


@pytest.mark.req("STREAM-15")
async def test_a_second_person_who_wrote_long_before_counts(world: World) -> None:
    writing = await begun(world, await world.lead())
    await world.says("And I?", thread=writing.root, by="U2")
    await world.change("UPDATE thread_messages SET ts = '1000000000.000001' WHERE author_id = 'U2'")
    async with playing(world) as show:
        await writing.append("For all.\n")
        await writing.until_shown(show, "For all.\n")
    assert [type(call) for _, call in show.live.calls][:1] == [PostPage]


@pytest.mark.req("STREAM-15")
@pytest.mark.parametrize(
    ("stream", "crowded", "begins"),
    [
        ("auto", False, OpenStream),
        ("auto", True, PostPage),
        ("edits", False, PostPage),
        ("native", True, OpenStream),
    ],
)
async def test_how_an_answer_begins(world: World, stream: str, crowded: bool, begins: type[object]) -> None:
    """Where its stream would have to wait, everybody sees a post grow."""
    world = world.governed_by(governing(everywhere=ChannelPolicy(stream=Growth(stream))))
    live = FakeLive(crowded=frozenset({Slot.OPEN}) if crowded else frozenset())
    async with playing(world, live=live) as show:
        writing = await begun(world, await world.lead())
        await writing.append("Some words.\n")
        await writing.until_shown(show, "Some words.\n")
    assert type(live.calls[0][1]) is begins


async def test_the_answer_is_in_the_history_of_the_next_message(world: World) -> None:
    async with at_work(world) as (writing, show, lead):
        await writing.close("It is 1 < 2.")
        await writing.over(show)
        await world.says("and now?", thread=writing.root)
        again = await world.only(lead)
    assert [one.text for one in again.thread_context][-2:] == ["It is 1 < 2.", "and now?"]


async def test_steps_are_cards_that_change_and_end_with_the_answer(world: World) -> None:
    async with at_work(world) as (writing, show, _):
        for status in (StepStatus.IN_PROGRESS, StepStatus.COMPLETE, StepStatus.IN_PROGRESS, StepStatus.COMPLETE):
            await writing.streams.task(writing.caller, writing.run_id, "s1", "Look <!channel> around", status)
        await writing.streams.task(writing.caller, writing.run_id, "s2", "Think", StepStatus.IN_PROGRESS)
        await until(lambda: any(card.title == "Think" for card in cards_of(show)))
        await writing.close("Done.")
        await writing.over(show)
    last = {card.title: card.status for card in cards_of(show)}
    assert last["Look &lt;!channel&gt; around"] is StepStatus.COMPLETE
    stored = await world.database.read(run_events.after, writing.run_id, 0)
    assert len(stored) == 8


async def test_what_is_done_stands_on_the_status_line_until_there_is_text(world: World) -> None:
    async with at_work(world) as (writing, show, _):
        await writing.streams.status(writing.caller, writing.run_id, "the figures")
        await until(lambda: "the figures" in show.live.statuses.get(writing.root.ts, ""))
        await writing.close("There.")
        await writing.over(show)
        assert show.live.statuses[writing.root.ts] == ""


async def test_the_same_text_appended_twice_is_said_twice_unless_both_calls_have_one_id(world: World) -> None:
    async with at_work(world) as (writing, show, _):
        for request_id in (None, None, "r1", "r1", "r2"):
            caller = replace(writing.caller, request_id=request_id)
            await writing.streams.append(caller, writing.run_id, "ha ")
        await writing.streams.close(replace(writing.caller, request_id="r1"), writing.run_id, "!")  # "r1" of a close
        assert (await writing.over(show)).text == "ha ha ha ha !"


@pytest.mark.both_engines
async def test_pieces_that_come_at_once_are_all_there_each_once_and_in_one_order(world: World) -> None:
    async with at_work(world) as (writing, show, _):
        await asyncio.gather(*(writing.append(f"<{number}>") for number in range(12)))
        await writing.close("")
        message = await writing.over(show)
    assert sorted(message.text.replace("&lt;", " ").replace("&gt;", " ").split()) == sorted(map(str, range(12)))
    stored = await world.database.read(run_events.after, writing.run_id, 0)
    assert [event.seq for event in stored] == list(range(1, 15))


async def test_whoever_shows_an_answer_is_woken_by_each_piece_and_by_no_other_answers(world: World) -> None:
    wakeups = world.database.wakeups
    seen = wakeups.generation(runs.RUNS)
    writing = await begun(world, await world.lead())
    assert wakeups.generation(runs.RUNS) == seen + 1
    topics = [run_events.topic_of(writing.run_id), run_events.topic_of(f"{writing.run_id[:-2]}zz")]
    before = [wakeups.generation(topic) for topic in topics]
    await writing.append("Hello.")
    await writing.close("")
    assert [wakeups.generation(topic) for topic in topics] == [before[0] + 2, before[1]]


async def test_everything_that_came_under_the_lease_is_answered_together(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} one")
    second = await world.says("two", thread=root)
    async with playing(world) as show:
        writing = await begun_for(world, lead, root, await world.only(lead))
        await writing.close("Both.")
        await writing.over(show)
    assert {(await world.inbox_message(message)).status for message in (root, second)} == {InboxStatus.RESPONDED}
    await world.send()
    assert {(root.ts, CHECK), (second.ts, CHECK)} <= set(world.slack.reactions)


async def test_a_bot_gets_one_post_when_the_answer_is_closed(world: World) -> None:
    world = world.governed_by(governing(everywhere=ChannelPolicy(allowed_bots=frozenset({"B7"}))))
    lead = await world.lead()
    root = await world.hears(said("swarm#lead what now", by="B7", kind=AuthorKind.BOT))
    async with playing(world) as show:
        writing = await begun_for(world, lead, root, await world.only(lead))
        await writing.append("Beep ")
        await writing.close("boop.")
        await writing.ended()
        assert show.live.of(root) == []
    await world.send()
    assert world.slack.posts == ["Beep boop."]


# A lease that is held, and one call that comes twice


async def test_a_held_lease_lasts_and_takes_one_answer_after_the_other(world: World) -> None:
    lead = await world.lead()
    async with playing(world) as show:
        first = await begun(world, lead, hold=True)
        with pytest.raises(Conflict, match="already open under this lease"):
            await open_with(first, request_id="another")
        await first.close("One.")
        assert await lease_end(world, first) is None
        second = await begun_for(world, lead, first.root, first.trigger)
        assert second.run_id != first.run_id
        await second.close("Two.")
        await second.ended()
        assert [shown.text for shown in show.live.of(first.root)] == ["One.", "Two."]
        ended = await world.services.work.finish(lead, [first.trigger.lease_token], FinishOutcome.DONE)
    assert ended.ended == (first.trigger.lease_token,)


async def test_opening_again_with_the_same_call_names_the_same_answer(world: World) -> None:
    writing = await begun(world, await world.lead())
    again = await asyncio.gather(*(open_with(writing) for _ in range(3)))
    assert {one["turn_id"] for one in again} == {writing.run_id}


async def test_closing_again_returns_the_first_result_and_anything_else_is_refused(world: World) -> None:
    writing = await begun(world, await world.lead())
    first = await writing.close("Hello.")
    assert await writing.close("Hello.") == first
    for call in (writing.append("more"), writing.close("Other."), open_with(writing)):
        with pytest.raises(Conflict):
            await call


async def open_with(writing: Writing, request_id: str | None = None) -> Streamed:
    caller = replace(writing.caller, request_id=request_id)
    return await writing.streams.open(caller, inbox_message_id=writing.trigger.id)


# What is refused


async def test_of_two_runs_of_one_agent_only_the_one_that_has_the_lease_may_say_anything(world: World) -> None:
    lead = await world.lead()
    async with playing(world) as show:
        first = await begun(world, lead)
        await first.append("I begin ")
        await first.until_shown(show, "I begin")
        await world.later(61)
        trigger = await world.only(lead)
        second = await begun_for(world, lead, first.root, trigger)  # waits until the first answer is sealed
        for call in (first.append("too late"), first.close("too late"), open_with(first)):
            with pytest.raises(LeaseLost):
                await call
        nameless = Caller(agent=lead)
        with pytest.raises(LeaseLost):
            await first.streams.append(nameless, first.run_id, "too late")
        with pytest.raises(LeaseLost):  # the run of the other run, under its own lease
            await first.streams.append(first.caller, second.run_id, "too late")
        with pytest.raises(LeaseLost):
            await first.streams.open(nameless, inbox_message_id=trigger.id)
        await second.streams.append(nameless, second.run_id, "In ")  # whoever knows the run is its run
        await second.close("time.")
        await second.ended()
        sealed, answer = show.live.of(first.root)
    assert (sealed.text, sealed.streaming, answer.text) == ("I begin ", False, "In time.")
    assert "not complete" in sealed.closing.note
    assert "fell silent" in sealed.closing.note


async def test_a_run_that_names_its_call_as_the_run_before_it_did_gets_an_answer_of_its_own(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} hello")
    async with playing(world):
        answers: list[str] = []
        for _ in range(2):
            trigger = await world.only(lead)
            caller = holding(trigger, lead, "1")
            opened = [await world.services.streams.open(caller, inbox_message_id=trigger.id) for _ in range(2)]
            assert opened[0] == opened[1]
            answers.append(opened[0]["turn_id"])
            await world.later(61)
    assert answers[0] != answers[1]
    assert (await world.inbox_message(root)).attempts == 2


async def test_an_answer_belongs_to_its_agent(world: World) -> None:
    writing = await begun(world, await world.lead())
    other = Caller(agent=await world.lead("other"))
    for call in (
        writing.streams.append(other, writing.run_id, "hi"),
        writing.streams.append(writing.caller, "unknown", "hi"),
        writing.streams.open(other, inbox_message_id=writing.trigger.id),
    ):
        with pytest.raises(NotFound):
            await call


async def test_what_is_too_much_is_refused_and_changes_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    writing = await begun(world, await world.lead())
    with pytest.raises(TooLarge, match="at most 12000"):
        await writing.append("x" * (MAX_PIECE_CHARACTERS + 1))
    whole, rest = divmod(MAX_ANSWER_CHARACTERS, MAX_PIECE_CHARACTERS)
    for _ in range(whole):
        await writing.append("x" * MAX_PIECE_CHARACTERS)
    with pytest.raises(TooLarge, match="limit is 200000"):
        await writing.append("x" * (rest + 1))
    assert (await writing.append("x" * rest))["characters"] == MAX_ANSWER_CHARACTERS
    monkeypatch.setattr("swarm.services.runs.stream.MAX_PIECES", whole + 2)
    with pytest.raises(TooLarge, match="accepts at most"):
        await writing.streams.task(writing.caller, writing.run_id, "s", "Step", StepStatus.PENDING)
    assert len(await world.database.read(run_events.after, writing.run_id, 0)) == whole + 2


async def test_what_says_nothing_is_refused(world: World) -> None:
    writing = await begun(world, await world.lead())
    caller, run_id = writing.caller, writing.run_id
    for call in (
        writing.append(""),
        writing.streams.task(caller, run_id, "", "Step", StepStatus.PENDING),
        writing.streams.task(caller, run_id, "s", "x" * 201, StepStatus.PENDING),
        writing.streams.status(caller, run_id, " "),
        writing.streams.open(caller),
        writing.streams.open(caller, inbox_message_id=writing.trigger.id, task_id="t"),
        writing.close(),
        writing.close("a", result="a", failed="b"),
        writing.close("a", result="of no task"),
        writing.close("a", failed=" "),
    ):
        with pytest.raises(Invalid):
            await call
    await writing.append("[FINAL ANSWER] \u200b\n")
    with pytest.raises(Invalid, match="The stream has no text"):
        await writing.close("")
    assert await entry_status(writing) is InboxStatus.CLAIMED


async def test_a_close_that_fails_half_way_has_changed_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    writing = await begun(world, await world.lead())

    def breaks(*args: object) -> None:
        raise Conflict("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(stream, "end_if_resolved", breaks)
        with pytest.raises(Conflict):
            await writing.close("Hello.")
    assert await entry_status(writing) is InboxStatus.CLAIMED
    assert len(await world.database.read(run_events.after, writing.run_id, 0)) == 1
    await writing.close("Hello.")


# Ends that are none


async def test_a_failure_says_why_with_a_button_that_hands_the_work_out_again(world: World) -> None:
    async with at_work(world) as (writing, show, lead):
        await writing.close("Half of ", failed="the archive does not answer")
        message = await writing.over(show)
    assert message.text == "Half of "
    assert (message.closing.retry, "the archive does not answer" in message.closing.note) == (True, True)
    assert await entry_status(writing) is InboxStatus.DEAD
    await world.send()
    assert (writing.root.ts, CROSS) in world.slack.reactions
    assert (writing.root.ts, CHECK) not in world.slack.reactions
    assert await world.database.write(retry, writing) is Retried.DONE
    assert (await world.only(lead)).id == writing.trigger.id


def retry(tx: Transaction, writing: Writing) -> Retried:
    return retry_run(tx, writing.run_id, writing.root.channel, "U1", writing.world.operating_policy)


@pytest.mark.req("STREAM-07")
async def test_after_a_restart_that_left_no_time_to_renew_the_agent_gets_a_lease_more(world: World) -> None:
    async with at_work(world, "As far as I ") as (writing, show, _):
        pass
    world.clock.advance(50)
    restarted = world.governed_by(OperatingPolicy(started_at=world.clock.now_us()))
    async with playing(restarted, live=show.live) as again:
        await writing.until_shown(again, "As far as I As far")  # what was sealed, and the same anew
        world.clock.advance(11)
        await restarted.sweep()
        assert (await writing.run()).status is RunStatus.RUNNING
        await restarted.later(61)
        await wait_until(writing.run, lambda run: run.status is RunStatus.FAILED)
        assert "silent" in show.live.of(writing.root)[-1].closing.note


@pytest.mark.req("STREAM-07", "LOOP-06")
async def test_a_coordinator_that_was_away_for_longer_than_a_lease_shows_the_stream_to_its_end(world: World) -> None:
    async with at_work(world, "As far as I ") as (writing, show, _):
        pass
    world.clock.advance(61)
    restarted = world.governed_by(OperatingPolicy(started_at=world.clock.now_us()))
    async with playing(restarted, live=show.live) as again:
        await writing.until_shown(again, "As far as I As far")  # before any sweep
        await restarted.sweep()
        await writing.append("know.")
        await writing.close("")
        await writing.ended()
    assert (await writing.run()).status is RunStatus.ANSWERED
    assert await entry_status(writing) is InboxStatus.RESPONDED


@pytest.mark.req("STREAM-07")
async def test_an_agent_that_falls_silent_leaves_a_note_and_its_work_comes_again(world: World) -> None:
    async with at_work(world, "As far as I ") as (writing, show, lead):
        await writing.append("know")
        await world.later(61)
        message = await writing.over(show)
        assert (message.text, message.streaming) == ("As far as I know", False)
        assert (message.closing.feedback, "fell silent" in message.closing.note) == (False, True)
        assert not message.closing.retry, "nobody needs to"
        assert (await writing.run()).status is RunStatus.FAILED
        await world.sweep()
        assert (await world.only(lead)).attempt == 2
        assert await world.database.write(retry, writing) is Retried.BEFORE
    await world.send()
    assert (writing.root.ts, CHECK) not in world.slack.reactions


@pytest.mark.req("CHAN-06")
async def test_work_that_is_lost_for_the_last_time_can_be_retried(world: World) -> None:
    async with at_work(world, "As far as I ") as (writing, show, _):
        await world.change("UPDATE inbox_messages SET attempts = 4")
        await world.later(61)
        assert (await writing.over(show)).closing.retry
        assert await world.database.write(retry, writing) is Retried.DONE


async def test_work_that_is_given_back_ends_the_answer_honestly(world: World) -> None:
    async with at_work(world, "I began ") as (writing, show, lead):
        await world.services.work.release(lead, [writing.trigger.lease_token])
        assert "gave the work back" in (await writing.over(show)).closing.note
        assert (await world.only(lead)).attempt == 1


@pytest.mark.parametrize("is_held", [False, True])
@pytest.mark.req("STREAM-09")
async def test_an_agent_hears_by_its_next_call_who_has_stopped_it(world: World, is_held: bool) -> None:
    async with at_work(world, "On and on ", hold=is_held) as (writing, show, lead):
        await world.database.write(runs.request_stop, "U2", run_id=writing.run_id)
        with pytest.raises(Conflict, match="stopped by <@U2>") as refused:
            await writing.append("and on")
        assert not isinstance(refused.value, LeaseLost)
        message = await writing.over(show)
        for call in (writing.append("and on"), writing.close("and on")):
            with pytest.raises(Conflict, match="stopped by <@U2>"):
                await call
        assert (message.text, message.closing.note) == ("On and on ", "🛑 Stopped by <@U2>.")
        assert await entry_status(writing) is InboxStatus.DISMISSED
        assert await lease_end(world, writing) is (None if is_held else LeaseEnd.RESOLVED)
        assert await world.poll(lead) == []


@pytest.mark.req("STREAM-09")
async def test_a_stop_in_the_thread_stops_what_is_being_written(world: World) -> None:
    async with at_work(world, "On and on ") as (writing, show, _):
        await world.says("!stop", thread=writing.root, by="U2")
        assert (await writing.over(show)).closing.note == "🛑 Stopped by <@U2>."


async def test_a_stop_before_anything_is_shown_is_said_in_a_message_of_its_own(world: World) -> None:
    lead = await world.lead()
    writing = await begun(world, lead)
    await world.says("!stop", thread=writing.root, by="U2")
    async with playing(world) as show:
        await writing.ended()
        assert show.live.of(writing.root) == []
    await world.send()
    assert world.slack.posts == ["🛑 Stopped by <@U2>."]


async def test_a_message_that_is_deleted_ends_its_answer(world: World) -> None:
    lead = await world.lead()
    root = await world.says(f"{BOT} one")
    await world.services.replies.dismiss(holding(trigger := await world.only(lead), lead), trigger.id, "to begin with")
    message = await world.says(f"{BOT} two", thread=root)
    async with playing(world) as show:
        writing = await begun_for(world, lead, root, await world.only(lead))
        await writing.append("You said ")
        await writing.until_shown(show, "You said")
        await world.ingest.handle(delete(message))
        with pytest.raises(Withdrawn):
            await writing.append("two")
        assert (await writing.over(show)).closing.note == "🛑 Stopped."


async def test_a_reply_beside_the_answer_closes_it_as_it_stands(world: World) -> None:
    async with at_work(world) as (writing, show, lead):
        await writing.streams.task(writing.caller, writing.run_id, "s1", "Look", StepStatus.IN_PROGRESS)
        await until(lambda: bool(cards_of(show)))
        await world.answers(lead, writing.trigger, "Here it is.")
        message = await writing.over(show)
        with pytest.raises(Conflict, match="settled"):
            await writing.append("more")
    assert (message.closing.note, message.closing.retry) == ("", False)
    assert cards_of(show)[-1].status is StepStatus.COMPLETE
    await world.send()
    assert world.slack.posts == ["Here it is."]


async def test_an_answer_that_shows_nothing_before_a_reply_leaves_nothing_behind(world: World) -> None:
    async with at_work(world) as (writing, show, lead):
        await world.answers(lead, writing.trigger, "Here it is.")
        await writing.ended()
        assert show.live.of(writing.root) == []
    await world.send()
    assert world.slack.posts == ["Here it is."]


# Tasks


async def test_a_task_is_completed_by_closing_with_a_result_and_goes_on_without(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    run = await world.only(worker)
    caller, streams = holding(run, worker), world.services.streams
    async with playing(world) as show:
        first = await streams.open(caller, task_id=handed.task_id)
        await streams.close(caller, first["turn_id"], "I have begun.")
        assert await status_of(world, handed.task_id) is TaskStatus.IN_PROGRESS
        second = await streams.open(caller, task_id=handed.task_id)
        assert second["turn_id"] != first["turn_id"]
        await streams.append(caller, second["turn_id"], "It is ")
        await streams.close(caller, second["turn_id"], "42.", result="42")
        await show.over(handed.root, 2)
        assert [shown.text for shown in show.live.of(handed.root)] == ["I have begun.", "It is 42."]
    task = await task_of(world, handed.task_id)
    assert (task.status, task.result) == (TaskStatus.COMPLETED, "42")


async def test_a_cancelled_task_stops_its_answer_and_its_agent_is_told(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    run = await world.only(worker)
    caller, streams = holding(run, worker), world.services.streams
    async with playing(world) as show:
        opened = await streams.open(caller, task_id=handed.task_id)
        await streams.append(caller, opened["turn_id"], "It is ")
        await until(lambda: bool(show.live.of(handed.root)))
        await world.services.tasks.cancel(None, handed.task_id, "not wanted")
        with pytest.raises(SwarmError):
            await streams.append(caller, opened["turn_id"], "42.")
        await show.over(handed.root)
        (message,) = show.live.of(handed.root)
        assert message.closing.note == "🛑 Stopped."
        assert [trigger.kind for trigger in await world.poll(worker)] == ["task_cancelled"]


async def test_a_failed_task_is_set_aside_and_can_be_handed_out_again(world: World) -> None:
    lead, worker = await world.lead(), await world.worker()
    handed = await asked_and_handed(world, lead, worker)
    run = await world.only(worker)
    caller, streams = holding(run, worker), world.services.streams
    async with playing(world) as show:
        opened = await streams.open(caller, task_id=handed.task_id)
        await streams.close(caller, opened["turn_id"], failed="no ruler")
        await show.over(handed.root)
    assert await status_of(world, handed.task_id) is TaskStatus.DEAD


# The process that shows it


@pytest.mark.both_engines
@pytest.mark.req("OPS-03")
async def test_what_is_said_at_another_process_is_shown_by_the_elected_one(
    postgres_url: str, clock: ManualClock
) -> None:
    async with Database(postgres_url, clock=clock) as here, Database(postgres_url, clock=clock) as there:
        elected, other = World(here, clock), World(there, clock)
        lead = await other.lead()
        async with playing(elected) as show:
            writing = await begun(other, lead)
            for number in range(5):
                await writing.append(f"Line {number}.\n")
                await writing.until_shown(show, f"Line {number}.\n")
            await writing.close("The end.")
            assert (await writing.over(show)).text.endswith("Line 4.\nThe end.")


@pytest.mark.req("STREAM-10")
async def test_a_process_that_ends_in_the_middle_seals_what_it_showed_and_its_successor_shows_it_anew(
    world: World,
) -> None:
    async with at_work(world, "One. ") as (writing, show, _):
        await show.stop()
        (sealed,) = show.live.of(writing.root)
        assert (sealed.streaming, sealed.closing.note) == (False, RESTARTED_TEXT)
        await writing.append("Two. ")
        show.begin()
        await writing.until_shown(show, "One. Two. ")
        await writing.close("Three.")
        await writing.ended()
        sealed, whole = show.live.of(writing.root)
    assert (sealed.text, whole.text, whole.streaming, whole.page) == ("One. ", "One. Two. Three.", False, 2)
    assert await entry_status(writing) is InboxStatus.RESPONDED


@pytest.mark.req("STREAM-10")
async def test_what_a_crash_left_open_is_sealed_before_the_answer_is_shown_anew(world: World) -> None:
    lead = await world.lead()
    crashed = show(world)
    crashed.begin()
    writing = await begun(world, lead)
    await writing.append("One. ")
    await writing.until_shown(crashed, "One.")
    await crashed.deposed()
    (left,) = crashed.live.of(writing.root)
    assert left.streaming  # whoever has lost the office calls Slack no more
    await writing.close("Two.")
    async with playing(world, live=crashed.live):
        await writing.ended()
    sealed, whole = crashed.live.of(writing.root)
    assert (sealed.streaming, sealed.closing.note) == (False, RESTARTED_TEXT)
    assert (whole.text, whole.streaming) == ("One. Two.", False)


@pytest.mark.parametrize("is_orderly", [True, False])
@pytest.mark.req("STREAM-10")
async def test_an_answer_whose_run_was_lost_with_the_process_is_sealed_and_not_shown_again(
    world: World, is_orderly: bool
) -> None:
    lead = await world.lead()
    crashed = show(world)
    crashed.begin()
    writing = await begun(world, lead)
    await writing.append("One. ")
    await writing.until_shown(crashed, "One.")
    await (crashed.stop() if is_orderly else crashed.deposed())
    await world.later(61)

    async def left() -> tuple[bool, str]:
        (message,) = crashed.live.of(writing.root)
        return message.streaming, message.closing.note

    async with playing(world, live=crashed.live):
        await writing.ended()
        await wait_until(left, lambda seen: seen == (False, RESTARTED_TEXT))  # it is sealed after it was decided
        assert (await world.only(lead)).attempt == 2


@pytest.mark.req("STREAM-10")
async def test_what_looks_for_lost_runs_leaves_an_answer_alone_that_is_being_written(world: World) -> None:
    """Also one that was opened so recently that nobody has begun to show it."""
    async with at_work(world, "One. ") as (writing, show, _):
        await show.recovery.recover(lambda run_id: False, show.term.is_ours)
        assert [shown.streaming for shown in show.live.of(writing.root)] == [True]
        await writing.close("Two.")
        assert (await writing.over(show)).text == "One. Two."


async def test_a_mistake_of_ours_while_it_is_shown_loses_nothing_that_was_said(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead = await world.lead()

    def breaks(*args: object, **kwargs: object) -> None:
        raise RuntimeError("a mistake")

    async with playing(world) as show:
        with monkeypatch.context() as patch:
            patch.setattr(answer_run, "RunRecord", breaks)
            writing = await begun(world, lead)
            try:
                await writing.append("All of it.")
                await writing.close("")
            except Conflict:  # it had failed by then
                await world.answers(lead, writing.trigger, "All of it.")
            await writing.ended()
        assert show.live.of(writing.root) == []
    await world.send()
    assert [post for post in world.slack.posts if "All of it." in post] != []


async def test_a_database_that_is_away_before_an_answer_is_shown_costs_nothing_of_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead = await world.lead()
    real, tries = event_sources.StreamSource._ready, 0

    def people(tx: Transaction, run: Run, thread: Thread) -> tuple[frozenset[str], frozenset[str]]:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise Unavailable("away")
        return real(tx, run, thread)

    monkeypatch.setattr(event_sources.StreamSource, "_ready", staticmethod(people))
    async with playing(world) as show:
        writing = await begun(world, lead)
        await writing.close("All of it.")
        assert (await writing.over(show)).text == "All of it."
    assert tries == 2, "shown by the next run"


@pytest.mark.req("LOOP-21")
async def test_a_database_that_is_away_while_an_answer_is_shown_does_not_end_it(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its agent works on, and what it has to say comes when the database is back."""
    lead = await world.lead()
    real, again = answer_run.RunRecord, asyncio.Event()
    tries = 0

    def record(*args: Any) -> answer_run.RunRecord:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise Unavailable("away")
        again.set()
        return real(*args)

    monkeypatch.setattr(answer_run, "RunRecord", record)
    async with playing(world) as show:
        writing = await begun(world, lead)
        await writing.append("All ")
        async with asyncio.timeout(30):
            await again.wait()
        await writing.close("of it.")
        assert (await writing.over(show)).text == "All of it."


async def test_a_process_that_has_lost_its_office_does_not_end_an_answer_that_fails_there(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its successor shows the answer: from what is stored, and only once."""
    lead = await world.lead()
    failed = asyncio.Event()

    async with playing(world) as show:

        def breaks(*args: object, **kwargs: object) -> None:
            show.term.end()
            failed.set()
            raise RuntimeError("a mistake")

        with monkeypatch.context() as patch:
            patch.setattr(answer_run, "RunRecord", breaks)
            writing = await begun(world, lead)
            await failed.wait()

            async def has_given_up() -> bool:
                return not show.running.runs(writing.run_id)

            await wait_until(has_given_up, what="the run has given up")
            await show.stop()
        assert (await writing.run()).ended_at is None
        show.begin()
        await writing.close("All of it.")
        assert (await writing.over(show)).text == "All of it."


async def test_what_was_told_is_tidied_away_with_its_run(world: World) -> None:
    async with at_work(world) as (writing, show, _):
        await writing.close("Hello.")
        await writing.over(show)
    world.clock.advance(91 * DAY)
    await world.sweeper.tidy()
    assert await world.rows("SELECT * FROM run_events") == []
