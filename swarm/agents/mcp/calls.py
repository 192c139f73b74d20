"""One call of an MCP server's tool, and its result as text for a model.

https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-result
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import mcp_types as types
import structlog
from mcp import Client, MCPError
from pydantic import TypeAdapter, ValidationError

from swarm.agents.mcp import failures
from swarm.agents.mcp.server import McpServer
from swarm.agents.toolbox.tool import ToolAnswer
from swarm.telemetry.redaction import HIDDEN

_SPARE_SECONDS: Final = 30.0  # the library's own limit comes after ours: its timeout does not notify the server
_RESULT: Final[TypeAdapter[types.CallToolResult | types.InputRequiredResult]] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)

MAX_CHARACTERS: Final = 1024 * 1024
"""Longer results are cut."""

_NOTHING: Final = "The tool has done its work and says nothing about it."
_NOTHING_FAILED: Final = "The tool has failed and does not say why."

_log = structlog.get_logger(__name__)


async def call(client: Client, server: McpServer, tool: str, arguments: Mapping[str, Any]) -> tuple[ToolAnswer, bool]:
    """Calls the tool once. Returns its answer, and whether the connection still works.

    The server is notified of a cancellation or a timeout. Raises nothing but CancelledError.
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
    """Sends the request without `Client.call_tool`, which repeats some calls and withholds some results."""
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
    """Removes the secrets given to the server from the answer."""
    text = answer.text
    for secret in server.secrets:
        text = text.replace(secret, HIDDEN)
    return ToolAnswer(text=text, failed=answer.failed)


def answer_of(result: types.CallToolResult) -> ToolAnswer:
    """Returns the result as text: readable content unchanged, one line for each other content."""
    texts = [block.text for block in result.content if isinstance(block, types.TextContent)]
    parts = [_words(block) for block in result.content]
    if result.structured_content is not None and not _says(texts, result.structured_content):
        parts.append(json.dumps(result.structured_content, ensure_ascii=False, indent=1))
    text = "\n".join(part for part in parts if part)
    return ToolAnswer(text=_bounded(text) or (_NOTHING_FAILED if result.is_error else _NOTHING), failed=result.is_error)


def _words(block: types.ContentBlock) -> str:
    match block:
        case types.TextContent():
            return block.text
        case types.ImageContent() | types.AudioContent():
            return _unreadable(block.type, block.mime_type, block.data)
        case types.ResourceLink():
            described = [block.uri, block.title or block.name, block.mime_type, block.description]
            return f"[resource: {_listed(described)}]"
        case types.EmbeddedResource(resource=types.TextResourceContents() as resource):
            return f"[resource: {_listed([resource.uri, resource.mime_type])}]\n{resource.text}"
        case types.EmbeddedResource(resource=types.BlobResourceContents() as resource):
            return _unreadable(f"resource: {resource.uri}", resource.mime_type, resource.blob)
        case _:  # content types of later versions of the protocol
            return f"[{block.type}]"


def _unreadable(what: str, mime_type: str | None, base64: str) -> str:
    size = len(base64) * 3 // 4
    return f"[{_listed([what, mime_type, f'{size} bytes'])}; it cannot be shown here]"


def _listed(parts: Iterable[str | None]) -> str:
    return ", ".join(part for part in parts if part)


def _says(texts: Sequence[str], structured: Any) -> bool:
    """Whether the texts repeat the structured content: servers should send both, for clients that know only one."""
    values = [structured]
    if isinstance(structured, dict) and len(structured) == 1:
        values += structured.values()  # {"result": …}, around a value other than a mapping
    said: list[Any] = ["\n".join(texts), _parsed("\n".join(texts)), [_parsed(text) for text in texts], list(texts)]
    return bool(texts) and any(value in said for value in values)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _bounded(text: str) -> str:
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[:MAX_CHARACTERS]}\n[{len(text) - MAX_CHARACTERS} more characters are left out]"
