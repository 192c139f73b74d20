"""How an answer looks: Markdown that grows, tools, plans; harmless to the terminal."""

from __future__ import annotations

import io
from collections.abc import Callable

import pytest
from rich.console import Console

from swarm.domain.answers.agents import RunEnd
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
    SourceChanged,
    StepNamed,
    StepStatus,
    TextDelta,
    TextEnded,
    ToolEnded,
    ToolStarted,
)
from swarm_agents.cli.chat.display import MarkdownText, PlainText, Screen, complaint, split
from swarm_base.characters import for_terminal

pytestmark = pytest.mark.req("AGENT-10")

FENCE = "```python\na = 1\n\nb = 2\n```\n"


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        ("one", ""),
        ("one\ntwo\n", ""),
        ("one\n\n", ""),
        ("one\n\ntwo", "one\n"),
        ("# head\ntext", "# head"),
        ("- a\n\n- b\n", ""),
        ("- a\n\n- b\n\nend", "- a\n\n- b\n"),
        (FENCE[:-4], ""),
        (FENCE, ""),
        (FENCE + "end", FENCE.removesuffix("\n")),
        ("| a | b |\n|---|---|\n| 1 | 2 |\n", ""),
        ("a\u2028b\x0cc\n\nd", "a\u2028b\x0cc\n"),
    ],
)
def test_a_block_is_whole_when_the_next_one_has_begun(text: str, whole: str) -> None:
    done, rest = split(text)
    assert done == whole
    assert (f"{done}\n{rest}" if done else rest) == text


def test_what_would_command_the_terminal_is_left_out() -> None:
    assert for_terminal("a\x1b[31mb\x1b]8;;http://x\x07c\r\x9b2J\u202ed\te\nf") == "a[31mb]8;;http://xc\n2Jd\te\nf"


@pytest.fixture(autouse=True)
def painted_on_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is painted but when a test says so, and at the ends."""
    monkeypatch.setattr("swarm_agents.cli.chat.display._PAINTS_PER_SECOND", 0.001)


def screen(act: Callable[[Screen], None], *, height: int = 30) -> str:
    """All that was printed, and painted over."""
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, color_system=None, width=60, height=height, highlight=False)
    with Screen(console) as shown:
        act(shown)
    return file.getvalue()


def test_an_answer_stands_there_once_and_whole() -> None:
    def act(shown: Screen) -> None:
        for piece in ("## Title\n\nFirst ", "para\n", "\n1. one\n2. two\n", "\nLast"):
            shown.write(piece)
        shown.show(ToolStarted(id="t", name="se\x1b[2Jarch"))
        shown._live.refresh()
        shown.show(ToolEnded(id="t", failed=True))
        shown.show(ToolEnded(id="unknown"))

    seen = screen(act)
    assert seen.count("First para") == 1
    assert "1 one" in seen
    assert "✗ se[2Jarch" in seen
    assert "⚙ se[2Jarch …" in seen


def test_what_is_printed_is_painted_no_more() -> None:
    def act(shown: Screen) -> None:
        shown.write("a growing text")
        shown._live.refresh()
        shown._live.refresh()
        shown.end_text()

    assert screen(act).count("a growing text") == 3  # painted twice, printed once


def test_of_a_block_that_is_taller_than_the_terminal_the_end_is_seen_while_it_grows() -> None:
    lines = [f"line{number}" for number in range(100)]

    def act(shown: Screen) -> None:
        shown.write("```\n" + "\n".join(lines))
        shown._live.refresh()
        shown._live.refresh()
        assert "line99" in shown._console.file.getvalue()  # type: ignore[attr-defined]
        assert "line10 " not in shown._console.file.getvalue()  # type: ignore[attr-defined]

    seen = screen(act, height=15)
    assert all(line in seen for line in lines)


def test_while_it_grows_there_are_plan_step_and_status() -> None:
    def act(shown: Screen) -> None:
        shown.show(PlanShown(steps=(PlanStep(id="1", title="read it", status=StepStatus.COMPLETE),)))
        shown.show(StepNamed(name="reading"))
        shown._live.refresh()
        shown.write("x" * 9_000)
        shown._live.refresh()

    seen = screen(act)
    assert "✓ read it" in seen
    assert "reading … (Ctrl-C stops)" in seen
    assert seen.count("x") >= 9_000


def test_what_cannot_be_laid_out_is_still_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise IndexError("of a library")

    monkeypatch.setattr("swarm_agents.cli.chat.display.Markdown", broken)
    file = io.StringIO()
    Console(file=file, width=60).print(MarkdownText("**the answer**"))
    assert file.getvalue().strip() == "**the answer**"


def plainly(*events: AgentEvent) -> tuple[str, str, RunEnd]:
    out, notes = io.StringIO(), io.StringIO()
    *others, last = events
    with PlainText(out, notes) as plain:
        for event in others:
            plain.show(event)
        assert isinstance(last, RunEnd)
        end = plain.finish(last)
    return out.getvalue(), notes.getvalue(), end


def test_plain_text_is_what_the_agent_itself_writes_message_by_message() -> None:
    said = plainly(
        TextDelta(text="one", message_id="1"),
        ToolStarted(id="t", name="search"),
        ToolEnded(id="t"),
        ToolEnded(id="t"),
        SourceChanged(sub_agent="other"),
        TextDelta(text="not this", message_id="s"),
        TextEnded(message_id="s"),
        SourceChanged(sub_agent=None),
        StepNamed(name="step"),
        TextDelta(text="two\n", message_id="2"),
        TextDelta(text="three", message_id="3"),
        Finished(result="one two three"),
    )
    assert said == ("one\n\ntwo\n\nthree\n", "✓ search\n", Finished(result="one two three"))


def test_an_answer_that_only_comes_at_the_end_is_shown_and_one_that_does_not_come_is_a_failure() -> None:
    assert plainly(Finished(result="all of it"))[0] == "all of it\n"
    assert plainly(Finished(elsewhere=True))[2] == Finished(elsewhere=True)
    assert complaint(plainly(TextDelta(text=" "), Finished())[2], "a") == "The agent finished without an answer."


@pytest.mark.parametrize(
    ("end", "words"),
    [
        (Finished(), ""),
        (Failed(message="Too much."), "Too much."),
        (Failed(message=""), "ada could not answer."),
        (Broken(reason="it is silent"), "ada could not answer: it is silent."),
        (Cancelled(), "The answer was stopped."),
        (Interrupted(asked=(Asked(id="1", prompt="Which one?"),)), "Which one?"),
    ],
)
def test_what_is_in_the_way_of_an_answer_is_told_in_a_sentence(end: RunEnd, words: str) -> None:
    assert complaint(end, "ada") == words
