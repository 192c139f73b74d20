"""An MCP server as people write them, with the library: over stdio it speaks the newest protocol."""

import os

from mcp.server import MCPServer
from mcp.server.mcpserver import Context

server = MCPServer("library")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def whoami() -> dict[str, str]:
    """The environment."""
    return dict(os.environ)


@server.tool()
async def grow(ctx: Context) -> str:
    """Get another tool."""
    server.add_tool(lambda: "grown", name="grown", description="There since lately.")
    await ctx.notify_tools_changed()
    return "done"


if __name__ == "__main__":
    server.run("stdio")
