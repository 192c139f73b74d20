"""What comes in between while an agent answers live: stops, news, lost leases, crashes, people who try again."""

from __future__ import annotations

import asyncio

import pytest

from swarm.domain.access import ChannelPolicy
from swarm.domain.agents import Role
from swarm.domain.conduct import Conduct, Policies
from swarm.domain.deliveries import DeliveryKind, Refused
from swarm.domain.errors import Unavailable
from swarm.domain.inbox import EntryStatus
from swarm.domain.presses import FEEDBACK_ACTION, RETRY_TURN_ACTION, STOP_TURN_ACTION, ButtonPressed
from swarm.domain.streaming.agent import OnRestart
from swarm.domain.streaming.calls import CloseStream, Display, OpenStream
from swarm.domain.streaming.events import Broken, Failed, TextDelta
from swarm.domain.tasks import TaskStatus
from swarm.domain.transcript import SlackMessage
from swarm.domain.turns import TurnStatus
from swarm.services import converse, turn_ends, turn_run
from swarm.services.buttons import RETRIED_TEXT, THANKS_TEXT, Buttons
from swarm.services.reply import Caller
from swarm.services.speak import QUEUED_TEXT
from swarm.services.task_texts import brief
from swarm.services.turn_ends import RESTARTED, STOP_TEXT
from swarm.services.turn_recovery import RESTARTED_TEXT
from swarm.store.turns import Turn
from tests.support.live import FakeLive, Gate, Scripted, Show, ends, hired, playing, says
from tests.support.tasks import asked_and_handed, hand, status_of
from tests.support.waiting import wait_until
from tests.support.world import BOT, World, delete, edit

CHECK = "white_check_mark"


@pytest.fixture(autouse=True)
def nothing_lands_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """Calls that these tests hold never end."""
    monkeypatch.setattr("swarm.slack.live.LANDING_SECONDS", 0.05)


async def status(world: World, message: SlackMessage) -> EntryStatus:
    return (await world.entry(message)).status


def press(action: str, value: str, *, key: str = "press:1", by: str = "U1") -> ButtonPressed:
    return ButtonPressed(
        key=key, action_id=action, value=value, user_id=by, channel="C1", message_ts="1700000000.000900", thread_ts=None
    )


async def pressed(world: World, button: ButtonPressed) -> str | None:
    return await Buttons(world.database, world.conduct).press(button)


async def begun(show: Show, gate: Gate, root: SlackMessage) -> Turn:
    """The turn of a run, once people see what it has said."""
    await asyncio.wait_for(gate.arrived.wait(), 10)

    async def look() -> bool:
        return bool(show.live.of(root))

    await wait_until(look)
    return (await show.turns(root))[-1]


# Stops


@pytest.mark.req("STREAM-09")
async def test_a_stop_in_the_thread_ends_the_run_at_once_and_says_who_wanted_it(world: World) -> None:
    gate = Gate()
    async with playing(world, hired("ada", Scripted(gate))) as show:
        root = await world.says(f"{BOT} hello")
        await begun(show, gate, root)
        stop = await world.says("!stop", thread=root, by="U2")
        await asyncio.wait_for(gate.left.wait(), 1)
        (turn,) = await show.over(root)
        (shown,) = show.live.of(root)
        await world.send()
    assert (shown.text, shown.streaming, shown.closing.note) == ("Some words.\n", False, "🛑 Stopped by <@U2>.")
    assert (turn.status, await status(world, root)) == (TurnStatus.STOPPED, EntryStatus.DISMISSED)
    assert (stop.ts, CHECK) in world.slack.reactions
    assert (root.ts, CHECK) not in world.slack.reactions


@pytest.mark.req("STREAM-09")
async def test_a_button_to_stop_a_run_comes_when_it_takes_its_time_and_goes_with_it(world: World) -> None:
    gate = Gate()
    async with playing(world, hired("ada", Scripted(gate)), stop_button_seconds=0.05) as show:
        root = await world.says(f"{BOT} hello")
        turn = await begun(show, gate, root)

        async def offered() -> bool:
            await world.send()
            return STOP_TEXT in world.slack.posts

        await wait_until(offered)
        assert await pressed(world, press(STOP_TURN_ACTION, turn.id, by="U2")) is None
        await asyncio.wait_for(gate.left.wait(), 1)
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
    gates = [Gate() for _ in range(8)]
    ada.scripts.extend(gates)
    async with playing(world, hired("ada", ada)) as show:
        for gate in gates:
            root = await world.says(f"{BOT} hello")
            await begun(show, gate, root)
            gate.opened.set()
            await world.says("!stop", thread=root)
            (turn,) = await show.over(root)
            (shown,) = show.live.of(root)
            is_stopped = turn.status is TurnStatus.STOPPED
            assert ("Stopped" in shown.closing.note, shown.streaming) == (is_stopped, False)
            assert (await status(world, root) is EntryStatus.DISMISSED) == is_stopped


