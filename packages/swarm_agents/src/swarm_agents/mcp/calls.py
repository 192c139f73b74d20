"""Calls an MCP server's tool once, and converts its result to text for a model, or explains its failure.

Failures are sentences for models and users, and clauses for operators: a reason is a clause that follows the server's
name, "it cannot be reached".

https://modelcontextprotocol.io/specification/2025-11-25/server/tools#tool-result
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import httpx2
import mcp_types as types
import structlog
from mcp import Client, MCPError
from mcp.client.subscriptions import SubscriptionLost
from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT
from pydantic import TypeAdapter, ValidationError

from swarm.agents.failures import OUR_FAULT, GaveUp, unreached
from swarm.config.mcp_servers import McpServer
from swarm.domain.patterns import has_few_values
from swarm_agents.mcp.elicitation import ServerCall, ServerQuestions, elicitations
from swarm_agents.toolbox.people import MOST_WAIT_SECONDS
from swarm_agents.toolbox.tool import ToolAnswer, failed
from swarm_base.redaction import HIDDEN

_MOST_CHARACTERS: Final = 1_000
"""A server's error message is cut to this length."""

_GONE: Final = ("Connection closed", "SSE stream ")  # wording of the library
_SPARE_SECONDS: Final = 30.0  # the library's own limit applies later: its timeout does not notify the server

_MOST_ROUNDS: Final = 10
"""How often one call may be continued with what the server has asked for."""

_ROUND_SECONDS: Final = 0.25  # before a call is continued for which the server has asked for nothing

_RESULT: Final[TypeAdapter[types.CallToolResult | types.InputRequiredResult]] = TypeAdapter(
    types.CallToolResult | types.InputRequiredResult
)

MOST_VALUES: Final = 30_000
"""The values in a server's message. One with more, which would take long to read, ends the call."""

MAX_CHARACTERS: Final = 1024 * 1024
"""Longer results are cut."""

_NOTHING: Final = "The tool succeeded without output."
_NOTHING_FAILED: Final = "The tool failed without giving a reason."

_log = structlog.get_logger(__name__)


class McpServerUnusable(Exception):
    """An error that makes a server unusable; the message is the reason."""


def unavailable(tool: str, server: str) -> ToolAnswer:
    """Returns the answer if the tool is missing or not allowed, or the server is unavailable; callers are not told
    which.
    """
    return failed(f"The tool {tool!r} of the server {server!r} is not available now.")


def busy(tool: str, server: str) -> ToolAnswer:
    """Returns the answer for a call that could not begin, because calls of its server are made one after another."""
    return failed(
        f"The tool {tool!r} of the server {server!r} was not called: another call of the server is still under way, "
        "perhaps because it waits for a person. Try again later."
    )


def _no_answer(tool: str, server: str, seconds: float) -> ToolAnswer:
    """Returns the answer for a call that timed out."""
    return failed(
        f"The tool {tool!r} of the server {server!r} did not answer within {seconds:g} s. "
        "It may or may not have been carried out."
    )


def _refused(tool: str, server: str, error: MCPError) -> ToolAnswer:
    """Returns the answer if the server sent a protocol error or has disconnected."""
    if _is_gone(error):
        return failed(f"The server {server!r} disconnected during the call; it may or may not have been carried out.")
    message = error.message.strip()[:_MOST_CHARACTERS] or f"code {error.code}"
    return failed(f"The server {server!r} answered the call of the tool {tool!r} with an error: {message}")


def _is_gone(error: MCPError) -> bool:
    """Returns whether the connection has ended. Servers also use this error code for other purposes, so the wording is
    checked.
    """
    return error.code == CONNECTION_CLOSED and error.message.startswith(_GONE)


def _not_understood(tool: str, server: str) -> ToolAnswer:
    """Returns the answer for a response that violates the protocol."""
    return failed(
        f"The server {server!r} answered the call of the tool {tool!r} in a form that cannot be understood; "
        "it may or may not have been carried out."
    )


def _asks_back(tool: str, server: str) -> ToolAnswer:
    """Returns the answer if the server requests input from a person or a model."""
    return failed(f"The tool {tool!r} of the server {server!r} asks for more input, which is not possible here.")


def _our_fault(tool: str, server: str) -> ToolAnswer:
    """Returns the answer for an error of the coordinator; the log has the details."""
    return failed(f"The tool {tool!r} of the server {server!r} could not be used: {OUR_FAULT}.")


