"""What LangGraph asks, as it was recorded (``langgraph_streams``), and what it is told."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from swarm.domain.answers.events import Asked, Interrupted
from swarm.domain.model.requests import FieldType, FormField, HumanDecision, ToolRequest
from tests.agents.asking import run, run_input
from tests.agents.wire_events import FINISHED, custom, interrupt, translated
from tests.support.agui_server import AguiServer, answering
from tests.support.deciding import decided

pytestmark = pytest.mark.req("HITL-01", "HITL-02", "HITL-03", "HITL-04", "HITL-05")

STREAMS = Path(__file__).parent / "langgraph_streams"
D = HumanDecision
SCHEMA = {"properties": {"path": {"title": "Path", "type": "string"}}, "required": ["path"]}


def recorded(name: str) -> tuple[Asked, ...]:
    end = translated(*(STREAMS / f"{name}.jsonl").read_text().splitlines())[-1]
    assert isinstance(end, Interrupted)
    return end.asked


async def resumed(server: AguiServer, *told: Any) -> dict[str, Any]:
    """The entries and the command of the request that resumes the run."""
    server.on("/", *answering("hi"))
    await run(server.url, of=run_input(decided=told))
    body = server.requests[-1].json
    command = body["forwardedProps"].get("command")
    return ({"resume": body["resume"]} if "resume" in body else {}) | ({"command": command} if command else {})


def rejected(why: str = "A person has rejected this call.") -> dict[str, str]:
    return {"type": "reject", "message": why}


async def test_a_text_sent_as_an_event_is_a_question_whose_answer_is_a_command(server: AguiServer) -> None:
    (asked,) = recorded("event_text")
    assert (asked.prompt, asked.fields, asked.tool, asked.decisions) == ("Where?", (), None, ())
    for answer, value in (("Berlin", "Berlin"), ("42", '"42"')):  # JSON would be parsed
        told = decided(asked, D.ANSWER, values={"answer": answer})
        assert await resumed(server, told) == {"command": {"resume": value}}
    for decision, why in ((D.REJECT, "dismissed"), (None, "expired")):
        cancelled = {"__agui_cancelled__": True, "interrupt_id": asked.id, "reason": why}
        assert await resumed(server, decided(asked, decision)) == {"command": {"resume": cancelled}}


async def test_an_object_with_a_schema_is_a_form_whose_answer_is_an_entry(server: AguiServer) -> None:
    (asked,) = recorded("outcome_object")
    assert asked.prompt == "How many?"
    assert asked.fields == (FormField(name="count", type=FieldType.INTEGER, required=True),)
    answered = {"interruptId": asked.id, "status": "resolved", "payload": {"count": 3}}
    assert await resumed(server, decided(asked, D.ANSWER, values={"count": 3})) == {"resume": [answered]}
    dismissed = {"interruptId": asked.id, "status": "cancelled"}
    assert await resumed(server, decided(asked, D.REJECT)) == {"resume": [dismissed]}
    why = {"reason": "expired"}
    expired = {**dismissed, "payload": why, "metadata": why}
    assert await resumed(server, decided(asked, None)) == {"resume": [expired]}


@pytest.mark.parametrize("form", ["event", "outcome"])
async def test_several_interrupts_are_answered_by_their_ids(form: str, server: AguiServer) -> None:
    where, when = recorded(f"{form}_two")
    assert (where.prompt, when.prompt) == ("Where?", "When?")
    told = [decided(one, D.ANSWER, values={"answer": text}) for one, text in ((when, "now"), (where, "here"))]
    assert await resumed(server, *told) == {"command": {"resume": {where.id: "here", when.id: "now"}}}


@pytest.mark.parametrize("form", ["event", "outcome"])
async def test_calls_of_one_interrupt_are_decided_one_by_one_and_sent_together(form: str, server: AguiServer) -> None:
    first, second = recorded(f"{form}_batched")
    assert (first.tool, second.tool) == tuple(ToolRequest(name="delete", arguments={"path": path}) for path in "ab")
    assert first.id != second.id
    assert first.decisions == (D.APPROVE, D.EDIT, D.REJECT, D.APPROVE_THREAD, D.APPROVE_ALWAYS)
    told = (decided(second, None), decided(first, D.EDIT, arguments={"path": "c"}))
    edited = {"type": "edit", "edited_action": {"name": "delete", "args": {"path": "c"}}}
    value = {"decisions": [edited, rejected("Nobody decided in time.")]}
    got = await resumed(server, *told)
    if form == "event":
        assert got == {"command": {"resume": value}}
    else:
        (entry,) = got["resume"]
        assert (entry["status"], entry["payload"]) == ("resolved", value)
        assert f"{entry['interruptId']}:1" == first.id


async def test_a_call_without_its_own_decision_is_rejected(server: AguiServer) -> None:
    first, _ = recorded("event_batched")
    value = {"decisions": [{"type": "approve"}, rejected("Nobody decided in time.")]}
    assert await resumed(server, decided(first, D.APPROVE)) == {"command": {"resume": value}}


@pytest.mark.parametrize("form", ["event", "outcome"])
async def test_calls_that_wait_apart_are_decided_by_their_ids(form: str, server: AguiServer) -> None:
    first, second = recorded(f"{form}_per_call")
    assert first.tool is not None
    assert first.tool.schema.items() >= SCHEMA.items()
    assert D.EDIT in first.decisions
    told = (decided(first, D.APPROVE_ALWAYS), decided(second, D.REJECT))
    value = {first.id: {"type": "approve"}, second.id: rejected()}
    assert await resumed(server, *told) == {"command": {"resume": value}}


async def test_a_call_that_only_people_can_answer_is_a_question(server: AguiServer) -> None:
    value = {
        "action_requests": [{"name": "ask", "args": {"question": "Which?"}, "description": "Which one?"}],
        "review_configs": [{"action_name": "ask", "allowed_decisions": ["respond"]}],
    }
    (end,) = translated(custom("on_interrupt", value), FINISHED)
    assert isinstance(end, Interrupted)
    (asked,) = end.asked
    assert (asked.prompt, asked.tool) == ("Which one?", None)
    answered = {"decisions": [{"type": "respond", "message": "the red one"}]}
    told = decided(asked, D.ANSWER, values={"answer": "the red one"})
    assert await resumed(server, told) == {"command": {"resume": answered}}


@pytest.mark.parametrize("allowed", [None, ["approve", "reject"], ["approve"]])
def test_arguments_can_be_edited_only_where_the_agent_allows_it(allowed: list[str] | None) -> None:
    value = {
        "actionRequests": [{"name": "delete", "args": {"path": "a"}}],
        "reviewConfigs": [{"actionName": "delete", "allowedDecisions": allowed}] if allowed else [],
    }
    (end,) = translated(custom("on_interrupt", value), FINISHED)
    assert isinstance(end, Interrupted)
    assert end.asked[0].decisions[:2] == (D.APPROVE, D.REJECT)


@pytest.mark.parametrize(
    ("value", "prompt"),
    [
        ("Where?", "Where?"),
        ('{"prompt": "Where?"}', "Where?"),
        ({"question": "Where?"}, "Where?"),
        ('["a", "b"]', '[\n  "a",\n  "b"\n]'),
        ({"odd": 1}, '{\n  "odd": 1\n}'),
        (7, "7"),
        (None, ""),
    ],
)
def test_whatever_is_asked_is_shown(value: object, prompt: str) -> None:
    (end,) = translated(custom("on_interrupt", value), FINISHED)
    assert isinstance(end, Interrupted)
    assert end.asked[0].prompt == prompt
    (end,) = translated(interrupt({"id": "i1", "reason": "r", "metadata": {"langgraph": {"raw": value}}}))
    assert isinstance(end, Interrupted)


async def test_an_empty_answer_is_not_taken_for_none(server: AguiServer) -> None:
    value = {"message": "Which?", "fields": [{"name": "tag"}]}
    (end,) = translated(custom("on_interrupt", value), FINISHED)
    assert isinstance(end, Interrupted)
    told = decided(end.asked[0], D.ANSWER, values={})
    assert await resumed(server, told) == {"command": {"resume": "{}"}}


async def test_a_call_that_a_graph_describes_itself_is_approved_in_plain_words(server: AguiServer) -> None:
    value = {"message": "May I?", "tool_name": "delete", "args": {"path": "a"}}
    (end,) = translated(custom("on_interrupt", value), FINISHED)
    assert isinstance(end, Interrupted)
    (asked,) = end.asked
    assert asked.tool == ToolRequest(name="delete", arguments={"path": "a"})
    assert await resumed(server, decided(asked, D.APPROVE)) == {"command": {"resume": {"approved": True}}}
    no = {"approved": False, "reason": "Nobody decided in time."}
    assert await resumed(server, decided(asked, None)) == {"command": {"resume": no}}