# News


@pytest.mark.req("LOOP-15")
async def test_a_message_that_is_deleted_ends_its_run(world: World) -> None:
    gate = Gate()
    async with playing(world, hired("ada", Scripted(gate))) as show:
        root = await world.says(f"{BOT} hello")
        await begun(show, gate, root)
        await world.ingest.handle(delete(root))
        await asyncio.wait_for(gate.left.wait(), 2)
        (turn,) = await show.over(root)
        assert (turn.status, await status(world, root)) == (TurnStatus.STOPPED, EntryStatus.WITHDRAWN)
        assert not show.live.of(root)[0].streaming
        await no_news(world)


async def no_news(world: World) -> None:
    async def look() -> int:
        return len(await world.rows("SELECT 1 FROM notices WHERE status IN ('unread', 'claimed')"))

    await wait_until(look, lambda n: n == 0, what="all news is heard")


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
        await asyncio.wait_for(gate.arrived.wait(), 5)
        await world.ingest.handle(delete(two))
        await no_news(world)
        gate.opened.set()
        await show.over(root, 2)
        assert [await status(world, message) for message in (two, three)] == [
            EntryStatus.WITHDRAWN,
            EntryStatus.RESPONDED,
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
        (turn,) = await show.over(root)
    assert turn.status is TurnStatus.ANSWERED


@pytest.mark.req("LOOP-15")
async def test_an_agent_that_may_not_run_more_hears_news_all_the_same(world: World) -> None:
    gate = Gate()
    async with playing(world, hired("ada", Scripted(gate), parallel=1)) as show:
        root = await world.says(f"{BOT} hello")
        await begun(show, gate, root)
        await world.ingest.handle(delete(root))
        await asyncio.wait_for(gate.left.wait(), 2)
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
        (turn,) = await show.over(handed.root)
        assert await status_of(world, handed.task_id) is TaskStatus.DEAD
        await world.send()
        assert "⚠️ There is no answer: no such model." in world.slack.posts
        assert await pressed(world, press(RETRY_TURN_ACTION, turn.id)) is None
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
        await asyncio.wait_for(gate.left.wait(), 2)
        (turn,) = await show.over(handed.root)
        (shown,) = show.live.of(handed.root)
    assert (shown.closing.note, turn.status) == ("🛑 Stopped by <@U2>.", TurnStatus.STOPPED)
    assert await status_of(world, handed.task_id) is TaskStatus.CANCELLED


# Agents that cannot be reached


@pytest.mark.req("LOOP-13")
async def test_a_message_for_an_agent_that_is_away_waits_for_it_and_the_thread_is_told_once(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(converse, "HEALTH_SECONDS", 0.05)
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


# Leases, and the office, lost in the middle


@pytest.mark.req("LOOP-06", "STREAM-10")
async def test_a_run_that_has_lost_its_lease_is_stopped_and_its_work_runs_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_run, "RELEASE_SECONDS", 0.0)
    world = world.governed_by(Conduct(lease_seconds=1.5))
    gate = Gate()
    ada = Scripted()
    ada.scripts.append(gate)
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} hello")
        await begun(show, gate, root)
        await world.later(2)
        await asyncio.wait_for(gate.left.wait(), 3)

        async def look() -> list[TurnStatus]:
            await world.sweep()
            return [turn.status for turn in await show.turns(root)]

        await wait_until(look, lambda seen: TurnStatus.ANSWERED in seen)
        assert [shown.streaming for shown in show.live.of(root)] == [False, False]
        assert await status(world, root) is EntryStatus.RESPONDED


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
    assert (await world.entry(root)).attempts == 1


@pytest.mark.req("STREAM-10")
async def test_a_stop_of_the_coordinator_seals_at_once_and_counts_no_attempt(world: World) -> None:
    gate, live = Gate(), FakeLive()
    async with playing(world, hired("ada", Scripted(gate)), live=live) as first:
        root = await world.says(f"{BOT} hello")
        await begun(first, gate, root)
    (sealed,) = live.of(root)
    assert (sealed.streaming, sealed.closing.note) == (False, RESTARTED_TEXT)
    entry = await world.entry(root)
    assert (entry.status, entry.attempts) == (EntryStatus.UNREAD, 0)
    assert live.statuses[root.ts] == ""


