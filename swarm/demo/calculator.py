"""A calculator as an MCP server over stdio, written with the library in the usual way."""

from __future__ import annotations

from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

_Number = int | float


def calculator() -> MCPServer:
    """Returns the server, with a tool for each kind of sum."""
    server = MCPServer("calculator", log_level="WARNING")
    for tool in (add, subtract, multiply, divide):
        server.add_tool(tool)
    return server


def add(
    a: Annotated[float, Field(description="The first number")], b: Annotated[float, Field(description="The second one")]
) -> _Number:
    """Add two numbers."""
    return _plain(a + b)


def subtract(
    a: Annotated[float, Field(description="What to subtract from")],
    b: Annotated[float, Field(description="What to subtract")],
) -> _Number:
    """Subtract the second number from the first."""
    return _plain(a - b)


def multiply(
    a: Annotated[float, Field(description="The first number")], b: Annotated[float, Field(description="The second one")]
) -> _Number:
    """Multiply two numbers."""
    return _plain(a * b)


def divide(
    a: Annotated[float, Field(description="What to divide")],
    b: Annotated[float, Field(description="What to divide by")],
) -> _Number:
    """Divide the first number by the second."""
    if b == 0:
        raise ToolError("nothing can be divided by 0; give another number")
    return _plain(a / b)


def _plain(number: float) -> _Number:
    """Returns a whole number without its point."""
    return int(number) if number.is_integer() else number


if __name__ == "__main__":
    calculator().run("stdio")
