"""The answers to ``tools/list``, one for each role: a listed tool costs every run of an agent its tokens.

A role's list has the tools of use for the role (`McpTool.roles`). The list is no guard: calls of other tools meet the
same rules as ever, those of the services.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any

import mcp_types as types
from pydantic import TypeAdapter

from swarm.domain.model.agents import Role
from tools.tool import McpTool

Schema = Mapping[str, Any]


def listings(tools: Iterable[McpTool[Any, Any]]) -> dict[Role, types.ListToolsResult]:
    """The list of every role. Clients must not share a list, which is the protocol's default ``cacheScope``."""
    described = [(tool.roles, describe_tool(tool)) for tool in tools]
    return {role: types.ListToolsResult(tools=[shown for roles, shown in described if role in roles]) for role in Role}


@cache  # the schemas of all tools take a quarter of a second
def describe_tool(tool: McpTool[Any, Any]) -> types.Tool:
    """A tool in the protocol's form."""
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=_short(tool.arguments.model_json_schema(), takes_null=False),
        output_schema=_short(TypeAdapter(tool.result).json_schema(), takes_null=True),
        annotations=types.ToolAnnotations(read_only_hint=not tool.writes, open_world_hint=False),
    )


def _short(schema: Schema, *, takes_null: bool) -> dict[str, Any]:
    """A pydantic schema without its noise: titles made of names, references, the notes of an enum.

    ``takes_null``: null is a value of its own, as in results. An argument is left out instead; null is taken as well.
    """
    definitions = schema.get("$defs", {})

    def short(node: Schema) -> dict[str, Any]:
        said = {key: value for key, value in node.items() if key not in ("$defs", "title")}
        match node:
            case {"$ref": str(reference)}:
                del said["$ref"]
                meant = short(definitions[reference.removeprefix("#/$defs/")])
                if "enum" in meant:
                    meant.pop("description", None)
                return meant | said
            case {"anyOf": [value, {"type": "null"}], "default": None} if not takes_null:
                del said["anyOf"], said["default"]
                return short(value) | said
            case {"anyOf": [{"type": str(kind)} as value, {"type": "null"}]} if "enum" not in value:
                del said["anyOf"]
                return short({**value, "type": [kind, "null"]}) | said
            case {"anyOf": list(values)}:
                return said | {"anyOf": [short(value) for value in values]}
            case {"properties": dict(properties)}:
                return said | {"properties": {name: short(inner) for name, inner in properties.items()}}
            case {"items": dict(items)}:
                return said | {"items": short(items)}
        return said

    return short(schema)
