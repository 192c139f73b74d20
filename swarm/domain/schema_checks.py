"""Checks values against the JSON Schemas of others, with a limited amount of work.

A schema of three kilobytes can ask for more work than any machine does (references to references, alternatives within
alternatives), so each keyword is paid for before it is applied, and so is each error on its way up. The library does
the rest, in any dialect, without loading other schemas.

What is not checked: ``unevaluatedProperties`` and ``unevaluatedItems``, dynamic references, formats, names that
``patternProperties`` matches, and patterns that the engine does not support. Only the schema's author can check these.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from swarm.domain.patterns import Steps, TooCostly, fits_pattern

if TYPE_CHECKING:
    from jsonschema import ValidationError

_Keyword = Callable[[Any, Any, Any, Any], Iterator["ValidationError"] | None]

_MOST_DEPTH: Final = 100
_PER_ITEM: Final = frozenset({"items", "additionalItems", "additionalProperties", "contains", "propertyNames"})
_LEFT_OUT: Final = (
    "patternProperties", "unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef", "format",
)  # fmt: skip
_SHAPES: Final = {
    **dict.fromkeys(("properties", "dependentSchemas", "dependentRequired", "dependencies"), dict),
    **dict.fromkeys(("required", "enum", "allOf", "anyOf", "oneOf", "prefixItems"), list),
}

_steps: ContextVar[tuple[Steps, Mapping[int, int]]] = ContextVar("schema_steps")
"""The work that is left for the check that runs, and the sizes of all its containers by id."""


class Unusable(Exception):
    """A schema that is none. The message is for logs."""


class SchemaCheck:
    """A schema and the work that all its checks together may do.

    Raises TooCostly for a schema that is too large. ``steps``: shared with other checks.
    """

    def __init__(self, schema: Mapping[str, Any], steps: Steps | None = None) -> None:
        self._steps = steps or Steps()
        self._sizes: dict[int, int] = {}
        self._size(schema)
        dialect = schema.get("$schema")
        # Parts that name a dialect would get the library's own validator in place of the limited one.
        self._schema = _of_one_dialect(schema)
        self._size(self._schema)
        self._dialect = dialect if isinstance(dialect, str) else ""

    def errors(self, value: Any, part: Any = None) -> list[ValidationError]:
        """Returns what a schema, or a part of it, does not allow in a value. Raises TooCostly and Unusable."""
        from referencing import Registry  # loading it takes a while, and few decisions need it

        self._size(value)
        part = self._schema if part is None else _of_one_dialect(part)
        self._size(part)
        token = _steps.set((self._steps, self._sizes))
        try:
            validator = _limited(self._dialect)(self._schema, registry=Registry())
            return list(validator.evolve(schema=part).iter_errors(value))
        except (TooCostly, RecursionError):
            self._steps.spend(float("inf"))
            raise TooCostly from None
        except Exception as error:  # noqa: BLE001 - others write the schema, and may have the library raise anything
            raise Unusable(str(error)) from error
        finally:
            _steps.reset(token)

    def _size(self, value: Any, depth: int = 0) -> int:
        """Notes the sizes of a value and of everything in it, in characters."""
        if depth > _MOST_DEPTH:
            raise TooCostly
        self._steps.spend(0.05)
        if isinstance(value, Mapping):
            size = sum(len(str(name)) + self._size(part, depth + 1) for name, part in value.items())
        elif isinstance(value, list | tuple):
            size = sum(self._size(part, depth + 1) for part in value)
        else:
            return _length(value)
        self._sizes[id(value)] = size + 4 * len(value)
        return size + 4 * len(value)


@cache
def _limited(dialect: str) -> Any:
    """Returns the library's validator for a dialect, in which everything is paid for."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend, validator_for

    base: Any = validator_for({"$schema": dialect}, default=Draft202012Validator)
    ours: dict[str, _Keyword] = {"pattern": _pattern, "uniqueItems": _unique, **dict.fromkeys(_LEFT_OUT, _nothing)}
    ours |= {"additionalProperties": _with(base.VALIDATORS.get("additionalProperties", _nothing))}
    paid = {name: _paid(name, check) for name, check in {**base.VALIDATORS, **ours}.items()}
    return extend(base, paid)  # type: ignore[no-untyped-call]


def _paid(name: str, check: _Keyword) -> _Keyword:
    def paid(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
        steps, sizes = _steps.get()
        steps.spend(_price(name, wanted, value, sizes))
        if not isinstance(wanted, _SHAPES.get(name, object)):
            raise Unusable(f"{name} is no {_SHAPES[name].__name__}")
        for error in check(validator, wanted, value, schema) or ():
            steps.spend(1)
            yield error

    return paid


def _price(name: str, wanted: Any, value: Any, sizes: Mapping[int, int]) -> float:
    """Returns the steps of one keyword itself. Messages hold the schema and the value in full."""
    size, items = sizes.get(id(wanted)) or _length(wanted), len(value) if isinstance(value, list | dict) else 0
    if name in _PER_ITEM:
        return 1 + items * (1 + size / 500)
    far = name == "$ref" and not str(wanted).startswith("#/")  # an anchor is looked for in the whole schema
    within = (10 * sum(sizes.values()) if far else size) + (sizes.get(id(value)) or _length(value))
    return 1 + within / 500


def _length(value: object) -> int:
    return len(value) if isinstance(value, str) else value.bit_length() // 3 if isinstance(value, int) else 8


def _pattern(_: Any, wanted: Any, value: Any, __: Any) -> Iterator[ValidationError]:
    from jsonschema import ValidationError

    if isinstance(value, str) and isinstance(wanted, str) and not fits_pattern(wanted, value, _steps.get()[0]):
        yield ValidationError(f"{value!r} does not fit the pattern {wanted}")


def _unique(_: Any, wanted: Any, value: Any, __: Any) -> Iterator[ValidationError]:
    """Finds equal items in one go. The library compares each item with each."""
    from jsonschema import ValidationError

    if wanted is True and isinstance(value, list):
        if len({json.dumps(item, sort_keys=True, default=str) for item in value}) < len(value):
            yield ValidationError(f"{value!r} has non-unique elements")


def _with(check: _Keyword) -> _Keyword:
    """Returns the check of additional properties; none where patterns say which properties are additional."""
    return lambda validator, wanted, value, schema: (
        None if "patternProperties" in schema else check(validator, wanted, value, schema)
    )


def _nothing(*_: Any) -> None:
    return None


def _of_one_dialect(schema: Any) -> Any:
    if isinstance(schema, Mapping):
        is_name = isinstance(schema.get("$schema"), str)
        return {name: _of_one_dialect(part) for name, part in schema.items() if not (is_name and name == "$schema")}
    return [_of_one_dialect(part) for part in schema] if isinstance(schema, list | tuple) else schema