@pytest.mark.req("STREAM-10", "CHAN-06")
async def test_what_must_not_be_done_twice_is_offered_for_retry_after_a_restart(world: World) -> None:
    gate, live = Gate(), FakeLive()
    async with playing(world, hired("ada", Scripted(gate), on_restart=OnRestart.ASK), live=live) as first:
        root = await world.says(f"{BOT} hello")
        turn = await begun(first, gate, root)
        await first.deposed()
    async with playing(world, hired("ada", Scripted(), on_restart=OnRestart.ASK), live=live) as second:
        await second.over(root)
        (sealed,) = live.of(root)
        assert (sealed.streaming, sealed.closing.retry) == (False, True)
        assert RESTARTED in sealed.closing.note
        assert await status(world, root) is EntryStatus.DEAD
        assert await pressed(world, press(RETRY_TURN_ACTION, turn.id)) is None
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
    assert await status(world, root) is EntryStatus.RESPONDED


@pytest.mark.req("STREAM-10")
async def test_a_turn_that_could_not_be_ended_is_ended_later_by_the_same_process(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(converse, "RECOVER_SECONDS", 0.05)
    ada = Scripted()
    gate = Gate()
    ada.scripts.append(gate)
    async with playing(world, hired("ada", ada)) as playing_now:
        root = await world.says(f"{BOT} hello")
        turn = await begun(playing_now, gate, root)
        away = Away(playing_now, turn)
        with monkeypatch.context() as patched:
            away.begin(patched)
            gate.opened.set()
            await asyncio.wait_for(away.refused.wait(), 5)
        await playing_now.over(root, 2)
    assert await status(world, root) is EntryStatus.RESPONDED


class Away:
    """A database that is away for what a run notes of its messages, and for whoever wants to end it."""

    def __init__(self, show: Show, turn: Turn) -> None:
        self.show = show
        self.turn = turn
        self.refused = asyncio.Event()

    def begin(self, patched: pytest.MonkeyPatch) -> None:
        async def ending(*_: object) -> None:
            raise Unavailable("the database is away")

        async def bring_to_end(*_: object, **__: object) -> None:
            self.refused.set()
            raise Unavailable("the database is away")

        patched.setattr("swarm.services.turn_record.TurnRecord.ending", ending)
        patched.setattr(self.show.recovery, "bring_to_end", bring_to_end)


@pytest.mark.req("STREAM-10", "STREAM-07")
async def test_the_end_of_a_turn_waits_for_the_database(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turn_run, "_AGAIN_SECONDS", 0.01)
    real, tries = turn_ends.end_turn, 0

    def end_turn(*args: object) -> bool:
        nonlocal tries
        tries += 1
        if tries < 4:
            raise Unavailable("the database is away")
        return real(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(turn_run, "end_turn", end_turn)
    async with playing(world, hired("ada", Scripted())) as show:
        root = await world.says(f"{BOT} hello")
        (turn,) = await show.over(root)
    assert (turn.status, tries) == (TurnStatus.ANSWERED, 4)


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


# Trying again, and what people think of it


@pytest.mark.req("CHAN-06", "STREAM-07")
async def test_a_retry_runs_the_same_once_more_and_twice_is_once(world: World) -> None:
    ada = Scripted()
    ada.scripts.append(ends(TextDelta(text="Half of it", message_id="1"), Broken(reason="it hung up")))
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} hello")
        (turn,) = await show.over(root)
        first, second = await asyncio.gather(
            pressed(world, press(RETRY_TURN_ACTION, turn.id, key="press:1")),
            pressed(world, press(RETRY_TURN_ACTION, turn.id, key="press:2", by="U2")),
        )
        assert {first, second} == {None, RETRIED_TEXT}
        await show.over(root, 2)
        assert [shown.text for shown in show.live.of(root)] == ["Half of it", "Hello."]
        assert await status(world, root) is EntryStatus.RESPONDED
    assert len(ada.inputs) == 2


@pytest.mark.req("CHAN-06", "LOOP-12")
async def test_a_retry_and_a_new_message_at_once_answer_both(world: World) -> None:
    ada = Scripted()
    ada.scripts.append(ends(Broken(reason="it hung up")))
    async with playing(world, hired("ada", ada)) as show:
        root = await world.says(f"{BOT} hello")
        (turn,) = await show.over(root)
        _, more = await asyncio.gather(
            pressed(world, press(RETRY_TURN_ACTION, turn.id)), world.says("and more", thread=root)
        )

        async def look() -> list[EntryStatus]:
            return [await status(world, message) for message in (root, more)]

        await wait_until(look, lambda seen: seen == [EntryStatus.RESPONDED] * 2)
        answered = [message.text for given in ada.inputs[1:] for message in given.messages]
    assert sorted(answered) == ["and more", "hello"]


@pytest.mark.req("CHAN-05", "STREAM-12")
async def test_what_people_think_of_an_answer_is_noted(world: World) -> None:
    async with playing(world, hired("ada", Scripted())) as show:
        root = await world.says(f"{BOT} hello")
        (turn,) = await show.over(root)
    told = await pressed(world, press(FEEDBACK_ACTION, f"{turn.id}:up"))
    assert told == THANKS_TEXT
    (row,) = await world.rows("SELECT turn_id, value FROM feedback")
    assert row == {"turn_id": turn.id, "value": "up"}


# Owners and agents that change meanwhile


@pytest.mark.req("LOOP-10")
async def test_a_thread_that_changes_hands_meanwhile_keeps_the_answer_that_is_given(world: World) -> None:
    gate = Gate()
    async with playing(world, hired("ada", Scripted(gate)), hired("bob", Scripted(says("I am bob.")))) as show:
        root = await world.says("swarm#ada hello")
        await begun(show, gate, root)
        moved = await world.says("swarm#bob go on", thread=root)

        async def look() -> EntryStatus:
            return await status(world, moved)

        await wait_until(look, lambda now: now is EntryStatus.RESPONDED)
        gate.opened.set()
        await show.over(root, 2)
        assert {shown.text for shown in show.live.of(root)} == {"Some words.\nThe end.", "I am bob."}
        assert await status(world, root) is EntryStatus.RESPONDED


@pytest.mark.req("LOOP-06")
async def test_an_agent_that_is_removed_while_it_answers_is_stopped_and_another_one_answers(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turn_run, "RELEASE_SECONDS", 0.0)
    world = world.governed_by(Conduct(lease_seconds=0.6, default_agent="bob"))
    gate = Gate()
    async with playing(world, hired("ada", Scripted(gate)), hired("bob", Scripted(says("I am bob.")))) as show:
        root = await world.says("swarm#ada hello")
        await begun(show, gate, root)
        await world.services.agents.revoke("ada")
        await asyncio.wait_for(gate.left.wait(), 3)

        async def look() -> list[str]:
            await world.sweep()
            return [shown.text for shown in show.live.of(root) if not shown.streaming]

        await wait_until(look, lambda seen: "I am bob." in seen and len(seen) == 2)


# Slack takes no more


@pytest.mark.req("STREAM-04", "LOOP-13")
@pytest.mark.parametrize("code", ["is_archived", "thread_not_found", "not_in_channel"])
async def test_a_place_that_is_gone_in_the_middle_ends_the_run_and_sets_its_message_aside(
    world: World, code: str
) -> None:
    gate = Gate()
    async with playing(world, hired("ada", Scripted(gate))) as show:
        root = await world.says(f"{BOT} hello")
        await begun(show, gate, root)
        show.live.script.extend([lambda live, place, call: Refused(error=code)] * 3)
        gate.opened.set()
        (turn,) = await show.over(root)
        assert gate.left.is_set()
        entry = await world.entry(root)
        assert entry.status in (EntryStatus.DEAD, EntryStatus.RESPONDED)
        assert turn.ended_at
        assert await world.rows("SELECT token FROM leases WHERE ended_as IS NULL") == []


@pytest.mark.req("STREAM-03", "CHAN-01")
async def test_a_reload_changes_how_the_next_answer_is_shown_and_not_the_one_that_is_given(world: World) -> None:
    gate = Gate()
    ada = Scripted()
    ada.scripts.append(gate)
    async with playing(world, hired("ada", ada)) as show:
        first = await world.says(f"{BOT} hello")
        await begun(show, gate, first)
        world.conduct.book.current = Policies(everywhere=ChannelPolicy(display=Display.TIMELINE))
        second = await world.says(f"{BOT} hello")
        await show.over(second)
        gate.opened.set()
        await show.over(first)
        displays = [show.live.of(root)[0].place.display for root in (first, second)]
    assert displays == [Display.PLAN, Display.TIMELINE]


@pytest.mark.req("LOOP-17", "LOOP-09")
async def test_an_offered_task_is_accepted_and_run(world: World) -> None:
    lead = await world.lead()
    async with playing(world, hired("doer", Scripted(says("It is done.")), role=Role.WORKER)) as show:
        doer = await show.agent("doer")
        root = await world.says(f"{BOT} count")
        task_id = await hand(world, lead, await world.only(lead), doer, offer=True)

        async def look() -> TaskStatus:
            return await status_of(world, task_id)

        await wait_until(look, lambda now: now is TaskStatus.COMPLETED)
        assert [shown.text for shown in show.live.of(root)] == ["It is done."]


@pytest.mark.req("LOOP-17")
async def test_a_message_from_another_agent_is_heard_and_answered_by_nobody(world: World) -> None:
    lead = await world.lead()
    ada = Scripted()
    async with playing(world, hired("ada", ada)) as show:
        await show.agent("ada")
        await world.services.messages.send(Caller(agent=lead), "hello", to="ada")
        await no_news(world)
    assert ada.inputs == []
