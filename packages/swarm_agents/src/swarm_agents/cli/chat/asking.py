"""Asks the person at the terminal what an agent's run waits for: to approve a tool call, or to fill in a form."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from rich.console import Console
from rich.text import Text

from swarm.domain.answers.events import Asked, Decided
from swarm.domain.answers.questions import decision_on, request_of
from swarm.domain.model.requests import FieldType, FormField, HumanDecision, NewRequest, ToolRequest
from swarm.domain.requests.edited_arguments import argument_problem
from swarm.domain.requests.forms import fill
from swarm.domain.requests.shown import operator_text
from swarm.domain.text.unique_keys import read_json
from swarm_base.characters import for_terminal

_D = HumanDecision
_KEYS: Final = {_D.APPROVE: "[a]pprove", _D.EDIT: "[e]dit", _D.REJECT: "[r]eject"}
_YES_NO: Final = {True: "yes", False: "no"}


_REJECTED: Final = "The person at the terminal has rejected this call."


class AsksLine(Protocol):
    """Reads one line at the terminal."""

    async def ask(self, prompt: str, default: str = "", *, is_secret: bool = False) -> str:
        """Returns what the person entered. Raises EOFError for Ctrl-D, and KeyboardInterrupt for Ctrl-C."""
        ...


class Questions:
    """The questions of runs, at a terminal."""

    def __init__(self, line: AsksLine, console: Console) -> None:
        self._line = line
        self._console = console

    async def decide(self, asked: Sequence[Asked]) -> tuple[Decided, ...]:
        """Returns the person's decisions. Ctrl-C and Ctrl-D reject the question, and all questions after it."""
        decided: list[Decided] = []
        is_left = False
        for one in asked:
            request = request_of(one, one.id)
            answer = None if is_left else await self._decision(request)
            is_left = answer is None
            decided.append(answer or decision_on(request, _D.REJECT, rejected=_REJECTED))
        return tuple(decided)

    async def _decision(self, request: NewRequest) -> Decided | None:
        try:
            if request.prompt:
                self._say(request.prompt)
            if _D.APPROVE in request.decisions:
                return await self._approval(request)
            values = await self._form(request.fields)
            return decision_on(request, _D.ANSWER, values)
        except (EOFError, KeyboardInterrupt):
            self._say("rejected", "dim")
            return None

    async def _approval(self, request: NewRequest) -> Decided:
        if request.tool:
            self._say(operator_text(request.tool), "cyan")
        choices = {words[1]: decision for decision, words in _KEYS.items() if decision in request.decisions}
        prompt = ", ".join(words for decision, words in _KEYS.items() if decision in request.decisions)
        while (decision := choices.get((await self._line.ask(f"{prompt}: ")).strip().lower()[:1])) is None:
            self._say(f"Enter {', '.join(choices)}.", "dim")
        if decision is _D.REJECT:
            return decision_on(request, decision, rejected=_REJECTED)
        arguments = await self._edited(request.tool) if decision is _D.EDIT and request.tool else None
        values = await self._form(request.fields)
        return decision_on(request, decision, values, arguments)

    async def _edited(self, tool: ToolRequest) -> Mapping[str, Any]:
        text = json.dumps(dict(tool.arguments), ensure_ascii=False)
        while True:
            text = await self._line.ask("arguments: ", text)
            try:
                arguments = read_json(text)
            except ValueError as error:
                self._say(f"This is not JSON: {error}.", "red")
                continue
            if not isinstance(arguments, dict):
                self._say("Enter a JSON object.", "red")
            elif problem := argument_problem(tool, arguments):
                self._say(": ".join(problem), "red")
            else:
                return arguments

    async def _form(self, fields: Sequence[FormField]) -> Mapping[str, Any]:
        values: dict[str, Any] = {}
        for field in fields:
            values |= await self._field(field)
        return values

    async def _field(self, field: FormField) -> Mapping[str, Any]:
        """Returns the value of a field by its name; nothing for an optional field that is left empty."""
        if field.description:
            self._say(field.description, "dim")
        text = _default_text(field)
        while True:
            text = await self._line.ask(f"{for_terminal(_label(field))}: ", text, is_secret=field.secret)
            filled = fill([field], {field.name: _given(field, text)})
            if not filled.problems:
                return filled.values
            self._say(filled.problems[field.name], "red")

    def _say(self, text: str, style: str = "") -> None:
        self._console.print(Text(for_terminal(text), style))


def _label(field: FormField) -> str:
    match field.type:
        case FieldType.BOOLEAN:
            hint = "yes, no"
        case FieldType.MULTISELECT:
            hint = f"some of {_choices(field)}, separated by commas"
        case FieldType.SELECT:
            hint = _choices(field)
        case _:
            hint = field.placeholder
    words = ", ".join(word for word in (hint, "" if field.required else "optional") if word)
    return f"{field.title} ({words})" if words else field.title


def _choices(field: FormField) -> str:
    return ", ".join(option.value for option in field.options)


def _default_text(field: FormField) -> str:
    default = field.default
    if isinstance(default, bool):
        return _YES_NO[default]
    if isinstance(default, list):
        return ", ".join(map(str, default))
    return "" if default is None else str(default)


def _given(field: FormField, text: str) -> str | list[str]:
    if field.type is not FieldType.MULTISELECT:
        return text
    return [part.strip() for part in text.split(",") if part.strip()]
