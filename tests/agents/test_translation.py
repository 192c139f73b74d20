"""AG-UI's events in our words: texts, tools, steps, sources."""

from __future__ import annotations

import pytest

from swarm.domain.answers.agents import Dialect
from swarm.domain.answers.events import (
    Finished,
    SourceChanged,
    StepNamed,
    TextDelta,
    TextEnded,
    ToolEnded,
    ToolStarted,
    Warned,
)
from tests.agents.wire_events import (
    FINISHED,
    Fields,
    arguments,
    chunk,
    content,
    custom,
    interrupt,
    result,
    tool,
    tool_end,
    translated,
)
from tests.support.every import every

pytestmark = pytest.mark.req("STREAM-03")


def test_chunks_build_messages_which_end_when_something_else_comes() -> None:
    assert translated(
        chunk(messageId="a", role="assistant", delta="1"),
        chunk(delta="2"),
        custom("x", 1),
        chunk(delta="3"),
        chunk(messageId="b", delta="4"),
        tool(),
        chunk(messageId="b", delta="5"),
        FINISHED,
    ) == [
        TextDelta(text="1", message_id="a"),
        TextDelta(text="2", message_id="a"),
        TextDelta(text="3", message_id="a"),
        TextEnded(message_id="a"),
        TextDelta(text="4", message_id="b"),
        ToolStarted(id="t1", name="search"),
        TextEnded(message_id="b"),
        TextDelta(text="5", message_id="b"),
        TextEnded(message_id="b"),
        ToolEnded(id="t1"),
        Finished(),
    ]


def test_a_message_with_a_beginning_ends_one_of_chunks() -> None:
    start = {"type": "TEXT_MESSAGE_START", "messageId": "m1"}
    assert translated(chunk(messageId="a", delta="1"), start)[1:] == [TextEnded(message_id="a")]


def test_a_chunk_that_names_no_message_begins_one() -> None:
    assert translated(chunk(delta="1")) == [TextDelta(text="1", message_id="")]


@pytest.mark.parametrize("role", ["user", "system", "developer"])
def test_messages_that_are_not_the_agents_own_are_no_answer(role: str) -> None:
    start = {"type": "TEXT_MESSAGE_START", "messageId": "u", "role": role}
    end = {"type": "TEXT_MESSAGE_END", "messageId": "u"}
    assert translated(start, content(id="u"), content("mine"), end) == [TextDelta(text="mine", message_id="m1")]
    assert translated(chunk(messageId="u", role=role, delta="1"), chunk(delta="2"), FINISHED) == [Finished()]


def test_a_message_without_text_says_nothing() -> None:
    start = {"type": "TEXT_MESSAGE_START", "messageId": "m1"}
    assert translated(start, content(""), {"type": "TEXT_MESSAGE_END", "messageId": "m1"}) == []


def test_text_is_fit_for_the_database() -> None:
    assert translated(content("a\0b")) == [TextDelta(text="ab", message_id="m1")]


@pytest.mark.parametrize(
    "kind",
    [
        "REASONING_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_CHUNK",
        "THINKING_START",
        "THINKING_TEXT_MESSAGE_CONTENT",
        "ACTIVITY_SNAPSHOT",
        "RAW",
    ],
)
def test_what_the_agent_thinks_is_not_shown(kind: str) -> None:
    thought = {"type": kind, "messageId": "x", "delta": "hm", "activityType": "A", "content": {}, "event": "hm"}
    assert translated(thought) == []


def test_a_tool_runs_until_its_result_comes() -> None:
    assert translated(tool(), arguments("{}"), tool_end()) == [ToolStarted(id="t1", name="search")]
    assert translated(tool(), tool_end(), result())[1:] == [ToolEnded(id="t1")]


@pytest.mark.req("STREAM-13")
def test_in_caipe_the_end_of_a_call_says_that_its_tool_has_answered() -> None:
    """Its result comes before, and not where it is empty; errors are told by their first word."""
    started = (tool(), arguments("{}"))
    assert translated(*started, dialect=Dialect.CAIPE) == [ToolStarted(id="t1", name="search")]
    assert translated(*started, tool_end(), dialect=Dialect.CAIPE)[1:] == [ToolEnded(id="t1")]
    told = {"type": "TOOL_CALL_RESULT", "tool_call_id": "t1", "message_id": "x", "role": "tool", "timestamp": 1.5}
    for answer, failed in (("17", False), ("ERROR: no such thing", True)):
        heard = translated(*started, told | {"content": answer}, tool_end(), dialect=Dialect.CAIPE)
        assert heard[1:] == [ToolEnded(id="t1", failed=failed)]


def test_tools_run_beside_each_other() -> None:
    told = translated(tool("a"), tool_end("a"), tool("b"), tool_end("b"), result(id="b"), result(id="a"))
    assert told[2:] == [ToolEnded(id="b"), ToolEnded(id="a")]


def test_without_a_result_a_tool_ends_when_the_agent_goes_on_to_speak() -> None:
    told = translated(tool("a"), tool_end("a"), tool("b"), content("so"), result(id="a"))
    assert told[2:] == [ToolEnded(id="a"), TextDelta(text="so", message_id="m1")]


