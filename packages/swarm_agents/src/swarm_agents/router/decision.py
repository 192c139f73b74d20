"""The router's decision, made by one model call: call tools, ask the user, or refuse.

The model sees example values of parameters, taken from the schema or derived from the name and type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pydantic_ai import ToolDefinition
from pydantic_ai.messages import ModelResponse, ToolCallPart
from pydantic_ai.models import ModelRequestParameters

from swarm.domain.text.unique_keys import read_json
from swarm_agents.toolbox.arguments import mended_and_checked, parameters, required
from swarm_agents.toolbox.tool import Tool

_BY_NAME: Final = (
    ("email", "ada@example.org"),
    ("url", "https://example.org/page"),
    ("date", "2026-03-31"),
    ("time", "14:30"),
    ("city", "Lisbon"),
    ("country", "Portugal"),
    ("currency", "EUR"),
    ("language", "en"),
    ("path", "docs/README.md"),
    ("file", "report.md"),
    ("repo", "octo/hello"),
    ("branch", "main"),
    ("channel", "general"),
    ("query", "deploy fails"),
    ("title", "A short title"),
    ("message", "A few words"),
    ("text", "A few words"),
    ("name", "Ada"),
    ("id", "42"),
)
"""Parts of parameter names, most specific first."""

_BY_TYPE: Final[Mapping[object, object]] = {
    "integer": 7,
    "number": 6,
    "boolean": True,
    "array": [],
    "object": {},
    "string": "some text",
}


_MOST_CHOICES: Final = 20
"""The maximum number of allowed values repeated in the description. The schema contains all values."""

ASK: Final = "swarm_ask"
REFUSE: Final = "swarm_refuse"
STOP: Final = "swarm_stop"

OWN: Final = frozenset({ASK, REFUSE, STOP})
"""Reserved names that a server's tools cannot use."""


_QUESTION_MARKS: Final = ("?", "？", "؟")
_SENTENCE_END: Final = re.compile(r"[.!?…。？！؟](\s|$)|\n")


def _described(name: str, schema: Mapping[str, Any]) -> str:
    """Describes a tool's parameters in one or two lines: required, then optional, each with its type and an example."""
    needed = set(required(schema))
    known = parameters(schema)
    lines = [
        f"{label}: " + "; ".join(_parameter(key, part) for key, part in known.items() if (key in needed) == is_needed)
        for label, is_needed in (("Required", True), ("Optional", False))
        if any((key in needed) == is_needed for key in known)
    ]
    return "\n".join(lines) or f"{name} takes no parameters."


def example(name: str, schema: Mapping[str, Any]) -> object:
    """Returns a plausible value for the parameter."""
    given = schema.get("examples")
    if isinstance(given, list) and given:
        return given[0]
    for key in ("example", "const", "default"):
        if schema.get(key) is not None:
            return schema[key]
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        return choices[0]
    return _inferred(name, schema)


def kind(schema: Mapping[str, Any]) -> str:
    """Returns a readable name of the type: "number", "integer or null"."""
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return " or ".join(str(one) for one in kinds)
    if not kinds and (options := _options(schema)):
        return " or ".join(dict.fromkeys(kind(option) for option in options))
    return str(kinds) if kinds else "value"


def _parameter(name: str, schema: Mapping[str, Any]) -> str:
    meaning = str(schema.get("description") or "").strip().rstrip(".")
    choices = schema.get("enum")
    options = (
        ", one of " + ", ".join(map(repr, choices[:_MOST_CHOICES])) if isinstance(choices, list) and choices else ""
    )
    return f"{name} ({kind(schema)}{options}, e.g. {example(name, schema)!r})" + (f" - {meaning}" if meaning else "")


def _inferred(name: str, schema: Mapping[str, Any]) -> object:
    first = _first_kind(schema)
    if first is None and (options := _options(schema)):
        return example(name, next((option for option in options if _first_kind(option) != "null"), {}))
    if first in (None, "string"):
        telling = (value for part, value in _BY_NAME if part in name.lower())
        return next(telling, _BY_TYPE["string"])
    if first == "array":
        items = schema.get("items")
        return [example(name.removesuffix("s"), items)] if isinstance(items, Mapping) else []
    return _BY_TYPE.get(first, "some text")


def _first_kind(schema: Mapping[str, Any]) -> str | None:
    kinds = schema.get("type")
    named = [one for one in (kinds if isinstance(kinds, list) else [kinds]) if isinstance(one, str)]
    return next((one for one in named if one != "null"), named[0] if named else None)


