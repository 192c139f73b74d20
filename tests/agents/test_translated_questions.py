"""What an agent asks people."""

from __future__ import annotations

import json

import orjson
import pytest

from swarm.domain.answers.agent_events import take_event
from swarm.domain.answers.agents import Dialect
from swarm.domain.answers.events import (
    Asked,
    Failed,
    Interrupted,
    StepStatus,
)
from swarm.domain.answers.questions import why_unaskable
from swarm.domain.answers.state import Live
from swarm.domain.model.requests import FieldType, FormField, Option, ToolRequest, options
from tests.agents.wire_events import (
    FINISHED,
    Fields,
    arguments,
    content,
    interrupt,
    result,
    tool,
    tool_end,
    translated,
)
from tests.support.deciding import request
from tests.support.schema_bombs import BOMBS

pytestmark = pytest.mark.req("STREAM-01", "STREAM-03")

SCHEMA = {
    "type": "object",
    "properties": {
        "approved": {"type": "boolean"},
        "reason": {"type": "string", "description": "why"},
        "editedArgs": {"type": "object"},
        "size": {"enum": ["S", "M"], "default": "M"},
        "tags": {"type": "array", "items": {"enum": ["a", "b"]}},
        "count": {"type": "integer", "title": "How many"},
        "mail": {"type": "string", "format": "email"},
        "site": {"type": "string", "format": "uri"},
    },
    "required": ["approved", "count"],
}
FIELDS = [
    {
        "field_name": "repo",
        "field_label": "Repository",
        "field_type": "text",
        "required": True,
        "field_description": "Which?",
    },
    {"name": "size", "type": "select", "options": [{"label": "Small", "value": "S"}, "M"], "default": "M"},
    {"name": "notes", "type": "multiline"},
    {"name": "count", "type": "number", "default_value": 3},
    {"name": "sure", "type": "checkbox", "default": False},
    {"name": "odd", "type": "hologram"},
    {"name": "choice", "values": ["x", "y"]},
    {"label": "no name"},
    "no field",
]


APPROVAL = {"id": "i1", "reason": "tool_call", "toolCallId": "t1", "message": "Delete?"}
OF_CAIPE = {
    "id": "i1",
    "reason": "tool_approval",
    "payload": {
        "action_requests": [{"name": "delete", "args": {"path": "a"}}],
        "review_configs": [{"action_name": "delete", "allowed_decisions": ["approve", "reject"]}],
    },
}


def call_with(schema: Fields) -> Fields:
    """A call that waits, with the schema of its arguments."""
    review = {"allowed_decisions": ["approve", "edit", "reject"], "args_schema": schema}
    return {"action_requests": [{"name": "delete", "args": {"a": 1}}], "review_configs": [review]}


@pytest.mark.req("HITL-10")
@pytest.mark.parametrize(
    ("before", "asking", "dialect"),
    [
        ([content("May I?")], APPROVAL, Dialect.AGUI),
        ([content("May I?"), tool("t2"), tool_end("t2"), result(id="t2")], APPROVAL, Dialect.AGUI),
        ([], OF_CAIPE, Dialect.CAIPE),
    ],
)
def test_a_call_that_waits_for_an_approval_is_whole_and_its_step_waits(
    before: list[Fields], asking: Fields, dialect: Dialect
) -> None:
    call = [tool(name="delete"), arguments('{"path": "a"}'), tool_end()]
    told = translated(*call, *before, interrupt(asking), dialect=dialect)
    end = told[-1]
    assert isinstance(end, Interrupted)
    assert [one.tool for one in end.asked] == [ToolRequest(name="delete", arguments={"path": "a"})]
    live = Live()
    for event in told:
        live, _ = take_event(live, event, 0)
    assert next(card for card in live.cards if card.id == "t1").status is StepStatus.PENDING


