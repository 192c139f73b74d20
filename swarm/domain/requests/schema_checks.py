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

from swarm.domain.patterns import TooCostly, WorkLimit, fits_pattern

if TYPE_CHECKING:
    from jsonschema import ValidationError

_Keyword = Callable[[Any, Any, Any, Any], Iterator["ValidationError"] | None]

_MOST_DEPTH: Final = 100
_PER_ITEM: Final = frozenset({"items", "additionalItems", "additionalProperties", "contains", "propertyNames"})
_NAMES: Final = "patternProperties"
_LEFT_OUT: Final = frozenset(
    {_NAMES, "unevaluatedProperties", "unevaluatedItems", "$dynamicRef", "$recursiveRef", "format"}
)
_SHAPES: Final = {
    **dict.fromkeys(("properties", "dependentSchemas", "dependentRequired", "dependencies"), dict),
    **dict.fromkeys(("required", "enum", "allOf", "anyOf", "oneOf", "prefixItems"), list),
}

_IDS: Final = ("$id", "id")
_DEFINITIONS: Final = ("$defs", "definitions")

_steps: ContextVar[tuple[WorkLimit, Mapping[int, int], bool]] = ContextVar("schema_steps")
"""The work that is left for the check that runs, the sizes of all its containers by id, and whether a part of the
schema has an id of its own: each reference then makes the library look through the whole schema.
"""


class Unusable(Exception):
    """A schema that is none. The message is for logs."""


class SchemaCheck:
    """A schema and the work that all its checks together may do.

    ``steps``: shared with other checks.
    """

    def __init__(self, schema: Mapping[str, Any], steps: WorkLimit | None = None) -> None:
        dialect = schema.get("$schema")
        self._steps = steps or WorkLimit()
        self._sizes: dict[int, int] = {}
        self._kept: list[Any] = []  # the measured schema, then the rest, so that no other object gets one of the ids
        self._has_ids = False
        self._schema = schema
        self._dialect = dialect if isinstance(dialect, str) else ""

    def errors(self, value: Any, part: Any = None) -> list[ValidationError]:
        """Returns what a schema, or a part of it, does not allow in a value. Raises TooCostly and Unusable."""
        from referencing import Registry  # loading it takes a while, and few decisions need it

        if not self._kept:
            self._kept = [self._measured(self._schema, is_schema=True)]
        value = self._measured(value)
        part = self._kept[0] if part is None else self._measured(part, is_schema=True)
        self._kept += [value, part]
        token = _steps.set((self._steps, self._sizes, self._has_ids))
        try:
            validator = _limited(self._dialect)(self._kept[0], registry=Registry())
            return list(validator.evolve(schema=part).iter_errors(value))
        except TooCostly:
            raise
        except (
            Exception
        ) as error:  # others write the schema, and may have the library raise anything, also RecursionError
            raise Unusable(str(error)) from error
        finally:
            _steps.reset(token)

    def _measured(self, value: Any, depth: int = 0, *, is_schema: bool = False) -> Any:
        """Returns a copy, and notes the sizes of all its containers, in characters.

        In a schema, the names of dialects are left out: parts that name one would get the library's own validator.
        """
        self._steps.spend(0.05)
        if depth > _MOST_DEPTH:
            raise Unusable("it is nested too deeply") if is_schema else TooCostly
        if not isinstance(value, Mapping | list | tuple):
            return value
        copy: Any
        if isinstance(value, Mapping):
            self._has_ids |= is_schema and depth > 0 and any(isinstance(value.get(name), str) for name in _IDS)
            is_named = is_schema and isinstance(value.get("$schema"), str)
            names = [name for name in value if not (is_named and name == "$schema")]
            copy = {name: self._measured(value[name], depth + 1, is_schema=is_schema) for name in names}
            parts = [*names, *copy.values()]
        else:
            parts = copy = [self._measured(part, depth + 1, is_schema=is_schema) for part in value]
        self._sizes[id(copy)] = sum(4 + self._sizes.get(id(part), _length(part)) for part in parts)
        return copy


