"""The checks of Slack's clients before they send a form: required inputs, lengths, numbers, addresses.

https://docs.slack.dev/reference/block-kit/blocks/input-block
"""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation

from slack_twin.elements import Element
from slack_twin.errors import Json
from slack_twin.forms import Values

REQUIRED = "Please complete this required field."
_EMAIL = re.compile(r"[^@\s]+@[^@\s]+\.[^@\s]+")
_URL = re.compile(r"https?://\S+\.\S+")


def form_problems(elements: Iterable[Element], values: Values) -> dict[str, str]:
    """Returns the errors that the person must correct, by block id."""
    problems = {}
    for element in elements:
        if element.is_input and element.state_field is not None:
            held = values[element.block_id][element.action_id].get(element.state_field)
            problem = _problem(element, held)
            if problem:
                problems[element.block_id] = problem
    return problems


def _problem(element: Element, held: object) -> str | None:
    if held in (None, "", []):
        return None if element.block.get("optional") is True else REQUIRED
    match element.type:
        case "plain_text_input":
            return _length_problem(str(held), element.shape)
        case "number_input":
            return _number_problem(str(held), element.shape)
        case "email_text_input" if not _EMAIL.fullmatch(str(held)):
            return "Please enter a valid email address."
        case "url_text_input" if not _URL.fullmatch(str(held)):
            return "Please enter a valid URL."
    if isinstance(held, list):
        return _count_problem(held, element.shape)
    return None


def _length_problem(text: str, shape: Json) -> str | None:
    least, most = shape.get("min_length"), shape.get("max_length", 3_000)
    if isinstance(least, int) and len(text) < least:
        return f"Please enter at least {least} characters."
    if isinstance(most, int) and len(text) > most:
        return f"Please enter at most {most} characters."
    return None


def _number_problem(text: str, shape: Json) -> str | None:
    number = _decimal(text)
    if number is None or (shape.get("is_decimal_allowed") is not True and number != number.to_integral_value()):
        return "Please enter a number." if shape.get("is_decimal_allowed") else "Please enter a whole number."
    least, most = _bound(shape, "min_value"), _bound(shape, "max_value")
    if least is not None and number < least:
        return f"Please enter a number of at least {least}."
    if most is not None and number > most:
        return f"Please enter a number of at most {most}."
    return None


def _bound(shape: Mapping[str, object], name: str) -> Decimal | None:
    return _decimal(str(shape[name])) if name in shape else None


def _decimal(text: str) -> Decimal | None:
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


def _count_problem(held: list[object], shape: Json) -> str | None:
    most = shape.get("max_selected_items", shape.get("max_files"))
    return f"Please choose at most {most}." if isinstance(most, int) and len(held) > most else None
