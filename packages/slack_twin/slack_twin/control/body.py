"""Reads the bodies of control requests, with strict types and precise errors."""

from collections.abc import Callable, Mapping
from typing import TypeVar

from starlette.requests import Request

from slack_twin.arguments import limited_body, loads
from slack_twin.errors import ControlError, SlackError

Value = TypeVar("Value")


class Body:
    """A JSON object whose values are read by type. A wrong type raises ControlError 422 with the field's name."""

    def __init__(self, values: Mapping[str, object], *, known: str) -> None:
        self._values = values
        unknown = sorted(set(values) - set(known.split()))
        if unknown:
            raise _invalid(f"unknown field {unknown[0]!r}", f"known fields: {', '.join(known.split())}")

    def __contains__(self, name: str) -> bool:
        return self._values.get(name) is not None

    def text(self, name: str) -> str:
        value = self.optional(name)
        if not value:
            raise _invalid(f"{name!r} is missing: expected a non-empty string")
        return value

    def optional(self, name: str) -> str | None:
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, str):
            raise _invalid(f"{name!r} must be a string")
        if "\x00" in value:
            raise _invalid(f"{name!r} contains NUL, which Slack does not support")
        return value

    def number(self, name: str, *, lowest: float, highest: float) -> float | None:
        value = self._values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not lowest <= value <= highest:
            raise _invalid(f"{name!r} must be a number from {lowest:g} to {highest:g}")
        return float(value)

    def flag(self, name: str) -> bool:
        value = self._values.get(name, False)
        if not isinstance(value, bool):
            raise _invalid(f"{name!r} must be true or false")
        return value

    def anything(self, name: str) -> object:
        """Returns a value of any type, None if absent."""
        return self._values.get(name)

    def mapping(self, name: str) -> Mapping[str, object] | None:
        value = self._values.get(name)
        if value is not None and not isinstance(value, dict):
            raise _invalid(f"{name!r} must be an object")
        return value

    def texts(self, name: str) -> tuple[str, ...] | None:
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
            raise _invalid(f"{name!r} must be a list of strings")
        return tuple(value)

    def items(self, name: str, read: Callable[[object], Value]) -> tuple[Value, ...]:
        """Returns a list whose items are read by `read`."""
        value = self._values.get(name)
        if value is None:
            return ()
        if not isinstance(value, list):
            raise _invalid(f"{name!r} must be a list")
        return tuple(read(item) for item in value)


def as_body(item: object, *, known: str) -> Body:
    """Returns an item of a list as a Body; a plain string stands for `{"name": string}`."""
    if isinstance(item, str):
        item = {"name": item}
    if not isinstance(item, dict):
        raise _invalid("an item of a list must be an object or a name")
    return Body(item, known=known)


async def read_body(request: Request, *, known: str) -> Body:
    """Returns the JSON object of a request.

    Raises ControlError 400 (no JSON), 413 (too large) or 422 (unknown fields).
    """
    try:
        raw = await limited_body(request)
    except SlackError:
        raise ControlError(413, "too_large", "the body is larger than 8 MiB") from None
    try:
        value = loads(raw) if raw.strip() else {}
    except ValueError as error:
        raise ControlError(400, "bad_request", f"the body is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise ControlError(400, "bad_request", "the body must be a JSON object")
    return Body(value, known=known)


def query_number(request: Request, name: str) -> int:
    """Returns an integer from the query, 0 if absent. Raises ControlError 422."""
    value = request.query_params.get(name, "0")
    if not (value.isascii() and value.isdecimal() and len(value) <= 15):
        raise _invalid(f"{name!r} must be a whole number")
    return int(value)


def _invalid(message: str, hint: str = "") -> ControlError:
    return ControlError(422, "invalid", message, hint)
