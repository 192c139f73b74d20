"""What people see beside the text: cards of tools and plans, the status line, and how it ended."""

from __future__ import annotations

import pytest

from swarm.domain.answers.calls import SetStatus, Slot
from swarm.domain.answers.events import (
    AgentEvent,
    Asked,
    Broken,
    Cancelled,
    Failed,
    Finished,
    Interrupted,
    PlanShown,
    PlanStep,
    StepNamed,
    StepStatus,
    TextDelta,
    ToolEnded,
    ToolStarted,
)
from swarm.domain.answers.reducer import StopRequested
from swarm.domain.answers.state import PageMode
from swarm.domain.model.deliveries import DeliveryAccepted
from tests.support.every import every
from tests.support.slack_model import Run, no_answer

pytestmark = pytest.mark.req("STREAM-03")

Events = list[tuple[float, AgentEvent | StopRequested]]
COMPLETE, ERROR, RUNNING = StepStatus.COMPLETE, StepStatus.ERROR, StepStatus.IN_PROGRESS


def text(words: str, message_id: str = "m") -> TextDelta:
    """A piece of an answer."""
    return TextDelta(text=words, message_id=message_id)


def statuses(run: Run) -> dict[str, StepStatus]:
    """How the cards stand in the end."""
    return {card.id: card.status for message in run.messages for card in message.cards.values()}


def test_tools_and_plans_are_cards_that_change_in_place() -> None:
    """In the order in which they came, with what became of each."""
    plan = (PlanStep(id="1", title="look", status=RUNNING), PlanStep(id="2", title="tell"))
    run = Run().play(
        [
            (0, PlanShown(steps=plan, title="The plan")),
            (1, ToolStarted(id="a", name="search")),
            (2, ToolStarted(id="b", name="read <!here>")),
            (3, ToolEnded(id="a")),
            (4, ToolEnded(id="b", failed=True)),
            (5, text("Done.")),
            (6, Finished()),
        ]
    )
    assert run.messages[0].order == ["plan:1", "plan:2", "a", "b", "Done."]
    assert run.messages[0].plan_title == "The plan"
    assert statuses(run) == {"plan:1": COMPLETE, "plan:2": StepStatus.PENDING, "a": COMPLETE, "b": ERROR}
    assert "<!" not in run.messages[0].cards["b"].title


@pytest.mark.req("STREAM-07")
@pytest.mark.parametrize(
    ("end", "status"),
    [
        (Finished(), COMPLETE),
        (Interrupted(asked=()), StepStatus.PENDING),
        (Failed(message="x"), ERROR),
        (Cancelled(), ERROR),
    ],
)
def test_no_tool_seems_to_run_after_the_end(end: AgentEvent, status: StepStatus) -> None:
    """It went well with the run, or it did not, or it waits for people."""
    run = Run().play([(0, ToolStarted(id="a", name="search")), (1, text("Yes.")), (2, end)])
    assert statuses(run) == {"a": status}


def test_a_tool_ended_while_its_message_was_full_is_changed_there() -> None:
    """Not as another card in the next message."""
    turns = {Slot.CLOSE: 9.0}
    run = Run(turn_seconds=lambda slot: turns.get(slot, 0.0)).play(
        [
            (0, ToolStarted(id="a", name="search")),
            (1, text("A sentence of it. " * 900)),
            (3, ToolEnded(id="a")),
            (20, Finished()),
        ]
    )
    assert [list(message.cards) for message in run.messages] == [["a"], []]
    assert statuses(run) == {"a": COMPLETE}


@pytest.mark.parametrize("mode", list(PageMode))
def test_more_tools_than_fit_do_not_crowd_out_the_answer(mode: PageMode) -> None:
    """Of 300 a few are shown, and all of the text."""
    tools: Events = [(n * 0.01, ToolStarted(id=f"t{n}", name=f"tool {n} " + "x" * 300)) for n in range(300)]
    run = Run(mode=mode).play([*tools, (9, text("Done.")), (10, Finished())])
    assert "".join(run.shown) == "Done."
    assert 5 < sum(len(message.cards) for message in run.messages) < 200


