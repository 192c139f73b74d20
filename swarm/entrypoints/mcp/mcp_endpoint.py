"""The entry point for MCP, which identifies callers. `swarm.entrypoints.mcp.mcp_server` handles their calls."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Final

from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from swarm.domain.watchers import NO_WATCHERS, Watcher
from swarm.entrypoints.mcp.mcp_server import session_manager
from swarm.entrypoints.web.answers import Answer
from swarm.entrypoints.web.body import load_json, read_body
from swarm.entrypoints.web.errors import MethodNotAllowed, answer
from swarm.entrypoints.web.identity import CALLER, Identities
from swarm.services.use_cases import Services

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


class McpEntryPoint:
    """The MCP endpoint. :meth:`routes` is for the application; :meth:`running` is entered once, while the application
    runs."""

    def __init__(self, services: Services, identities: Identities, *, watcher: Watcher = NO_WATCHERS) -> None:
        self._identities = identities
        self._manager = session_manager(services, watcher)

    def routes(self) -> list[Route]:
        """Returns the routes ``/mcp`` and ``/mcp/``. With a redirect between them, some clients would lose their body
        or token."""
        methods = ["POST", "GET", "DELETE"]
        return [Route(path, self, methods=methods, include_in_schema=False) for path in (_MCP_PATH, f"{_MCP_PATH}/")]

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Serves calls until the context ends, in a task of its own, since the SDK's resources must be closed by the
        task that opened them."""
        started: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        serving = asyncio.create_task(self._serve(started), name="mcp")
        try:
            await asyncio.wait({serving, started}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                await serving  # raises why it could not start
            yield
        finally:
            serving.cancel()
            await asyncio.wait({serving})

    async def _serve(self, started: asyncio.Future[None]) -> None:
        async with self._manager.run():
            started.set_result(None)
            await asyncio.Event().wait()

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
        await self._manager.handle_request(scope, _replay(body, receive), send)


def _replay(body: bytes, receive: Receive) -> Receive:
    """Returns a ``receive`` function for a body that has already been read."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return waiting.pop() if waiting else await receive()

    return replayed
