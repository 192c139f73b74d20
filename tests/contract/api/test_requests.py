"""Requests to people from outside: the MCP tool of the asker, the routes of asker and operator, and the commands."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from swarm.cli import request_commands
from swarm.domain.model.requests import Decide, EntryPoint, HumanDecision
from swarm.domain.policy.decision_rules import DecisionRule
from swarm.domain.requests.edited_arguments import TOO_COSTLY
from tests.support.doors import Doors, Visitor, error_of
from tests.support.schema_bombs import BOMBS
from tests.support.world import BOT

FORM = [
    {"name": "part", "type": "select", "options": [{"value": "code"}, {"value": "tests"}], "required": True},
    {"name": "key", "secret": True},
    {"name": "odd", "type": "hologram"},
]
PUSH = {"name": "git_push", "arguments": {"branch": "main", "password": "hunter2-hunter2"}}

pytestmark = pytest.mark.req("HITL-04")


async def asks(doors: Doors, lea: Visitor, **said: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Somebody writes, and the lead asks people: the trigger, and the tool's result."""
    message = await doors.world.says(f"{BOT} hello")
    found = [one for one in await lea.poll() if one["kind"] == "slack_inbox_message"]
    (trigger,) = [one for one in found if one["inbox_messages"][0]["ts"] == message.ts]
    about = {"inbox_message_id": trigger["inbox_messages"][0]["id"], "title": "May I?"}
    return trigger, await lea.uses("request-human-input", lease=trigger["lease"]["token"], **about, **said)


async def refused(visitor: Visitor, path: str, body: dict[str, Any], status: int) -> dict[str, Any]:
    """The error of a POST that must fail so."""
    answer = await visitor.ask("POST", path, json=body)
    assert answer.status_code == status, answer.text
    return dict(answer.json()["error"])


@pytest.mark.req("HITL-01", "HITL-08", "LOOP-05")
async def test_a_form_is_asked_answered_and_comes_back_typed(doors: Doors, lea: Visitor) -> None:
    _, asked = await asks(doors, lea, fields=FORM, decisions=["answer", "reject"])
    assert asked["status"] == "open"
    shown = (await doors.operator.get("/requests?status=open"))["requests"][0]
    assert (shown["id"], shown["agent"], shown["run"], shown["requester"]["id"]) == (asked["id"], "lea", None, "U1")
    assert [field["type"] for field in shown["fields"]] == ["select", "text", "text"]
    decided = await doors.operator.post(
        f"/requests/{asked['id']}/decide", {"decision": "answer", "values": {"part": "code", "key": "s3"}, "as": "U1"}
    )
    assert (decided["status"], decided["answers"][0]["values"]) == ("answered", {"part": "code", "key": "••••••"})
    triggers = await lea.poll()
    assert sorted(trigger["kind"] for trigger in triggers) == ["human_input", "slack_inbox_message"]
    for trigger in triggers:
        (told,) = trigger["requests"]
        assert (told["id"], told["status"], told["answers"][0]["values"]["key"]) == (asked["id"], "answered", "s3")
    audit = (await doors.operator.get("/audit"))["audit"]
    assert [(line["kind"], line["person"], line["agent"]) for line in audit] == [
        ("asked", None, "lea"), ("decided", "U1", "lea"),
    ]  # fmt: skip
    assert (await doors.operator.get(f"/audit?after={audit[0]['seq']}"))["audit"] == audit[1:]


@pytest.mark.req("HITL-03")
async def test_a_call_that_waits_is_answered_with_the_decision(doors: Doors, lea: Visitor) -> None:
    trigger, asked = await asks(doors, lea, wait=True)
    waiting = asyncio.ensure_future(lea.get(f"/requests/{asked['id']}?wait_seconds=30"))
    await asyncio.sleep(0.1)
    await doors.operator.post(f"/requests/{asked['id']}/decide", {"decision": "approve"})
    assert (await asyncio.wait_for(waiting, 5))["status"] == "approved"
    beat = await lea.post("/leases/renew", {"tokens": [trigger["lease"]["token"]]})
    assert [notice["kind"] for notice in beat["notices"]] == ["human_input"]
    assert (await refused(lea, f"/requests/{asked['id']}/cancel", {}, 409))["code"] == "conflict"


