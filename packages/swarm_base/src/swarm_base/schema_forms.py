"""Translates between JSON Schemas and form fields, for the answers to questions and for the arguments of tool calls.

A property that no widget can show, such as an object or a list of anything, becomes a text field that takes JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Final

from swarm_base.forms import (
    MAX_FIELDS,
    MAX_NAME_CHARACTERS,
    MAX_OPTIONS,
    MAX_PROMPT_CHARACTERS,
    FieldType,
    FormField,
    Option,
)

_FORMATS: Final = {
    "uri": FieldType.URL,
    "url": FieldType.URL,
    "email": FieldType.EMAIL,
    "textarea": FieldType.TEXTAREA,
    "multiline": FieldType.TEXTAREA,
}
_SCHEMAS: Final[Mapping[FieldType, Mapping[str, Any]]] = {
    FieldType.TEXT: {"type": "string"},
    FieldType.TEXTAREA: {"type": "string", "format": "textarea"},
    FieldType.NUMBER: {"type": "number"},
    FieldType.INTEGER: {"type": "integer"},
    FieldType.URL: {"type": "string", "format": "uri"},
    FieldType.EMAIL: {"type": "string", "format": "email"},
    FieldType.SELECT: {"type": "string"},
    FieldType.MULTISELECT: {"type": "array"},
    FieldType.BOOLEAN: {"type": "boolean"},
}
_LIMITS: Final = {
    FieldType.NUMBER: ("minimum", "maximum"),
    FieldType.INTEGER: ("minimum", "maximum"),
    FieldType.MULTISELECT: ("minItems", "maxItems"),
}
_OF_TEXT: Final = ("minLength", "maxLength")


def fields_of(schema: Mapping[str, Any]) -> tuple[FormField, ...]:
    """Returns the fields for an object's properties, in order. A schema of something else has none.

    No field is left out: a form with too many of them, or with a name that is too long, cannot be asked. A required
    name without a property becomes a text.
    """
    properties, required = schema.get("properties"), schema.get("required")
    names = [name for name in required if isinstance(name, str)] if isinstance(required, list) else []
    if not isinstance(properties, dict):
        return ()
    parts = islice((properties | {name: {} for name in names if name not in properties}).items(), MAX_FIELDS + 1)
    return tuple(field_of(name, part if isinstance(part, dict) else {}, required=name in names) for name, part in parts)


def field_of(name: str, schema: Mapping[str, Any], *, required: bool) -> FormField:
    """Returns the field for one property."""
    schema = _without_null(schema)
    kind, choices = _kind(schema), tuple(dict.fromkeys(_options(schema)))
    low, high = _LIMITS.get(kind, _OF_TEXT)
    default = schema.get("default")
    return FormField(
        name=name,
        label=_line(schema.get("title")),
        type=kind,
        required=required,
        description=_text(schema.get("description")),
        options=choices,
        default=json_text(default) if isinstance(default, dict | list) and not choices else default,
        placeholder="JSON" if _is_json(schema) else "",
        min=_number(schema.get(low)),
        max=_number(schema.get(high)),
        pattern=schema["pattern"] if isinstance(schema.get("pattern"), str) and not choices else None,
    )


def schema_of(fields: tuple[FormField, ...]) -> dict[str, Any]:
    """Returns the JSON Schema of the values of a form."""
    return {
        "type": "object",
        "properties": {field.name: dict(_property(field)) for field in fields},
        "required": [field.name for field in fields if field.required],
    }


def json_text(value: object) -> str:
    """Returns a value as readable JSON."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def _property(field: FormField) -> Iterator[tuple[str, Any]]:
    yield from _SCHEMAS[field.type].items()
    values = [option.value for option in field.options]
    if field.type is FieldType.MULTISELECT:
        yield "items", {"type": "string", "enum": values}
    elif values:
        yield "enum", values
    low, high = _LIMITS.get(field.type, _OF_TEXT)
    given = ((low, field.min), (high, field.max))
    limits = {name: int(value) if value == int(value) else value for name, value in given if value is not None}
    words = {"title": field.label, "description": field.description, "pattern": field.pattern}
    yield from ((name, value) for name, value in (words | limits).items() if value not in (None, ""))
    if field.default is not None and not field.secret:
        yield "default", field.default


def _without_null(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the schema of an optional value without its alternative null."""
    either = schema.get("anyOf") or schema.get("oneOf")
    parts = [part for part in either if isinstance(part, dict)] if isinstance(either, list) else []
    parts = [part for part in parts if part.get("type") != "null"]
    if len(parts) == 1 and "enum" not in schema:
        return {**parts[0], **{name: value for name, value in schema.items() if name not in ("anyOf", "oneOf")}}
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return {**schema, "type": next((kind for kind in kinds if kind != "null"), "string")}
    return schema


def _kind(schema: Mapping[str, Any]) -> FieldType:
    has_options = any(True for _ in _options(schema))
    match schema.get("type"):
        case "array" if has_options:
            return FieldType.MULTISELECT
        case "boolean":
            return FieldType.BOOLEAN
        case "number":
            return FieldType.NUMBER
        case "integer":
            return FieldType.INTEGER
        case "object" | "array":
            return FieldType.TEXTAREA
    if has_options:
        return FieldType.SELECT
    return _FORMATS.get(str(schema.get("format")).lower(), FieldType.TEXT)


def _is_json(schema: Mapping[str, Any]) -> bool:
    return schema.get("type") in ("object", "array") and _kind(schema) is FieldType.TEXTAREA


def _options(schema: Mapping[str, Any]) -> Iterator[Option]:
    """Yields the choices: an ``enum`` with optional ``enumNames``, or a ``oneOf`` of constants with titles."""
    items = schema.get("items")
    source = items if isinstance(items, dict) else schema
    values, names = source.get("enum"), source.get("enumNames")
    if isinstance(values, list):
        labels = names if isinstance(names, list) else []
        for place, value in enumerate(values[: MAX_OPTIONS + 1]):
            if isinstance(value, str | int | float) and not isinstance(value, bool):
                yield Option(value=str(value), label=_line(labels[place]) if place < len(labels) else "")
        return
    for part in source.get("oneOf") or source.get("anyOf") or ():
        if isinstance(part, dict) and isinstance(part.get("const"), str):
            yield Option(value=part["const"], label=_line(part.get("title")))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _line(value: object) -> str:
    return " ".join(value[:MAX_NAME_CHARACTERS].split()) if isinstance(value, str) else ""


def _text(value: object) -> str:
    return value[:MAX_PROMPT_CHARACTERS].replace("\0", "") if isinstance(value, str) else ""