def fill_in(schema: Mapping[str, Any], steps: WorkLimit) -> None:
    """Pays for replacing each reference by what it refers to, which models need that know no definitions: a step for
    each value, and more below references. A part within itself stays a reference. Raises TooCostly.
    """
    waiting: list[tuple[object, tuple[str, ...]]] = [(schema, ())]
    recursive: set[str] = set()
    while waiting:
        part, within = waiting.pop()
        steps.spend(1 + len(within) / 8)
        if isinstance(part, list):
            waiting += ((one, within) for one in part)
        elif isinstance(part, dict):
            waiting += ((one, within) for name, one in part.items() if part is not schema or name not in _DEFINITIONS)
            reference = part.get("$ref")
            if not isinstance(reference, str) or not reference.startswith("#"):
                continue
            steps.spend(len(reference) / 100)
            if reference in within:
                recursive.add(reference)
            elif reference not in recursive:
                waiting.append((_at(schema, reference), (*within, reference)))


def _at(schema: Any, reference: str) -> Any:
    """Returns the part of a schema at a JSON pointer; None if there is none."""
    for step in reference.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        is_list = isinstance(schema, list) and name.isdecimal() and int(name) < len(schema)
        schema = schema[int(name)] if is_list else schema.get(name) if isinstance(schema, dict) else None
    return schema


@cache
def _limited(dialect: str) -> Any:
    """Returns the library's validator for a dialect, in which everything is paid for."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import extend, validator_for

    base: Any = validator_for({"$schema": dialect}, default=Draft202012Validator)
    keywords = {**base.VALIDATORS, "pattern": _pattern, "uniqueItems": _unique}
    return extend(base, {name: _paid(name, check) for name, check in keywords.items()})  # type: ignore[no-untyped-call]


def _paid(name: str, check: _Keyword) -> _Keyword:
    def paid(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
        if name in _LEFT_OUT or (name == "additionalProperties" and _NAMES in schema):
            return
        steps, sizes, has_ids = _steps.get()
        steps.spend(_price(name, wanted, value, sizes, has_ids=has_ids))
        if not isinstance(wanted, _SHAPES.get(name, object)):
            raise Unusable(f"{name} is no {_SHAPES[name].__name__}")
        for error in check(validator, wanted, value, schema) or ():
            steps.spend(1)
            yield error

    return paid


def _price(name: str, wanted: Any, value: Any, sizes: Mapping[int, int], *, has_ids: bool) -> float:
    """Returns the steps of one keyword itself. Messages hold the schema and the value in full."""
    size = sizes.get(id(wanted), _length(wanted))
    if name in _PER_ITEM:
        return 1 + (len(value) if isinstance(value, list | dict) else 0) * (1 + size / 500)
    if name == "$ref" and (has_ids or not str(wanted).startswith("#/")):  # looked for in the whole schema
        size = 10 * sum(sizes.values())
    return 1 + (size + sizes.get(id(value), _length(value))) / 500


def _length(value: object) -> int:
    return len(value) if isinstance(value, str) else value.bit_length() // 3 if isinstance(value, int) else 8


def _pattern(_: Any, wanted: Any, value: Any, __: Any) -> Iterator[ValidationError]:
    from jsonschema import ValidationError

    if isinstance(value, str) and isinstance(wanted, str) and not fits_pattern(wanted, value, _steps.get()[0]):
        yield ValidationError(f"{value!r} does not fit the pattern {wanted}")


def _unique(_: Any, wanted: Any, value: Any, __: Any) -> Iterator[ValidationError]:
    """Finds equal items in one go. The library compares each item with each."""
    from jsonschema import ValidationError

    items = value if wanted is True and isinstance(value, list) else []
    if len({json.dumps(item, sort_keys=True, default=str) for item in items}) < len(items):
        yield ValidationError(f"{value!r} has non-unique elements")