async def test_the_approval_of_a_call_shows_no_secrets_but_to_the_asker(doors: Doors, lea: Visitor) -> None:
    _, asked = await asks(doors, lea, tool=PUSH, decisions=["approve", "edit", "reject"])
    shown = await doors.operator.get(f"/requests/{asked['id']}")
    assert shown["tool"]["arguments"]["branch"] == "main"
    own = await lea.get(f"/requests/{asked['id']}")
    assert own["tool"]["arguments"] == PUSH["arguments"]
    assert own["tool"]["digest"] == shown["tool"]["digest"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"decision": "approve", "as": "U2"}, 403, "forbidden"),
        ({"decision": "maybe"}, 422, "invalid"),
        ({"decision": "answer"}, 422, "invalid"),
        ({"decision": "approve", "values": {"x": 1}}, 422, "invalid"),
        ({"decision": "approve"}, 200, None),
        ({"decision": "approve", "arguments": {"branch": "dev"}}, 409, "conflict"),
        ({"decision": "approve", "door": "telepathy"}, 422, "invalid"),
    ],
)
async def test_bad_decisions_get_a_clear_answer(
    body: dict[str, Any], status: int, code: str | None, doors: Doors, lea: Visitor
) -> None:
    _, asked = await asks(doors, lea, tool=PUSH)
    answer = await doors.operator.ask("POST", f"/requests/{asked['id']}/decide", json=body)
    assert (answer.status_code, answer.json().get("error", {}).get("code")) == (status, code)
    after = (await doors.operator.get(f"/requests/{asked['id']}"))["status"]
    assert after == ("approved" if status == 200 else "open")


async def test_who_comes_second_is_told_who_was_first(doors: Doors, lea: Visitor) -> None:
    _, asked = await asks(doors, lea)
    wish = Decide(request_id=asked["id"], decision=HumanDecision.REJECT, person="U1", door=EntryPoint.SLACK)
    await doors.world.services.decisions.decide(wish)
    error = await refused(doors.operator, f"/requests/{asked['id']}/decide", {"decision": "approve"}, 409)
    assert "rejected by <@U1> at 20" in error["message"]


@pytest.mark.parametrize(
    "said",
    [
        {"title": ""},
        {"fields": [{"name": "a", "type": "select"}]},
        {"policy": {"requester": True, "not_requester": True}},
        {"policy": {"users": ["U1"], "need": 2}},
        {"decisions": ["edit"]},
        {"expires_seconds": 0},
        {"task_id": "both"},
        {"tool": {"name": "dep\u200bloy"}},
        {"tool": {"name": "dеploy"}},
        {"tool": {"name": "x" * 101}},
        {"tool": {"name": ""}},
    ],
)
async def test_a_question_that_cannot_be_answered_is_invalid(said: dict[str, Any], doors: Doors, lea: Visitor) -> None:
    await doors.world.says(f"{BOT} hello")
    trigger = await lea.only()
    about = {"inbox_message_id": trigger["inbox_messages"][0]["id"], "title": "May I?"} | said
    result = await lea.tool("request-human-input", lease=trigger["lease"]["token"], **about)
    assert error_of(result)["code"] == "invalid"


@pytest.mark.req("HITL-11")
@pytest.mark.parametrize("name", ["Deploy", "deploy ", "DEPLOY"])
async def test_a_rule_binds_a_tool_however_the_asker_spells_it(name: str, doors: Doors, lea: Visitor) -> None:
    rule = DecisionRule(users=("U9",), tool="deploy")
    book = doors.world.operating_policy.book
    book.current = replace(book.current, decisions=(rule,))
    _, asked = await asks(doors, lea, tool={"name": name})
    shown = await doors.operator.get(f"/requests/{asked['id']}")
    assert (shown["policy"]["users"], shown["tool"]["name"]) == (["U9"], name)


