"""The arguments of a tool call that waits for approval, as a form in which people change them.

An argument that no widget can show is a text field with JSON. Arguments that people leave as they are stay exactly as
they were, whatever a form would make of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from swarm.domain.model.requests import MAX_FIELDS, FieldType, FormField, ToolRequest, is_json
from swarm.domain.patterns import TooCostly, WorkLimit
from swarm.domain.requests.forms import fill
from swarm.domain.requests.schema_checks import SchemaCheck, Unusable
from swarm.domain.text.unique_keys import KeyTwice, read_json
from swarm_base.schema_forms import field_of, fields_of, json_text

ARGUMENTS: Final = "arguments"
"""The name of the only field of a call whose arguments are edited as one JSON text."""

TOO_COSTLY: Final = (
    "These arguments take too long to check against the schema that the agent gives for them, so they cannot be "
    "changed. Decide about the call as it is, or ask for another one."
)

_TEXTS: Final = (FieldType.TEXT, FieldType.TEXTAREA)
_EMPTY: Final[tuple[object, ...]] = (None, "", [])


def argument_fields(tool: ToolRequest) -> tuple[FormField, ...]:
    """Returns the fields in which people change the arguments of a call, filled in with the current arguments."""
    known = {field.name: field for field in fields_of(tool.schema)}
    others = {name: field_of(name, _schema_like(value), required=False) for name, value in tool.arguments.items()}
    fields = tuple((others | known).values())
    if not fields or len(fields) > MAX_FIELDS:
        return (_whole(tool),)
    return tuple(_filled(field, tool.arguments.get(field.name)) for field in fields)


def changed_arguments(tool: ToolRequest, given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """Returns all arguments with the changes that people entered, and the problems by argument.

    ``given`` has the values of the `argument_fields`, or JSON values. An argument that is missing is left out. Raises
    ValueError, as "name: problem", for invalid JSON.
    """
    fields = {field.name: field for field in argument_fields(tool)}
    if set(fields) == {ARGUMENTS} and ARGUMENTS not in tool.arguments:
        return _whole_arguments(given), {}
    arguments: dict[str, Any] = {}
    problems: dict[str, str] = dict.fromkeys(given.keys() - fields.keys(), "there is no such argument")
    steps = WorkLimit()
    for name, field in fields.items():
        value = given.get(name)
        if name not in given or _is_untouched(tool, field, value):
            arguments |= {name: tool.arguments[name]} if name in given and name in tool.arguments else {}
        elif field.placeholder == "JSON":
            arguments[name] = _parsed(name, value)
        elif value in _EMPTY and isinstance(tool.arguments.get(name), str):
            arguments[name] = ""
        elif field.type in _TEXTS and value is not None and not isinstance(value, str):
            arguments[name] = value  # the schema says what it may be, and Slack sends only texts
        else:
            filled = fill([replace(field, required=False)], {name: value}, steps)
            problems |= filled.problems
            arguments |= filled.values
    return arguments, problems


def argument_problem(
    tool: ToolRequest, arguments: Mapping[str, Any], steps: WorkLimit | None = None
) -> tuple[str, str] | None:
    """Returns the name of the first argument that the tool's schema does not allow, and why; None if all fit.

    A schema that takes too long to check allows no changes: nobody could tell whether they fit.
    """
    if not is_json(arguments):
        return (ARGUMENTS, "Enter numbers of at most 64 bits.")
    if not tool.schema:
        return None
    try:
        errors = SchemaCheck(tool.schema, steps).errors(dict(arguments))
    except TooCostly:
        return (ARGUMENTS, TOO_COSTLY)
    except Unusable:
        return None  # the asker validates its own call
    if not errors:
        return None
    from jsonschema.exceptions import best_match

    wrong = best_match(errors)
    return (str(wrong.absolute_path[0]) if wrong.absolute_path else ARGUMENTS, wrong.message[:500])


def _is_untouched(tool: ToolRequest, field: FormField, value: object) -> bool:
    current = tool.arguments.get(field.name)
    return value in (current, field.default) or (value in _EMPTY and current in _EMPTY)


def _whole_arguments(given: Mapping[str, Any]) -> dict[str, Any]:
    whole = _parsed(ARGUMENTS, given[ARGUMENTS]) if set(given) == {ARGUMENTS} else dict(given)
    if not isinstance(whole, dict):
        raise ValueError(f"{ARGUMENTS}: Enter a JSON object.")
    return whole


def _whole(tool: ToolRequest) -> FormField:
    return FormField(
        name=ARGUMENTS,
        label="Arguments",
        type=FieldType.TEXTAREA,
        default=json_text(dict(tool.arguments)),
        placeholder="JSON",
    )


def _filled(field: FormField, value: object) -> FormField:
    if value is None:
        return field
    default = json_text(value) if isinstance(value, dict | list) and field.type is FieldType.TEXTAREA else value
    kind = field.type
    if kind is FieldType.TEXT and isinstance(default, str) and ("\n" in default or len(default) > 100):
        kind = FieldType.TEXTAREA
    return replace(field, default=default, type=kind)


def _schema_like(value: object) -> dict[str, Any]:
    kinds: tuple[tuple[type, str], ...] = ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"))
    return {"type": next((word for kind, word in kinds if isinstance(value, kind)), "object")}


def _parsed(name: str, text: object) -> Any:
    try:
        return read_json(text) if isinstance(text, str) else text
    except KeyTwice as error:
        raise ValueError(f"{name}: {error}.") from None
    except ValueError:
        raise ValueError(f"{name}: Enter valid JSON.") from None