def test_a_call_that_has_its_result_does_not_wait() -> None:
    call = [tool(name="delete"), arguments('{"path": "a"}'), tool_end(), result()]
    told = translated(*call, interrupt(APPROVAL))
    assert [type(event).__name__ for event in told] == ["ToolStarted", "ToolEnded", "Interrupted"]


def test_an_approval_of_1_0() -> None:
    asking = {"id": "i1", "reason": "tool_call", "toolCallId": "t1", "message": "Delete?", "responseSchema": SCHEMA}
    told = translated(tool(name="delete"), arguments('{"path": '), arguments('"a"}'), tool_end(), interrupt(asking))[-1]
    assert told == Interrupted(
        asked=(
            Asked(
                id="i1",
                prompt="Delete?",
                reason="tool_call",
                tool=ToolRequest(name="delete", arguments={"path": "a"}, schema={"type": "object"}),
                fields=(
                    FormField(name="approved", type=FieldType.BOOLEAN, required=True),
                    FormField(name="reason", description="why"),
                    FormField(name="editedArgs", type=FieldType.TEXTAREA, placeholder="JSON"),
                    FormField(name="size", type=FieldType.SELECT, options=options("S", "M"), default="M"),
                    FormField(name="tags", type=FieldType.MULTISELECT, options=options("a", "b")),
                    FormField(name="count", label="How many", type=FieldType.INTEGER, required=True),
                    FormField(name="mail", type=FieldType.EMAIL),
                    FormField(name="site", type=FieldType.URL),
                ),
                raw={**asking, "toolCall": {"id": "t1", "name": "delete", "arguments": '{"path": "a"}'}},
            ),
        )
    )


@pytest.mark.parametrize(
    "old",
    [
        {
            "outcome": "interrupt",
            "interrupt": {
                "id": "i1",
                "reason": "input",
                "payload": {"prompt": "Where?", "fields": FIELDS, "agent": "gh"},
            },
        },
        {
            "outcome": {
                "type": "interrupt",
                "interrupts": [{"id": "i1", "reason": "input", "payload": {"prompt": "Where?", "fields": FIELDS}}],
            }
        },
        {
            "interrupt": {"id": "i1", "reason": "input", "payload": {"prompt": "Where?", "fields": FIELDS}},
            "timestamp": 1.5,
        },
        {
            "outcome": "interrupt",
            "interrupts": [{"interruptId": "i1", "reason": "input", "value": {"question": "Where?", "fields": FIELDS}}],
        },
    ],
)
def test_forms_of_older_agents(old: Fields) -> None:
    (told,) = translated({**FINISHED, **old})
    assert isinstance(told, Interrupted)
    (asked,) = told.asked
    asker = "\n\nAsked by gh" if "gh" in json.dumps(old) else ""
    assert (asked.id, asked.prompt, asked.reason) == ("i1", f"Where?{asker}", "input")
    assert asked.fields == (
        FormField(name="repo", label="Repository", required=True, description="Which?"),
        FormField(
            name="size",
            type=FieldType.SELECT,
            options=(Option(value="S", label="Small"), Option(value="M")),
            default="M",
        ),
        FormField(name="notes", type=FieldType.TEXTAREA),
        FormField(name="count", type=FieldType.NUMBER, default=3),
        FormField(name="sure", type=FieldType.BOOLEAN, default=False),
        FormField(name="odd"),
        FormField(name="choice", type=FieldType.SELECT, options=options("x", "y")),
    )
    assert "repo" in json.dumps(asked.raw)


@pytest.mark.parametrize(
    "outcome",
    [
        "interrupt",
        {"type": "interrupt"},
        {"type": "interrupt", "interrupts": []},
        {"type": "interrupt", "interrupts": [7]},
    ],
)
def test_a_run_that_waits_for_nothing_that_can_be_answered_has_failed(outcome: object) -> None:
    (told,) = translated({**FINISHED, "outcome": outcome})
    assert isinstance(told, Failed)
    assert "waiting for an answer" in told.message


