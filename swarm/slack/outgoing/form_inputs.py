"""Input blocks for the fields of a form. https://docs.slack.dev/reference/block-kit/blocks/input-block"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final

from swarm.domain.model.requests import FieldType, FormField
from swarm.domain.requests.forms import default_of
from swarm.slack.form_fields import NO, VALUE_ACTION, YES, block_id_of, option_values
from swarm.slack.outgoing.block_parts import Block, plain

MAX_OPTIONS: Final = 100
"""The maximum number of options in a menu. Menus with more options ask for those that match what was typed."""

MAX_INITIAL_CHARACTERS: Final = 3_000
"""The maximum length of a text in an input."""

_MAX_OPTIONS_CHARACTERS: Final = 10_000  # larger menus would make a form too large for Slack
_MAX_LABEL: Final = 2_000
_MAX_HINT: Final = 2_000
_MAX_PLACEHOLDER: Final = 150
_MAX_OPTION_LABEL: Final = 75

_KEPT: Final = "Entered already. Leave it empty to keep it."
_TYPES: Final = {
    FieldType.NUMBER: "number_input",
    FieldType.INTEGER: "number_input",
    FieldType.URL: "url_text_input",
    FieldType.EMAIL: "email_text_input",
    FieldType.SELECT: "static_select",
    FieldType.MULTISELECT: "multi_static_select",
    FieldType.BOOLEAN: "radio_buttons",
}
_SELECTS: Final = (FieldType.SELECT, FieldType.MULTISELECT)


def input_block(field: FormField, values: Mapping[str, Any]) -> Block:
    """Returns the input of a field, filled in with its value among ``values``, otherwise with its default.

    A field with None among ``values`` is empty. The value of a secret field is not shown.
    """
    is_kept = field.secret and values.get(field.name) not in (None, "")
    block: Block = {
        "type": "input",
        "block_id": block_id_of(field),
        "label": plain(field.title, _MAX_LABEL),
        "element": {"action_id": VALUE_ACTION, **_element(field, shown_value(field, values))},
        "optional": is_kept or not field.required,
    }
    hint = " ".join(filter(None, [field.description, _KEPT if is_kept else ""]))
    return block | ({"hint": plain(hint, _MAX_HINT)} if hint.strip() else {})


def shown_value(field: FormField, values: Mapping[str, Any]) -> Any:
    """Returns the value that an input shows first; None if there is none, or if the input cannot show it."""
    if field.secret:
        return None
    given = values.get(field.name) if field.name in values else field.default
    value = default_of(replace(field, default=given))
    is_text = field.type not in (*_SELECTS, FieldType.BOOLEAN, FieldType.NUMBER, FieldType.INTEGER)
    if value is None and is_text and isinstance(given, str):
        value = given or None  # an invalid text is shown, so that it can be corrected
    is_long = isinstance(value, str) and len(value) > MAX_INITIAL_CHARACTERS
    return None if is_long else value


def is_external(field: FormField) -> bool:
    """Whether a menu has too many options for the message, so that Slack asks for them."""
    labels = sum(len(option.title) + len(option.value) + 60 for option in field.options)
    return field.type in _SELECTS and (len(field.options) > MAX_OPTIONS or labels > _MAX_OPTIONS_CHARACTERS)


def suggestions(fields: tuple[FormField, ...], name: str, query: str) -> dict[str, Any]:
    """Returns the answer to ``block_suggestion``: up to 100 options of a field that contain the query."""
    wanted = query.casefold().strip()
    found = next((field for field in fields if field.name == name), None)
    options = option_objects(found) if found else []
    matching = [option for option in options if wanted in option["text"]["text"].casefold()]
    return {"options": matching[:MAX_OPTIONS]}


def option_objects(field: FormField) -> list[Block]:
    """Returns the options of a field for Slack."""
    return [
        {"text": plain(option.title, _MAX_OPTION_LABEL), "value": value}
        for option, value in zip(field.options, option_values(field), strict=True)
    ]


def _element(field: FormField, value: Any) -> Block:
    kind = _TYPES.get(field.type, "plain_text_input")
    match field.type:
        case FieldType.BOOLEAN:
            return {"type": kind} | _yes_or_no(value)
        case FieldType.SELECT | FieldType.MULTISELECT if field.options:
            return _placeholder(field) | _menu(field, kind, value)
        case FieldType.NUMBER | FieldType.INTEGER:
            return {"type": kind} | _placeholder(field) | _number(field, value)
        case FieldType.URL | FieldType.EMAIL:
            return {"type": kind} | _placeholder(field) | _initial(value)
        case _:
            return {"type": "plain_text_input"} | _placeholder(field) | _text(field, value)


def _yes_or_no(value: Any) -> Block:
    yes, no = ({"text": plain(label, 75), "value": code} for label, code in (("Yes", YES), ("No", NO)))
    shown: Block = {"options": [yes, no]}
    return shown | ({"initial_option": yes if value else no} if isinstance(value, bool) else {})


def _menu(field: FormField, kind: str, value: Any) -> Block:
    options = option_objects(field)
    chosen = value if isinstance(value, list) else [value]
    initial = [made for option, made in zip(field.options, options, strict=True) if option.value in chosen]
    is_multi = field.type is FieldType.MULTISELECT
    menu: Block = {"type": kind, "options": options}
    if is_external(field):
        menu = {"type": kind.replace("static", "external"), "min_query_length": 0}
    if initial:
        menu |= {"initial_options": initial[:MAX_OPTIONS]} if is_multi else {"initial_option": initial[0]}
    if is_multi and field.max is not None and 1 <= field.max <= MAX_OPTIONS:
        menu["max_selected_items"] = int(field.max)
    return menu


def _number(field: FormField, value: Any) -> Block:
    has_range = field.min is None or field.max is None or field.min <= field.max
    limits = {"min_value": field.min, "max_value": field.max} if has_range else {}
    shown = {name: _digits(limit) for name, limit in (limits | {"initial_value": value}).items()}
    return {"is_decimal_allowed": field.type is FieldType.NUMBER} | {name: text for name, text in shown.items() if text}


def _digits(number: float | None) -> str:
    """Returns a number without an exponent, which Slack refuses; empty if it would be very long."""
    if number is None or isinstance(number, bool) or not math.isfinite(number):
        return ""
    whole = int(number) if number == int(number) else number
    text = format(Decimal(str(whole)), "f")
    return text if len(text) <= 30 else ""


def _text(field: FormField, value: Any) -> Block:
    shown: Block = {"multiline": field.type is FieldType.TEXTAREA} | _initial(value)
    length = len(shown.get("initial_value", ""))
    low, high = field.min or 0, field.max or 0
    if 0 < low <= MAX_INITIAL_CHARACTERS and (not length or length >= low) and (not high or low <= high):
        shown["min_length"] = int(low)
    if 1 <= high <= MAX_INITIAL_CHARACTERS and length <= high and low <= high:
        shown["max_length"] = int(high)
    return shown


def _initial(value: Any) -> Block:
    text = value if isinstance(value, str) else ""
    return {"initial_value": text} if text.strip() else {}


def _placeholder(field: FormField) -> Block:
    return {"placeholder": plain(field.placeholder, _MAX_PLACEHOLDER)} if field.placeholder.strip() else {}
