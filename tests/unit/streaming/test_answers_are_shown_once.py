"""Whatever the agent says in whatever pieces, and whatever Slack answers: the text is in Slack once, and in order."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.domain.answers.calls import CloseStream, OpenStream, PostPage, Slot, StreamCall, UpdatePage
from swarm.domain.answers.events import (
    AgentEvent,
    Broken,
    Cancelled,
    Failed,
    Finished,
    PlanShown,
    PlanStep,
    SourceChanged,
    StepNamed,
    TextDelta,
    TextEnded,
    ToolEnded,
    ToolStarted,
)
from swarm.domain.answers.reducer import StopRequested
from swarm.domain.answers.state import PageMode
from swarm.domain.model.deliveries import Answer, DeliveryRefused, InDoubt
from swarm.domain.text.slack_text import safe
from tests.support.slack_model import Fault, Run, no_answer

pytestmark = [pytest.mark.req("STREAM-04"), pytest.mark.req("STREAM-05"), pytest.mark.req("STREAM-06")]

WORDS = st.sampled_from(
    [
        "word ",
        "another word. ",
        "\n",
        "\n\n",
        "- item\n",
        "| a | b |\n",
        "`code` ",
        "<!channel> ",
        "<@U1> ",
        "a < b & c ",
        "https://example.org/x?a=1&b=2 ",
        "日本語の文章です。",
        "👩‍👩‍👧 ",
        "x" * 300 + " ",
        ("Some longer sentence that fills the page. " * 30) + "\n\n",
        "```python\nprint(1)\n```\n",
    ]
)
TEXTS = st.lists(WORDS, max_size=60).map("".join)


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[tuple[float, AgentEvent]], str]:
    """Events with their times, and the text that is to be seen."""
    events: list[AgentEvent] = []
    messages: list[str] = []
    for number in range(draw(st.integers(0, 4))):
        text = draw(TEXTS)
        cuts = sorted(draw(st.lists(st.integers(0, len(text)), max_size=30)))
        pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
        events += [TextDelta(text=piece, message_id=str(number)) for piece in pieces]
        messages.append(text)
        if draw(st.booleans()):
            events.append(TextEnded(message_id=str(number)))
        events += draw(
            st.sampled_from(
                [
                    [],
                    [ToolStarted(id=f"t{number}", name="search"), ToolEnded(id=f"t{number}")],
                    [StepNamed(name="think")],
                    [
                        SourceChanged(sub_agent="other"),
                        TextDelta(text="not to be seen", message_id="z"),
                        SourceChanged(sub_agent=None),
                    ],
                    [PlanShown(steps=(PlanStep(id="1", title="look"),), title="Plan")],
                ]
            )
        )
    ends: list[AgentEvent] = [Finished(), Broken(reason="it broke"), Failed(message="no"), Cancelled()]
    events.append(draw(st.sampled_from(ends)))
    at, timed = 0.0, []
    for event in events:
        at += draw(st.sampled_from([0.0, 0.001, 0.05, 1.0, 40.0]))
        timed.append((at, event))
    return timed, joined(messages)


def joined(messages: list[str]) -> str:
    """Text messages as one text: a blank line stands between two of them."""
    whole = ""
    for message in filter(None, messages):
        ends = len(whole) - len(whole.rstrip("\n")) if whole else 2
        whole += "\n" * max(0, 2 - ends) + message
    return whole


FAULTS = st.sampled_from(
    [
        no_answer(),
        no_answer("connection refused", 0.0),
        InDoubt(reason="timeout"),
        "applied",
        "expire",
        DeliveryRefused(error="msg_too_long"),
        DeliveryRefused(error="internal nonsense"),
    ]
)


def faulty(plan: dict[int, object]) -> Fault:
    """Faults by number; but nothing in doubt is kept from being looked after: then it would rather be shown twice."""
    is_in_doubt = any(isinstance(wrong, InDoubt) or wrong == "applied" for wrong in plan.values())

    def fault(call: StreamCall, number: int) -> Answer | str | None:
        wrong = plan.get(number)
        is_for_good = isinstance(call, UpdatePage) and isinstance(wrong, DeliveryRefused)
        return None if is_for_good and is_in_doubt else wrong  # type: ignore[return-value]

    return fault


def plain(text: str) -> str:
    """Text without blanks and code fences, which a roll-over may add and drop."""
    return re.sub(r"\s|[`~]+p?y?t?h?o?n?", "", text)


@given(
    played=runs(),
    plan=st.dictionaries(st.integers(1, 12), FAULTS, max_size=4),
    turns=st.sampled_from([0.0, 0.4, 5.0]),
    mode=st.sampled_from([PageMode.STREAM, PageMode.POST]),
)
def test_the_text_in_slack_is_the_text_of_the_agent(
    played: tuple[list[tuple[float, AgentEvent]], str], plan: dict[int, object], turns: float, mode: PageMode
) -> None:
    """In whatever pieces it comes, with whatever faults of Slack: once, whole, in order, and with an end to see."""
    events, said = played
    run = Run(fault=faulty(plan), turn_seconds=lambda slot: turns, mode=mode).play(events, mentionable=["U1"])
    assert plain("\n".join(run.shown)) == plain(safe(said, frozenset({"U1"})))
    assert len(run.closings) == 1


def test_a_close_that_timed_out_and_was_then_refused_is_repeated_and_the_blocks_are_shown() -> None:
    plan: dict[int, object] = {2: InDoubt(reason="timeout"), 3: DeliveryRefused(error="msg_too_long")}
    events: list[tuple[float, AgentEvent]] = [(0.0, TextDelta(text="word ")), (0.0, Finished())]
    run = Run(fault=faulty(plan)).play(events)
    assert (run.shown, len(run.closings)) == (["word "], 1)
    assert not any(message.is_live for message in run.messages)


@given(played=runs(), turns=st.sampled_from([0.0, 0.4]))
def test_without_faults_nothing_is_left_open_or_to_others(
    played: tuple[list[tuple[float, AgentEvent]], str], turns: float
) -> None:
    """Every stream is closed, every message within Slack's limits, and the blocks stand below the last one."""
    events, said = played
    run = Run(turn_seconds=lambda slot: turns).play(events)
    assert not any(message.is_live for message in run.messages)
    assert run.over is not None
    assert not run.over.leftover
    assert len(run.closings) == 1
    if "```" not in said:  # then only blanks between two messages may be lost
        expected, at, seen = safe(said), 0, 0
        for message in run.messages:
            body = message.text.strip()
            at = expected.index(body, at)
            assert not expected[seen:at].strip()
            at = seen = at + len(body)
        assert not expected[at:].strip()


