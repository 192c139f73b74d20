"""When and which text of an agent people see, and how it goes over several messages."""

from __future__ import annotations

from itertools import pairwise

import pytest

from swarm.domain.answers.calls import AppendStream, OpenStream, PostPage, Slot, UpdatePage
from swarm.domain.answers.events import (
    AgentEvent,
    Failed,
    Finished,
    PlanShown,
    SourceChanged,
    StepNamed,
    TextDelta,
    TextEnded,
    ToolEnded,
    Warned,
)
from swarm.domain.answers.reducer import StopRequested
from swarm.domain.answers.state import PageMode
from swarm.domain.text.slack_text import safe
from tests.support.every import every
from tests.support.slack_model import Run

pytestmark = pytest.mark.req("STREAM-03")

Events = list[tuple[float, AgentEvent | StopRequested]]


def text(words: str, message_id: str = "m") -> TextDelta:
    """A piece of an answer."""
    return TextDelta(text=words, message_id=message_id)


@pytest.mark.req("STREAM-04", "STREAM-05")
@every("first", ["Hello", "Hello ", "chunk-1,", "日本", "Let me look\n", "x" * 5_000])
def test_the_first_piece_is_shown_at_once(first: str) -> None:
    """Also an unfinished word, when the agent then thinks for a while."""
    run = Run().play([(0, text(first)), (20, text(" and the rest.")), (21, Finished())])
    at, call = run.calls[0]
    assert isinstance(call, OpenStream)
    assert at == 1000.0
    assert run.messages[0].text == first + " and the rest."


@pytest.mark.req("STREAM-05")
def test_an_unfinished_word_does_not_wait_for_the_next_one() -> None:
    """The timer shows it, not the next piece."""
    run = Run().play([(0, text("One two")), (5, text(" three fo")), (50, text("ur.")), (51, Finished())])
    grown = [at for at, call in run.calls if isinstance(call, AppendStream)]
    assert [at for at in grown if at < 1050] == pytest.approx([1000.85, 1005, 1005.85], abs=0.06)


@pytest.mark.req("STREAM-05")
@every("held", ["<!chan", "`code", "https://exam", "@chan", "[FINAL AN", "see <https://a.b|l"])
def test_what_may_still_change_its_meaning_waits(held: str) -> None:
    """However long the agent pauses."""
    run = Run().play([(0, text("Look " + held)), (50, text("x")), (51, Finished())])
    shown = "".join(chunk.text for _, call in run.calls[:1] for chunk in call.chunks)  # type: ignore[union-attr]
    assert shown in ("Look ", "Look see ")
    assert run.shown == [safe(f"Look {held}x")]


@pytest.mark.req("STREAM-04", "STREAM-05")
@pytest.mark.parametrize("piece", ["word ", "a line of it\n", "solid", "字", "- item `x` and <b>\n"])
def test_a_run_of_ten_seconds_is_appended_to_all_the_time(piece: str) -> None:
    """At least five times before it ends, and no two seconds without any."""
    run = Run().play([*((n * 0.05, text(piece)) for n in range(200)), (10, Finished())])
    grown = [at for at, call in run.calls if isinstance(call, OpenStream | AppendStream) and at < 1010]
    assert len(grown) >= 6
    assert all(later - at < 1.2 for at, later in pairwise(grown))


@pytest.mark.req("STREAM-05")
def test_lines_and_the_ends_of_messages_do_not_wait_for_the_interval() -> None:
    """A part of a line waits for 0.8 s, a whole one for 0.3 s."""
    run = Run(call_seconds=0.0).play(
        [
            (0, text("a ")),
            (1, text("b ")),
            (1.1, text("c ")),
            (3.0, text("d ")),
            (3.1, text("e\n")),
            (5.0, text("f ")),
            (5.1, text("g")),
            (5.15, TextEnded(message_id="m")),
            (9, Finished()),
        ]
    )
    grown = [round(at - 1000, 2) for at, call in run.calls if isinstance(call, AppendStream)]
    assert grown == [1.0, 1.8, 3.0, 3.3, 5.0, 5.3]


