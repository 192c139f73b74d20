"""Texts cleaned for a model: the last step before the provider, for every built-in agent."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import Final, TypeVar

from pydantic_ai.messages import ModelMessage, ModelRequest, ThinkingPart
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import ToolDefinition

from swarm.domain.text.characters import data_for_model, for_model

_Part = TypeVar("_Part")

_READ: Final = ("content", "args")
"""The fields of a message's part that a model reads; the others are our names and ids."""


def messages_for_model(messages: Sequence[ModelMessage]) -> list[ModelMessage]:
    """Returns the messages with clean texts: instructions, texts of people and tools, the model's texts and calls."""
    return [_message(message) for message in messages]


def parameters_for_model(parameters: ModelRequestParameters) -> ModelRequestParameters:
    """Returns the instructions and the tools, whose descriptions an MCP server may have written, with clean texts."""
    instructions = parameters.instruction_parts
    return replace(
        parameters,
        function_tools=[_tool(tool) for tool in parameters.function_tools],
        output_tools=[_tool(tool) for tool in parameters.output_tools],
        instruction_parts=[_part(part) for part in instructions] if instructions else instructions,
    )


def _message(message: ModelMessage) -> ModelMessage:
    if isinstance(message, ModelRequest):
        parts = [_part(part) for part in message.parts]
        instructions = for_model(message.instructions) if message.instructions else message.instructions
        return replace(message, parts=parts, instructions=instructions)
    return replace(message, parts=[_part(part) for part in message.parts])


def _part(part: _Part) -> _Part:
    """Returns the same part if it is clean already. Thinking is signed by the provider, and stays unchanged."""
    if isinstance(part, ThinkingPart):
        return part
    changed = part
    for name in _READ:
        value = getattr(part, name, None)
        clean = data_for_model(value)
        if clean != value:
            changed = copy(part) if changed is part else changed
            setattr(changed, name, clean)
    return changed


def _tool(tool: ToolDefinition) -> ToolDefinition:
    return replace(
        tool,
        description=for_model(tool.description) if tool.description else tool.description,
        parameters_json_schema=data_for_model(tool.parameters_json_schema),
    )