def _options(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    options = schema.get("anyOf") or schema.get("oneOf")
    return [one for one in options if isinstance(one, Mapping)] if isinstance(options, list) else []


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedCall:
    """A tool call with valid arguments."""

    id: str
    tool: Tool
    arguments: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class CallTools:
    """A decision to call tools. All arguments are known."""

    calls: tuple[PlannedCall, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class AskBack:
    """A decision to ask the user, because an argument is missing or invalid. ``question`` is the model's own wording
    and may be empty.
    """

    question: str = ""
    tool: Tool | None = None
    missing: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    others: tuple[AskBack, ...] = ()  # what else to ask, for other calls


@dataclass(frozen=True, kw_only=True, slots=True)
class Refuse:
    """A decision to refuse the request, because no tool fits it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StopDecision:
    """A decision to stop, because the user cancels the request."""


RouterDecision = CallTools | AskBack | Refuse | StopDecision


def offer(tools: Sequence[Tool]) -> ModelRequestParameters:
    """Returns the choices offered to the model, which must choose one and writes no text.

    Some models cannot be forced to choose, such as Claude while it is thinking: see `decision_in`.
    """
    own = [
        _own(
            ASK,
            "Ask the user for what is missing to call a tool. Call this instead of writing the question yourself.",
            question="the question, in the user's language",
        ),
        _own(REFUSE, "No tool does what is wanted, or it is small talk or a question of general knowledge."),
        _own(STOP, "The user no longer wants the request: never mind, stop, cancel, forget it."),
    ]
    return ModelRequestParameters(
        function_tools=[*(_definition(tool) for tool in tools if tool.name not in OWN), *own],
        allow_text_output=False,
    )


def decision_in(response: ModelResponse, tools: Sequence[Tool]) -> RouterDecision:
    """Reads the decision from a response. Calls to tools that were not offered are ignored.

    Text instead of calls is also ignored, unless it consists of a single question: then the router asks the user. A
    general answer that ends with "Do you want to know more?" does not count as a question.
    """
    offered = {tool.name: tool for tool in tools if tool.name not in OWN}
    wanted = [part for part in response.parts if isinstance(part, ToolCallPart)]
    for part in wanted:
        if part.tool_name == ASK:
            question = _arguments(part).get("question")
            return AskBack(question=question.strip() if isinstance(question, str) else "")
    if any(part.tool_name == STOP for part in wanted):
        return StopDecision()
    if not wanted and _is_a_question(text := (response.text or "").strip()):
        return AskBack(question=text)
    calls = list(_calls(wanted, offered))
    asked = [call for call in calls if isinstance(call, AskBack)]
    return replace(asked[0], others=tuple(asked[1:])) if asked else _all(calls)


def _is_a_question(text: str) -> bool:
    return text.endswith(_QUESTION_MARKS) and not _SENTENCE_END.search(text[:-1])


def _all(calls: Sequence[PlannedCall | AskBack]) -> RouterDecision:
    fit = tuple(call for call in calls if isinstance(call, PlannedCall))
    return CallTools(calls=fit) if fit else Refuse()


def _calls(wanted: Sequence[ToolCallPart], offered: Mapping[str, Tool]) -> Iterator[PlannedCall | AskBack]:
    """Yields the calls that can be made, and a question for each call that cannot be made yet."""
    for part in wanted:
        tool = offered.get(part.tool_name)
        if tool is None:
            continue
        arguments, found = mended_and_checked(tool.parameters, _arguments(part))
        if found.is_fine:
            yield PlannedCall(id=part.tool_call_id, tool=tool, arguments=arguments)
        else:
            yield AskBack(tool=tool, missing=found.missing, problems=found.problems)


def _arguments(part: ToolCallPart) -> dict[str, Any]:
    """Returns the arguments from any provider's format; empty if the value is not an object."""
    try:
        arguments = read_json(part.args) if isinstance(part.args, str) else part.args
    except ValueError:
        return {}
    return dict(arguments) if isinstance(arguments, Mapping) else {}


def _definition(tool: Tool) -> ToolDefinition:
    return ToolDefinition(
        name=tool.name,
        description=f"{tool.description}\n{_described(tool.name, tool.parameters)}".strip(),
        parameters_json_schema=dict(tool.parameters),
    )


def _own(name: str, description: str, **texts: str) -> ToolDefinition:
    properties = {key: {"type": "string", "description": meaning} for key, meaning in texts.items()}
    schema = {"type": "object", "properties": properties, "required": list(texts)}
    return ToolDefinition(name=name, description=description, parameters_json_schema=schema)
