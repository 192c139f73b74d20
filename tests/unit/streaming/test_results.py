"""A final result that was streamed already is not shown again; what was not, is (INV-3)."""

from __future__ import annotations

import pytest

from swarm.domain.answers.events import AgentEvent, Finished, SourceChanged, TextDelta, TextEnded
from tests.support.every import every
from tests.support.slack_model import Run

pytestmark = pytest.mark.req("STREAM-04")

SAID = "Let me look it up.\n\nIs it 42 or is it not? It is 42, and that is certain.\nYesterday it was 41."


@every(
    ("said", "result", "shown"),
    [
        ([SAID], SAID, SAID),
        ([SAID], "  " + SAID.replace(" ", "\n") + "\n", SAID),
        ([SAID], None, SAID),
        ([SAID], "  \n", SAID),
        ([SAID], "[FINAL ANSWER] " + SAID, SAID),
        ([SAID], "It is 42, and that is certain.\nYesterday it was 41.", SAID),
        ([SAID], "or is it not? It is 42, and that is certain.", SAID),
        ([SAID], SAID + " And more.", SAID + " And more."),
        ([SAID], "41.", SAID),
        ([SAID], "Yes", SAID + "\n\nYes"),
        ([SAID], "42", SAID + "\n\n42"),
        (
            [SAID],
            "Something else that nobody has said so far.",
            SAID + "\n\nSomething else that nobody has said so far.",
        ),
        (["Look: ", "The answer is 42."], "The answer is 42.", "Look: \n\nThe answer is 42."),
        (["Look: ", "The answer"], "The answer is 42.", "Look: \n\nThe answer is 42."),
        (["Look: ", "Yes."], "Look: Yes.", "Look: \n\nYes."),
        ([], "The answer is 42.", "The answer is 42."),
        ([], "[FINAL ANSWER]\nThe answer is 42.", "The answer is 42."),
        (["日本語の文章です。"], "日本語の文章です。", "日本語の文章です。"),
        (["Yes"], "Yesterday it was 41.", "Yesterday it was 41."),
    ],
)
def test_the_text_and_the_result_are_one_answer(said: list[str], result: str | None, shown: str) -> None:
    """Whether the agent repeats all of its text, the last message of it, more, less, or something else."""
    events: list[tuple[float, AgentEvent]] = []
    for number, text in enumerate(said):
        events += [(number, TextDelta(text=text, message_id=str(number))), (number, TextEnded(message_id=str(number)))]
    run = Run().play([*events, (9, Finished(result=result))])
    assert "".join(run.shown) == shown
    assert run.closings[0].feedback


def test_a_result_after_a_sub_agent_is_the_agents_own() -> None:
    """What the sub-agent said was kept out; the result is not."""
    run = Run().play(
        [
            (0, SourceChanged(sub_agent="other")),
            (1, TextDelta(text="The answer is 42.")),
            (2, Finished(result="The answer is 42.")),
        ]
    )
    assert run.shown == ["The answer is 42."]


def test_a_result_that_is_too_long_is_cut_off_and_says_so() -> None:
    """As streamed text is."""
    run = Run().play([(0, Finished(result="word " * 50_000))])
    assert len("".join("".join(run.shown).split())) == 160_000
    assert "cut off" in run.closings[0].note
    assert run.closings[0].retry
