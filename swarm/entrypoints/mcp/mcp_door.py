"""The entry point for MCP, which identifies callers. `swarm.entrypoints.mcp.mcp_server` handles their calls.

That module is loaded by the first call, or by a timer some seconds after the start. Loading the protocol's types would
take a third of a coordinator's startup time, and the coordinator should accept events and polls as soon as possible.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from swarm.domain.watchers import NO_WATCHERS, Watcher
from swarm.entrypoints.web import loading
from swarm.entrypoints.web.answers import Answer
from swarm.entrypoints.web.body import load_json, read_body
from swarm.entrypoints.web.errors import MethodNotAllowed, answer
from swarm.entrypoints.web.identity import CALLER, Identities
from swarm.services.use_cases import Services

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

_MCP_PATH: Final = "/mcp"

_BATCH: Final = {
    "jsonrpc": "2.0",
    "id": None,
    "error": {
        "code": -32600,  # Invalid Request
        "message": "This is a JSON-RPC batch, which MCP has not supported since 2025-06-18. "
        "Send each message in a separate request.",
    },
}

_LOAD_AFTER_SECONDS: Final = 5.0
"""MCP is loaded this long after the start if no call comes earlier, so that the first agent does not have to wait."""


class McpDoor:
    """The MCP endpoint. :meth:`routes` is for the application; :meth:`running` is entered once, while the application
    runs."""

    def __init__(
        self,
        services: Services,
        identities: Identities,
        *,
        watcher: Watcher = NO_WATCHERS,
    ) -> None:
        self._identities = identities
        self._load = partial(_load, services, watcher)
        self._opening = asyncio.Lock()
        self._manager: StreamableHTTPSessionManager | None = None
        self._serving: asyncio.Task[None] | None = None

    def routes(self) -> list[Route]:
        """Returns the routes ``/mcp`` and ``/mcp/``. With a redirect between them, some clients would lose their body
        or token."""
        methods = ["POST", "GET", "DELETE"]
        return [Route(path, self, methods=methods, include_in_schema=False) for path in (_MCP_PATH, f"{_MCP_PATH}/")]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serves calls until the context ends."""
        loading_soon = asyncio.create_task(self._open_soon(), name="mcp loads")
        try:
            yield
        finally:
            for task in filter(None, (loading_soon, self._serving)):
                task.cancel()
                await asyncio.wait({task})

    async def _open_soon(self) -> None:
        await asyncio.sleep(_LOAD_AFTER_SECONDS)
        await self._opened()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope[CALLER] = await self._identities.agent(scope)
        if scope["method"] != "POST":  # there are no server streams and no sessions to end
            await answer(MethodNotAllowed("POST"))(scope, receive, send)
            return
        body = await read_body(Request(scope, receive))
        # The SDK accepts lone surrogates, but fails when it repeats them in a response.
        if isinstance(load_json(body), list):
            await Answer(_BATCH, HTTPStatus.BAD_REQUEST)(scope, receive, send)
            return
        manager = await self._opened()
        await manager.handle_request(scope, _replay(body, receive), send)

    async def _opened(self) -> StreamableHTTPSessionManager:
        """Returns the MCP session manager, which the first call loads. After a failure the next call tries again."""
        async with self._opening:
            if self._manager is None:
                manager = await asyncio.to_thread(self._load)
                started = asyncio.Event()
                self._serving = asyncio.create_task(_serve(manager, started), name="mcp")
                await started.wait()
                self._manager = manager
            return self._manager


def _load(services: Services, watcher: Watcher) -> StreamableHTTPSessionManager:
    """Loads the protocol in a thread. Loading takes seconds, and leases must be renewed meanwhile."""
    with loading.late():
        from swarm.entrypoints.mcp.mcp_server import session_manager  # imported late

    return session_manager(services, watcher)


async def _serve(manager: StreamableHTTPSessionManager, started: asyncio.Event) -> None:
    """Serves until cancelled, in a separate task, since the SDK's resources must be closed by the task that opened
    them."""
    async with manager.run():
        started.set()
        await asyncio.Event().wait()


def _replay(body: bytes, receive: Receive) -> Receive:
    """Returns a ``receive`` function for a body that has already been read."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return waiting.pop() if waiting else await receive()

    return replayed