def test_several_interrupts_are_all_asked_or_none() -> None:
    (told,) = translated(interrupt(*({"id": str(n), "reason": "r"} for n in range(20))))
    assert isinstance(told, Interrupted)
    assert [asked.id for asked in told.asked] == [str(n) for n in range(20)]
    assert why_unaskable(told.asked) is None


@pytest.mark.req("HITL-10")
@pytest.mark.parametrize("key", ["action_requests", "tool_approvals", "interrupts"])
@pytest.mark.parametrize("last", [{"name": "rm", "tool_name": "rm"}, "rm"])
def test_a_call_that_is_not_shown_is_not_approved_with_others(key: str, last: object) -> None:
    calls: list[object] = [{"name": "ls", "tool_name": "ls"} for _ in range(20)]
    for more in [[*calls, last], *([[calls[0], last]] if last == "rm" else [])]:
        payload = {key: more, "tool_name": "ls"}
        one = {"id": "i1", "reason": "tool_approval", "payload": payload, "message": "May I?"}
        several = [{"id": str(n), "reason": "r"} for n in range(21)]
        (told,) = translated(interrupt(*(several if key == "interrupts" else [one])))
        assert isinstance(told, Interrupted)
        assert "the agent asks" in (why_unaskable(told.asked) or "")


@pytest.mark.req("HITL-09")
def test_different_questions_with_one_id_are_refused() -> None:
    (told,) = translated(interrupt(*({"id": "1", "reason": "r", "message": text} for text in ("Push?", "Delete?"))))
    assert isinstance(told, Interrupted)
    assert "with the same id" in (why_unaskable(told.asked) or "")
    (told,) = translated(interrupt(*({"id": "1", "reason": "r", "message": "Push?"} for _ in range(2))))
    assert isinstance(told, Interrupted)
    assert why_unaskable(told.asked) is None


@pytest.mark.parametrize("huge", [{"x": "y" * 500_000}, json.loads("[" * 150 + "]" * 150), {"x": 2**70}])
def test_what_is_kept_of_an_interrupt_can_be_stored(huge: object) -> None:
    (told,) = translated(
        interrupt({"id": "i1", "reason": "r", "message": "m" * 50_000, "payload": huge, "metadata": {"deep": huge}})
    )
    assert isinstance(told, Interrupted)
    assert len(orjson.dumps(told.asked[0].raw)) <= 256 * 1024
    assert "prompt: at most 10,000" in (why_unaskable(told.asked) or ""), "it is refused, not cut"


@pytest.mark.req("HITL-01")
def test_a_listed_field_keeps_its_limits_and_hides_what_is_secret() -> None:
    listed = [
        {"name": "count", "type": "integer", "min": 1, "max": "5", "default": "2"},
        {"name": "code", "pattern": "^[a-z]+$", "minLength": 2, "placeholder": "abc", "default": True},
        {"name": "key", "type": "password"},
        {"name": "token", "secret": True},
        {"name": "tags", "type": "multiselect", "options": ["a", "b", "a"], "default": "a, b"},
        {"name": "none", "type": "select"},
        {"name": "key", "label": "again"},
    ]
    (told,) = translated(interrupt({"id": "i1", "reason": "r", "payload": {"prompt": "?", "fields": listed}}))
    assert isinstance(told, Interrupted)
    assert told.asked[0].fields == (
        FormField(name="count", type=FieldType.INTEGER, min=1, max=5, default=2),
        FormField(name="code", pattern="^[a-z]+$", min=2, placeholder="abc"),
        FormField(name="key", secret=True),
        FormField(name="token", secret=True),
        FormField(name="tags", type=FieldType.MULTISELECT, options=options("a", "b"), default=["a", "b"]),
        FormField(name="none"),
    )
    request(told.asked[0])


