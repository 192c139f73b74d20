"""The MCP server: the tools of ``tools/`` for callers that `swarm.entrypoints.mcp.mcp_door` has identified.

The server is stateless, so any process behind a load balancer can answer any call, in both generations of the protocol.
Errors, unknown arguments and wrong types all become results that a model can read and act on.

``tools/list`` has one answer for each role, since every listed tool costs tokens in every run. A role's list contains
the tools that are useful to the role (`McpTool.roles`). The list does not restrict calls; the same rules apply to calls
of other tools.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import version
from typing import Any, Final

import orjson
from pydantic import TypeAdapter, ValidationError

from swarm.domain.errors import Invalid, SwarmError
from swarm.domain.model.agents import Agent, Role
from swarm.domain.text.characters import data_for_model
from swarm.domain.watchers import NO_WATCHERS, ToolCall, Watcher
from swarm.entrypoints.mcp.mcp_protocol import METHOD_NOT_FOUND, MODERN_VERSIONS, McpRequest, negotiated
from swarm.entrypoints.web.body import refuse_unstorable
from swarm.entrypoints.web.errors import describe, invalid, log_crash
from swarm.services.use_cases import Services
from tools.tool import CallContext, McpTool, discover

ERROR: Final = "swarm/error"
"""The key in ``_meta`` for an error's data (code, message, hint, fields) in a result with ``isError``."""

_INSTRUCTIONS: Final = (
    "The tools of a team that works behind one Slack app. You get work by polling, and answer people with slack-reply "
    "or slack-stream. Pass the lease token from your prompt as lease_token to every tool that makes changes."
)

_OFFERED: Final = {"capabilities": {"tools": {"listChanged": False}}, "instructions": _INSTRUCTIONS}

_UNCACHED: Final = {"ttlMs": 0, "cacheScope": "private"}
"""The reply depends on the caller's role, so no proxy may give it to another caller."""

Result = dict[str, Any]


class ToolServer:
    """Every tool in the folder."""

    def __init__(self, services: Services, watcher: Watcher = NO_WATCHERS) -> None:
        self._services = services
        self._watcher = watcher
        self._tools = discover()
        self._listed = _listings(self._tools.values())
        self._program = {"name": "swarm", "version": version("swarm")}

    async def answer(self, request: McpRequest, caller: Agent, lease_token: str | None) -> dict[str, Any]:
        """Returns the JSON-RPC response. Raises ProtocolError for unknown methods and invalid parameters."""
        return request.response(await self._result(request, caller, lease_token), self._program)

    async def _result(self, request: McpRequest, caller: Agent, lease_token: str | None) -> Result:
        match request.method:
            case "tools/call":
                return await self._call(request, caller, lease_token)
            case "tools/list":
                if not isinstance(request.params.get("cursor"), str | None):
                    raise request.invalid()
                listed = {"tools": self._listed[caller.role]}
                return {**listed, **_UNCACHED} if request.is_modern else listed
            case "server/discover" if request.is_modern:
                return {**_OFFERED, **_UNCACHED, "supportedVersions": MODERN_VERSIONS}
            case "initialize" if not request.is_modern:
                return {**_OFFERED, "protocolVersion": negotiated(request), "serverInfo": self._program}
            case "ping" if not request.is_modern:
                return {}
        raise request.error(METHOD_NOT_FOUND, "Method not found", request.method)

    async def _call(self, request: McpRequest, caller: Agent, lease_token: str | None) -> Result:
        name, arguments = request.params.get("name"), request.params.get("arguments")
        if not isinstance(name, str) or not isinstance(arguments, dict | None):
            raise request.invalid()
        call = CallContext(agent=caller, lease_token=lease_token, services=self._services)
        begun = time.perf_counter()
        result = await run_tool(self._tools, call, name, arguments or {})
        told = _told(self._tools, call, name, arguments or {}, result, time.perf_counter() - begun)
        self._watcher.tool_called(told)
        return result


async def run_tool(
    known: Mapping[str, McpTool[Any, Any]], call: CallContext, name: str, arguments: Mapping[str, Any]
) -> Result:
    """Returns the result of a call. Never raises; every error becomes a result with ``isError``."""
    try:
        tool = _find(known, name, call.agent)
        parsed = _parse(tool, arguments)
        return _success(await tool.run(call.with_arguments(parsed), parsed))
    except SwarmError as error:
        if error.code == "internal":
            log_crash(error, action="tool_call", tool=name, agent=call.agent.name)
        return _failure(error)
    except Exception as error:  # noqa: BLE001  this entry point reports the error
        log_crash(error, action="tool_call", tool=name, agent=call.agent.name)
        return _failure(SwarmError())


def _told(
    known: Mapping[str, McpTool[Any, Any]],
    call: CallContext,
    name: str,
    arguments: Mapping[str, Any],
    result: Result,
    seconds: float,
) -> ToolCall:
    """Returns a call for watchers, without the name of an unknown tool, which may be any text."""
    about = arguments.get("inbox_message_id") or arguments.get("task_id")
    return ToolCall(
        tool=name if name in known else "(unknown)",
        agent=call.agent.name,
        about=about if isinstance(about, str) else None,
        result=str(result["_meta"][ERROR]["code"]) if result["isError"] else "ok",
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


def _success(content: Any) -> Result:
    content = data_for_model(content)
    return {"content": _text(orjson.dumps(content).decode()), "structuredContent": content, "isError": False}


def _failure(error: SwarmError) -> Result:
    """Returns an error as text (``code: message hint``, then a line for each wrong argument) and as data in ``_meta``.

    The result has no structured content, which would have to match the tool's output schema even for an error.
    Otherwise clients using the TypeScript SDK 1.x reject the complete result.
    """
    shown = data_for_model(describe(error))
    sentences = " ".join(part for part in (f"{shown['code']}: {shown['message']}", shown["hint"]) if part)
    fields = [f"- {name}: {expected}" for name, expected in shown.get("fields", {}).items()]
    return {"content": _text("\n".join([sentences, *fields])), "isError": True, "_meta": {ERROR: shown}}


def _text(text: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text}]


_Schema = Mapping[str, Any]


def _listings(tools: Iterable[McpTool[Any, Any]]) -> dict[Role, list[Mapping[str, Any]]]:
    """Returns the list of tools for each role. A list contains only tools that the role uses, since each listed tool
    costs tokens in every run. The list does not restrict calls; the services check every call."""
    described = [(tool.roles, _describe_tool(tool)) for tool in tools]
    return {role: [shown for roles, shown in described if role in roles] for role in Role}


@cache  # building the schemas of all tools takes a tenth of a second
def _describe_tool(tool: McpTool[Any, Any]) -> Mapping[str, Any]:
    """Returns a tool's description in the protocol's form."""
    return {
        "name": tool.name,
        "description": tool.description,
        "inputSchema": _short(tool.arguments.model_json_schema(), takes_null=False),
        "outputSchema": _short(TypeAdapter(tool.result).json_schema(), takes_null=True),
        "annotations": {"readOnlyHint": not tool.writes, "openWorldHint": False},
    }


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