@pytest.mark.req("HITL-07")
async def test_grants_are_listed_and_revoked(doors: Doors, lea: Visitor) -> None:
    _, asked = await asks(doors, lea, tool=PUSH, decisions=["approve", "approve_always"])
    await doors.operator.post(f"/requests/{asked['id']}/decide", {"decision": "approve_always"})
    (grant,) = (await doors.operator.get("/grants"))["grants"]
    shown = {name: grant[name] for name in ("agent", "tool", "scope", "covers", "given_by")}
    assert list(shown.values()) == ["lea", "git_push", "always", "everybody", "operator"]
    assert (await doors.operator.ask("DELETE", f"/grants/{grant['id']}")).status_code == 204
    assert (await doors.operator.get("/grants"))["grants"] == []


# The commands


@pytest.mark.req("HITL-07", "HITL-08")
async def test_the_commands_show_and_decide(
    doors: Doors, lea: Visitor, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    loop = asyncio.get_running_loop()

    def operate(method: str, path: str, **options: Any) -> Any:
        call = doors.operator.ask(method, path, **options)
        answer = asyncio.run_coroutine_threadsafe(call, loop).result(10)
        return answer.json() if answer.content else None

    async def run(app: Any, *words: str) -> str:
        await asyncio.to_thread(app, list(words), result_action="return_value")
        return capsys.readouterr().out

    monkeypatch.setattr(request_commands, "operate", operate)
    _, asked = await asks(doors, lea, fields=FORM, decisions=["answer", "reject"], prompt="Which *part*?")
    assert "May I?" in await run(request_commands.requests, "list", "--status", "open")
    shown = await run(request_commands.requests, "show", asked["id"])
    assert "may decide: U1 or the operator" in shown
    assert "part (select, required, one of code, tests)" in shown
    decided = await run(
        request_commands.requests, "decide", asked["id"], "answer", "--value", "part=tests", "--as", "U1"
    )
    assert "“May I?” is answered." in decided
    _, other = await asks(doors, lea, tool=PUSH, decisions=["approve", "approve_thread"])
    await run(request_commands.requests, "decide", other["id"], "approve_thread")
    listed = await run(request_commands.grants, "list")
    assert "git_push" in listed
    assert "everybody" in listed
    (grant,) = (await doors.operator.get("/grants"))["grants"]
    assert "revoked" in await run(request_commands.grants, "revoke", grant["id"])
    await asyncio.to_thread(request_commands.audit, as_json=True)
    kinds = [json.loads(line)["kind"] for line in capsys.readouterr().out.splitlines()]
    assert kinds == ["asked", "decided", "asked", "decided", "granted", "revoked"]
    await asyncio.to_thread(request_commands.audit, limit=1)
    assert "asked" in capsys.readouterr().out


@pytest.mark.req("SEC-09")
async def test_a_schema_that_takes_too_long_to_check_is_said_to_the_asker_and_to_who_decides(
    doors: Doors, lea: Visitor
) -> None:
    schema, arguments = BOMBS["anyOf"]
    tool = {"name": "t", "arguments": arguments, "schema": schema}
    decisions = ["approve", "edit", "reject"]
    message = await doors.world.says(f"{BOT} hello")
    (trigger,) = [one for one in await lea.poll() if one["kind"] == "slack_inbox_message"]
    assert trigger["inbox_messages"][0]["ts"] == message.ts
    about = {"inbox_message_id": trigger["inbox_messages"][0]["id"], "title": "May I?", "decisions": decisions}
    lease = trigger["lease"]["token"]
    error = error_of(await lea.tool("request-human-input", lease, **about, tool=tool))
    assert (error["code"], set(error["fields"])) == ("invalid", {"tool.schema"})

    armed = {"$defs": schema["$defs"], "if": {"required": ["quiet"]}, "then": {}, "else": schema}
    tool = {"name": "t", "arguments": {"a": 0, "b": 0, "quiet": True}, "schema": armed}
    asked = await lea.uses("request-human-input", lease, **about, tool=tool)
    path = f"/requests/{asked['id']}/decide"
    refusal = await refused(doors.operator, path, {"decision": "edit", "arguments": arguments, "as": "U1"}, 422)
    assert refusal["fields"] == {"arguments": TOO_COSTLY}
    assert (await doors.operator.post(path, {"decision": "approve", "as": "U1"}))["status"] == "approved"
