"""Older agents, careless ones, and anything at all."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from swarm.agents.remote.translation.translator import Translator
from swarm.agents.remote.translation.wire import COMPLAINTS
from swarm.domain.answers.events import (
    Broken,
    Cancelled,
    Failed,
    Finished,
    Interrupted,
    TextDelta,
    ToolEnded,
)
from tests.agents.wire_events import (
    FINISHED,
    Fields,
    content,
    tool,
    translated,
)

pytestmark = pytest.mark.req("STREAM-01", "STREAM-07")


@pytest.mark.parametrize("stamp", [1700000000.25, "2026-11-22T10:00:00Z", None, 1e300, float("nan"), -(2**70), True])
def test_a_timestamp_of_any_kind_will_do(stamp: object) -> None:
    assert translated({**content("a"), "timestamp": stamp}) == [TextDelta(text="a", message_id="m1")]


@pytest.mark.parametrize(
    "event",
    [
        {"type": "TEXT_MESSAGE_CONTENT", "delta": "a"},
        {"type": "TEXT_MESSAGE_CONTENT", "message_id": "m1", "delta": "a"},
        {"type": "TEXT_MESSAGE_CONTENT", "messageId": 7, "content": "a"},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": "m", "role": "robot", "delta": "a"},
        {"type": "TEXT_MESSAGE_CHUNK", "messageId": 7, "delta": "a"},
    ],
)
def test_text_is_not_lost_for_its_envelope(event: Fields) -> None:
    (told,) = translated(event)
    assert isinstance(told, TextDelta)
    assert told.text == "a"


@pytest.mark.parametrize(
    "fields", [{}, {"threadId": 7}, {"usage": 7}, {"protocolVersion": 2, "threadId": None}, {"outcome": 7.5}]
)
def test_an_end_is_an_end_whatever_is_missing(fields: Fields) -> None:
    assert translated({"type": "RUN_FINISHED", **fields}) == [Finished()]


def test_a_result_of_a_tool_may_be_json_itself() -> None:
    assert translated(tool(), {"type": "TOOL_CALL_RESULT", "toolCallId": "t1", "content": {"n": 17}})[-1] == ToolEnded(
        id="t1"
    )


def test_a_mended_echo_is_still_an_echo() -> None:
    start = {"type": "TEXT_MESSAGE_START", "messageId": "u", "role": "user", "timestamp": 1.5}
    assert translated(start, content(id="u")) == []


def test_halves_of_characters_do_not_cost_the_rest_of_the_text() -> None:
    """What a program in JavaScript sends that cuts texts in the middle of an emoji."""
    assert translated(r'{"type":"TEXT_MESSAGE_CONTENT","messageId":"m1","delta":"a\ud83d","x":NaN}') == [
        TextDelta(text="a\ufffd", message_id="m1")
    ]
    assert translated(content("🙂")) == [TextDelta(text="🙂", message_id="m1")]


def test_numbers_that_python_sends_and_json_does_not_have_are_no_obstacle() -> None:
    assert translated(r'{"type":"STATE_SNAPSHOT","snapshot":{"score":NaN,"todos":["a"]}}', FINISHED)[-1] == Finished()


def test_complaints_about_nonsense_do_not_fill_the_log(capsys: pytest.CaptureFixture[str]) -> None:
    translated(*["nonsense"] * 1000)
    assert capsys.readouterr().out.count("agent_event_skipped") == COMPLAINTS


KINDS = [
    "TEXT_MESSAGE_START",
    "TEXT_MESSAGE_CONTENT",
    "TEXT_MESSAGE_END",
    "TEXT_MESSAGE_CHUNK",
    "TOOL_CALL_START",
    "TOOL_CALL_ARGS",
    "TOOL_CALL_END",
    "TOOL_CALL_CHUNK",
    "TOOL_CALL_RESULT",
    "STATE_SNAPSHOT",
    "STATE_DELTA",
    "MESSAGES_SNAPSHOT",
    "ACTIVITY_SNAPSHOT",
    "RAW",
    "CUSTOM",
    "RUN_STARTED",
    "RUN_FINISHED",
    "RUN_ERROR",
    "STEP_STARTED",
    "STEP_FINISHED",
    "SUBAGENT_STARTED",
    "THINKING_START",
    "nonsense",
]
NAMES = [
    "messageId",
    "delta",
    "role",
    "toolCallId",
    "toolCallName",
    "content",
    "snapshot",
    "messages",
    "name",
    "value",
    "result",
    "outcome",
    "interrupt",
    "interrupts",
    "message",
    "code",
    "stepName",
    "subagentRunId",
    "timestamp",
    "threadId",
    "runId",
    "metadata",
    "todos",
    "plan",
    "steps",
    "op",
    "path",
    "id",
    "reason",
    "payload",
    "fields",
    "responseSchema",
    "properties",
    "items",
    "enum",
    "type",
    "namespace",
    "activityType",
    "parentMessageId",
    "protocolVersion",
    "error",
]
WORDS = st.sampled_from(
    [
        "interrupt",
        "cancelled",
        "NAMESPACE_CONTEXT",
        "WARNING",
        "TODOS",
        "write_todos",
        "/todos/0/status",
        "add",
        "user",
        "m1",
        "",
    ]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | WORDS
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=3), inner, max_size=5)
    ),
    max_leaves=12,
)
EVENTS = st.builds(
    lambda kind, fields: {**fields, "type": kind},
    st.sampled_from(KINDS),
    st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=7),
)


@given(st.lists(EVENTS | VALUES, max_size=12))
def test_nothing_that_an_agent_may_send_raises(events: list[Any]) -> None:
    """Whatever comes, there is at most one end, nothing after it, and all of it can be stored."""
    translator = Translator()
    with structlog.testing.capture_logs():
        told = [event for value in events for event in translator.feed(json.dumps(value))] + [*translator.end()]
    ends = [event for event in told if isinstance(event, Finished | Interrupted | Cancelled | Failed | Broken)]
    assert ends == told[-1:]
    assert "\\x00" not in repr([event for event in told if not isinstance(event, Interrupted)])
    for event in told:
        if isinstance(event, Interrupted):
            orjson.dumps([dict(asked.raw) for asked in event.asked])


@given(st.text() | st.binary().map(lambda raw: raw.decode("utf-8", "replace")))
def test_no_text_at_all_raises(text: str) -> None:
    translator = Translator()
    assert translator.feed(text) == ()
