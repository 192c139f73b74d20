"""Validates and corrects the arguments of a tool call, using the tool's JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import structlog
from jsonschema import ValidationError

from swarm.domain.patterns import TooCostly, WorkLimit
from swarm.domain.requests.schema_checks import SchemaCheck, Unusable
from swarm.domain.text.unique_keys import read_json

_MOST_PROBLEMS: Final = 5
"""The maximum number of problems reported at once. A model with more errors starts over anyway."""

TOO_COSTLY: Final = (
    "they take too long to check, because they or the tool's own schema are too complicated. Give fewer or simpler "
    "arguments; if that changes nothing, tell people that this tool's schema cannot be used"
)

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """The errors in a call's arguments; there are none if both fields are empty."""

    missing: tuple[str, ...] = ()  # required parameters without a value, in order
    problems: tuple[str, ...] = ()  # one clause each: "b: 'x' is not of type 'integer'"

    @property
    def is_fine(self) -> bool:
        """Whether the tool may be called."""
        return not self.missing and not self.problems


def checked(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> Checked:
    """Validates arguments against a tool's parameters, with a limited amount of work.

    An invalid schema, which is the server's fault, accepts all arguments. One that takes too long accepts none.
    """
    try:
        known = _Parameters(schema)
        missing = tuple(name for name in required(schema) if known.is_missing(arguments, name))
        return Checked(missing=missing, problems=known.problems(arguments, missing))
    except TooCostly:
        _note_broken("it takes too long to check")
        return Checked(problems=(TOO_COSTLY,))


def mended_and_checked(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> tuple[dict[str, Any], Checked]:
    """Returns arguments as they were meant, and what is wrong with them. Takes a while, so not for an event loop."""
    meant = mended(schema, arguments)
    return meant, checked(schema, meant)


def required(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the names of the required parameters."""
    names = schema.get("required")
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def parameters(schema: Mapping[str, Any], steps: WorkLimit | None = None) -> Mapping[str, Mapping[str, Any]]:
    """Returns the parameters by name, each with its schema. References within the same document are resolved.

    Parts whose references cost more than ``steps`` stay as they are.
    """
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    steps = steps or WorkLimit()
    return {str(name): _resolved(schema, part, steps) for name, part in properties.items()}


def mended(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Converts arguments that fit the schema only after a conversion.

    Numbers, booleans, lists and objects written as text become values, numbers become text if the schema requires this,
    and values from a fixed list get the case used in the list. Other arguments are unchanged. Optional arguments that
    are null although the schema does not allow null are left out, because models use null to mean "not given".
    """
    try:
        known, needed = _Parameters(schema), required(schema)
        return {
            name: known.mended(name, value)
            for name, value in arguments.items()
            if value is not None or name in needed or known.fits(name, None) is not False
        }
    except TooCostly:  # `checked` says so
        return dict(arguments)


class _Parameters:
    """A tool's parameters, with the work that all checks of one call may do together. All methods raise TooCostly."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        steps = WorkLimit()
        self._check = SchemaCheck(schema, steps)
        self._known = parameters(schema, steps)

    def mended(self, name: str, value: Any) -> Any:
        """Returns a value as it was meant."""
        if self.fits(name, value) is not False:
            return value
        return next((other for other in _spellings(self._part(name), value) if self.fits(name, other)), value)

    def fits(self, name: str, value: Any) -> bool | None:
        """Returns whether a value fits a parameter; None if the schema is invalid."""
        try:
            return not self._check.errors(value, self._part(name))
        except Unusable as error:
            _note_broken(str(error))
            return None

    def is_missing(self, arguments: Mapping[str, Any], name: str) -> bool:
        """Returns whether a required parameter has no value. An empty text is a value if the schema allows it."""
        if name not in arguments:
            return True
        value, part = arguments[name], self._part(name)
        if value is None:
            return not part or not self.fits(name, None)
        if not isinstance(value, str) or value.strip():
            return False
        choices = part.get("enum")
        return part.get("minLength") != 0 and not (isinstance(choices, list) and value in choices)

    def problems(self, arguments: Mapping[str, Any], missing: tuple[str, ...]) -> tuple[str, ...]:
        """Returns what else is wrong, in clauses."""
        try:
            json.dumps(dict(arguments), allow_nan=False)
        except (ValueError, TypeError, RecursionError):
            return ("they contain something that JSON cannot express",)
        try:
            errors = self._check.errors(dict(arguments))
        except Unusable as error:
            _note_broken(str(error))
            return ()
        wrong = (error for error in errors if not _is_about(error, arguments, missing))
        return tuple(_clause(error) for error in islice(wrong, _MOST_PROBLEMS))

    def _part(self, name: str) -> Mapping[str, Any]:
        return self._known.get(name, {})


def _resolved(schema: Mapping[str, Any], part: object, steps: WorkLimit, hops: int = 8) -> Mapping[str, Any]:
    if not isinstance(part, Mapping):
        return {}
    reference = part.get("$ref")
    if not isinstance(reference, str) or not reference.startswith("#/") or not hops:
        return part
    found: object = schema
    for step in reference.removeprefix("#/").split("/"):
        found = found.get(step) if isinstance(found, Mapping) else None
    if not isinstance(found, Mapping):
        return part
    try:
        steps.spend((len(part) + len(found) + len(reference)) / 100)
    except TooCostly:
        return part
    beside = {key: value for key, value in part.items() if key != "$ref"}
    return {**_resolved(schema, found, steps, hops - 1), **beside}


def _spellings(part: Mapping[str, Any], value: Any) -> Iterator[Any]:
    """Yields possible interpretations of a value that does not fit."""
    if isinstance(value, str):
        for text in (value, value.strip().lower()):  # converts Python's True to JSON's true
            try:
                yield read_json(text)
            except ValueError:
                continue
        choices = part.get("enum")
        for choice in choices if isinstance(choices, list) else ():
            if isinstance(choice, str) and choice.casefold() == value.strip().casefold():
                yield choice
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def _note_broken(why: str) -> None:
    _log.debug("The schema of a tool's parameters is not usable.", action="schema", error=why[:500])


def _is_about(error: ValidationError, arguments: Mapping[str, Any], missing: tuple[str, ...]) -> bool:
    """Returns whether an error only reports a missing parameter, which is reported separately."""
    path = list(error.absolute_path)
    if error.validator == "required" and not path and isinstance(error.schema, Mapping):
        return all(name in arguments or name in missing for name in required(error.schema))
    return len(path) == 1 and path[0] in missing


def _clause(error: ValidationError) -> str:
    where = ".".join(str(part) for part in error.absolute_path)
    what = error.message if len(error.message) <= 200 else error.message[:199] + "…"
    return f"{where}: {what}" if where else what
