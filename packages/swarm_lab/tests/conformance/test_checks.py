"""What each check makes of a record: also of what no agent can bring about as long as the pipeline is right."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from swarm.domain.answers.events import (
    Answered,
    Asked,
    Finished,
    NeedsInput,
    RunFailed,
    RunStopped,
    SourceChanged,
    TextDelta,
    ToolStarted,
)
from swarm_lab.conformance.checks import Limits, Seen, judge, said_twice, words
from swarm_lab.conformance.record import APPENDS, CLOSES, OPENS, POSTS, UPDATES, Call, Heard, Message, Record
from swarm_lab.conformance.scenarios import SCENARIOS, Check

pytestmark = [pytest.mark.req("CONF-01"), pytest.mark.req("CONF-02")]

RAG = SCENARIOS[2]
CHAT = SCENARIOS[0]
TEXT = " ".join(f"Fact {number} is not like fact {number * 7 % 1_000}." for number in range(20))


def call(at: float, method: str, **more: Any) -> Call:
    return Call(**{"at": at, "method": method, "ok": True, "has_text": True, **more})


def message(text: str = TEXT, **more: Any) -> Message:
    values = {"text": text, "markdown": text, "is_open": False, "cards": 1, "has_footer": True}
    return Message(**{**values, **more})


def piece(at: float, text: str = "words ") -> Heard:
    return Heard(at=at, event=TextDelta(text=text, message_id="1"))


GROWN = (
    call(100.5, OPENS),
    call(101.5, APPENDS),
    call(102.5, APPENDS),
    call(103.2, CLOSES, has_footer=True),
)


def saying(text: str) -> tuple[Heard, ...]:
    """A run with a tool, and a text in four pieces."""
    quarter = len(text) // 4 + 1
    pieces = [text[at : at + quarter] for at in range(0, 4 * quarter, quarter)]
    return (
        Heard(at=100.1, event=ToolStarted(id="1", name="search")),
        *(piece(at, part) for at, part in zip((100.4, 101.4, 102.4, 102.9), pieces, strict=True)),
        Heard(at=103.0, event=Finished()),
    )


HEARD = saying(TEXT)


def record(**more: Any) -> Record:
    """A good answer, from 100 s to 103 s, but for what is said here."""
    messages = more.pop("messages", (message(),))
    values: dict[str, Any] = {
        "asked_at": 100.0,
        "heard": saying("\n".join(message.markdown for message in messages)),
        "calls": GROWN,
        "messages": messages,
        "messages_later": messages,
        "outcome": Answered(),
    }
    return Record(**{**values, **more})


def found(check: Check, of: Record, limits: Limits | None = None) -> Seen:
    scenario = CHAT if check is Check.NO_TOOLS else RAG
    return next(verdict.found for verdict in judge(scenario, of, limits) if verdict.check is check)


def test_a_good_answer_passes_everything() -> None:
    assert [verdict.check for verdict in judge(RAG, record()) if not verdict.passed] == []


def test_every_check_says_what_it_expected_what_it_saw_and_what_to_do() -> None:
    for scenario in SCENARIOS:
        for verdict in judge(scenario, record()):
            assert all((verdict.found.expected, verdict.found.seen, verdict.found.hint)), verdict


# Content


def test_content_has_to_be_longer_than_the_scenario_says() -> None:
    assert not found(Check.CONTENT, record(messages=(message("x" * 200),))).passed
    assert found(Check.CONTENT, record(messages=(message("x" * 201),))).passed
    assert not found(Check.CONTENT, record(messages=(message(" " * 300),))).passed


def test_a_note_about_a_failure_is_no_content() -> None:
    note = message("⚠️ There is no answer: " + "it broke " * 50)
    seen = found(Check.CONTENT, record(messages=(note,), heard=(), outcome=RunFailed(reason="it broke")))
    assert not seen.passed


# Stream and live


def test_a_stream_has_to_be_opened_while_the_agent_is_at_work_and_soon() -> None:
    assert not found(Check.STREAM, record(calls=())).passed
    assert not found(Check.STREAM, record(calls=(call(100.5, POSTS),))).passed
    assert not found(Check.STREAM, record(calls=(call(100.5, OPENS, ok=False),))).passed
    assert not found(Check.STREAM, record(calls=(call(103.1, OPENS),))).passed
    assert found(Check.STREAM, record(), Limits(first_sign_seconds=0.5)).passed
    assert not found(Check.STREAM, record(), Limits(first_sign_seconds=0.4)).passed


def test_many_calls_after_the_agents_last_piece_are_not_live() -> None:
    late = tuple(replace(one, at=one.at + 2.45) for one in GROWN)
    assert not found(Check.LIVE, record(calls=late)).passed


def test_calls_that_show_only_cards_or_are_refused_are_not_live() -> None:
    cards = tuple(replace(one, has_text=False) for one in GROWN[:-1])
    assert not found(Check.LIVE, record(calls=(*cards, GROWN[-1]))).passed
    refused = tuple(replace(one, ok=False) for one in GROWN[:-1])
    assert not found(Check.LIVE, record(calls=(*refused, GROWN[-1]))).passed


def test_an_answer_that_takes_ten_seconds_has_to_be_seen_growing_five_times() -> None:
    heard = (*(piece(100.0 + step) for step in range(11)), Heard(at=110.5, event=Finished()))
    grown = [call(100.1 + step, APPENDS) for step in range(5)]
    assert found(Check.LIVE, record(heard=heard, calls=tuple(grown))).passed
    assert not found(Check.LIVE, record(heard=heard, calls=tuple(grown[:4]))).passed
    after_the_end = (*grown[:4], call(110.6, CLOSES))
    assert not found(Check.LIVE, record(heard=heard, calls=after_the_end)).passed


def test_what_a_sub_agent_says_does_not_count_as_the_agents_own() -> None:
    heard = (
        piece(100.0),
        Heard(at=100.1, event=SourceChanged(sub_agent="other")),
        piece(109.0),
        Heard(at=109.1, event=SourceChanged(sub_agent=None)),
        Heard(at=110.0, event=Finished()),
    )
    assert not found(Check.LIVE, record(heard=heard, calls=GROWN)).passed


def test_an_answer_without_any_piece_is_not_live() -> None:
    result = Heard(at=103.0, event=Finished(result=TEXT))
    assert not found(Check.LIVE, record(heard=(HEARD[0], result))).passed


def test_several_chunks_are_calls_with_text() -> None:
    assert found(Check.CHUNKS, record(calls=GROWN[:3])).passed
    assert not found(Check.CHUNKS, record(calls=GROWN[:2])).passed
    assert not found(Check.CHUNKS, record(calls=(*GROWN[:2], call(103.2, CLOSES, has_text=False)))).passed


# Duplicates


def test_what_is_shown_twice_is_found_within_one_message_and_over_several() -> None:
    assert not found(Check.ONCE, record(messages=(message(f"{TEXT}\n\n{TEXT}"),))).passed
    assert not found(Check.ONCE, record(messages=(message(), message()))).passed
    changed = TEXT.replace(" is ", "\n**is** ").upper()
    assert not found(Check.ONCE, record(messages=(message(), message(changed)))).passed


@pytest.mark.parametrize(
    "text",
    [
        "",
        "No.",
        "Knock, knock. Who's there? Boo. Boo who? Do not cry, it is only a joke.",
        TEXT,
        "| name | value |\n|------|-------|\n" + "\n".join(f"| row {n} | {n} |" for n in range(300)),
        "-" * 1_000,
        f"It is {'very ' * 25}big, and that is all there is to be said of it; nothing else comes to mind.",
        "First `pip install agntcy`, then `pip install caipe`. " + TEXT + " Again: `pip install agntcy`.",
    ],
    ids=range(8),
)
def test_a_text_that_repeats_only_a_few_words_is_no_duplicate(text: str) -> None:
    assert said_twice(text) == ""


def test_a_short_text_said_twice_is_a_duplicate() -> None:
    assert said_twice("It is sunny today.\n\nIt is sunny today.")
    assert said_twice("Yes. Yes.")


def test_a_long_text_is_searched_in_no_time() -> None:
    text = " ".join(f"word{number}" for number in range(20_000))
    assert said_twice(text) == ""
    assert said_twice(f"{text} {text}")


def test_words_are_the_same_whatever_markdown_and_slack_do_to_them() -> None:
    assert words("A &lt;b&gt; **c**\n```python\nd\n```\n") == words("a <b> c d") == "a b c d"


# Latched


@pytest.mark.parametrize(
    "outcome",
    [RunFailed(reason="it hung up"), RunStopped(by=None), NeedsInput(asked=(Asked(id="1", prompt="Which?"),))],
)
def test_a_run_that_did_not_finish_is_not_latched(outcome: RunFailed | RunStopped | NeedsInput) -> None:
    assert not found(Check.LATCHED, record(outcome=outcome)).passed


def test_messages_that_are_open_or_without_a_footer_are_not_final() -> None:
    assert found(Check.LATCHED, record(messages=(message(has_footer=False), message("end")))).passed
    assert not found(Check.LATCHED, record(messages=(message(is_open=True),))).passed
    assert not found(Check.LATCHED, record(messages=(message(), message("end", has_footer=False)))).passed
    assert not found(Check.LATCHED, record(messages=())).passed


def test_an_answer_that_changes_after_its_footer_is_not_final() -> None:
    assert not found(Check.LATCHED, record(messages_later=(message(f"{TEXT} and more"),))).passed
    assert not found(Check.LATCHED, record(messages_later=(message(), message()))).passed
    assert not found(Check.LATCHED, record(calls=(*GROWN, call(104.0, UPDATES)))).passed
    assert found(Check.LATCHED, record(calls=(*GROWN, call(104.0, UPDATES, ok=False)))).passed


def test_what_the_agent_said_has_to_be_shown_and_nothing_else() -> None:
    assert not found(Check.LATCHED, record(heard=saying(f"{TEXT} And this."))).passed
    assert not found(Check.LATCHED, record(heard=saying("Fact 0."))).passed
    doubled = message(TEXT.replace("Fact 3", "Fact 3 Fact 3"))
    assert not found(Check.LATCHED, record(messages=(doubled,), heard=HEARD)).passed


def test_markers_and_the_words_of_sub_agents_are_not_to_be_shown() -> None:
    marked = (piece(100.3, "[FINAL "), piece(100.35, "ANSWER] "), *HEARD[1:])
    assert found(Check.LATCHED, record(heard=marked)).passed
    hidden = (
        Heard(at=100.1, event=SourceChanged(sub_agent="other")),
        piece(100.2, "not to be seen"),
        Heard(at=100.3, event=SourceChanged(sub_agent=None)),
        *HEARD[1:],
    )
    assert found(Check.LATCHED, record(heard=hidden)).passed
    assert not found(Check.LATCHED, record(heard=hidden, messages=(message(f"not to be seen {TEXT}"),))).passed


def test_a_final_result_has_to_be_shown() -> None:
    ended = (*HEARD[:-1], Heard(at=103.0, event=Finished(result=TEXT[:50])))
    assert found(Check.LATCHED, record(heard=ended)).passed
    missing = (*HEARD[:-1], Heard(at=103.0, event=Finished(result="Something else.")))
    assert not found(Check.LATCHED, record(heard=missing)).passed


# Tools


def test_tools_count_when_the_agent_used_them_and_people_saw_it() -> None:
    assert found(Check.TOOLS, record()).passed
    assert not found(Check.TOOLS, record(messages=(message(cards=0),))).passed
    assert not found(Check.TOOLS, record(heard=HEARD[1:])).passed
    assert not found(Check.NO_TOOLS, record()).passed
    assert found(Check.NO_TOOLS, record(heard=HEARD[1:])).passed
