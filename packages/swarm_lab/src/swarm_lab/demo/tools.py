"""Calls the coordinator's MCP tools during one run of an agent."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


class Refused(Exception):
    """A tool has refused its call."""


class Tools:
    """The tools, called under the lease of one run, whose token is sent in a header of each call."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @classmethod
    @asynccontextmanager
    async def connected(cls, base_url: str, token: str, lease_token: str) -> AsyncIterator[Self]:
        """Connects to the coordinator for the duration of the block."""
        headers = {"Authorization": f"Bearer {token}", "X-Swarm-Lease": lease_token}
        async with (
            httpx2.AsyncClient(
                headers=headers, timeout=30, trust_env=False, verify=base_url.startswith("https:")
            ) as http,
            Client(streamable_http_client(f"{base_url}/mcp", http_client=http)) as client,
        ):
            yield cls(client)

    async def call(self, tool: str, **arguments: object) -> dict[str, Any]:
        """Returns the tool's result. Raises Refused with the tool's message."""
        result = await self._client.call_tool(tool, arguments)
        if result.is_error:
            said = " ".join(part.text for part in result.content if part.type == "text")
            raise Refused(f"{tool}: {said}")
        return result.structured_content or {}
