"""Reads the form of an interrupt before AG-UI 1.0: a list of fields in its payload, as CAIPE sends it.

A field has a name, a label, a type, options and a default; several names are in use for each of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from swarm.agents.remote.translation.wire import JsonObject, first, id_of, is_object, line_of, text_of
from swarm.domain.model.requests import (
    MAX_FIELDS,
    MAX_OPTIONS,
    MAX_PROMPT_CHARACTERS,
    FieldType,
    FormField,
    Option,
)

_SECRETS: Final = frozenset({"password", "secret"})
_TYPES: Final = {
    **{kind.value: kind for kind in FieldType},
    "int": FieldType.INTEGER,
    "float": FieldType.NUMBER,
    **dict.fromkeys(("checkbox", "bool", "toggle"), FieldType.BOOLEAN),
    **dict.fromkeys(("dropdown", "radio", "choice", "enum"), FieldType.SELECT),
    **dict.fromkeys(("multi_select", "checkboxes", "array", "list"), FieldType.MULTISELECT),
    **dict.fromkeys(("multiline", "long_text", "longtext"), FieldType.TEXTAREA),
    "uri": FieldType.URL,
}
_CHOICES: Final = frozenset({FieldType.SELECT, FieldType.MULTISELECT})
_WORDS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def listed_fields(payload: JsonObject) -> tuple[FormField, ...] | None:
    """Returns the fields that a payload lists; None if it lists none.

    Optional fields without a name are left out, and of two with the same name the second one. A form with too many
    fields, or with a required one that has no name, cannot be asked, so these stay.
    """
    listed = first(payload, "fields", "input_fields", "inputFields")
    if not isinstance(listed, list):
        return None
    fields: dict[str, FormField] = {}
    for field in listed:
        if is_object(field) and (_name(field) or first(field, "required") is True) and len(fields) <= MAX_FIELDS:
            fields.setdefault(_name(field), _field(field))
    return tuple(fields.values())


def _name(field: JsonObject) -> str:
    return id_of(first(field, "field_name", "name", "id", "key"))


def _field(field: JsonObject) -> FormField:
    options = tuple(dict.fromkeys(_options(first(field, "options", "field_values", "values", "choices"))))
    word = line_of(first(field, "field_type", "type", "kind")).lower()
    kind = _TYPES.get(word, FieldType.SELECT if options else FieldType.TEXT)
    if kind in _CHOICES and not options:
        kind = FieldType.TEXT
    pattern = first(field, "pattern", "regex")
    return FormField(
        name=_name(field),
        label=line_of(first(field, "field_label", "label", "title")),
        type=kind,
        required=first(field, "required") is True,
        default=_default(first(field, "default_value", "default", "value"), kind),
        placeholder=line_of(first(field, "placeholder")),
        description=text_of(first(field, "field_description", "description", "help"), MAX_PROMPT_CHARACTERS),
        options=options,
        min=_number(first(field, "min", "minimum", "minLength", "min_length")),
        max=_number(first(field, "max", "maximum", "maxLength", "max_length")),
        pattern=pattern if isinstance(pattern, str) else None,
        secret=word in _SECRETS or any(field.get(name) is True for name in ("secret", "password", "sensitive")),
    )


def _options(values: object) -> Iterator[Option]:
    """Yields each choice: a value, or an object with a value and a label."""
    for given in values[: MAX_OPTIONS + 1] if isinstance(values, list) else ():
        value = first(given, "value", "id", "label") if is_object(given) else given
        if not isinstance(value, str | int | float) or isinstance(value, bool):
            continue
        label = line_of(first(given, "label", "title", "name")) if is_object(given) else ""
        yield Option(value=str(value), label=label)


def _default(value: object, kind: FieldType) -> Any:
    """Returns a default in its field's type. CAIPE sends every default as a text."""
    match kind:
        case FieldType.BOOLEAN:
            return value if isinstance(value, bool) else _WORDS.get(str(value).lower())
        case FieldType.MULTISELECT:
            parts = value.split(",") if isinstance(value, str) else value if isinstance(value, list) else []
            return [str(part).strip() for part in parts[:MAX_OPTIONS]] or None
        case FieldType.NUMBER | FieldType.INTEGER:
            number = _number(value)
            return int(number) if number is not None and number.is_integer() else number
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    return text_of(str(value), MAX_PROMPT_CHARACTERS)


def _number(value: object) -> float | None:
    """Returns a finite number that is given as such or as a text."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) < float("inf") else None
