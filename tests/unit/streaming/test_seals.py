"""A message that is posted in the middle of an answer, such as a question's card, seals the text above it."""

from __future__ import annotations

import pytest

from swarm.domain.answers.calls import ANSWERED_BELOW, NOTHING_BELOW, Slot
from swarm.domain.answers.events import AgentEvent, Finished, StepStatus, TextDelta, ToolEnded, ToolStarted
from swarm.domain.answers.reducer import BreakPassed, SealRequested
from swarm.domain.answers.state import PageMode
from tests.support.every import every
from tests.support.slack_model import Request, Run

pytestmark = pytest.mark.req("HITL-12")

SEAL, PASS = SealRequested(), BreakPassed()
Timed = list[tuple[float, AgentEvent | Request]]


def text(words: str) -> TextDelta:
    return TextDelta(text=words, message_id="m")


@every("mode", list(PageMode))
@every("slow", [{}, {Slot.OPEN: 3.0}, {Slot.CLOSE: 3.0}, {Slot.APPEND: 3.0}, {Slot.UPDATE: 3.0}])
def test_what_comes_after_the_seal_begins_below_and_the_end_is_told_once(
    mode: PageMode, slow: dict[Slot, float]
) -> None:
    run = Run(mode=mode, turn_seconds=lambda slot: slow.get(slot, 0.0)).play(
        [
            (0.0, text("Before, and `held")),
            (0.1, SEAL),
            (8.0, text("\n\nAt once.")),
            (9.0, PASS),
            (10.0, text(" Later.")),
            (11.0, Finished()),
        ]
    )
    assert [message.text for message in run.messages] == ["Before, and `held", "At once. Later."]
    assert [message.closing for message in run.messages] == [NOTHING_BELOW, ANSWERED_BELOW]
    assert run.messages[1].begun_at >= 1009.0


def test_it_is_sealed_before_the_pause_and_grows_no_more() -> None:
    run = Run().play([(0.0, text("One.\n")), (0.3, text("Two.")), (0.31, SEAL), (9.0, PASS), (9.5, Finished())])
    assert run.messages[0].text == "One.\nTwo."
    assert run.messages[0].ended_at is not None
    assert run.messages[0].ended_at < 1000.6


@every("before", [[], [(0.0, text("Some words."))]])
def test_several_in_a_row_leave_no_empty_message_between(before: Timed) -> None:
    between: Timed = [(1.0, SEAL), (2.0, PASS), (2.1, text("\n")), (3.0, SEAL), (4.0, PASS)]
    run = Run().play([*before, *between, (5.0, text("The end.")), (6.0, Finished())])
    assert [message.text for message in run.messages] == [*(["Some words."] if before else []), "The end."]
    assert run.closings == [ANSWERED_BELOW]


@every("passes_at", [2.0, 5.0])
def test_an_end_without_more_text_is_told_below_the_last_message(passes_at: float) -> None:
    run = Run().play([(0.0, text("Some words.")), (1.0, SEAL), (passes_at, PASS), (3.0, Finished())])
    assert [(message.text, message.closing) for message in run.messages] == [("Some words.", ANSWERED_BELOW)]


def test_a_tool_that_waits_for_people_waits_above_and_goes_on_below() -> None:
    tool: Timed = [(0.0, ToolStarted(id="a", name="look")), (0.5, ToolEnded(id="a"))]
    asks: Timed = [(1.0, ToolStarted(id="b", name="buy")), (1.5, SEAL), (2.0, PASS), (2.1, SEAL), (2.5, PASS)]
    run = Run().play([*tool, *asks, (5.0, ToolEnded(id="b")), (6.0, text("Bought.")), (7.0, Finished())])
    above, below = ({card.title: card.status for card in message.cards.values()} for message in run.messages)
    assert above == {"look": StepStatus.COMPLETE, "buy": StepStatus.PENDING}
    assert below == {"buy": StepStatus.COMPLETE}


def test_a_code_block_is_closed_above_and_opened_again_below() -> None:
    run = Run().play(
        [(0.0, text("```sh\nls\n")), (1.0, SEAL), (2.0, PASS), (3.0, text("cd\n```\nDone.")), (4.0, Finished())]
    )
    assert [message.text for message in run.messages] == ["```sh\nls\n```", "```sh\ncd\n```\nDone."]


@every(
    ("after", "below"),
    [("|3|4|\nDone.", "|a|b|\n|-|-|\n|3|4|\nDone."), ("\nDone | so.", "Done | so."), ("Done.", "Done.")],
)
def test_a_table_goes_on_below_under_its_header(after: str, below: str) -> None:
    table = "|a|b|\n|-|-|\n|1|2|\n"
    run = Run().play([(0.0, text(table)), (1.0, SEAL), (2.0, PASS), (3.0, text(after)), (4.0, Finished())])
    assert [message.text for message in run.messages] == [table, below]


@every("fault", ["applied", "expire"])
@every("number", [1, 2, 3, 4])
@every("mode", list(PageMode))
def test_nothing_is_lost_or_doubled_by_a_fault(fault: str, number: int, mode: PageMode) -> None:
    run = Run(mode=mode, fault=lambda call, count: fault if count == number else None).play(
        [(0.0, text("Before.")), (1.0, SEAL), (9.0, PASS), (10.0, text("After.")), (11.0, Finished())]
    )
    assert "".join(run.shown) == "Before.After."
    assert len(run.closings) == 1


def test_an_answer_whose_card_is_never_posted_is_handed_over() -> None:
    run = Run().play([(0.0, text("Before.")), (1.0, SEAL), (2.0, text("After.")), (3.0, Finished())])
    assert run.over is not None
    assert ([message.text for message in run.messages], run.over.leftover) == (["Before."], "After.")
