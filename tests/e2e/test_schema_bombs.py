"""Schemas and patterns that cost too much, at every door of a real coordinator, which stays ready throughout.

Each door gets all of them, many at once, and gives a sentence for each.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import re
import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
import yaml
from mcp.server.lowlevel import Server
from starlette.applications import Starlette
from starlette.requests import Request as StarletteRequest
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from swarm.domain.patterns import has_few_values
from swarm.domain.requests.edited_arguments import TOO_COSTLY
from swarm_agents.toolbox.arguments import TOO_COSTLY as NOT_CALLED
from tests.support.doors import Visitor, serving
from tests.support.http import client as http_client
from tests.support.processes import processes_in
from tests.support.providers import openai_server
from tests.support.providers.request import Request
from tests.support.providers.script import Call, Reply, Say
from tests.support.schema_bombs import BOMBS, PATTERNS
from tests.support.stage import Stage
from tests.support.twin_client import ANSWERED, TwinClient
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(600), pytest.mark.req("SEC-09")]

NAMES = {f"b{number}": name for number, name in enumerate(BOMBS)}
FORMS: dict[str, dict[str, Any]] = {
    **{key: {"type": "object", **BOMBS[name][0]} for key, name in NAMES.items()},
    **{
        f"p{number}": {"type": "object", "properties": {"text": {"type": "string", "pattern": pattern}}}
        for number, pattern in enumerate(PATTERNS)
    },
}
OFFERED = [key for key, name in NAMES.items() if name != "required"]  # a list with it could not be read
SENT = [key for key, name in NAMES.items() if len(json.dumps(BOMBS[name])) < 1_000_000]
ARMED = [
    key
    for key, name in NAMES.items()
    if max(len(json.dumps(part)) for part in BOMBS[name]) < 60_000 and name != "draft 4"  # which has no "if"
]
FAILED = "x"
READY_SECONDS = 1.0
CARD = "request_decide:"

_log = logging.getLogger(__name__)

assert len(OFFERED) >= 20
assert len(PATTERNS) >= 10


def armed(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A schema that is cheap for the shown arguments, and arguments that set it off."""
    schema, arguments = BOMBS[name]
    kept = {key: schema[key] for key in ("$defs", "definitions", "$schema") if key in schema}
    known = {"properties": {"a": {}, "b": {}}, "if": {"required": ["quiet"]}, "then": {}, "else": schema}
    return known | kept, arguments


def bombs() -> Server[Any]:
    """A tool server whose tools have those schemas, and one that asks people with them."""
    schemas = {key: FORMS[key] for key in OFFERED} | {"elicit": {"type": "object", "properties": {"key": {}}}}
    tools = [types.Tool(name=name, input_schema=schema) for name, schema in schemas.items()]

    async def listed(_: Any, params: Any) -> types.ListToolsResult:
        page = int((params and params.cursor) or 0)  # a page with all of them would be too much as well
        return types.ListToolsResult(tools=[tools[page]], next_cursor=str(page + 1) if page + 1 < len(tools) else None)

    async def called(_: Any, params: Any) -> types.CallToolResult | types.InputRequiredResult:
        if params.name != "elicit" or params.input_responses:
            return types.CallToolResult(content=[types.TextContent(type="text", text=f"{params.name} was called")])
        asked = types.ElicitRequestFormParams(message="Which?", requested_schema=FORMS[params.arguments["key"]])
        return types.InputRequiredResult(input_requests={"one": types.ElicitRequest(params=asked)})

    return Server("bombs", on_list_tools=listed, on_call_tool=called)


def remote() -> Starlette:
    """An agent that asks with those schemas, for a form or for the arguments of a tool: in AG-UI, or as CAIPE does."""

    async def run(request: StarletteRequest) -> StreamingResponse:
        asked = await request.json()
        thread = asked.get("threadId") or asked["conversation_id"]
        ids = {"threadId": thread, "runId": asked.get("runId") or thread}
        wanted = re.findall(r"\b(form|edit) (\w\d+)\b", json.dumps([asked.get("messages"), asked.get("message")]))
        ended: dict[str, Any] = {"type": "RUN_FINISHED", **ids}
        if wanted and not asked.get("resume"):
            ended["outcome"] = {
                "type": "interrupt",
                "interrupts": [_interrupt(wanted[-1][0], wanted[-1][1], ids["runId"])],
            }
        said = {"type": "TEXT_MESSAGE_CHUNK", "messageId": ids["runId"], "role": "assistant", "delta": "One moment."}
        lines = [f"data: {json.dumps(event)}\n\n" for event in ({"type": "RUN_STARTED", **ids}, said, ended)]
        return StreamingResponse(iter(lines), media_type="text/event-stream")

    paths = ("/", "/api/v1/chat/stream/start", "/api/v1/chat/stream/resume")
    routes = [Route(path, run, methods=["POST"]) for path in paths]
    return Starlette(routes=[*routes, Route("/healthz", lambda _: Response())])


