"""Schemas and patterns that cost too much, at every door of a real coordinator, which stays ready throughout."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import re
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import mcp_types as types
import pytest
import yaml
from mcp.server.lowlevel import Server

from swarm.agents.toolbox.arguments import TOO_COSTLY as NOT_CALLED
from swarm.domain.edited_arguments import TOO_COSTLY
from tests.support.doors import Visitor, serving, structured
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

OFFERED = [name for name in BOMBS if len(json.dumps(BOMBS[name][0])) < 60_000]  # larger ones are not offered to models
NAMES = {f"b{number}": name for number, name in enumerate(OFFERED)}
SENT = [name for name in BOMBS if len(json.dumps(BOMBS[name][1])) < 60_000 and name != "draft 4"]  # which has no "if"
READY_SECONDS = 1.0
CARD = "request_decide:"


def armed(name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """A schema that is cheap for the shown arguments, and arguments that set it off."""
    schema, arguments = BOMBS[name]
    kept = {key: schema[key] for key in ("$defs", "definitions", "$schema") if key in schema}
    known = {"properties": {"a": {}, "b": {}}, "if": {"required": ["quiet"]}, "then": {}, "else": schema}
    return known | kept, arguments


def bombs() -> Server[Any]:
    """A tool server whose tools have those schemas."""
    tools = [types.Tool(name=key, input_schema={"type": "object", **BOMBS[name][0]}) for key, name in NAMES.items()]

    async def listed(_: Any, __: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=tools)

    async def called(_: Any, params: Any) -> types.CallToolResult:
        return types.CallToolResult(content=[types.TextContent(type="text", text=f"{params.name} was called")])

    return Server("bombs", on_list_tools=listed, on_call_tool=called)


def _model(request: Request) -> Reply:
    """Calls the tool that the question names, and says what the tool says."""
    if request.results:
        return Say(f"The tool says: {request.results[-1]}")
    (key,) = re.findall(r"\bb\d+\b", request.last_text)[-1:]
    return Call(key, BOMBS[NAMES[key]][1])


class Scene:
    """A coordinator with a polling agent and a built-in one."""

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

    async def asked(self, **new: Any) -> dict[str, Any]:
        ts = await self.twin.say("swarm#lea may you?")
        trigger = await wait_until(lambda: self._work(ts), bool, within_seconds=60)
        about = {"inbox_message_id": trigger["inbox_messages"][0]["id"], "title": "May I?"}
        found = await self.lea.tool("request-human-input", trigger["lease"]["token"], **about, **new)
        if found.is_error:
            lease = {"tokens": [trigger["lease"]["token"]], "outcome": "dismissed", "reason": "refused"}
            await self.lea.post("/leases/finish", lease)
            return {"ts": ts, "error": str(found)}
        return {"ts": ts, **structured(found)}

    async def _work(self, ts: str) -> dict[str, Any]:
        found = await self.lea.poll(wait_seconds=5, limit=20)
        return next((one for one in found if any(part["ts"] == ts for part in one["inbox_messages"])), {})

    async def pressed(self, asked: dict[str, Any], action: str) -> dict[str, Any]:
        """Opens the form of a request from its card."""

        async def card() -> list[str]:
            shown = await self.twin.messages(thread_ts=asked["ts"])
            return [one["ts"] for one in shown if action in json.dumps(one["blocks"] or [])]

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
        model = (await stack.enter_async_context(openai_server(_model))).base_url
        servers = {"mcpServers": {"bombs": {"url": f"{tools}/mcp"}}, "allowedTools": list(NAMES)}
        (tmp_path / "servers_config.json").write_text(json.dumps(servers))
        settings = {
            "slack": {"pace": False},
            "agents": {"builtin": {"helper": {"kind": "assistant", "role": "worker"}}},
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
        assert scene.slowest < READY_SECONDS + 2 * idle


async def test_changes_of_arguments_over_http(scene: Scene) -> None:
    for name in SENT:
        schema, arguments = armed(name)
        tool = {"name": "deploy", "arguments": dict.fromkeys(arguments, "x") | {"quiet": True}, "schema": schema}
        asked = await scene.asked(tool=tool, decisions=["approve", "edit", "reject"])
        body = {"decision": "edit", "arguments": arguments, "as": "U000ALICE"}
        answer = await scene.operator.ask("POST", f"/requests/{asked['id']}/decide", json=body)
        assert (answer.status_code, answer.json()["error"].get("fields")) == (422, {"arguments": TOO_COSTLY}), name
        await scene.operator.post(f"/requests/{asked['id']}/decide", {"decision": "reject", "as": "U000ALICE"})


async def test_changes_of_arguments_in_slack(scene: Scene) -> None:
    for name in ("anyOf", "oneOf", "allOf", "not", "if", "dependentSchemas", "dependencies", "required"):
        schema, _ = armed(name)
        tool = {"name": "deploy", "arguments": {"a": "x", "b": "x", "quiet": "x"}, "schema": schema}
        tool["schema"] = schema | {"if": {"properties": {"quiet": {"const": "x"}}}}
        asked = await scene.asked(tool=tool, decisions=["approve", "edit", "reject"])
        view = await scene.pressed(asked, f"{CARD}edit")
        assert TOO_COSTLY in await scene.sent(view, {"a": "x", "b": "x", "quiet": "no"}), name
        await scene.operator.post(f"/requests/{asked['id']}/decide", {"decision": "reject", "as": "U000ALICE"})


async def test_patterns_of_forms_in_slack(scene: Scene) -> None:
    for pattern in PATTERNS:
        field = {"name": "text", "type": "textarea", "pattern": pattern}
        others = [{"name": f"more{n}"} for n in range(9)]  # so that it opens as a form of its own
        asked = await scene.asked(fields=[field, *others], decisions=["answer", "reject"])
        if "error" in asked:
            assert "this one takes too long to check" in asked["error"], pattern
            continue
        view = await scene.pressed(asked, "request_form")
        answered = await scene.sent(view, {"text": "ab" * 1500})
        if answered == '{"ok": true}':  # within the limit for this text, which fits
            continue
        assert "Enter a shorter text" in answered or "Enter a text that fits the pattern" in answered, pattern
        await scene.operator.post(f"/requests/{asked['id']}/decide", {"decision": "reject", "as": "U000ALICE"})


async def test_calls_of_tools_by_a_built_in_agent(scene: Scene) -> None:
    for key in NAMES:
        ts = await scene.twin.say(f"swarm#helper call {key}")
        seen = await scene.twin.until(
            ts, lambda seen: ANSWERED in seen.emoji and not seen.is_growing, within_seconds=60
        )
        assert NOT_CALLED in seen.answers[-1], NAMES[key]
