"""The entry point for MCP: identifies callers, reads messages and writes responses. `swarm.entrypoints.mcp.mcp_server`
handles the requests."""

from __future__ import annotations

from http import HTTPStatus
from typing import Final

import orjson
import starlette.requests
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from swarm.domain.watchers import NO_WATCHERS, Watcher
from swarm.entrypoints.mcp.mcp_protocol import ProtocolError, check_media_types, read_request
from swarm.entrypoints.mcp.mcp_server import ToolServer
from swarm.entrypoints.web.answers import Answer
from swarm.entrypoints.web.body import load_json, read_body
from swarm.entrypoints.web.errors import MethodNotAllowed, answer
from swarm.entrypoints.web.identity import LEASE_HEADER, Identities
from swarm.services.use_cases import Services

_MCP_PATH: Final = "/mcp"


class McpDoor:
    """The entry point. :meth:`routes` is for the application."""

    def __init__(self, services: Services, identities: Identities, *, watcher: Watcher = NO_WATCHERS) -> None:
        self._identities = identities
        self._server = ToolServer(services, watcher)

    def routes(self) -> list[Route]:
        """Returns the routes ``/mcp`` and ``/mcp/``. With a redirect between them, some clients would lose their body
        or token."""
        methods = ["POST", "GET", "DELETE"]
        return [Route(path, self, methods=methods, include_in_schema=False) for path in (_MCP_PATH, f"{_MCP_PATH}/")]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        caller = await self._identities.agent(scope)
        if scope["method"] != "POST":  # there are no server streams and no sessions to end
            await answer(MethodNotAllowed("POST"))(scope, receive, send)
            return
        body = load_json(await read_body(starlette.requests.Request(scope, receive)))
        headers, response = Headers(scope=scope), Response(status_code=HTTPStatus.ACCEPTED)
        try:
            check_media_types(headers)
            if request := read_request(body, headers):
                said = await self._server.answer(request, caller, headers.get(LEASE_HEADER))
                response = Response(orjson.dumps(said), media_type="application/json")
        except ProtocolError as error:
            response = Answer(error.response, error.status)
        await response(scope, receive, send)
