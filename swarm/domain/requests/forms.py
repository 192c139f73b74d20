"""Validates what people enter into forms.

Values come as text from Slack and as JSON from the API. Both become the type of their field. Values and patterns are
untrusted: all patterns of a form together may cost a limited amount of work.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final

from pydantic import AnyHttpUrl, StringConstraints, TypeAdapter

from swarm.domain.model.requests import MAX_TEXT_CHARACTERS, FieldType, FormField
from swarm.domain.patterns import TooCostly, WorkLimit, fits_pattern, is_valid

_URL: Final = TypeAdapter(AnyHttpUrl)
_EMAIL: Final = TypeAdapter(Annotated[str, StringConstraints(pattern=r"^[^@\s]{1,64}@[^@\s.]+(\.[^@\s.]+)+$")])
_CHOICES: Final = frozenset({FieldType.SELECT, FieldType.MULTISELECT})
_WORDS: Final = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


@dataclass(frozen=True, kw_only=True, slots=True)
class FilledForm:
    """The typed values of a form. ``problems`` maps the names of invalid fields to what is expected."""

    values: Mapping[str, Any] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)


class _Wrong(ValueError):
    """A value that a field does not take. The message says what is expected."""


def fill(fields: Sequence[FormField], given: Mapping[str, Any], steps: WorkLimit | None = None) -> FilledForm:
    """Converts and checks the values of a form. Absent and empty values of optional fields are left out.

    The work is limited, so that it fits into a transaction. ``steps``: shared with other checks.
    """
    steps = steps or WorkLimit()
    values: dict[str, Any] = {}
    problems = dict.fromkeys(given.keys() - {one.name for one in fields}, "there is no such field")
    for form_field in fields:
        try:
            value = _value(form_field, given.get(form_field.name))
            _check_pattern(form_field, value, steps)
        except _Wrong as wrong:
            problems[form_field.name] = str(wrong)
        else:
            if value is not None:
                values[form_field.name] = value
    return FilledForm(values=values, problems=problems)


def default_of(form_field: FormField) -> Any:
    """Returns the field's default in its type; None if there is none, or if the field does not take it."""
    try:
        return _value(form_field, form_field.default) if form_field.default is not None else None
    except _Wrong:
        return None


def _value(form_field: FormField, given: Any) -> Any:
    if isinstance(given, str) and form_field.type not in (FieldType.TEXT, FieldType.TEXTAREA):
        given = given.strip()
    if given is None or given == "" or given == []:
        if form_field.required:
            raise _Wrong("This is needed.")
        return None
    match form_field.type:
        case FieldType.NUMBER | FieldType.INTEGER:
            return _number(form_field, given)
        case FieldType.BOOLEAN:
            return _boolean(given)
        case FieldType.SELECT:
            return _choice(form_field, given)
        case FieldType.MULTISELECT:
            return _choices(form_field, given)
        case _:
            return _text(form_field, given)


def _number(form_field: FormField, given: Any) -> int | float:
    is_whole = form_field.type is FieldType.INTEGER
    wanted = "Enter a whole number." if is_whole else "Enter a number."
    if isinstance(given, bool) or not isinstance(given, int | float | str) or len(str(given)) > 50:
        raise _Wrong(wanted)
    try:
        number = float(given)
        value = int(given) if is_whole and not isinstance(given, float) else number
    except (ValueError, OverflowError):
        raise _Wrong(wanted) from None
    is_stored_whole = is_whole or isinstance(given, int)
    if not math.isfinite(number) or (is_whole and number != int(number)) or (is_stored_whole and abs(number) >= 2**63):
        raise _Wrong(wanted)
    if form_field.min is not None and number < form_field.min:
        raise _Wrong(f"Enter at least {form_field.min:g}.")
    if form_field.max is not None and number > form_field.max:
        raise _Wrong(f"Enter at most {form_field.max:g}.")
    if is_whole:
        return int(value)
    return int(number) if isinstance(given, int) else number


def _boolean(given: Any) -> bool:
    if isinstance(given, bool):
        return given
    known = _WORDS.get(str(given).lower())
    if known is None:
        raise _Wrong("Choose yes or no.")
    return known


def _choice(form_field: FormField, given: Any) -> str:
    value = str(given) if isinstance(given, str | int | float) and not isinstance(given, bool) else ""
    if value not in {option.value for option in form_field.options}:
        raise _Wrong("Choose one of the options.")
    return value


def _choices(form_field: FormField, given: Any) -> list[str]:
    if not isinstance(given, list):
        raise _Wrong("Choose from the options.")
    values = list(dict.fromkeys(_choice(form_field, value) for value in given))
    if form_field.min is not None and len(values) < form_field.min:
        raise _Wrong(f"Choose at least {form_field.min:g}.")
    if form_field.max is not None and len(values) > form_field.max:
        raise _Wrong(f"Choose at most {form_field.max:g}.")
    return values


def _text(form_field: FormField, given: Any) -> str:
    if isinstance(given, bool) or not isinstance(given, str | int | float):
        raise _Wrong("Enter a text.")
    text = str(given).replace("\0", "")
    if form_field.required and not text.strip():
        raise _Wrong("This is needed.")
    most = MAX_TEXT_CHARACTERS if form_field.max is None else min(int(form_field.max), MAX_TEXT_CHARACTERS)
    if len(text) > most:
        raise _Wrong(f"Enter at most {most:,} characters.")
    if form_field.min is not None and len(text) < form_field.min:
        raise _Wrong(f"Enter at least {form_field.min:g} characters.")
    if form_field.type is FieldType.URL and not is_valid(_URL, text):
        raise _Wrong("Enter a link that begins with https:// or http://.")
    if form_field.type is FieldType.EMAIL and not is_valid(_EMAIL, text):
        raise _Wrong("Enter an e-mail address.")
    return text


def _check_pattern(form_field: FormField, value: Any, steps: WorkLimit) -> None:
    if not form_field.pattern or not isinstance(value, str) or form_field.type in _CHOICES:
        return
    try:
        if not fits_pattern(form_field.pattern, value, steps):
            raise _Wrong(f"Enter a text that fits the pattern {form_field.pattern}.")
    except TooCostly:
        raise _Wrong("Enter a shorter text: this one takes too long to compare with the field's pattern.") from None
