"""What can go wrong with an MCP server: in sentences for models and people, and in clauses for operators.

A reason is a clause that goes on after the server's name: "it cannot be reached".
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
"""So much of what a server says about an error is told."""

_GONE: Final = ("Connection closed", "SSE stream ")  # the library's words


class McpServerUnusable(Exception):
    """The server cannot be used; the message is the reason."""


def failed(text: str) -> ToolAnswer:
    """An answer that is a failure."""
    return ToolAnswer(text=text, failed=True)


def unavailable(tool: str, server: str) -> ToolAnswer:
    """The tool is not there, is not allowed, or its server is not there: the same to whoever wants to use it."""
    return failed(f"The tool {tool!r} of the server {server!r} is not available at the moment.")


def no_answer(tool: str, server: str, seconds: float) -> ToolAnswer:
    """Its time is over."""
    return failed(
        f"The tool {tool!r} of the server {server!r} did not answer within {seconds:g} s. "
        "It may or may not have been carried out."
    )


def refused(tool: str, server: str, error: MCPError) -> ToolAnswer:
    """The server answers with an error of the protocol, or not any more."""
    if is_gone(error):
        return failed(f"The server {server!r} went away during the call; it may or may not have been carried out.")
    said = error.message.strip()[:MOST_CHARACTERS] or f"code {error.code}"
    return failed(f"The server {server!r} answered the call of the tool {tool!r} with an error: {said}")


def is_gone(error: MCPError) -> bool:
    """Whether the connection has ended. Servers use the code of that for whatever they like, so the words count too."""
    return error.code == CONNECTION_CLOSED and error.message.startswith(_GONE)


def not_understood(tool: str, server: str) -> ToolAnswer:
    """What it answered is not what the protocol prescribes."""
    return failed(
        f"The server {server!r} answered the call of the tool {tool!r} in a form that cannot be understood; "
        "it may or may not have been carried out."
    )


def asks_back(tool: str, server: str) -> ToolAnswer:
    """It wants something of a person or a model before it goes on."""
    return failed(f"The tool {tool!r} of the server {server!r} asks something back, which is not possible here.")


def our_fault(tool: str, server: str) -> ToolAnswer:
    """A mistake of ours, which is in the log."""
    return failed(f"The tool {tool!r} of the server {server!r} could not be used: {OUR_FAULT}.")


def reason(error: BaseException) -> str:
    """Why a server cannot be used, without anything that it sent."""
    return next((words for cause in leaves(error) if (words := _reason(cause))), OUR_FAULT)


def leaves(error: BaseException) -> Iterator[BaseException]:
    """The errors of a group, and of groups within it; or the error itself."""
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
