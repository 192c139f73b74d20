"""A calculator as an MCP server over stdio, implemented with the MCP library in the usual way."""

from __future__ import annotations

from typing import Annotated

from mcp.server import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

Number = int | float


def calculator() -> MCPServer:
    """Returns the server, with one tool for each kind of calculation."""
    server = MCPServer("calculator", log_level="WARNING")
    for tool in (add, subtract, multiply, divide):
        server.add_tool(tool)
    return server


def add(
    a: Annotated[float, Field(description="The first number")], b: Annotated[float, Field(description="The second one")]
) -> Number:
    """Add two numbers."""
    return _plain(a + b)


def subtract(
    a: Annotated[float, Field(description="What to subtract from")],
    b: Annotated[float, Field(description="What to subtract")],
) -> Number:
    """Subtract the second number from the first."""
    return _plain(a - b)


def multiply(
    a: Annotated[float, Field(description="The first number")], b: Annotated[float, Field(description="The second one")]
) -> Number:
    """Multiply two numbers."""
    return _plain(a * b)


def divide(
    a: Annotated[float, Field(description="What to divide")],
    b: Annotated[float, Field(description="What to divide by")],
) -> Number:
    """Divide the first number by the second."""
    if b == 0:
        raise ToolError("division by 0 is not possible; give another number")
    return _plain(a / b)


def _plain(number: float) -> Number:
    """Returns a number as an integer if it has no fractional part."""
    return int(number) if number.is_integer() else number


if __name__ == "__main__":
    calculator().run("stdio")
