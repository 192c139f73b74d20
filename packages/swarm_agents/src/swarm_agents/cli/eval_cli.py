"""A coding CLI as the lead of ``swarm eval lead``: by its real door, with the prompts and tools of a polling lead.

Each thread is one turn of a new session in an empty folder. The tools are served on this machine, and only record. What
needs a permission is refused, and a question to people counts as text.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from swarm.domain.model.agents import Role, UserView
from swarm.domain.model.inbox import InboxStatus, MatchedBy
from swarm.domain.model.language_models import ModelUsage
from swarm.domain.model.sessions import MessageRole, SessionMessage
from swarm.domain.model.threads import AuthorKind, TranscriptMessage
from swarm.domain.model.triggers import InboxMessageView
from swarm.domain.prompts.input import INBOX_TRIGGER, PromptInput
from swarm.domain.prompts.prompts import render
from swarm.entrypoints.mcp.mcp_server import describe_tool
from swarm_agents.builtin.lead_evaluation import MakeLead
from swarm_agents.builtin.run import BuiltinRun, Stumbled
from swarm_agents.toolbox.tool import Tool, ToolAnswer, failed
from swarm_runner import port
from swarm_runner.endings import missing_text
from swarm_runner.environment import check_program, cli_environment
from swarm_runner.settings import door_of, kind_of, system_prompt
from tools.tool import discover

_TURN_SECONDS: Final = 300.0
_LEASE: Final = "evaluation"
_NOBODY: Final = "Nobody can be asked in this evaluation."


async def _nothing(arguments: Mapping[str, Any]) -> ToolAnswer:
    return failed(_NOBODY)


def lead_tools() -> list[Tool]:
    """Returns the tools that a polling lead sees. By themselves they do nothing."""
    shown = [describe_tool(tool) for tool in discover().values() if Role.LEAD in tool.roles]
    return [
        Tool(name=one.name, description=one.description or "", parameters=one.input_schema, call=_nothing)
        for one in shown
    ]


def coding_lead(provider: str, env: Sequence[str], base_prompt: str) -> MakeLead:
    """Returns what makes a CLI answer. Raises ConfigurationError for one that cannot be started."""
    door, environment = door_of(provider), cli_environment(os.environ, env)
    check_program(provider, environment)
    prompt = system_prompt(kind_of(provider), base_prompt, Role.LEAD)

    async def answer(run: BuiltinRun, tools: Sequence[Tool]) -> None:
        with tempfile.TemporaryDirectory(prefix="swarm-eval-") as folder:
            async with _served({tool.name: tool for tool in tools}) as mcp, asyncio.timeout(_TURN_SECONDS):
                wanted = port.SessionWanted(cwd=Path(folder), environment=environment, mcp=mcp, system_prompt=prompt)
                session = await door.open(wanted)
                try:
                    await _turn(session, run)
                finally:
                    await session.close(0)

    return lambda tools: lambda run: answer(run, tools)


async def _turn(session: port.CliSession, run: BuiltinRun) -> None:
    text = ""
    async for event in session.turn(_prompt(run)):
        match event:
            case port.TextAdded():
                text += event.text
            case port.PermissionAsked():
                await session.permit(event.id, allowed=False, reason=_NOBODY)
            case port.QuestionAsked():
                text += f"\n\n{event.message.rstrip('?')}?"
                await session.answer(event.id, None)
            case port.UsageReported(input_tokens=input, output_tokens=output, cost_dollars=cost):
                micro = None if cost is None else round(cost * 1_000_000)
                run.usage = ModelUsage(input_tokens=input or 0, output_tokens=output or 0, cost_microdollars=micro)
            case port.TurnEnded() if event.outcome is not port.TurnOutcome.DONE:
                raise Stumbled(event.reason or f"the turn was {event.outcome}")
            case port.TurnEnded():
                text += missing_text(text, event.text)
    run.remember(SessionMessage(role=MessageRole.ASSISTANT, text=text.strip()))


def _prompt(run: BuiltinRun) -> str:
    """Returns the prompt of a thread, as the coordinator writes it."""
    history = tuple(
        TranscriptMessage(
            ts=f"{1_700_000_000 + 60 * place}.000100", author_id=f"U0{one.author.upper()}", author=one.author,
            kind=AuthorKind.AGENT if one.author == "lead" else AuthorKind.USER, text=one.text,
        )
        for place, one in enumerate((*run.input.history, *run.input.messages))
    )  # fmt: skip
    last = history[-1]
    new = InboxMessageView(
        id="message", text=last.text, preview=last.text[:200], user=UserView(id=last.author_id, name=last.author),
        ts=last.ts, received_at=0, matched_by=MatchedBy.MENTION, routing_reason="a mention", status=InboxStatus.CLAIMED,
    )  # fmt: skip
    wanted = PromptInput(
        role=Role.LEAD, agent_name="lead", kind=INBOX_TRIGGER, lease_token=_LEASE, attempt=1, channel_name="#general",
        permalink=None, new_messages=(new,), history=history,
    )  # fmt: skip
    return render(wanted, secrets.token_hex(8))


@asynccontextmanager
async def _served(tools: Mapping[str, Tool]) -> AsyncIterator[port.McpAccess]:
    """Serves tools by MCP on a free port of this machine."""
    key = f"Bearer {secrets.token_urlsafe(16)}"

    async def serve(request: Request) -> Response:
        message = await request.json()
        if request.headers.get("authorization") != key or "id" not in message:
            return Response(status_code=202 if "id" not in message else 401)
        result = await _result(tools, str(message.get("method")), message.get("params") or {})
        said = {"error": {"code": -32601, "message": "Method not found"}} if result is None else {"result": result}
        return JSONResponse({"jsonrpc": "2.0", "id": message["id"], **said})

    listening = socket.create_server(("127.0.0.1", 0))
    app = Starlette(routes=[Route("/mcp", serve, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", lifespan="off"))
    serving = asyncio.create_task(server.serve(sockets=[listening]), name="evaluation tools")
    try:
        headers = {"Authorization": key, "X-Swarm-Lease": _LEASE}
        yield port.McpAccess(url=f"http://127.0.0.1:{listening.getsockname()[1]}/mcp", headers=headers)
    finally:
        server.should_exit = True
        await serving


async def _result(tools: Mapping[str, Tool], method: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
    match method:
        case "initialize":
            about = {"capabilities": {"tools": {}}, "serverInfo": {"name": "swarm", "version": "1"}}
            return {"protocolVersion": params.get("protocolVersion"), **about}
        case "tools/list":
            shown = ({"name": one.name, "description": one.description, "inputSchema": one.parameters}
                     for one in tools.values())  # fmt: skip
            return {"tools": list(shown)}
        case "tools/call" if tool := tools.get(str(params.get("name"))):
            answer = await tool.call(params.get("arguments") or {})
            return {"content": [{"type": "text", "text": answer.text}], "isError": answer.failed}
    return None
