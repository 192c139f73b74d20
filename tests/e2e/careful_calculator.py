"""The demo's calculator, which asks people before it adds up a lot."""

from typing import Annotated

from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel

from swarm_lab.demo.calculator import add as plain_add
from swarm_lab.demo.calculator import calculator

A_LOT = 1_000_000


class Sure(BaseModel):
    pass


async def sure(a: float, b: float) -> Sure | Elicit[Sure]:
    return Elicit(f"Really add up {a:g} and {b:g}?", Sure) if a + b > A_LOT else Sure()


def add(a: float, b: float, sure: Annotated[Sure, Resolve(sure)]) -> int | float:
    """Add two numbers."""
    return plain_add(a, b)


if __name__ == "__main__":
    server = calculator()
    server.remove_tool("add")
    server.add_tool(add)
    server.run("stdio")
