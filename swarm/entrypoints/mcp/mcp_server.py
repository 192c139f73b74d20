"""The entry point for MCP: the tools of ``tools/`` over streamable HTTP.

`McpEntryPoint` identifies the callers; the server handles their calls.

The server is stateless, so any process behind a load balancer can answer any call, in both generations of the protocol.
The server uses the SDK's low-level API, so that errors, unknown arguments and wrong types all become results that a
model can read and act on.

``tools/list`` has one answer for each role, since every listed tool costs tokens in every run. A role's list contains
the tools that are useful to the role (`McpTool.roles`). The list does not restrict calls; the same rules apply to calls
of other tools.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import replace
from functools import cache
from http import HTTPStatus
from importlib.metadata import version
from typing import Any, Final

import mcp_types as types
import orjson
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from pydantic import TypeAdapter, ValidationError
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from swarm.domain.errors import Invalid, SwarmError
from swarm.domain.model.agents import Agent, Role
from swarm.domain.watchers import NO_WATCHERS, ToolCall, Watcher
from swarm.entrypoints.web.answers import Answer, json_for_model
from swarm.entrypoints.web.body import MAX_BODY_BYTES, load_json, read_body, refuse_unstorable
from swarm.entrypoints.web.errors import MethodNotAllowed, answer, describe, invalid, log_crash
from swarm.entrypoints.web.identity import BOUND_TO, CALLER, LEASE_HEADER, Identities
from swarm.services.use_cases import Services
from swarm_base.characters import data_for_model
from tools.tool import Arguments, CallContext, McpTool, discover

_MCP_PATH: Final = "/mcp"

_IDS: Final = ("inbox_message_id", "task_id", "parent_id", "thread_id")
"""The arguments of tools that name what a call is about. A key of a lease reaches only some of it."""

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
        self._manager = _session_manager(services, watcher)

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
        scope[CALLER] = await self._identities.agent_or_key(scope)
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


ERROR: Final = "swarm/error"
"""The key in ``_meta`` for an error's data (code, message, hint, fields) in a result with ``isError``."""

_INSTRUCTIONS: Final = (
    "The tools of a team that works behind one Slack app. You get work by polling, and answer people with slack-reply "
    "or slack-stream. Pass the lease token from your prompt as lease_token to every tool that makes changes."
)


def _session_manager(services: Services, watcher: Watcher = NO_WATCHERS) -> StreamableHTTPSessionManager:
    """Returns a server with every tool in the folder, over streamable HTTP, with one exchange per request and no
    sessions."""
    return StreamableHTTPSessionManager(
        app=_create_server(services, watcher=watcher),
        json_response=True,
        stateless=True,
        security_settings=TransportSecuritySettings(
            enable_dns_rebinding_protection=False
        ),  # `swarm.entrypoints.web.access` checks this
        max_request_body_size=MAX_BODY_BYTES,
    )


