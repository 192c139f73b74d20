"""An MCP server over HTTP that answers no call of its tool and no farewell."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from mcp.server import MCPServer
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.support.doors import serving


@dataclass
class WebTools:
    """The server, and what came to it."""

    url: str = ""
    called: asyncio.Event = field(default_factory=asyncio.Event)  # its tool "wait"
    left: asyncio.Event = field(default_factory=asyncio.Event)  # its session was to be closed


@asynccontextmanager
async def web_tools() -> AsyncIterator[WebTools]:
    """On a free port."""
    mcp, web = MCPServer("web"), WebTools()

    @mcp.tool()
    async def wait() -> str:
        """Take for ever."""
        web.called.set()
        await asyncio.Event().wait()
        return ""

    async with serving(_hanging(web, mcp.streamable_http_app())) as url:
        web.url = f"{url}/mcp"
        yield web


def _hanging(web: WebTools, app: ASGIApp) -> ASGIApp:
    async def hanging(scope: Scope, receive: Receive, send: Send) -> None:
        headers = dict(scope.get("headers", ()))
        if scope["type"] == "http" and b"mcp-method" in headers:  # the newest protocol, which has no sessions to close
            await PlainTextResponse("Bad Request: no such version", 400)(scope, receive, send)
        elif scope["type"] == "http" and scope["method"] == "DELETE":
            web.left.set()
            while (await receive())["type"] != "http.disconnect":
                pass
        else:
            await app(scope, receive, send)

    return hanging
