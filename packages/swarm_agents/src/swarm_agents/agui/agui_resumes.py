"""Reads people's answers to the questions of a built-in agent, as its clients send them in both dialects.

AG-UI 1.0 answers each interrupt by its id. CAIPE has one answer for all of them, ``form_data`` or ``resume_data``. An
approval counts only if the client says so: other texts and values do not approve a tool call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson
from ag_ui.core import ResumeEntry

from swarm.agents.remote.resumes import DISMISSED
from swarm.domain.answers.events import Asked, Decided
from swarm.domain.answers.questions import (
    ANSWER,
    APPROVED,
    EDITED_ARGUMENTS,
    REASON,
    decided_by_client,
)
from swarm.domain.errors import Conflict, Invalid
from swarm.domain.model.requests import FieldType, FormField
from swarm.domain.requests.forms import fill

_DECISIONS: Final = ("approve", "reject", "edit")

_Values = Mapping[str, Any]


def by_entries(entries: Sequence[ResumeEntry], asked: Sequence[Asked]) -> tuple[Decided, ...]:
    """Returns the decisions in an AG-UI run. Raises Conflict without open questions, and Invalid for other ids."""
    open_ones = _opened(asked)
    ids = [entry.interrupt_id for entry in entries]
    if unknown := [id for id in ids if id not in open_ones]:
        raise _invalid("resume", f"ids of open interrupts: {', '.join(open_ones)}", f"{unknown[0]} is not open")
    if len(set(ids)) < len(ids):
        raise _invalid("resume", "one entry for each interrupt", "An interrupt is answered twice")
    return tuple(
        decided_by_client(
            open_ones[entry.interrupt_id], _payload(entry.payload) if entry.status == "resolved" else None
        )
        for entry in entries
    )


def by_form(form_data: str | _Values, asked: Sequence[Asked]) -> tuple[Decided, ...]:
    """Returns the decisions in CAIPE's ``form_data``: an object or its JSON, the sentence of dismissal, or words.

    Each question gets the values of its own fields. Tool calls wait as one question of CAIPE, so one answer is for all
    of them: ``{"approved": true}``, or the form without values by which services before 0.4.9 are told the same. An
    object by interrupt id gives each its own. Raises Conflict without open questions, and Invalid.
    """
    open_ones = _opened(asked)
    values = _values_of(form_data)
    if values == {} and all(_is_call(one) for one in asked):
        values = {APPROVED: True}
    if isinstance(values, Mapping) and values and values.keys() <= open_ones.keys():
        return tuple(_decided(open_ones[id], part if isinstance(part, Mapping) else {}) for id, part in values.items())
    if isinstance(values, Mapping) and values.get(EDITED_ARGUMENTS):
        _check_single(asked)
    return tuple(_decided(one, values) for one in asked)


def by_data(resume_data: str | _Values, asked: Sequence[Asked]) -> tuple[Decided, ...]:
    """Returns the decisions in CAIPE's ``resume_data``, which is an object with a type, or its JSON.

    ``{"type": "form_input", "values"}``, or ``{"type": "tool_approval", "decision", "edited_args"?, "reason"?}``, or
    ``{"type": "tool_approval", "decisions"}`` with one such decision for each waiting call, in order. Raises Conflict
    without open questions, and Invalid.
    """
    data = _values_of(resume_data)
    if not isinstance(data, Mapping):
        raise _invalid("resume_data", 'an object with a "type"', "This is no answer")
    match data.get("type"):
        case "form_input":
            _opened(asked)
            values = data.get("values")
            return tuple(_decided(one, values if isinstance(values, Mapping) else None) for one in asked)
        case "tool_approval":
            return _by_approvals(data, asked)
        case _:
            raise _invalid("resume_data.type", "form_input or tool_approval", "This is no answer")


def _by_approvals(data: _Values, asked: Sequence[Asked]) -> tuple[Decided, ...]:
    _opened(asked)
    calls = [one for one in asked if _is_call(one)]
    several = data.get("decisions")
    if several is None:
        values = _approval(data)
        if EDITED_ARGUMENTS in values:
            _check_single(asked)
        return tuple(_decided(one, values) for one in calls)
    if not isinstance(several, list) or len(several) != len(calls):
        raise _invalid("resume_data.decisions", f"a list of {len(calls)}, one for each call", "Decisions are missing")
    parts = [part if isinstance(part, Mapping) else {} for part in several]
    return tuple(_decided(one, _approval(part)) for one, part in zip(calls, parts, strict=True))


def _approval(data: _Values) -> _Values:
    """Returns the values of an approval in the form of AG-UI."""
    decision = data.get("decision")
    if decision is None and APPROVED in data:
        return {name: value for name, value in data.items() if name != "type"}
    if decision not in _DECISIONS:
        raise _invalid("resume_data.decision", "approve, reject or edit", "This is no decision")
    values: dict[str, Any] = {APPROVED: decision != "reject"}
    arguments = data.get("edited_args", data.get("arguments"))
    if decision == "edit":
        if not isinstance(arguments, Mapping):
            expected = "the arguments of the tool as an object"
            raise _invalid("resume_data.edited_args", expected, "Arguments are missing")
        values[EDITED_ARGUMENTS] = arguments
    return values | ({REASON: data[REASON]} if isinstance(data.get(REASON), str) else {})


def _decided(asked: Asked, values: _Values | str | None) -> Decided:
    if values is None:
        return decided_by_client(asked, None)
    if _is_call(asked):
        if isinstance(values, str):  # a person may say why they do not approve
            return decided_by_client(asked, {APPROVED: False, REASON: values})
        return decided_by_client(asked, _approval_values(values))
    if isinstance(values, str):  # the answer to the only question
        return decided_by_client(asked, {asked.fields[0].name if len(asked.fields) == 1 else ANSWER: values})
    return decided_by_client(asked, _form_values(asked.fields, values))


def _form_values(fields: Sequence[FormField], values: _Values) -> _Values:
    """Returns the values of a form's own fields in their types. CAIPE sends every value as a text."""
    if not fields:
        return values
    return {field.name: _typed(field, values[field.name]) for field in fields if field.name in values}


