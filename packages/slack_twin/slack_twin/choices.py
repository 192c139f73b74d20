"""Converts a plain value from the control API or the page to the fields that Slack sends for an element.

A value or a label names an option; a name or an id names a person, channel or conversation. Elements with several
values take lists. Slack's own format (`{"selected_option": {...}}`) is accepted as well.
"""

import re
from collections.abc import Callable, Iterable, Mapping

from slack_twin.directory import Directory
from slack_twin.elements import STATE_FIELDS, Element
from slack_twin.errors import ControlError, Json

_DATE = re.compile(r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])", re.ASCII)
_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d", re.ASCII)
# The fields in which Slack's clients wrap a value.
_FIELDS = frozenset(STATE_FIELDS.values())
# The initial values of elements, by the field of the state.
_INITIAL = {field: field.replace("selected", "initial") for field in _FIELDS} | {
    "value": "initial_value",
    "rich_text_value": "initial_value",
}


class Choices:
    """Converts a person's input for an element. Raises ControlError 422 with the valid values."""

    def __init__(
        self,
        directory: Directory,
        offered: Mapping[tuple[str, str], list[Json]] | None = None,
        current: str | None = None,
    ) -> None:
        """`offered` are an app's options of external menus, by block and action.

        `current` is the person's current conversation, which menus may preselect.
        """
        self._directory = directory
        self._offered = offered or {}
        self._current = current

    def initial(self, element: Element) -> Json:
        """Returns the initial state of an element."""
        field = STATE_FIELDS[element.type]
        is_many = field.endswith("s")
        held: object = [] if is_many else None
        if self._current and element.shape.get("default_to_current_conversation") is True:
            held = [self._current] if is_many else self._current
        return {"type": element.type, field: element.shape.get(_INITIAL[field], held)}

    def state(self, element: Element, value: object) -> Json:
        """Returns the state of an element with `value`; None clears it."""
        field, value = STATE_FIELDS[element.type], _unwrapped(value)
        if value is None:
            return {"type": element.type, field: [] if field.endswith("s") else None}
        return {"type": element.type, field: self._read(element, field, value)}

    def pressed(self, element: Element, value: object) -> Json:
        """Returns the additional fields of a press.

        Menus need a value, and feedback buttons need the pressed button.
        """
        if element.type == "overflow":
            return {"selected_option": self._option(element, _unwrapped(value))}
        if element.type == "feedback_buttons":
            chosen = _match(element, value, {str(button["value"]): button for button in _feedback(element)})
            return {"value": chosen["value"], "text": chosen["text"]}
        return {}

    def _read(self, element: Element, field: str, value: object) -> object:
        reader: Callable[[Element, object], object] = {
            "selected_option": self._option,
            "selected_options": self._options,
            "selected_date": _date,
            "selected_time": _time,
            "selected_date_time": _moment,
            "value": _text,
            "rich_text_value": _rich_text,
            "files": _files,
        }.get(field, self._ids if field.endswith("s") else self._id)
        return reader(element, value)

    def _option(self, element: Element, value: object) -> Json:
        """Returns the option with this value or label, in the format of payloads."""
        wanted = value.get("value") if isinstance(value, dict) else value
        return _match(element, wanted, self._known_options(element))

    def _known_options(self, element: Element) -> dict[str, Json]:
        options = [*_options_in(element.shape), *self._offered.get((element.block_id, element.action_id), [])]
        by_label = {_label(option): option for option in options}
        return by_label | {str(option["value"]): option for option in options}

    def _options(self, element: Element, value: object) -> list[Json]:
        return [self._option(element, item) for item in _items(element, value)]

    def _id(self, element: Element, value: object) -> str:
        if not isinstance(value, str) or not value:
            raise _wrong(element, "a name or an id")
        name, directory = value.removeprefix("@"), self._directory
        found = directory.channel(value) or directory.user(name)
        if element.type.endswith("users_select"):
            found = directory.user(name)
        elif element.type.endswith("channels_select"):
            found = directory.channel(value)
        if found is None:
            raise _wrong(element, f"an existing person, channel or conversation, not {value!r}")
        return found.id

    def _ids(self, element: Element, value: object) -> list[str]:
        return [self._id(element, item) for item in _items(element, value)]


def _feedback(element: Element) -> Iterable[Json]:
    """Returns the two feedback buttons."""
    for name in ("positive_button", "negative_button"):
        button = element.shape.get(name)
        if isinstance(button, dict):
            yield button


def _unwrapped(value: object) -> object:
    """Returns the plain value of an input in Slack's format."""
    if not isinstance(value, dict):
        return value
    return next((value[field] for field in _FIELDS if field in value and field != "value"), value)


def _options_in(shape: Json) -> Iterable[Json]:
    groups, options = shape.get("option_groups"), shape.get("options")
    for group in groups if isinstance(groups, list) else ():
        yield from group["options"]
    if isinstance(options, list):
        yield from options


def _label(option: Json) -> str:
    text = option.get("text")
    return str(text.get("text")) if isinstance(text, dict) else ""


def _match(element: Element, wanted: object, known: Mapping[str, Json]) -> Json:
    """Returns the matching value. Raises ControlError 422, which lists the valid values."""
    found = known.get(wanted) if isinstance(wanted, str) else None
    if found is None:
        values = dict.fromkeys(str(option["value"]) for option in known.values())
        raise _wrong(element, f"one of {', '.join(values) or 'no options'}, not {wanted!r}")
    return found


def _items(element: Element, value: object) -> list[object]:
    if not isinstance(value, list):
        raise _wrong(element, "a list")
    return value


def _date(element: Element, value: object) -> str:
    if not (isinstance(value, str) and _DATE.fullmatch(value)):
        raise _wrong(element, "a date like 2026-11-21")
    return value


def _time(element: Element, value: object) -> str:
    if not (isinstance(value, str) and _TIME.fullmatch(value)):
        raise _wrong(element, "a time like 09:30")
    return value


def _moment(element: Element, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or len(str(value)) != 10:
        raise _wrong(element, "a time in seconds since 1970, with ten digits")
    return value


def _text(element: Element, value: object) -> str | None:
    if isinstance(value, dict):
        value = value.get("value")
    if isinstance(value, int | float) and element.type == "number_input" and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str):
        raise _wrong(element, "a string")
    return value or None


def _rich_text(element: Element, value: object) -> Json:
    """Returns rich text unchanged, and plain text as rich text with one section."""
    if isinstance(value, dict) and value.get("type") == "rich_text":
        return value
    if not isinstance(value, str):
        raise _wrong(element, "a string or a rich_text block")
    section = {"type": "rich_text_section", "elements": [{"type": "text", "text": value}]}
    return {"type": "rich_text", "elements": [section]}


def _files(element: Element, value: object) -> list[object]:
    """Returns files by id, as file objects."""
    return [{"id": item} if isinstance(item, str) else item for item in _items(element, value)]


def _wrong(element: Element, wanted: str) -> ControlError:
    return ControlError(422, "invalid", f"{element.type} {element.action_id!r} takes {wanted}")