def reason(error: BaseException) -> str:
    """Returns the reason why a server cannot be used, without text from the server."""
    return next((words for cause in leaves(error) if (words := _reason(cause))), OUR_FAULT)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yields the errors in a group and its subgroups, or the error itself."""
    if isinstance(error, BaseExceptionGroup):
        for part in error.exceptions:
            yield from leaves(part)
    else:
        yield error


def _reason(error: BaseException) -> str | None:
    match error:
        case McpServerUnusable():
            return str(error)
        case GaveUp():
            return error.reason
        case httpx2.HTTPError() | httpx2.InvalidURL():
            return unreached(error)
        case MCPError(code=code) if code == REQUEST_TIMEOUT:
            return "it did not answer in time"
        case MCPError() if _is_gone(error):
            return "it closed the connection"
        case SubscriptionLost():
            return "it closed the connection"
        case MCPError(code=code):
            return f"it answered with an error (code {code})"
        case ValidationError() | RuntimeError():
            return "its answer could not be understood"
        case TimeoutError():
            return "it did not answer in time"
        case _:
            return None


async def call(
    client: Client,
    server: McpServer,
    tool: str,
    arguments: Mapping[str, Any],
    people: ServerQuestions,
    one: ServerCall,
) -> tuple[ToolAnswer, bool]:
    """Calls the tool once. Returns its answer, and whether the connection still works.

    The time limit does not run while the server waits for people. The server is notified of a cancellation or a
    timeout. Raises only CancelledError.
    """
    try:
        async with one.limit:
            result = await _result(client, server, tool, arguments, people, one)
    except Exception as error:  # noqa: BLE001 - a tool's failure is an answer
        one.is_answered = isinstance(error, MCPError) and error.code != REQUEST_TIMEOUT
        return _hidden(_failure(error, server, tool), server), False
    one.is_answered = True
    if isinstance(result, types.InputRequiredResult):
        return _asks_back(tool, server.name), True
    return _hidden(_noted(answer_of(result), one), server), True


async def _result(
    client: Client,
    server: McpServer,
    tool: str,
    arguments: Mapping[str, Any],
    people: ServerQuestions,
    one: ServerCall,
) -> types.CallToolResult | types.InputRequiredResult:
    """Sends the request without `Client.call_tool`, which repeats some calls and withholds some results.

    A call whose result asks people is continued with their answers, as the protocol demands.
    """
    params = types.CallToolRequestParams(name=tool, arguments=dict(arguments))
    seconds = server.timeout_seconds + _SPARE_SECONDS + (MOST_WAIT_SECONDS if people.ask else 0)
    for _ in range(_MOST_ROUNDS):
        result = await client.session.send_request(
            types.CallToolRequest(params=params), _RESULT, request_read_timeout_seconds=seconds
        )
        if not isinstance(result, types.InputRequiredResult) or people.ask is None:
            return result
        asked = elicitations(result.input_requests or {})
        if asked is None:
            return result
        if not asked:
            await asyncio.sleep(_ROUND_SECONDS)
        answers = await asyncio.gather(*(people.answer(one, question) for question in asked.values()))
        responses = dict(zip(asked, answers, strict=True))
        params = params.model_copy(update={"input_responses": responses, "request_state": result.request_state})
    return result


def _noted(answer: ToolAnswer, one: ServerCall) -> ToolAnswer:
    """Adds why people have not answered the server, which it may not say."""
    if not one.notes:
        return answer
    return ToolAnswer(text=f"{answer.text}\n\n[The tool asked people. {' '.join(one.notes)}]", failed=answer.failed)


def _failure(error: Exception, server: McpServer, tool: str) -> ToolAnswer:
    ids = {"server": server.name, "tool": tool}
    match error:
        case TimeoutError():
            answer = _no_answer(tool, server.name, server.timeout_seconds)
        case MCPError():
            answer = _refused(tool, server.name, error)
        case ValidationError():
            answer = _not_understood(tool, server.name)
        case _:
            _log.error("A tool could not be called.", action="mcp_call_failed", exc_info=error, **ids)
            return _our_fault(tool, server.name)
    _log.warning("A call of a tool failed.", action="mcp_call_failed", why=reason(error), **ids)
    return answer


def _hidden(answer: ToolAnswer, server: McpServer) -> ToolAnswer:
    """Removes the secrets given to the server from the answer."""
    text = answer.text
    for secret in server.secrets:
        text = text.replace(secret, HIDDEN)
    return ToolAnswer(text=text, failed=answer.failed)


def answer_of(result: types.CallToolResult) -> ToolAnswer:
    """Returns the result as text: readable content is unchanged, and other content is described in one line each."""
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
        case _:  # content types from later versions of the protocol
            return f"[{block.type}]"


def _unreadable(what: str, mime_type: str | None, base64: str) -> str:
    size = len(base64) * 3 // 4
    return f"[{_listed([what, mime_type, f'{size} bytes'])}; it cannot be shown here]"


def _listed(parts: Iterable[str | None]) -> str:
    return ", ".join(part for part in parts if part)


def _says(texts: Sequence[str], structured: Any) -> bool:
    """Returns whether the texts repeat the structured content. Servers should send both, for clients that support only
    one.
    """
    values = [structured]
    if isinstance(structured, dict) and len(structured) == 1:
        values += structured.values()  # {"result": …}, around a value other than a mapping
    forms: list[Any] = ["\n".join(texts), _parsed("\n".join(texts)), [_parsed(text) for text in texts], list(texts)]
    return bool(texts) and any(value in forms for value in values)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text) if has_few_values(text, MOST_VALUES) else None
    except (ValueError, RecursionError):
        return None


def _bounded(text: str) -> str:
    if len(text) <= MAX_CHARACTERS:
        return text
    return f"{text[:MAX_CHARACTERS]}\n[{len(text) - MAX_CHARACTERS} more characters are left out]"