def _interrupt(kind: str, key: str, run_id: str) -> dict[str, Any]:
    if kind == "form":
        return {"id": run_id, "reason": "input_required", "message": "Which?", "responseSchema": FORMS[key]}
    arguments = BOMBS[NAMES[key]][1] if key in SENT else {"a": 1}
    review = {
        "allowed_decisions": ["approve", "edit", "reject"],
        "args_schema": {"properties": {"a": {}, "b": {}}, **FORMS[key]},
    }
    action = {"name": "deploy", "args": arguments}
    payload = {"action_requests": [action], "review_configs": [review]}
    return {"id": run_id, "reason": "input_required", "message": "May I?", "payload": payload}


def _model(request: Request) -> Reply:
    """Calls the tool that the question names, and says what the tool says."""
    if request.results:
        return Say(f"The tool says: {request.results[-1]}")
    ((word, key),) = re.findall(r"\b(call|elicit) (\w\d+)\b", request.last_text)[-1:]
    if word == "elicit":
        return Call("elicit", {"key": key})
    return Call(key, BOMBS[NAMES[key]][1], piece_length=5_000) if key in request.tools else Say(f"{key} is not offered")


@dataclass(frozen=True)
class Work:
    """A message that the polling agent works on."""

    ts: str
    lease: str
    message: str


