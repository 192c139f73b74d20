"""How a run ends."""

from __future__ import annotations

import json
from typing import Any

import pytest

from swarm.agents.remote.translation.translator import Translator
from swarm.domain.answers.events import (
    Broken,
    Cancelled,
    Failed,
    Finished,
)
from tests.agents.wire_events import FINISHED, RUN, Fields, content, tool, translated

pytestmark = pytest.mark.req("STREAM-03", "STREAM-07")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, None),
        ("", None),
        ("42", "42"),
        ({"content": "42"}, "42"),
        ({"text": "42"}, "42"),
        ({"answer": "42"}, "42"),
        ({"output": "42"}, "42"),
        ({"other": "42"}, None),
        (42, None),
        (["42"], None),
        ({"content": ["42"]}, None),
        ("4\x002", "42"),
    ],
)
def test_a_result_is_a_text_or_holds_one(value: object, text: str | None) -> None:
    assert translated({**FINISHED, "result": value}) == [Finished(result=text)]


@pytest.mark.parametrize(
    "outcome",
    [
        None,
        {"type": "success"},
        "success",
        {"type": "splendid"},
        7,
        [],
        {"type": "success", "pendingToolCallIds": ["x"]},
    ],
)
def test_success_is_what_nothing_speaks_against(outcome: object) -> None:
    assert translated({**FINISHED, "outcome": outcome}) == [Finished()]


@pytest.mark.req("STREAM-14")
@pytest.mark.parametrize(
    "more",
    [
        {"outcome": "length"},
        {"outcome": {"type": "incomplete"}},
        {"outcome": {"type": "success", "finishReason": "length"}},
        {"result": {"content": "half of", "finish_reason": "max_tokens"}},
        {"stopReason": "MAX_TOKENS"},
        {"result": {"finishReason": "FinishReason.MAX_TOKENS"}},
        {"stop_reason": "pause_turn"},
    ],
)
def test_an_answer_that_reached_a_limit_of_length_is_no_success(more: Fields) -> None:
    (end,) = translated({**FINISHED, **more})
    assert isinstance(end, Failed)
    assert end.message == "Its answer is cut short: it reached the model's limit of length."


@pytest.mark.req("STREAM-14")
@pytest.mark.parametrize("reason", ["content_filter", "SAFETY", "RECITATION", "refusal", "content-filtered"])
def test_an_answer_that_a_filter_has_ended_is_no_success(reason: str) -> None:
    (end,) = translated({**FINISHED, "result": {"content": "half of", "finishReason": reason}})
    assert isinstance(end, Failed)
    assert end.message == "Its answer is cut short: the model, or a filter, refused to go on."


@pytest.mark.req("STREAM-14")
@pytest.mark.parametrize(
    ("outcome", "message"),
    [
        ("failed", "It did not finish."),
        ({"type": "error", "message": "out of credit"}, "out of credit"),
        ({"type": "timeout"}, "It did not finish."),
    ],
)
def test_a_run_that_finished_with_a_failure_is_no_success(outcome: object, message: str) -> None:
    (end,) = translated({**FINISHED, "outcome": outcome})
    assert isinstance(end, Failed)
    assert end.message == message


@pytest.mark.parametrize("outcome", [{"type": "cancelled"}, "cancelled", "canceled"])
def test_a_run_may_be_cancelled(outcome: object) -> None:
    assert translated({**FINISHED, "outcome": outcome}) == [Cancelled()]


def test_the_last_words_of_a_snapshot_are_the_result() -> None:
    asked, answer = {"id": "1", "role": "user", "content": "?"}, {"id": "2", "role": "assistant", "content": "42"}
    calls = [{"id": "t", "type": "function", "function": {"name": "f", "arguments": "{}"}}]

    def shot(*messages: Fields) -> Fields:
        return {"type": "MESSAGES_SNAPSHOT", "messages": list(messages)}

    assert translated(shot(asked, answer), FINISHED) == [Finished(result="42")]
    assert translated(shot(asked, answer), {**FINISHED, "result": "43"}) == [Finished(result="43")]
    assert translated(shot(answer, asked), FINISHED) == [Finished()]
    assert translated(shot(asked, {**answer, "toolCalls": calls}), FINISHED) == [Finished()]
    assert translated(shot(asked, answer), content("more"), FINISHED)[-1] == Finished()
    assert translated(shot(asked, {**answer, "unknown": 1, "timestamp": 1.5}), FINISHED) == [Finished(result="42")]
    assert translated({**shot(asked, answer, {"role": 7}), "timestamp": 1.5}, FINISHED) == [Finished()]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"message": "out of credit"}, "out of credit"),
        ({}, "no reason was given"),
        ({"message": 7}, "no reason was given"),
        ({"error": {"message": "a\nb"}}, "a b"),
        ({"error": "no"}, "no"),
        ({"message": "key sk-abcdefgh12345678 refused"}, "key sk-… refused"),
    ],
)
def test_an_error_is_told_in_a_line_fit_to_be_shown(fields: Fields, message: str) -> None:
    assert translated({"type": "RUN_ERROR", **fields}) == [Failed(message=message)]


def test_a_long_error_is_cut() -> None:
    (failed,) = translated({"type": "RUN_ERROR", "message": "x " * 500_000})
    assert isinstance(failed, Failed)
    assert len(failed.message) == 500


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([], "it disconnected without an answer"),
        (["garbage"], "nothing that it sent could be understood"),
        ([{"type": "RUN_STARTED", **RUN}], "it stopped in the middle of its answer"),
        ([FINISHED, "garbage"], None),
    ],
)
def test_no_more_events_is_an_end_too(events: list[Any], reason: str | None) -> None:
    translator = Translator()
    for event in events:
        translator.feed(event if isinstance(event, str) else json.dumps(event))
    assert translator.end() == ((Broken(reason=reason),) if reason else ())


@pytest.mark.parametrize(
    "end", [FINISHED, {"type": "RUN_ERROR", "message": "no"}, {**FINISHED, "outcome": "cancelled"}]
)
def test_after_its_end_nothing_of_a_run_counts(end: Fields) -> None:
    assert translated(end, content("more"), tool(), {"type": "RUN_ERROR", "message": "too late"}, FINISHED) == [
        *translated(end)
    ]
