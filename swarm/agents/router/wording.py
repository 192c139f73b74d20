"""The router's texts without a model: refusals, questions for missing arguments, and results of failed calls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from swarm.agents.router.decision import AskBack, PlannedCall, example, kind
from swarm.agents.toolbox.arguments import parameters
from swarm.agents.toolbox.tool import Tool, ToolAnswer, shortened

MOST_TOOLS_NAMED: Final = 12
DESCRIPTION_CHARACTERS: Final = 120
RAW_CHARACTERS: Final = 4_000


def refusal(intro: str, tools: Sequence[Tool], outro: str = "") -> str:
    """Words a refusal with the available tools, from their own descriptions."""
    lines = [f"- `{tool.name}`: {_first_sentence(tool.description)}" for tool in tools[:MOST_TOOLS_NAMED]]
    if len(tools) > MOST_TOOLS_NAMED:
        lines.append(f"- and {len(tools) - MOST_TOOLS_NAMED} more")
    return "\n\n".join(part for part in (intro, "\n".join(lines), outro) if part)


def question(ask: AskBack, fallback: str) -> str:
    """Returns the question, in the model's words or from the tool's schema."""
    if ask.question or ask.tool is None:
        return ask.question or fallback
    known = parameters(ask.tool.parameters)
    wanted = [_wanted(name, known.get(name, {})) for name in ask.missing]
    if wanted:
        return f"To run `{ask.tool.name}` I still need {_listed(wanted)}."
    return f"I cannot run `{ask.tool.name}` with that ({'; '.join(ask.problems)}). What should it be?"


def outcome(results: Sequence[tuple[PlannedCall, ToolAnswer]]) -> str:
    """Words the unchanged results of the calls for people, for failed calls and where a model cannot word them."""
    return "\n\n".join(
        _result(call, shortened(answer.text, RAW_CHARACTERS), failed=answer.failed, with_arguments=len(results) > 1)
        for call, answer in results
    )


def for_model(results: Sequence[tuple[PlannedCall, ToolAnswer]]) -> str:
    """Words the results of the calls for the model, with arguments and at full length."""
    return "\n\n".join(
        _result(call, answer.text, failed=answer.failed, with_arguments=True) for call, answer in results
    )


def _result(call: PlannedCall, text: str, *, failed: bool, with_arguments: bool) -> str:
    arguments = json.dumps(dict(call.arguments), ensure_ascii=False, default=str)
    name = f"`{call.tool.name}` with {arguments}" if with_arguments and call.arguments else f"`{call.tool.name}`"
    said = text.strip() or "nothing"
    return f"{name} did not work: {said}" if failed else f"{name} answered:\n{said}"


def _first_sentence(description: str) -> str:
    text = " ".join(description.split())
    sentence = text.split(". ", 1)[0].rstrip(".")
    if len(sentence) > DESCRIPTION_CHARACTERS:
        sentence = sentence[: DESCRIPTION_CHARACTERS - 1] + "…"
    return sentence or "no description"


def _wanted(name: str, schema: object) -> str:
    part = schema if isinstance(schema, dict) else {}
    meaning = str(part.get("description") or "").strip().rstrip(".")
    return f"`{name}` ({meaning or kind(part)}, for example {example(name, part)})"


def _listed(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
