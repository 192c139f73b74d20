"""A tool of any kind: from an MCP server, from a program, or in the coordinator."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolAnswer:
    """A tool's answer. A failure is an answer too, which the model and people may read."""

    text: str  # without secrets
    failed: bool = False


CallTool = Callable[[Mapping[str, Any]], Awaitable[ToolAnswer]]
"""Calls a tool with arguments that fit its parameters. Raises nothing but CancelledError, which ends the call.

A cancelled call leaves no process and no connection behind.
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tool:
    """A tool: its description for a model, and its function."""

    name: str  # 1 to 64 of A-Z, a-z, 0-9, '_' and '-', unique among the tools of an agent
    description: str  # purpose and use, for the model
    parameters: Mapping[str, Any]  # a JSON Schema whose type is "object"
    call: CallTool
    server: str = ""  # the MCP server that provides the tool; empty: none
    most_calls: int | None = None  # in one run; None: no limit
    is_read_only: bool = False  # changes nothing and sends nothing anywhere


def not_for_strangers(tool: Tool, *, by_strangers: bool) -> ToolAnswer | None:
    """Returns a refusal for a run started only by strangers' messages; None if the call may be made."""
    if not by_strangers or tool.is_read_only:
        return None
    return ToolAnswer(
        text=(
            f"{tool.name} was not called: it may change something, and nobody but people who are no members of this "
            f"workspace has asked for it. Go on without {tool.name}; tools that only read still work. Tell them that a "
            "member has to ask for it."
        )
    )


def object_schema(properties: Mapping[str, object], *, required: Sequence[str]) -> Mapping[str, Any]:
    """Returns a JSON Schema of a tool's parameters, without any others."""
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}
