"""Clients of the AG-UI entry point decide about tool calls of built-in agents, in both dialects, after any restart."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from packages.swarm_agents.tests.agents.builtin.making import Made, assistant
from packages.swarm_agents.tests.agents.builtin.scripted import Calls, Scripted
from packages.swarm_agents.tests.contract.agui_api.scene import (
    RESUME,
    START,
    Client,
    Place,
    agui_input,
    kinds,
    place,
    run_input,
    start,
)
from swarm.domain.answers.agents import Dialect, ResumeForm
from swarm.domain.answers.events import Decided, Finished, Interrupted
from swarm.domain.answers.questions import request_of
from swarm.domain.model.requests import HumanDecision
from swarm.services.builtin.sessions import DatabaseMemory
from swarm.store.bridge.database import Database
from swarm_agents.toolbox.approval_rules import ApprovalRules
from tests.support.quick import quick

pytestmark = pytest.mark.req("HITL-01", "HITL-02", "STREAM-01")

RUN = "/agui/helper"
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
ASKS = ApprovalRules(patterns=("erase",))


@dataclass
class Coordinators:
    """Coordinators that run one after another on one database. The first run of a model calls the tool."""

    url: str
    made: list[Made] = field(default_factory=list)

    @property
    def erased(self) -> list[dict[str, Any]]:
        return [call for made in self.made for call in made.calls]

    @contextlib.asynccontextmanager
    async def one(self, *calls: Calls) -> AsyncIterator[tuple[Place, Client, Scripted]]:
        script = Scripted([*calls], "Done.") if calls else Scripted("Done.")
        erase = Made("erase", "erased", parameters=SCHEMA)
        self.made.append(erase)
        async with Database(self.url) as database:
            helper = assistant(script.model, DatabaseMemory(database, "helper", None), erase.tool, approvals=ASKS)
            try:
                async with place(self.url, {"helper": helper}) as here:  # type: ignore[dict-item]
                    yield here, here.operator, script
            finally:
                await helper.aclose()


@pytest.fixture
def coordinators(sqlite_url: str) -> Coordinators:
    return Coordinators(sqlite_url)


ERASE = Calls("erase", {"path": "a"}, id="c1")
BOTH = (ERASE, Calls("erase", {"path": "b"}, id="c2"))


def interrupts(events: list[Any]) -> list[dict[str, Any]]:
    assert events[-1]["type"] == "RUN_FINISHED", events[-1]
    found: list[dict[str, Any]] = events[-1]["outcome"]["interrupts"]
    return found


async def test_a_waiting_call_is_an_interrupt_with_its_call_and_the_schema_of_the_answer(
    coordinators: Coordinators,
) -> None:
    async with coordinators.one(ERASE) as (_, operator, _script):
        events = await operator.said(RUN, agui_input("erase a"))
    assert kinds(events) == ["RUN_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "RUN_FINISHED"]
    assert json.loads(events[2]["delta"]) == {"path": "a"}, "people see what they approve"
    (asked,) = interrupts(events)
    assert (asked["id"], asked["toolCallId"], asked["reason"]) == ("c1", "c1", "tool_call")
    schema = asked["responseSchema"]
    assert schema["required"] == ["approved"]
    assert {name: part["type"] for name, part in schema["properties"].items()} == {
        "approved": "boolean",
        "reason": "string",
        "editedArgs": "object",
    }
    assert schema["properties"]["editedArgs"]["properties"] == SCHEMA["properties"]
    assert asked["payload"]["tool_name"] == "erase"
    assert not coordinators.erased


async def test_caipes_clients_read_all_calls_in_one_payload(coordinators: Coordinators) -> None:
    async with coordinators.one(*BOTH) as (_, operator, _script):
        events = await operator.said(START, start("erase both"))
    assert "TOOL_CALL_END" not in kinds(events), "which would mean that the tool has answered"
    (asked,) = interrupts(events)
    assert asked["reason"] == "tool_approval"
    payload = asked["payload"]
    assert (payload["tool_name"], payload["tool_args"]) == ("erase", {"path": "a"})
    assert [(one["tool_call_id"], one["tool_args"]) for one in payload["tool_approvals"]] == [
        ("c1", {"path": "a"}),
        ("c2", {"path": "b"}),
    ]
    assert payload["allowed_decisions"] == ["approve", "edit", "reject"]
    assert [part["field_name"] for part in payload["fields"]] == ["approved", "reason", "editedArgs"]


def entry(payload: object = None, id: str = "c1", status: str = "resolved") -> dict[str, object]:
    return {"interruptId": id, "status": status} | ({} if payload is None else {"payload": payload})


ANSWERS: list[tuple[str, dict[str, object], list[dict[str, str]]]] = [
    (RUN, agui_input("", resume=[entry({"approved": True})]), [{"path": "a"}]),
    (RUN, agui_input("", resume=[entry({"approved": True, "editedArgs": {"path": "b"}})]), [{"path": "b"}]),
    (RUN, agui_input("", resume=[entry({"approved": False, "reason": "no"})]), []),
    (RUN, agui_input("", resume=[entry({"approved": "yes"})]), []),
    (RUN, agui_input("", resume=[entry(status="cancelled")]), []),
    (RESUME, {"form_data": '{"approved": true}'}, [{"path": "a"}]),
    (RESUME, {"form_data": {"approved": True, "editedArgs": '{"path": "b"}'}}, [{"path": "b"}]),
    (RESUME, {"form_data": '{"approved": true, "editedArgs": ""}'}, [{"path": "a"}]),
    (RESUME, {"form_data": "User dismissed the input form without providing values."}, []),
    (RESUME, {"form_data": "yes"}, []),
    (RESUME, {"resume_data": {"type": "tool_approval", "decision": "approve"}}, [{"path": "a"}]),
    (RESUME, {"resume_data": '{"type": "tool_approval", "decision": "approve"}'}, [{"path": "a"}]),
    (
        RESUME,
        {"resume_data": {"type": "tool_approval", "decision": "edit", "arguments": {"path": "b"}}},
        [{"path": "b"}],
    ),
    (RESUME, {"resume_data": {"type": "tool_approval", "decision": "reject"}}, []),
    (RESUME, {"resume_data": {"type": "tool_approval", "approved": True}}, [{"path": "a"}]),
    (RESUME, {"resume_data": {"type": "form_input", "values": {"approved": True}}}, [{"path": "a"}]),
    (RESUME, {"resume_data": {"type": "form_input", "dismissed": True}}, []),
]


@pytest.mark.parametrize(("path", "body", "called"), quick(ANSWERS[::3] + ANSWERS[1::3] + ANSWERS[2::3], 6))
async def test_a_decision_counts_after_a_restart_and_once(
    path: str, body: dict[str, object], called: list[dict[str, str]], coordinators: Coordinators
) -> None:
    body = {"conversation_id": "c1"} | body
    async with coordinators.one(ERASE) as (_, operator, _script):
        await operator.said(START, start("erase a"))
    async with coordinators.one() as (_, operator, script):
        assert (await operator.said(path, body))[-1]["type"] == "RUN_FINISHED"
        assert coordinators.erased == called
        (result,) = script.told[0].results
        assert result.endswith("erased") == bool(called)
        assert (await operator.refusal(path, body))[1]["code"] == "conflict", "it was decided already"
    assert coordinators.erased == called


async def test_the_process_that_asked_goes_on_too(coordinators: Coordinators) -> None:
    async with coordinators.one(ERASE) as (_, operator, _script):
        await operator.said(START, start("erase a"))
        await operator.said(RESUME, {"conversation_id": "c1", "form_data": {"approved": True}})
    assert len(coordinators.erased) == 1


REFUSED: list[tuple[dict[str, object], str]] = [
    ({"resume_data": {"type": "tool_approval", "decision": "yes"}}, "resume_data.decision"),
    ({"resume_data": {"type": "tool_approval", "decision": "edit"}}, "resume_data.edited_args"),
    ({"resume_data": {"type": "other"}}, "resume_data.type"),
    ({"resume_data": "approve"}, "resume_data"),
    ({"form_data": '{"approved": true, "editedArgs": "["}'}, "editedArgs"),
]


@pytest.mark.parametrize(("body", "field"), REFUSED)
async def test_an_answer_that_cannot_be_understood_is_refused_and_the_call_waits(
    body: dict[str, object], field: str, coordinators: Coordinators
) -> None:
    async with coordinators.one(ERASE) as (_, operator, _script):
        await operator.said(START, start("erase a"))
        status, error = await operator.refusal(RESUME, {"conversation_id": "c1"} | body)
        assert (status, error["code"], list(error["fields"])) == (422, "invalid", [field])
        status, _ = await operator.refusal(RESUME, {"conversation_id": "c1"})
        assert status == 422
        assert not coordinators.erased
        await operator.said(RESUME, {"conversation_id": "c1", "form_data": {"approved": True}})
    assert len(coordinators.erased) == 1


SEVERAL: list[tuple[str, dict[str, object], list[dict[str, str]]]] = [
    (RESUME, {"form_data": {"c1": {"approved": False}, "c2": {"approved": True}}}, [{"path": "b"}]),
    (RESUME, {"form_data": {"approved": "true"}}, [{"path": "a"}, {"path": "b"}]),
    (RESUME, {"form_data": "{}"}, [{"path": "a"}, {"path": "b"}]),
    (RESUME, {"resume_data": {"type": "tool_approval", "decision": "approve"}}, [{"path": "a"}, {"path": "b"}]),
    (
        RESUME,
        {"resume_data": {"type": "tool_approval", "decisions": [{"decision": "reject"}, {"decision": "approve"}]}},
        [{"path": "b"}],
    ),
    (
        RUN,
        agui_input("", resume=[entry({"approved": True}), entry({"approved": False}, id="c2")]),
        [{"path": "a"}],
    ),
]


@pytest.mark.req("HITL-05")
@pytest.mark.parametrize(("path", "body", "called"), SEVERAL)
async def test_several_calls_are_decided_at_once(
    path: str, body: dict[str, object], called: list[dict[str, str]], coordinators: Coordinators
) -> None:
    async with coordinators.one(*BOTH) as (_, operator, _script):
        await operator.said(START, start("erase both"))
    async with coordinators.one() as (_, operator, _script):
        await operator.said(path, {"conversation_id": "c1"} | body)
    assert sorted(coordinators.erased, key=str) == called


@pytest.mark.req("HITL-05")
async def test_changed_arguments_belong_to_one_call(coordinators: Coordinators) -> None:
    async with coordinators.one(*BOTH) as (_, operator, _script):
        await operator.said(START, start("erase both"))
        answers: list[dict[str, object]] = [
            {"form_data": {"approved": True, "editedArgs": {"path": "c"}}},
            {"resume_data": {"type": "tool_approval", "decision": "edit", "edited_args": {"path": "c"}}},
            {"resume_data": {"type": "tool_approval", "decisions": [{"decision": "approve"}]}},
        ]
        for unclear in answers:
            assert (await operator.refusal(RESUME, {"conversation_id": "c1"} | unclear))[1]["code"] == "invalid"
    assert not coordinators.erased


async def test_another_client_cannot_decide(coordinators: Coordinators) -> None:
    async with coordinators.one(ERASE) as (here, operator, _script):
        await operator.said(START, start("erase a"))
        wim = await here.client()
        body = {"conversation_id": "c1", "form_data": {"approved": True}}
        assert (await wim.refusal(RESUME, body))[0] == 409
    assert not coordinators.erased


async def test_secrets_in_arguments_are_not_shown(coordinators: Coordinators) -> None:
    secret = "ghp_" + "a1B2" * 9
    async with coordinators.one(Calls("erase", {"path": secret}, id="c1")) as (_, operator, _script):
        events = await operator.said(RUN, agui_input("erase a"))
    assert secret not in json.dumps(events)


CLIENTS = [(Dialect.AGUI, {}), (Dialect.CAIPE, {}), (Dialect.CAIPE, {"resume": ResumeForm.DATA})]


@pytest.mark.parametrize(("dialect", "settings"), CLIENTS)
@pytest.mark.parametrize("is_approved", [True, False])
async def test_our_own_client_decides_about_every_call(
    dialect: Dialect, settings: dict[str, Any], is_approved: bool, coordinators: Coordinators
) -> None:
    async with (
        coordinators.one(*BOTH) as (_, operator, _script),
        operator.agent("helper", dialect, **settings) as client,
    ):
        end = [event async for event in client.run(run_input("erase both"))][-1]
        assert isinstance(end, Interrupted)
        requests = [request_of(one, one.id) for one in end.asked]
        assert [one.tool.arguments for one in requests if one.tool] == [{"path": "a"}, {"path": "b"}]
        can_edit = dialect is Dialect.AGUI or bool(settings)  # a form has no room for other arguments
        assert {HumanDecision.EDIT in one.decisions for one in requests} == {can_edit}
        what = HumanDecision.APPROVE if is_approved else HumanDecision.REJECT
        decided = tuple(
            Decided(interrupt_id=one.id, values={"approved": is_approved}, raw=one.raw, decision=what)
            for one in end.asked
        )
        events = [event async for event in client.run(run_input(decided=decided))]
    assert isinstance(events[-1], Finished)
    assert coordinators.erased == ([{"path": "a"}, {"path": "b"}] if is_approved else [])