def _create_server(services: Services, *, watcher: Watcher = NO_WATCHERS) -> Server[dict[str, Any]]:
    """Returns a server with every tool in the folder."""
    known = discover()
    listed = _listings(known.values())

    async def list_tools(
        context: ServerRequestContext[Any, Request], params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        assert context.request is not None  # this server is only available over HTTP
        return listed[_caller(context.request).role]

    async def call_tool(
        context: ServerRequestContext[Any, Request], params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        assert context.request is not None
        call = CallContext(
            agent=_caller(context.request),
            lease_token=context.request.headers.get(LEASE_HEADER),
            bound_to=context.request.scope[BOUND_TO],
            services=services,
        )
        begun = time.perf_counter()
        result = await run_tool(known, call, params.name, params.arguments or {})
        watcher.tool_called(_told(known, call, params, result, time.perf_counter() - begun))
        return result

    return Server(
        "swarm",
        version=version("swarm"),
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


async def run_tool(
    known: Mapping[str, McpTool[Any, Any]], call: CallContext, name: str, arguments: Mapping[str, Any]
) -> types.CallToolResult:
    """Returns the result of a call. Never raises; every error becomes a result with ``isError``."""
    try:
        tool = _find(known, name, call.agent)
        parsed = _parse(tool, arguments)
        return _result(await tool.run(await _bound(call.with_arguments(parsed), parsed), parsed))
    except SwarmError as error:
        if error.code == "internal":
            log_crash(error, action="tool_call", tool=name, agent=call.agent.name)
        return _failure(error)
    except Exception as error:  # noqa: BLE001  this entry point reports the error
        log_crash(error, action="tool_call", tool=name, agent=call.agent.name)
        return _failure(SwarmError())


async def _bound(call: CallContext, arguments: Arguments) -> CallContext:
    """Returns the call under the lease whose key the caller has. Raises LeaseLost, and Forbidden for ids beyond it."""
    if call.bound_to is None:
        return call
    token = call.lease_token or call.bound_to
    ids = {name: [value] for name in _IDS if (value := getattr(arguments, name, None)) is not None}
    ids |= {"depends_on": list(getattr(arguments, "depends_on", ())), "lease_token": [token]}
    await call.services.agents.credentials.check_reach(call.bound_to, ids)
    return replace(call, lease_token=token)


def _told(
    known: Mapping[str, McpTool[Any, Any]],
    call: CallContext,
    params: types.CallToolRequestParams,
    result: types.CallToolResult,
    seconds: float,
) -> ToolCall:
    """Returns a call for watchers, without the name of an unknown tool, which may be any text."""
    arguments = params.arguments or {}
    about = arguments.get("inbox_message_id") or arguments.get("task_id")
    error = result.meta[ERROR] if result.is_error and result.meta else None
    return ToolCall(
        tool=params.name if params.name in known else "(unknown)",
        agent=call.agent.name,
        about=about if isinstance(about, str) else None,
        result=str(error["code"]) if error else "ok",
        seconds=seconds,
    )


def _find(known: Mapping[str, McpTool[Any, Any]], name: str, caller: Agent) -> McpTool[Any, Any]:
    tool = known.get(name)
    if tool is None:
        raise Invalid(
            f"There is no tool '{name}'.",
            hint=f"The tools are: {', '.join(tool.name for tool in known.values() if caller.role in tool.roles)}.",
            fields={"name": "the name of a tool"},
        )
    return tool


def _parse(tool: McpTool[Any, Any], arguments: Mapping[str, Any]) -> Any:
    refuse_unstorable(dict(arguments))
    try:
        return tool.arguments.model_validate(arguments)
    except ValidationError as error:
        problem = invalid(error.errors(include_url=False, include_input=False, include_context=False))
        takes = ", ".join(tool.arguments.model_fields) or "nothing"
        raise Invalid(problem.message, hint=f"{tool.name} takes: {takes}.", fields=problem.fields) from error


def _result(content: Any) -> types.CallToolResult:
    body = json_for_model(content)
    return types.CallToolResult(content=[_text(body.decode())], structured_content=orjson.loads(body))


def _failure(error: SwarmError) -> types.CallToolResult:
    """Returns an error as text (``code: message hint``, then a line for each wrong argument) and as data in ``_meta``.

    The result has no structured content, which would have to match the tool's output schema even for an error.
    Otherwise clients using the TypeScript SDK 1.x reject the complete result.
    """
    shown = data_for_model(describe(error))
    sentences = " ".join(part for part in (f"{shown['code']}: {shown['message']}", shown["hint"]) if part)
    fields = [f"- {name}: {expected}" for name, expected in shown.get("fields", {}).items()]
    return types.CallToolResult(content=[_text("\n".join([sentences, *fields]))], meta={ERROR: shown}, is_error=True)


def _text(text: str) -> types.TextContent:
    return types.TextContent(type="text", text=text)


def _caller(request: Request) -> Agent:
    agent = request.scope[CALLER]
    assert isinstance(agent, Agent)
    return agent


_Schema = Mapping[str, Any]


def _listings(tools: Iterable[McpTool[Any, Any]]) -> dict[Role, types.ListToolsResult]:
    """Returns the list of tools for each role. A list contains only tools that the role uses, since each listed tool
    costs tokens in every run.

    The list does not restrict calls; the services check every call. Clients must not share a list, which is what the
    protocol's default ``cacheScope`` specifies.
    """
    described = [(tool.roles, describe_tool(tool)) for tool in tools]
    return {role: types.ListToolsResult(tools=[shown for roles, shown in described if role in roles]) for role in Role}


@cache  # building the schemas of all tools takes a quarter of a second
def describe_tool(tool: McpTool[Any, Any]) -> types.Tool:
    """Returns a tool's description in the protocol's form."""
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=_short(tool.arguments.model_json_schema(), takes_null=False),
        output_schema=_short(TypeAdapter(tool.result).json_schema(), takes_null=True),
        annotations=types.ToolAnnotations(read_only_hint=not tool.writes, open_world_hint=False),
    )


def _short(schema: _Schema, *, takes_null: bool) -> dict[str, Any]:
    """Returns a pydantic schema without unnecessary parts: titles derived from names, references, and enum
    descriptions.

    If ``takes_null`` is set, null is a value of its own, as in results. In arguments, null is accepted but not listed,
    since optional arguments can be left out.
    """
    definitions = schema.get("$defs", {})

    def short(node: _Schema) -> dict[str, Any]:
        kept = {key: value for key, value in node.items() if key not in ("$defs", "title")}
        match node:
            case {"$ref": str(reference)}:
                del kept["$ref"]
                meant = short(definitions[reference.removeprefix("#/$defs/")])
                if "enum" in meant:
                    meant.pop("description", None)
                return meant | kept
            case {"anyOf": [value, {"type": "null"}], "default": None} if not takes_null:
                del kept["anyOf"], kept["default"]
                return short(value) | kept
            case {"anyOf": [{"type": str(kind)} as value, {"type": "null"}]} if "enum" not in value:
                del kept["anyOf"]
                return short({**value, "type": [kind, "null"]}) | kept
            case {"anyOf": list(values)}:
                return kept | {"anyOf": [short(value) for value in values]}
            case {"properties": dict(properties)}:
                return kept | {"properties": {name: short(inner) for name, inner in properties.items()}}
            case {"items": dict(items)}:
                return kept | {"items": short(items)}
        return kept

    return short(schema)
