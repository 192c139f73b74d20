"""An MCP server that asks people, written with the library: it speaks both generations of the protocol."""

from typing import Annotated, Literal

import anyio
from mcp.server import MCPServer
from mcp.server.elicitation import AcceptedElicitation, ElicitationResult
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.resolve import Elicit, Resolve
from pydantic import BaseModel, Field


class Order(BaseModel):
    size: int = Field(title="How many", ge=1, le=9)
    colour: Literal["red", "blue"]
    price: float = 2.5
    gift: bool = False
    note: str | None = None


class Nothing(BaseModel):
    pass


async def order(what: str) -> Elicit[Order]:
    return Elicit(f"Which {what}?", Order)


async def sure(what: str) -> Elicit[Nothing]:
    return Elicit(f"Really {what}?", Nothing)


def made(name: str = "shop") -> MCPServer:
    server = MCPServer(name)

    @server.tool()
    async def buy(what: str, order: Annotated[ElicitationResult[Order], Resolve(order)]) -> str:
        """Buy something."""
        return f"{what}: {order.data.model_dump_json()}" if isinstance(order, AcceptedElicitation) else order.action

    @server.tool()
    async def drop(what: str, sure: Annotated[ElicitationResult[Nothing], Resolve(sure)]) -> str:
        """Drop something, if people confirm it."""
        return sure.action

    @server.tool()
    async def link(ctx: Context) -> str:
        """Ask people to open a link; only in the older protocol."""
        return (await ctx.elicit_url("Sign in", "https://example.org/in", "e1")).action

    @server.tool()
    async def nag(ctx: Context) -> str:
        """Ask again and again; only in the older protocol."""
        return " ".join([(await ctx.elicit("Now?", Nothing)).action for _ in range(12)])

    @server.tool()
    async def wait() -> str:
        """Take for ever."""
        await anyio.sleep_forever()
        return ""

    return server


if __name__ == "__main__":
    made().run("stdio")
