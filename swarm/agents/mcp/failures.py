"""Failures of MCP servers: as sentences for models and people, and as clauses for operators.

A reason is a clause that follows the server's name: "it cannot be reached".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import httpx2
from mcp import MCPError
from mcp.client.subscriptions import SubscriptionLost
from mcp_types import CONNECTION_CLOSED, REQUEST_TIMEOUT
from pydantic import ValidationError

from swarm.agents.failures import OUR_FAULT, GaveUp, unreached
from swarm.agents.toolbox.tool import ToolAnswer

MOST_CHARACTERS: Final = 1_000
"""A server's error message is cut at this length."""

_GONE: Final = ("Connection closed", "SSE stream ")  # the library's words


class McpServerUnusable(Exception):
    """The server cannot be used; the message is the reason."""


def failed(text: str) -> ToolAnswer:
    """Returns a failed answer."""
    return ToolAnswer(text=text, failed=True)


def unavailable(tool: str, server: str) -> ToolAnswer:
    """The tool is missing or not allowed, or its server is away; callers are not told which."""
    return failed(f"The tool {tool!r} of the server {server!r} is not available at the moment.")


def no_answer(tool: str, server: str, seconds: float) -> ToolAnswer:
    """The call has timed out."""
    return failed(
        f"The tool {tool!r} of the server {server!r} did not answer within {seconds:g} s. "
        "It may or may not have been carried out."
    )


def refused(tool: str, server: str, error: MCPError) -> ToolAnswer:
    """The server has answered with an error of the protocol, or has gone away."""
    if is_gone(error):
        return failed(f"The server {server!r} went away during the call; it may or may not have been carried out.")
    said = error.message.strip()[:MOST_CHARACTERS] or f"code {error.code}"
    return failed(f"The server {server!r} answered the call of the tool {tool!r} with an error: {said}")


def is_gone(error: MCPError) -> bool:
    """Whether the connection has ended. Servers use this error code for other purposes too, so the words count."""
    return error.code == CONNECTION_CLOSED and error.message.startswith(_GONE)


def not_understood(tool: str, server: str) -> ToolAnswer:
    """The answer breaks the protocol."""
    return failed(
        f"The server {server!r} answered the call of the tool {tool!r} in a form that cannot be understood; "
        "it may or may not have been carried out."
    )


def asks_back(tool: str, server: str) -> ToolAnswer:
    """The server requests input from a person or a model."""
    return failed(f"The tool {tool!r} of the server {server!r} asks something back, which is not possible here.")


def our_fault(tool: str, server: str) -> ToolAnswer:
    """An error of the coordinator; the log has the details."""
    return failed(f"The tool {tool!r} of the server {server!r} could not be used: {OUR_FAULT}.")


def reason(error: BaseException) -> str:
    """Returns the reason why a server cannot be used, without any text from the server."""
    return next((words for cause in leaves(error) if (words := _reason(cause))), OUR_FAULT)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """Yields the errors of a group and its subgroups, or the error itself."""
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
        case MCPError() if is_gone(error):
            return "it closed the connection"
        case SubscriptionLost():
            return "it closed the connection"
        case MCPError(code=code):
            return f"it answered with an error (code {code})"
        case ValidationError() | RuntimeError():
            return "what it answered could not be understood"
        case TimeoutError():
            return "it did not answer in time"
        case _:
            return None
