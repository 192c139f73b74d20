"""Views: what people, agents and operators see of a record, through every door.

A view is a frozen dataclass based on `JsonView`. Its JSON is a dump of its fields in order: times as ISO 8601 in UTC,
enums as their values. A field that is not part of the JSON is `Hidden`. The first paragraph of a view's docstring
describes it in the OpenAPI document.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum
from functools import cache
from inspect import cleandoc
from typing import Annotated, Any, ClassVar, NotRequired, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from typing_extensions import TypedDict

from swarm.clock import from_iso, to_iso
from swarm.domain.errors import Invalid

_T = TypeVar("_T")

Time = Annotated[int, "time"]
"""Microseconds since 1970 UTC; in JSON a text."""

Hidden = Annotated[_T, "hidden"]
"""The type of a field that is not part of the JSON."""


@dataclass(frozen=True)
class Key:
    """Marks a field whose key in the JSON has another name, comes after that of a field of the base class, or is left
    out if the value is empty.
    """

    name: str | None = None
    after: str | None = None
    is_optional: bool = False


class JsonView:
    """The base class of views."""

    __slots__ = ()
    contract_name: ClassVar[str] = ""  # in the OpenAPI document, if it does not follow from the class's name

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
        return handler.generate_schema(_described(cast("Any", cls)))


def dump(value: object) -> dict[str, Any]:
    """Returns the JSON object of a view or a mapping, in which nested views are still views. Raises TypeError for
    anything else, as orjson's ``default`` has to.
    """
    if isinstance(value, JsonView):
        kind: Any = type(value)
        return {
            key: to_iso(part) if is_time and part is not None else part
            for key, name, is_time, is_optional in _plan(kind)
            if (part := getattr(value, name)) or not is_optional
        }
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError


def plain(value: object) -> Any:
    """Returns data with all views and mappings as dicts."""
    match value:
        case JsonView() | Mapping():
            return {key: plain(part) for key, part in dump(value).items()}
        case list() | tuple():
            return [plain(part) for part in value]
        case _:
            return value


def facts_of(base: type, record: Any) -> dict[str, Any]:
    """Returns the fields that a record and its view have from the same class, for the view."""
    return {fact.name: getattr(record, fact.name) for fact in fields(base)}


def time_of(since: str | None) -> int:
    """Returns a time in ISO 8601 as microseconds since 1970; 0 for no time. Raises Invalid for other text."""
    if not since:
        return 0
    try:
        return from_iso(since)
    except ValueError:
        expected = "a time in ISO 8601, such as 2026-11-23T09:30:00Z"
        raise Invalid(f"'since' is not {expected}.", fields={"since": expected}) from None


@cache
def _keys(view: Any) -> tuple[tuple[str, str, Any, Key], ...]:
    """Returns the keys of a view's JSON, each with its attribute, its type and its mark."""
    hints = get_type_hints(view, include_extras=True)
    marks = {field.name: getattr(hints[field.name], "__metadata__", ()) for field in fields(view)}
    keys = {name: next((mark for mark in marks[name] if isinstance(mark, Key)), Key()) for name in marks}
    names = [name for name in marks if "hidden" not in marks[name] and not keys[name].after]
    for name, key in keys.items():
        if key.after:
            names.insert(names.index(key.after) + 1, name)
    return tuple((keys[name].name or name, name, hints[name], keys[name]) for name in names)


@cache
def _plan(view: Any) -> tuple[tuple[str, str, bool, bool], ...]:
    return tuple((key, name, _is_time(hint), mark.is_optional) for key, name, hint, mark in _keys(view))


def _is_time(hint: Any) -> bool:
    return "time" in getattr(hint, "__metadata__", ()) or any(map(_is_time, get_args(hint)))


_typed_dict: Any = TypedDict  # mypy accepts only literal names and keys


@cache
def _described(view: Any) -> Any:
    """Returns the view's JSON as a `TypedDict`, for descriptions."""
    name = view.__name__ if view.__name__.endswith("Row") else f"{view.__name__.removesuffix('View')}Shape"
    keys = {
        key: NotRequired[_json_type(hint)] if mark.is_optional else _json_type(hint)
        for key, _, hint, mark in _keys(view)
    }
    described: Any = _typed_dict(view.contract_name or name, keys)
    if not view.__doc__.startswith(f"{view.__name__}("):  # which a dataclass writes, if nobody else does
        described.__doc__ = cleandoc(view.__doc__).partition("\n\n")[0]
    return described


def _json_type(hint: Any) -> Any:
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return str if _is_time(hint) else _json_type(parts[0])
    if isinstance(hint, type) and issubclass(hint, Enum):
        return str
    if origin is tuple:
        return list[_json_type(parts[0])]  # type: ignore[misc]
    if origin is Mapping:
        return dict[parts[0], parts[1]]  # type: ignore[valid-type]
    return Union[tuple(map(_json_type, parts))] if type(None) in parts else hint  # noqa: UP007