@pytest.mark.req("STREAM-05")
def test_fewer_turns_make_larger_appends() -> None:
    """The longer Slack's limits make it wait, the more one call carries; nothing is lost."""
    events: Events = [*((n * 0.1, text(f"Piece {n}. ")) for n in range(100)), (10, Finished())]
    fast, slow = Run(), Run(turn_seconds=lambda slot: 3.0 if slot is Slot.APPEND else 0.0)
    assert fast.play(events).shown == slow.play(events).shown
    assert len(slow.calls) * 2 < len(fast.calls)


@pytest.mark.req("STREAM-08")
def test_a_post_is_updated_more_rarely_and_stays_within_a_message() -> None:
    """Every 1.5 s, or every second at the ends of lines; never more than Slack takes in one message."""
    run = Run(mode=PageMode.POST).play(
        [*((n * 0.1, text("A word of it. " * 10)) for n in range(100)), (10, Finished())]
    )
    assert isinstance(run.calls[0][1], PostPage)
    grown = [at for at, call in run.calls if isinstance(call, UpdatePage) and at < 1010]
    assert all(later - at >= 0.05 for at, later in pairwise(grown))
    assert all(len(message.text.encode()) <= 3_800 for message in run.messages)
    assert len(run.messages) == 4


def test_the_text_of_sub_agents_is_kept_out() -> None:
    """Also in the middle of a line, and whatever ends there."""
    run = Run().play(
        [
            (0, text("One ")),
            (1, SourceChanged(sub_agent="finder")),
            (1, text("hidden", "h")),
            (1, TextEnded(message_id="h")),
            (2, SourceChanged(sub_agent=None)),
            (2, text("two.")),
            (3, Warned(message="hidden as well")),
            (4, Finished()),
        ]
    )
    assert run.shown == ["One two."]


def test_an_agent_that_only_lets_others_talk_has_not_answered() -> None:
    """Nothing claims success."""
    run = Run().play([(0, SourceChanged(sub_agent="finder")), (1, text("hidden")), (2, Finished())])
    assert run.shown == []
    assert "without an answer" in run.closings[0].note


@pytest.mark.req("CHAN-02")
def test_markers_are_never_shown() -> None:
    """In whatever pieces they come."""
    whole = "[FINAL ANSWER]\nYes. [CONFIDENCE: high] [DEFER]Done [LOW_CONFIDENCE]."
    run = Run().play([*((n * 0.3, text(letter)) for n, letter in enumerate(whole)), (99, Finished())])
    seen = [chunk.text for _, call in run.calls for chunk in getattr(call, "chunks", ()) if hasattr(chunk, "text")]
    assert not [piece for piece in seen if "[" in piece or "FINAL" in piece]
    assert run.shown == ["Yes.  Done ."]


@every(
    ("events", "shown"),
    [
        ([ToolEnded(id="t"), TextEnded(message_id="z"), text("A.")], "A."),
        ([text("A."), TextEnded(message_id="m"), TextEnded(message_id="m"), text(" B.")], "A.\n\n B."),
        ([text(""), text(""), text("A."), text("")], "A."),
        ([text("A.", "1"), text("B.", "2"), text("C.", "1")], "A.\n\nB.\n\nC."),
        ([text("A.\n", "1"), text("B.\n\n", "2"), text("C.", "3")], "A.\n\nB.\n\nC."),
        ([SourceChanged(sub_agent=None), StepNamed(name=""), PlanShown(steps=()), text("A.")], "A."),
    ],
)
def test_events_in_a_strange_order_are_taken_as_they_come(events: list[AgentEvent], shown: str) -> None:
    """A blank line stands between two text messages, and nothing is lost."""
    run = Run().play([*((float(n), event) for n, event in enumerate(events)), (99.0, Finished())])
    assert run.shown == [shown]


def test_nothing_counts_after_the_end() -> None:
    """Neither text nor a second end."""
    run = Run(turn_seconds=lambda slot: 0.5)
    run.play([(0, text("A.")), (1, Finished()), (1, text("B.")), (1, Failed(message="x")), (1, StopRequested(by="U1"))])
    assert run.shown == ["A."]
    assert run.closings[0].feedback