class Scene:
    """A coordinator with a polling agent, a remote one and a built-in one."""

    def __init__(self, stage: Stage, http: httpx2.AsyncClient) -> None:
        self.stage = stage
        self.twin: TwinClient = stage.person(http)
        self.operator: Visitor = stage.visitor(http)
        self.lea: Visitor
        self.http = http
        self.slowest = 0.0

    async def watch(self, times: int | None = None) -> float:
        """Asks again and again whether the coordinator is ready. Returns the longest time that an answer took."""
        async with http_client(timeout=60) as http:
            for _ in range(times) if times else itertools.count():
                begun = time.monotonic()
                answer = await http.get(f"{self.stage.base}/readyz")
                self.slowest = max(self.slowest, time.monotonic() - begun)
                assert answer.status_code == 200, answer.text
                await asyncio.sleep(0.02)
        return self.slowest

    async def work(self) -> Work:
        """Some work of the polling agent, which keeps its lease while it asks."""
        ts = await self.twin.say("swarm#lea may you?")
        trigger = await wait_until(lambda: self._work(ts), bool, within_seconds=60)
        return Work(ts=ts, lease=trigger["lease"]["token"], message=trigger["inbox_messages"][0]["id"])

    async def asked(self, work: Work, **new: Any) -> dict[str, Any]:
        """Asks a question while the work goes on. Returns the request, or the error in words."""
        about = {"inbox_message_id": work.message, "title": "May I?", "wait": True, "lease_token": work.lease}
        params = {"name": "request-human-input", "arguments": about | new}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
        answer = (await self.lea.ask("POST", "/mcp", json=body, headers=headers)).json()
        result = answer.get("result") or {"isError": True, **answer}
        return {"error": json.dumps(result)} if result["isError"] else dict(result["structuredContent"])

    async def all_answered(self, agent: str, what: str, keys: Iterable[str]) -> dict[str, list[str]]:
        """What people read below a message for each of those, ten at a time. Every question is rejected."""
        waiting = list(keys)
        asked: dict[str, str] = {}
        seen: dict[str, list[str]] = {}

        async def look() -> bool:
            for request in (await self.operator.get("/requests?status=open&limit=100"))["requests"]:
                await self.operator.ask(
                    "POST", f"/requests/{request['id']}/decide", json={"decision": "reject", "as": "U000ALICE"}
                )
            while waiting and len(asked) - len(seen) < 10:
                key = waiting.pop(0)
                asked[key] = await self.twin.say(f"swarm#{agent} {what} {key}")
            for key in asked.keys() - seen.keys():
                found = await self.twin.conversation(asked[key])
                if found.answers and not found.is_growing and {ANSWERED, FAILED} & set(found.emoji):
                    shown = await self.twin.messages(thread_ts=asked[key])
                    seen[key] = [f"{one['text']} {one['blocks']}" for one in shown[1:]]
            return not waiting and len(seen) == len(asked)

        await wait_until(look, bool, within_seconds=120, what=f"{agent} has answered all")
        return seen

    async def _work(self, ts: str) -> dict[str, Any]:
        found = await self.lea.poll(wait_seconds=5, limit=20)
        return next((one for one in found if any(part["ts"] == ts for part in one["inbox_messages"])), {})

    async def pressed(self, ts_of_work: str, asked: str, action: str) -> dict[str, Any]:
        """Opens the form of a request from its card."""

        async def card() -> list[str]:
            shown = await self.twin.messages(thread_ts=ts_of_work)
            return [one["ts"] for one in shown if asked in json.dumps(one["blocks"] or []) and action in str(one)]

        (ts,) = await wait_until(card, bool, within_seconds=40)
        where = {"user": "alice", "channel": "general", "ts": ts, "action_id": action}
        return dict((await self.twin.ask("POST", "actions", json=where))["view"])

    async def sent(self, view: dict[str, Any], state: dict[str, Any]) -> str:
        """Sends a form; what it says then."""
        values = {f"field:{name}": {"value": value} for name, value in state.items()}
        body = {"user": "alice", "view_id": view["id"], "submit": True, "state": values}
        return json.dumps(await self.twin.ask("POST", "actions", json=body))


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    async with contextlib.AsyncExitStack() as stack:
        app = bombs().streamable_http_app()
        tools = await stack.enter_async_context(serving(app))
        agent = await stack.enter_async_context(serving(remote()))
        model = (await stack.enter_async_context(openai_server(_model))).base_url
        servers = {"mcpServers": {"bombs": {"url": f"{tools}/mcp"}}, "allowedTools": [*OFFERED, "elicit"]}
        (tmp_path / "servers_config.json").write_text(json.dumps(servers))
        settings = {
            "slack": {"pace": False},
            "agents": {
                "builtin": {"helper": {"kind": "assistant", "role": "worker", "instructions": "Let tools elicit."}},
                "remote": {
                    "form": {"url": f"{agent}/"},
                    "caipe": {"url": agent, "dialect": "caipe", "agent_id": "agent-1", "resume": "form"},
                },
            },
            "model": {"name": "gpt-5-mini", "check_at_start": False},
            "providers": {"openai": {"base_url": model, "api_key": "not-needed"}},
        }
        (tmp_path / "swarm.yaml").write_text(yaml.safe_dump(settings))
        stage = Stage(stack.enter_context(processes_in(tmp_path)))
        http = await stack.enter_async_context(http_client(timeout=60))
        await stage.start_twin(rates=False)
        await stage.start_coordinator()
        scene = Scene(stage, http)
        scene.lea = stage.visitor(http, await stage.register(http, "lea"))
        await scene.lea.poll()
        idle = await scene.watch(100)  # other programs may use the machine as well
        watching = asyncio.create_task(scene.watch())
        yield scene
        assert not watching.done()
        watching.cancel()
        _log.info("The slowest answer of /readyz took %.3f s, before that %.3f s.", scene.slowest, idle)
        assert scene.slowest < READY_SECONDS + 2 * idle


async def test_questions_of_a_worker_and_changes_of_their_arguments(scene: Scene) -> None:
    work = await scene.work()
    decisions = ["approve", "edit", "reject"]

    async def ask(key: str) -> None:
        schema, arguments = BOMBS[NAMES[key]]
        tool = {"name": "deploy", "arguments": arguments if key in SENT else {"a": 1}, "schema": schema}
        refused = await scene.asked(work, tool=tool, decisions=decisions)
        assert re.search("take too long to check|has more than 10,000 values|invalid", refused["error"]), NAMES[key]

    async def change(key: str) -> None:
        schema, arguments = armed(NAMES[key])
        tool = {"name": f"deploy-{key}", "arguments": dict.fromkeys(arguments, "x") | {"quiet": True}, "schema": schema}
        asked = await scene.asked(work, tool=tool, decisions=decisions)
        assert "id" in asked, (NAMES[key], asked)
        path = f"/requests/{asked['id']}/decide"
        answer = await scene.operator.ask(
            "POST", path, json={"decision": "edit", "arguments": arguments, "as": "U000ALICE"}
        )
        assert answer.json()["error"].get("fields") == {"arguments": TOO_COSTLY}, NAMES[key]
        await scene.operator.post(path, {"decision": "reject", "as": "U000ALICE"})

    await asyncio.gather(*map(ask, NAMES))
    await asyncio.gather(*map(change, ARMED))