@given(played=runs(), at=st.floats(0, 60), turns=st.sampled_from([0.0, 0.4, 5.0]))
def test_a_stop_ends_it_wherever_it_comes(
    played: tuple[list[tuple[float, AgentEvent]], str], at: float, turns: float
) -> None:
    """The connection to the agent is closed at once, what arrived is shown once, and no stream stays open."""
    events, said = played
    run = Run(turn_seconds=lambda slot: turns).play([*events, (at, StopRequested(by="U1"))])
    if events[-1][0] > at:
        assert run.hung_up_at == 1000.0 + at
        assert [closing.note for closing in run.closings] == ["🛑 Stopped by <@U1>."]
    assert plain(safe(said)).startswith(plain("".join(run.shown)))
    assert not any(message.is_live for message in run.messages)


def test_an_opening_that_may_have_happened_is_looked_up() -> None:
    """Never two messages for one: neither when Slack has it, nor when it has not."""
    for fault in ("applied", InDoubt(reason="cut")):
        run = Run(fault=faulty({1: fault})).play([(0, TextDelta(text="Hello there.")), (1, Finished())])
        assert [message.text for message in run.messages] == ["Hello there."]


def test_where_there_are_no_streams_the_answer_is_posted_and_updated() -> None:
    """The first refusal is enough to know."""
    events: list[tuple[float, AgentEvent]] = [(n, TextDelta(text=f"Line {n}.\n")) for n in range(6)]
    run = Run(has_streams=False).play([*events, (6, Finished())])
    assert [message.mode for message in run.messages] == [PageMode.POST]
    assert run.messages[0].text == "".join(f"Line {n}.\n" for n in range(6))
    assert sum(isinstance(call, OpenStream) for _, call in run.calls) == 1
    assert isinstance(run.calls[1][1], PostPage)
    assert len(run.calls) > 4


def test_an_answer_that_cannot_be_opened_in_time_is_left_to_posts() -> None:
    """Under load a whole answer does not wait a minute for a stream that would be closed at once."""
    slow = {Slot.OPEN: 60.0}
    events: list[tuple[float, AgentEvent]] = [(0, TextDelta(text="All of it.")), (0.5, Finished())]
    run = Run(turn_seconds=lambda slot: slow.get(slot, 0.0)).play(events)
    assert run.over is not None
    assert run.over.leftover == "All of it."
    assert run.over.closing.feedback
    assert not run.messages
    assert run.now < 1004


def test_a_long_answer_rolls_over_between_paragraphs() -> None:
    """Each message is closed before Slack's limit, at the end of a paragraph."""
    paragraph = ("A sentence of some length that goes on. " * 10).strip() + "\n\n"
    events: list[tuple[float, AgentEvent]] = [(n * 0.1, TextDelta(text=paragraph)) for n in range(60)]
    run = Run().play([*events, (7, Finished())])
    assert len(run.messages) == 4
    assert all(message.text.rstrip().endswith("goes on.") for message in run.messages[:-1])
    assert all(isinstance(call, CloseStream) for _, call in run.calls[-1:])


def test_a_long_code_block_is_closed_and_opened_again() -> None:
    """Every message is a whole piece of Markdown."""
    lines = "".join(f"line_{n} = {n}\n" for n in range(1500))
    run = Run().play([(0, TextDelta(text=f"```python\n{lines}```\nDone.")), (1, Finished())])
    assert len(run.messages) > 2
    for message in run.messages:
        assert message.text.startswith("```python\n")
        assert message.text.count("```") == 2
    shown = "".join(message.text for message in run.messages)
    assert re.sub(r"```python\n|\n```|\n", "", shown) == re.sub(r"\n", "", lines) + "Done."


def test_a_stream_is_renewed_before_slack_ends_it() -> None:
    """An agent that talks for twenty minutes never meets an expired stream."""
    events: list[tuple[float, AgentEvent]] = [(n * 10, TextDelta(text=f"Minute {n / 6:.1f}.\n\n")) for n in range(120)]
    run = Run().play([*events, (1200, Finished())])
    assert len(run.messages) >= 5
    assert all(message.ended_at is not None for message in run.messages)
    assert all((message.ended_at or 0) - message.begun_at < 300 for message in run.messages)