@pytest.mark.parametrize("mode", list(PageMode))
def test_an_endless_answer_is_cut_off(mode: PageMode) -> None:
    """A megabyte at once: 200,000 characters are shown, the agent is cut off, and people are told."""
    run = Run(mode=mode).play([(0, text("word " * 200_000)), (1, Finished())])
    assert len("".join("".join(run.shown).split())) == 160_000
    assert run.hung_up_at == 1000.0
    assert "cut off" in run.closings[0].note
    assert run.closings[0].retry


TABLE = "| a | b |\n|---|---|\n" + "".join(f"| {n} | value {n} |\n" for n in range(1500)) + "\n"
LIST = "".join(f"- item {n}\n  - below {n}\n" for n in range(900)) + "\n"
NESTED = "````md\n```py\nx = 1\n```\n" + "line\n" * 4_000 + "````\nDone.\n"


@pytest.mark.req("STREAM-06", "STREAM-04")
@pytest.mark.parametrize(
    "whole",
    [
        TABLE,
        LIST,
        NESTED,
        "x" * 30_000,
        "日本語の文章です。" * 2_500,
        "👩‍👩‍👧" * 1_500,
        "&<>" * 5_000,
        "`" * 3_000 + " a" * 9_000,
    ],
    ids=["table", "list", "nested fences", "one word", "CJK", "emoji", "escapes", "backticks"],
)
@pytest.mark.parametrize("mode", list(PageMode))
def test_long_texts_of_every_kind_go_over_several_messages(whole: str, mode: PageMode) -> None:
    """Each within Slack's limits (the model refuses more), and nothing is lost between them."""
    pieces = [whole[at : at + 700] for at in range(0, len(whole), 700)]
    run = Run(mode=mode).play([*((n * 0.1, text(piece)) for n, piece in enumerate(pieces)), (60, Finished())])
    assert len(run.messages) >= 2
    shown = "".join(message.text for message in run.messages)
    if whole is TABLE:  # each message has its header
        head = TABLE[: TABLE.index("| 0 ")]
        assert all(message.text.startswith(head) for message in run.messages)
        shown = head + shown.replace(head, "")
    if whole is NESTED:
        assert all(message.text.count("````") == 2 for message in run.messages)
        shown = "".join(line for line in shown.splitlines(keepends=True) if not line.startswith("````"))
        assert shown.split() == [word for word in whole.split() if not word.startswith("````")]
    else:
        assert "".join(shown.split()) == "".join(safe(whole).split())
    if whole in (TABLE, LIST):
        assert all(message.text.startswith(("|", "- ", "  - ")) for message in run.messages)
    assert not any(isinstance(call, UpdatePage) for _, call in run.calls if mode is PageMode.STREAM)


@pytest.mark.req("STREAM-06")
def test_a_code_block_that_ends_where_a_message_ends_is_not_opened_again() -> None:
    """No empty block stands at the top of the next message."""
    run = Run().play([(0, text("```py\nx = 1\n")), (290, text("```\nDone.")), (291, Finished())])
    assert [message.text for message in run.messages] == ["```py\nx = 1\n```", "\nDone."]


@pytest.mark.req("STREAM-06")
def test_a_long_opening_of_a_code_block_is_not_repeated() -> None:
    """It could fill the next message alone."""
    run = Run().play([(0, text("```" + "x" * 5_000 + "\na = 1\n")), (290, text("b = 2\n")), (291, Finished())])
    assert "xxx" not in run.messages[1].text


@pytest.mark.req("STREAM-06")
def test_an_old_message_ends_at_the_next_paragraph() -> None:
    """Rather than in the middle of a sentence half a minute later."""
    events: Events = [(n * 1.0, text("Half a sentence and " if n % 5 else "its end.\n\n")) for n in range(300)]
    run = Run().play([*events, (301, Finished())])
    assert len(run.messages) == 2
    assert run.messages[0].text.rstrip().endswith("its end.")
    assert 230 <= (run.messages[0].ended_at or 0) - 1000 < 245


@pytest.mark.req("STREAM-05")
def test_every_call_of_a_stream_says_what_its_message_already_shows() -> None:
    """Whether an address stands in code depends on it."""
    run = Run().play([(0, text("```\na\n")), (5, text("b\n")), (9, text("c\n```\nd")), (9.1, Finished())])
    assert [call.before for _, call in run.calls if isinstance(call, AppendStream)] == ["```\na\n", "```\na\nb\n"]
