"""A transport of the MCP client over streamable HTTP, through a client of our own.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#streamable-http
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final

import httpx2
from mcp.client.streamable_http import streamable_http_client

from swarm.agents.http import CONNECT_SECONDS, Limited, open_client
from swarm.agents.mcp.server import Address
from swarm.agents.mcp.stdio import LINE_BYTES

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

MAX_BYTES: Final = LINE_BYTES
"""The longest message of a server."""

WRITE_SECONDS: Final = 30.0


class Refusals:
    """The status with which a server refused the last request, if any; the library does not report it."""

    def __init__(self) -> None:
        self.last: int | None = None

    @property
    def reason(self) -> str | None:
        """Returns the reason for the refusal, as far as the status tells; None without a refusal."""
        match self.last:
            case None:
                return None
            case 401 | 403:
                return f"it does not let us in (HTTP {self.last}): look at its headers"
            case 404 | 405:
                return f"there is no MCP server at its address (HTTP {self.last})"
            case _:
                return f"it answered with HTTP {self.last}"


@asynccontextmanager
async def over_http(address: Address, refusals: Refusals) -> AsyncGenerator[TransportStreams]:
    """Connects to a server's address. Nothing is sent twice, and redirects stay within the origin."""

    async def look(response: httpx2.Response) -> None:
        if response.request.method == "POST":  # a server need not support the other methods
            refusals.last = response.status_code if response.is_error else None
        is_endless = response.headers.get("Content-Type", "").startswith("text/event-stream")
        if isinstance(response.stream, httpx2.AsyncByteStream) and not is_endless:
            response.stream = Limited(response.stream, MAX_BYTES)

    async with open_client([address.url]) as client:
        # The caller limits the time of an answer.
        client.timeout = httpx2.Timeout(None, connect=CONNECT_SECONDS, write=WRITE_SECONDS)
        client.headers.update(address.headers)
        client.event_hooks = {"response": [look]}
        async with streamable_http_client(address.url, http_client=client, max_sse_event_size=MAX_BYTES) as streams:
            yield streams