@pytest.mark.req("HITL-04")
@pytest.mark.parametrize(
    "arguments_schema",
    [
        {"type": "object", "properties": {"path": {"type": "string"}}},
        {"additionalProperties": {"type": "string"}},
        {"$ref": "#/$defs/call", "$defs": {"call": {"properties": {"path": {"type": "string"}}}}},
    ],
)
def test_the_schema_of_the_arguments_comes_with_the_call(arguments_schema: Fields) -> None:
    schema = {"properties": {"approved": {"type": "boolean"}, "editedArgs": arguments_schema}}
    payload = {"toolName": "delete", "toolArgs": '{"path": "a"}'}
    (told,) = translated(interrupt({"id": "i1", "reason": "r", "responseSchema": schema, "payload": payload}))
    assert isinstance(told, Interrupted)
    assert told.asked[0].tool == ToolRequest(name="delete", arguments={"path": "a"}, schema=arguments_schema)


@pytest.mark.req("SEC-09")
@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (call_with(BOMBS["anyOf"][0]), "tool.schema: a simpler schema"),
        (call_with({"properties": {"a": {"title": "x" * 300_000}}}), "tool.schema: at most 262,144 bytes"),
        ({"fields": [{"name": "a", "pattern": "x" * 1_001}]}, "fields.a: a shorter pattern"),
    ],
)
def test_what_cannot_be_checked_is_not_asked_and_the_thread_reads_why(payload: Fields, why: str) -> None:
    (told,) = translated(interrupt({"id": "i1", "reason": "r", "payload": payload}))
    assert isinstance(told, Interrupted)
    assert why in (why_unaskable(told.asked) or "")


@pytest.mark.req("HITL-10")
def test_arguments_that_are_too_long_to_be_read_are_not_asked_about() -> None:
    asking = {"id": "i1", "reason": "tool_call", "toolCallId": "t1", "message": "Delete?", "responseSchema": SCHEMA}
    for length, problem in ((70_000, None), (270_000, "tool.arguments: at most 262,144 bytes")):
        long = '{"path": "' + "a" * length + '"}'
        told = translated(tool(name="delete"), arguments(long), tool_end(), interrupt(asking))[-1]
        assert isinstance(told, Interrupted)
        assert (problem or "") in (why_unaskable(told.asked) or "")
        assert (why_unaskable(told.asked) is None) is (problem is None)
        payload = {"toolName": "delete", "toolArgs": {"path": "a" * length}}
        (told,) = translated(interrupt({"id": "i1", "reason": "r", "payload": payload}))
        assert isinstance(told, Interrupted)
        assert (problem or "") in (why_unaskable(told.asked) or "")


@pytest.mark.req("HITL-10")
@pytest.mark.parametrize("given", ["rm -rf /", ["rm", "-rf"], 7])
def test_arguments_that_are_no_object_are_shown_as_they_are(given: object) -> None:
    (told,) = translated(interrupt({"id": "i1", "reason": "r", "payload": {"toolName": "sh", "toolArgs": given}}))
    assert isinstance(told, Interrupted)
    assert told.asked[0].tool == ToolRequest(name="sh", arguments={"input": given})


@pytest.mark.req("HITL-11")
@pytest.mark.parametrize("name", ["dep\u200bloy", "dеploy", "x" * 150, "\u200b"])
def test_a_tools_name_that_misleads_people_is_neither_cleaned_nor_cut_but_refused(name: str) -> None:
    streamed = {"id": "i1", "reason": "tool_call", "toolCallId": "t1", "message": "Go?"}
    named = {"id": "i1", "reason": "x", "message": "Go?", "payload": {"tool_name": name, "tool_args": {"a": 1}}}
    langchain = {"id": "i1", "reason": "x", "payload": {"action_requests": [{"name": name, "args": {}}]}}
    caipe = {"id": "i1", "reason": "tool_approval", "payload": {"tool_name": name, "tool_args": {}}}
    for events in (
        [tool(name=name), arguments("{}"), tool_end(), interrupt(streamed)],
        [interrupt(named)],
        [interrupt(langchain)],
        [interrupt(caipe)],
    ):
        told = translated(*events)[-1]
        assert isinstance(told, Interrupted)
        assert "tool.name" in (why_unaskable(told.asked) or "")