def test_words_of_a_sub_agent_do_not_end_the_tool_that_it_works_for() -> None:
    started = {"type": "SUBAGENT_STARTED", "subagentRunId": "s1", "name": "helper"}
    told = translated(
        tool(), tool_end(), started, content(subagentRunId="s1"), custom("NAMESPACE_CONTEXT", "x"), content()
    )
    assert not [event for event in told if isinstance(event, ToolEnded)]


def test_what_still_runs_when_a_run_ends_well_has_ended_well() -> None:
    assert translated(tool(), FINISHED)[1:] == [ToolEnded(id="t1"), Finished()]


@pytest.mark.parametrize("end", [{"type": "RUN_ERROR", "message": "no"}, interrupt({"id": "i", "reason": "r"})])
def test_what_still_runs_when_a_run_breaks_or_waits_has_not_ended(end: Fields) -> None:
    assert not [event for event in translated(tool(), tool_end(), end) if isinstance(event, ToolEnded)]


@pytest.mark.parametrize("failing", [result(error="no"), result(isError=True), result('{"error": "no"}')])
def test_a_tool_that_says_so_has_failed(failing: Fields) -> None:
    assert translated(tool(), failing)[-1] == ToolEnded(id="t1", failed=True)


def test_chunks_of_a_call_start_it_once() -> None:
    first = {"type": "TOOL_CALL_CHUNK", "toolCallId": "a", "toolCallName": "search", "delta": "{"}
    told = translated(first, {"type": "TOOL_CALL_CHUNK", "delta": "}"}, {**first, "toolCallId": "b"}, content())
    assert told == [
        ToolStarted(id="a", name="search"),
        ToolStarted(id="b", name="search"),
        ToolEnded(id="a"),
        ToolEnded(id="b"),
        TextDelta(text="x", message_id="m1"),
    ]


def test_a_call_is_started_and_ended_once() -> None:
    assert translated(tool(), tool(), result(), result(), tool()) == [
        ToolStarted(id="t1", name="search"),
        ToolEnded(id="t1"),
    ]


def test_names_and_ids_are_bounded() -> None:
    (started,) = translated(tool("i" * 5000, "n\n" * 5000))
    assert isinstance(started, ToolStarted)
    assert len(started.id) == 200
    assert len(started.name) <= 250
    assert "\n" not in started.name


def test_a_run_of_endless_calls_is_bounded() -> None:
    assert len(translated(*(tool(str(at)) for at in range(2000)))) == 500


@every(
    ("value", "name"),
    [
        ("helper", "helper"),
        (["supervisor", "helper"], "supervisor/helper"),
        ({"namespace": "helper"}, "helper"),
        ({"namespace": ["helper"]}, "helper"),
        ({"agent": "helper"}, "helper"),
    ],
)
@every("nobody", ["", [], None, {}, {"namespace": []}, 7])
def test_a_namespace_holds_until_the_next_one(value: object, name: str, nobody: object) -> None:
    told = translated(
        content("a"),
        custom("NAMESPACE_CONTEXT", value),
        content("b"),
        content("c"),
        custom("NAMESPACE_CONTEXT", nobody),
        content("d"),
    )
    assert [event if isinstance(event, SourceChanged) else getattr(event, "text", "") for event in told] == [
        "a",
        SourceChanged(sub_agent=name),
        "b",
        "c",
        SourceChanged(sub_agent=None),
        "d",
    ]


def test_a_sub_agent_of_1_0_is_named_on_each_of_its_events() -> None:
    started = {"type": "SUBAGENT_STARTED", "subagentRunId": "s1", "name": "helper"}
    told = translated(
        content("a"),
        started,
        content("b", id="m2", subagentRunId="s1"),
        content("c"),
        content("d", id="m3", subagentRunId="s2"),
        {"type": "SUBAGENT_FINISHED", "subagentRunId": "s1"},
    )
    assert [event if isinstance(event, SourceChanged) else getattr(event, "text", "") for event in told] == [
        "a",
        SourceChanged(sub_agent="helper"),
        "b",
        SourceChanged(sub_agent=None),
        "c",
        SourceChanged(sub_agent="s2"),
        "d",
    ]


def test_a_mended_event_keeps_its_sub_agent() -> None:
    told = translated(content("b", subagentRunId="s1", timestamp=1.5))
    assert told[0] == SourceChanged(sub_agent="s1")


def test_the_innermost_step_is_named() -> None:
    outer, inner = ({"type": "STEP_STARTED", "stepName": name} for name in ("plan", "search"))
    ends = [{"type": "STEP_FINISHED", "stepName": name} for name in ("search", "plan", "plan")]
    assert translated(outer, inner, *ends) == [
        StepNamed(name="plan"),
        StepNamed(name="search"),
        StepNamed(name="plan"),
    ]


@pytest.mark.parametrize("value", ["slow today", {"message": "slow today"}])
def test_a_warning_is_for_the_operator(value: object) -> None:
    assert translated(custom("WARNING", value)) == [Warned(message="slow today")]