def _typed(field: FormField, value: object) -> object:
    """Returns a value in its field's type; unchanged if the field does not take it, because its agent decides."""
    is_list = field.type is FieldType.MULTISELECT and isinstance(value, str)
    parts = [part.strip() for part in str(value).split(",") if part.strip()] if is_list else value
    return fill([field], {field.name: parts}).values.get(field.name, value)


def _approval_values(values: _Values) -> _Values:
    approved = values.get(APPROVED)
    is_word = isinstance(approved, str) and approved.strip().lower() == "true"
    return _with_parsed_arguments({**values, APPROVED: True} if is_word else values)


def _with_parsed_arguments(values: _Values) -> _Values:
    """Returns an approval's values. A form has the arguments in a text field, as JSON."""
    text = values.get(EDITED_ARGUMENTS)
    if not isinstance(text, str):
        return values
    if not text.strip():
        return {name: value for name, value in values.items() if name != EDITED_ARGUMENTS}
    try:
        arguments = orjson.loads(text)
    except orjson.JSONDecodeError:
        arguments = None
    if not isinstance(arguments, dict):
        raise _invalid(EDITED_ARGUMENTS, "a JSON object", "The arguments cannot be read")
    return {**values, EDITED_ARGUMENTS: arguments}


def _opened(asked: Sequence[Asked]) -> Mapping[str, Asked]:
    if not asked:
        raise Conflict("The agent is not waiting for an answer in this conversation.", hint="Send a new message.")
    return {one.id: one for one in asked}


def _is_call(asked: Asked) -> bool:
    """Whether a question is about a tool call of a built-in agent."""
    return asked.tool is not None and bool(asked.decisions)


def _check_single(asked: Sequence[Asked]) -> None:
    """Raises Invalid if other arguments are given without saying for which of several calls."""
    if len(calls := [one.id for one in asked if _is_call(one)]) > 1:
        expected = f"an object by interrupt id: {', '.join(calls)}"
        raise _invalid(EDITED_ARGUMENTS, expected, "Several tool calls wait, and this does not say which is changed")


def _values_of(given: str | _Values) -> _Values | str | None:
    """Returns an answer's values or its words; None if people dismissed the question."""
    if not isinstance(given, str):
        return given
    if given == DISMISSED:
        return None
    try:
        values = orjson.loads(given)
    except orjson.JSONDecodeError:
        return given
    return values if isinstance(values, dict) else given


def _payload(payload: object) -> _Values:
    if payload is None:
        return {}
    return _with_parsed_arguments(payload) if isinstance(payload, dict) else {ANSWER: payload}


def _invalid(field: str, expected: str, message: str) -> Invalid:
    return Invalid(f"{message}.", fields={field: expected})
