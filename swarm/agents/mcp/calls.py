"""One call of a tool of an MCP server."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import mcp_types as types
import structlog
from mcp import Client, MCPError
from pydantic import TypeAdapter, ValidationError

from swarm.agents.mcp import failures
from swarm.agents.mcp.results import answer_of
from swarm.agents.mcp.server import McpServer
from swarm.agents.toolbox.tool import ToolAnswer
from swarm.telemetry.redaction import HIDDEN

_SPARE_SECONDS: Final = 30.0  # the library's own limit comes after ours, or it would not tell the server

_RESULT: Final[TypeAdapter[types.CallToolResult | types.InputRequiredResult]] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)

_log = structlog.get_logger(__name__)


async def call(client: Client, server: McpServer, tool: str, arguments: Mapping[str, Any]) -> tuple[ToolAnswer, bool]:
    """What the tool answers, and whether the connection has shown itself sound. Raises nothing but CancelledError.

    The request is sent once. A server whose call is cancelled, or whose time is over, is told so.
    """
    try:
        async with asyncio.timeout(server.timeout_seconds):
            result = await _result(client, server, tool, arguments)
    except Exception as error:  # noqa: BLE001 - a tool's failure is an answer
        return _hidden(_failure(error, server, tool), server), False
    if isinstance(result, types.InputRequiredResult):
        return failures.asks_back(tool, server.name), True
    return _hidden(answer_of(result), server), True


async def _result(
    client: Client, server: McpServer, tool: str, arguments: Mapping[str, Any]
) -> types.CallToolResult | types.InputRequiredResult:
    """Not by `Client.call_tool`: that sends some calls again, and keeps results back that do not fit their schema."""
    request = types.CallToolRequest(params=types.CallToolRequestParams(name=tool, arguments=dict(arguments)))
    return await client.session.send_request(
        request, _RESULT, request_read_timeout_seconds=server.timeout_seconds + _SPARE_SECONDS
    )


def _failure(error: Exception, server: McpServer, tool: str) -> ToolAnswer:
    ids = {"server": server.name, "tool": tool}
    match error:
        case TimeoutError():
            answer = failures.no_answer(tool, server.name, server.timeout_seconds)
        case MCPError():
            answer = failures.refused(tool, server.name, error)
        case ValidationError():
            answer = failures.not_understood(tool, server.name)
        case _:
            _log.error("A tool could not be called.", action="mcp_call_failed", exc_info=error, **ids)
            return failures.our_fault(tool, server.name)
    _log.warning("A call of a tool failed.", action="mcp_call_failed", why=failures.reason(error), **ids)
    return answer


def _hidden(answer: ToolAnswer, server: McpServer) -> ToolAnswer:
    """Without the secrets that we have given the server."""
    text = answer.text
    for secret in server.secrets:
        text = text.replace(secret, HIDDEN)
    return ToolAnswer(text=text, failed=answer.failed)