async def test_changes_of_arguments_in_slack(scene: Scene) -> None:
    work = await scene.work()
    for name in ("anyOf", "oneOf", "allOf", "not", "if", "dependentSchemas", "dependencies"):
        schema, _ = armed(name)
        tool = {"name": "deploy", "arguments": {"a": "x", "b": "x", "quiet": "x"}, "schema": schema}
        tool["schema"] = schema | {"if": {"properties": {"quiet": {"const": "x"}}}}
        asked = await scene.asked(work, tool=tool, decisions=["approve", "edit", "reject"])
        view = await scene.pressed(work.ts, asked["id"], f"{CARD}edit")
        assert TOO_COSTLY in await scene.sent(view, {"a": "x", "b": "x", "quiet": "no"}), name
        await scene.operator.post(f"/requests/{asked['id']}/decide", {"decision": "reject", "as": "U000ALICE"})


async def test_patterns_of_forms_in_slack(scene: Scene) -> None:
    work = await scene.work()
    for pattern in PATTERNS:
        field = {"name": "text", "type": "textarea", "pattern": pattern}
        others = [{"name": f"more{n}"} for n in range(9)]  # so that it opens as a form of its own
        asked = await scene.asked(work, fields=[field, *others], decisions=["answer", "reject"])
        if "error" in asked:
            assert "this one takes too long to check" in asked["error"], pattern
            continue
        view = await scene.pressed(work.ts, asked["id"], "request_form")
        answered = await scene.sent(view, {"text": "ab" * 1500})
        if answered == '{"ok": true}':  # within the limit for this text, which fits
            continue
        assert "Enter a shorter text" in answered or "Enter a text that fits the pattern" in answered, pattern
        await scene.operator.post(f"/requests/{asked['id']}/decide", {"decision": "reject", "as": "U000ALICE"})


@pytest.mark.parametrize("agent", ["form", "caipe"])
async def test_questions_of_a_remote_agent(scene: Scene, agent: str) -> None:
    forms = await scene.all_answered(agent, "form", FORMS)
    assert forms.keys() == FORMS.keys()
    edits = await scene.all_answered(agent, "edit", NAMES)  # events that are too large are not read, and the run fails
    assert edits.keys() == NAMES.keys()
    for key in ARMED:
        is_read = has_few_values(json.dumps(_interrupt("edit", key, "")))
        if agent == "caipe" and is_read:  # whose form of answers takes no other arguments, so none are offered
            assert "Rejected by" in str(edits[key]), (NAMES[key], edits[key])
            assert "Change arguments" not in str(edits[key]), NAMES[key]
        else:
            why = "take too long to check against it" if is_read else "stopped in the middle of its answer"
            assert why in str(edits[key]), (NAMES[key], edits[key])


async def test_calls_of_tools_by_a_built_in_agent(scene: Scene) -> None:
    seen = await scene.all_answered("helper", "call", OFFERED)
    lines = [json.loads(line) for line in scene.stage.coordinator.output.splitlines() if '"mcp_tool_refused"' in line]
    why = {line["tool"]: line["why"] for line in lines}
    assert len(why) == len(lines)
    for key in OFFERED:
        if key in why:
            assert "filled in" in why[key] or "larger than" in why[key], NAMES[key]
            assert "is not offered" in seen[key][-1], NAMES[key]
        else:
            assert NOT_CALLED in seen[key][-1], NAMES[key]


async def test_questions_of_a_tool_server(scene: Scene) -> None:
    seen = await scene.all_answered("helper", "elicit", FORMS)
    for key, answers in seen.items():
        assert any("The tool says: " in answer for answer in answers), (key, answers)
