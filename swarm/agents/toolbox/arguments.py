"""Arguments of a tool's call, checked against its JSON Schema before anything is called."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from jsonschema import Draft202012Validator, ValidationError
from jsonschema.exceptions import SchemaError
from jsonschema.validators import validator_for
from referencing import Registry
from referencing.exceptions import Unresolvable

MOST_PROBLEMS: Final = 5
"""So many are told at once; a model that got more wrong begins anew anyhow."""

_NOTHING_ELSE: Final[Registry[Any]] = Registry()
"""What a schema may refer to beside itself: left to itself, the library would fetch what a server names."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Checked:
    """What is wrong with the arguments of a call; nothing, if both are empty."""

    missing: tuple[str, ...] = ()  # required parameters without a value, in the schema's order
    problems: tuple[str, ...] = ()  # everything else, one clause each: "b: 'x' is not of type 'integer'"

    @property
    def is_fine(self) -> bool:
        """Whether the tool may be called."""
        return not self.missing and not self.problems


def checked(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> Checked:
    """Hold arguments to a tool's parameters. A schema that is itself broken, its server's fault, lets all pass."""
    missing = tuple(name for name in required(schema) if _is_empty(arguments.get(name), schema, name))
    try:
        return Checked(missing=missing, problems=tuple(_problems(schema, arguments, missing)))
    except (SchemaError, Unresolvable, RecursionError, TypeError, ValueError, AttributeError, KeyError):
        return Checked(missing=missing)


def required(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the parameters that a call needs."""
    names = schema.get("required")
    return tuple(name for name in names if isinstance(name, str)) if isinstance(names, list) else ()


def parameters(schema: Mapping[str, Any]) -> Mapping[str, Mapping[str, Any]]:
    """The parameters by name, each with its schema."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return {}
    return {str(name): part if isinstance(part, Mapping) else {} for name, part in properties.items()}


def mended(schema: Mapping[str, Any], arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments, with numbers and truth values that a model wrote as text turned into what the schema wants.

    Optional ones that are null where null is not allowed are left out: models mean "not given" by it.
    """
    known = parameters(schema)
    return {
        name: _mended(known.get(name, {}), value)
        for name, value in arguments.items()
        if value is not None or name in required(schema) or _allows_null(known.get(name, {}))
    }


def _mended(schema: Mapping[str, Any], value: Any) -> Any:
    if not isinstance(value, str) or schema.get("type") not in ("integer", "number", "boolean", "array", "object"):
        return value
    try:
        meant = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return meant if _fits(schema, meant) else value


def _fits(schema: Mapping[str, Any], value: Any) -> bool:
    kinds: Mapping[object, tuple[type, ...]] = {
        "integer": (int,),
        "number": (int, float),
        "boolean": (bool,),
        "array": (list,),
        "object": (dict,),
    }
    wanted = schema.get("type")
    return isinstance(value, kinds[wanted]) and (wanted == "boolean" or not isinstance(value, bool))


def _allows_null(schema: Mapping[str, Any]) -> bool:
    kinds = schema.get("type")
    if isinstance(kinds, str):
        return kinds == "null"
    return not isinstance(kinds, list) or "null" in kinds


def _is_empty(value: Any, schema: Mapping[str, Any], name: str) -> bool:
    """Whether a required parameter has no value. A text of nothing is one where the schema says so."""
    part = parameters(schema).get(name, {})
    if value is None:
        return not _allows_null(part) or not part
    return value == "" and part.get("minLength") != 0 and "" not in part.get("enum", ())


def _problems(schema: Mapping[str, Any], arguments: Mapping[str, Any], missing: tuple[str, ...]) -> Iterator[str]:
    dialect = validator_for(dict(schema), default=Draft202012Validator)
    dialect.check_schema(dict(schema))
    told = 0
    validator = dialect(dict(schema), registry=_NOTHING_ELSE)
    for error in validator.iter_errors(dict(arguments)):
        if _is_about(error, missing):
            continue
        told += 1
        if told > MOST_PROBLEMS:
            return
        yield _clause(error)


def _is_about(error: ValidationError, missing: tuple[str, ...]) -> bool:
    """Whether an error is nothing but that a parameter is missing, which is told apart."""
    path = list(error.absolute_path)
    return (error.validator == "required" and not path) or (len(path) == 1 and path[0] in missing)


def _clause(error: ValidationError) -> str:
    where = ".".join(str(part) for part in error.absolute_path)
    what = error.message if len(error.message) <= 200 else error.message[:199] + "…"
    return f"{where}: {what}" if where else what