@every("id_", ["", " ", "\x00", "\ud83d", "x" * 5_000, "日" * 900, '"' * 300])
@every("name", ["", "\n", "\ud83d", "y" * 5_000, "<!channel>", "@here", "&" * 300, '"' * 300])
def test_strange_ids_and_names_make_cards_that_slack_takes(id_: str, name: str) -> None:
    """Never too long, never empty, and nobody is pinged."""
    run = Run().play([(0, ToolStarted(id=id_, name=name)), (1, ToolEnded(id=id_)), (2, text("Hm.")), (3, Finished())])
    (card,) = run.messages[0].cards.values()
    assert card.status is COMPLETE
    assert "<!" not in card.title
    assert "@here" not in card.title


def test_long_ids_that_begin_alike_stay_apart() -> None:
    """Each tool has its own card."""
    run = Run().play(
        [
            (0, ToolStarted(id="x" * 300 + "1", name="one")),
            (1, ToolStarted(id="x" * 300 + "2", name="two")),
            (2, ToolEnded(id="x" * 300 + "2", failed=True)),
            (3, text("Hm.")),
            (4, Finished()),
        ]
    )
    assert {card.title: card.status for card in run.messages[0].cards.values()} == {"one": COMPLETE, "two": ERROR}


def test_a_card_whose_title_grows_is_counted_again() -> None:
    """The message is closed before Slack's limit all the same."""
    steps: Events = [
        (n * 1.0, PlanShown(steps=tuple(PlanStep(id=f"{i}", title="日" * (1 + n * 20)) for i in range(20))))
        for n in range(10)
    ]
    run = Run().play([*steps, (12, text("A sentence of it. " * 900)), (20, Finished())])
    assert all(isinstance(answer, DeliveryAccepted) for answer in run.answers)


def test_cards_and_text_together_stay_within_slacks_limit() -> None:
    """No piece is refused for its size."""
    tools: Events = [(n * 0.01, ToolStarted(id=f"t{n}", name=f"tool {n} " + "x" * 150)) for n in range(40)]
    run = Run().play([*tools, (1, text("A sentence of it. " * 1_500)), (20, Finished())])
    assert len(run.messages[0].cards) > 5
    assert all(isinstance(answer, DeliveryAccepted) for answer in run.answers)


def test_a_card_that_changes_while_it_waits_is_sent_once() -> None:
    """As it is then."""
    events: Events = [
        (1 + n * 0.01, PlanShown(steps=(PlanStep(id="1", title=f"{n}"),), title=f"{n}")) for n in range(50)
    ]
    run = Run(turn_seconds=lambda slot: 3.0).play([(0, text("Hm. ")), *events, (9, Finished())])
    assert len([chunk for _, call in run.calls for chunk in getattr(call, "chunks", ())]) == 3


@pytest.mark.req("STREAM-09")
def test_the_status_line_is_shown_changed_and_renewed() -> None:
    """At once, soon after a change without another event, and before Slack forgets it after two minutes."""
    run = Run().play([(0.2, StepNamed(name="planning")), (250, text("Yes.")), (251, Finished())])
    assert run.statuses[0] == (1000.0, SetStatus(text="is thinking…"))
    assert run.statuses[1] == (1001.0, SetStatus(text="is working on planning…"))
    shown = [at for at, status in run.statuses if status.text]
    assert all(later - at <= 100 for at, later in zip(shown, [*shown[1:], 1250], strict=True))
    cleared = next(at for at, status in run.statuses if not status.text)
    assert cleared == pytest.approx(1250.05)


@pytest.mark.req("STREAM-09")
@every(
    "end",
    [Finished(), Failed(message="x"), Broken(reason="y"), Cancelled(), Interrupted(asked=()), StopRequested(by="U1")],
)
@every("before", [[], [(0.0, ToolStarted(id="t", name="x"))], [(0.0, TextDelta(text="Hi."))]])
def test_every_ending_is_told_once_below_the_answer(before: Events, end: AgentEvent | StopRequested) -> None:
    """Also where nothing was shown. A question has a card of its own, and the answer ends below it."""
    run = Run().play([*before, (5, end)])
    assert len(run.closings) == (0 if isinstance(end, Interrupted) else 1)


