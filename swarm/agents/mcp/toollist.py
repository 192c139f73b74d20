"""The list of a server's tools, read whole."""

from __future__ import annotations

from typing import Final

import mcp_types as types
from mcp import Client, MCPError

from swarm.agents.mcp.failures import McpServerUnusable

MOST_PAGES: Final = 100
"""More than that a list has no end."""


async def read_tools(client: Client) -> dict[str, types.Tool]:
    """All tools of a server, by name; of two with one name the first. Raises MCPError, ValidationError or Unusable."""
    tools: dict[str, types.Tool] = {}
    cursor: str | None = None
    for _ in range(MOST_PAGES):
        page = await _page(client, cursor)
        for tool in page.tools:
            tools.setdefault(tool.name, tool)
        if page.next_cursor is None:
            return tools
        cursor = page.next_cursor
    raise McpServerUnusable("its list of tools has no end")


async def _page(client: Client, cursor: str | None) -> types.ListToolsResult:
    try:
        return await client.list_tools(cursor=cursor)
    except MCPError as error:
        if error.code == types.METHOD_NOT_FOUND and cursor is None:
            return types.ListToolsResult(tools=[])  # a server may have nothing but resources
        raise