@pytest.mark.req("STREAM-07", "STREAM-12", "STREAM-04")
@every("said", ["", "Some of it"])
@every(
    ("end", "retry", "feedback", "footer", "words"),
    [
        (Failed(message="no model <!here>"), True, False, False, "no model"),
        (Broken(reason="it fell silent"), True, False, False, "fell silent"),
        (Cancelled(), True, False, False, "cancelled"),
        (StopRequested(by="U1"), False, False, False, "Stopped by <@U1>"),
        (StopRequested(), False, False, False, "Stopped."),
    ],
)
def test_people_see_how_it_ended(
    said: str, end: AgentEvent | StopRequested, retry: bool, feedback: bool, footer: bool, words: str
) -> None:
    """What arrived, and a note below it; a Retry where a new attempt could help; never 👍 for half an answer."""
    run = Run().play([(0, text(said)), (1, end)])
    (closing,) = run.closings
    assert (closing.retry, closing.feedback, closing.footer) == (retry, feedback, footer)
    assert words in closing.note
    assert "<!here>" not in closing.note
    assert "".join(run.shown) == said
    if isinstance(end, Failed | Broken):
        assert ("not complete" in closing.note) is bool(said)


@pytest.mark.req("STREAM-12", "HITL-01")
@every("said", ["", "Some of it"])
def test_below_the_text_that_leads_to_a_question_stands_nothing_because_the_answer_ends_below_its_card(
    said: str,
) -> None:
    run = Run().play([(0, text(said)), (1, Interrupted(asked=(Asked(id="1", prompt="Really?"),)))])
    assert run.closings == []


@pytest.mark.req("STREAM-12")
def test_a_good_end_has_footer_and_feedback() -> None:
    """And no note."""
    (closing,) = Run().play([(0, text("Yes.")), (1, Finished())]).closings
    assert (closing.note, closing.retry, closing.feedback, closing.footer) == ("", False, True, True)


@pytest.mark.req("STREAM-09")
@pytest.mark.parametrize("slow", [{}, {Slot.OPEN: 9.0}, {Slot.APPEND: 9.0}, {Slot.CLOSE: 9.0}, {Slot.CLOSE: 200.0}])
@pytest.mark.parametrize("at", [0.0, 0.02, 0.5, 1.01, 3.0, 240.0, 266.0])
def test_a_stop_ends_the_run_in_every_phase(slow: dict[Slot, float], at: float) -> None:
    """The agent is cut off at once; what it said is shown, once, with who stopped it."""
    events: Events = [(n * 1.0, text(f"Line {n}.\n")) for n in range(300)]
    run = Run(turn_seconds=lambda slot: slow.get(slot, 0.0)).play(
        [*events, (at, StopRequested(by="U1")), (301, Finished())]
    )
    assert run.hung_up_at == 1000 + at
    assert [closing.note for closing in run.closings] == ["🛑 Stopped by <@U1>."]
    said = "".join(event.text for when, event in events if isinstance(event, TextDelta) and when <= at)
    assert "".join("".join(run.shown).split()) == "".join(said.split())


@pytest.mark.req("STREAM-09")
def test_who_stopped_it_is_said_even_if_slack_tells_it_first() -> None:
    """The refusal does not name the person; the event that follows does."""
    run = Run(fault=lambda call, number: "stop" if number == 2 else None, turn_seconds=lambda slot: 0.3)
    run.play([(0, text("One. ")), (1, text("Two. ")), (1.5, StopRequested(by="U1")), (9, Finished())])
    assert [closing.note for closing in run.closings] == ["🛑 Stopped by <@U1>."]
    assert run.shown == ["One. "]


@pytest.mark.req("STREAM-05")
def test_a_refused_append_is_sent_again_with_what_came_meanwhile() -> None:
    """Not sooner than Slack said."""
    run = Run(fault=lambda call, number: no_answer(seconds=5.0) if number == 2 else None)
    run.play([(0, text("One. ")), (1, text("Two. ")), (3, text("Three. ")), (9, Finished())])
    assert [round(at - 1000, 1) for at, _ in run.calls[1:3]] == [1.0, 6.0]
    assert run.shown == ["One. Two. Three. "]


@pytest.mark.req("STREAM-12")
def test_what_stands_below_an_answer_stands_there_also_if_its_last_message_was_ended_before_the_run() -> None:
    """An old stream is closed while a tool runs, and then nothing more is said."""
    events: list[tuple[float, AgentEvent]] = [(0, TextDelta(text="All of it.")), (280, Finished())]
    run = Run().play(events)
    assert [message.text for message in run.messages] == ["All of it."]
    assert run.messages[0].closing.feedback
    assert run.over is not None
    assert not run.over.closing.feedback
