"""Example values of parameters for a model: from the schema, else from name and type."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from swarm.agents.toolbox.arguments import parameters, required

_BY_NAME: Final = (
    ("email", "ada@example.org"),
    ("url", "https://example.org/page"),
    ("date", "2026-03-31"),
    ("time", "14:30"),
    ("city", "Lisbon"),
    ("country", "Portugal"),
    ("currency", "EUR"),
    ("language", "en"),
    ("path", "docs/README.md"),
    ("file", "report.md"),
    ("repo", "octo/hello"),
    ("branch", "main"),
    ("channel", "general"),
    ("query", "deploy fails"),
    ("title", "A short title"),
    ("message", "A few words"),
    ("text", "A few words"),
    ("name", "Ada"),
    ("id", "42"),
)
"""Parts of names, the most specific first."""

_BY_TYPE: Final[Mapping[object, object]] = {
    "integer": 7,
    "number": 6,
    "boolean": True,
    "array": [],
    "object": {},
    "string": "some text",
}


MOST_CHOICES: Final = 20
"""The longest closed list of values to repeat beside the schema, which has them all."""


def described(name: str, schema: Mapping[str, Any]) -> str:
    """Describes a tool's parameters in a line or two: required, then optional, each with its type and an example."""
    needed = set(required(schema))
    known = parameters(schema)
    lines = [
        f"{label}: " + "; ".join(_parameter(key, part) for key, part in known.items() if (key in needed) == is_needed)
        for label, is_needed in (("Required", True), ("Optional", False))
        if any((key in needed) == is_needed for key in known)
    ]
    return "\n".join(lines) or f"{name} takes no parameters."


def example(name: str, schema: Mapping[str, Any]) -> object:
    """Returns a plausible value of the parameter."""
    given = schema.get("examples")
    if isinstance(given, list) and given:
        return given[0]
    for key in ("example", "const", "default"):
        if schema.get(key) is not None:
            return schema[key]
    choices = schema.get("enum")
    if isinstance(choices, list) and choices:
        return choices[0]
    return _inferred(name, schema)


def kind(schema: Mapping[str, Any]) -> str:
    """Returns the type in words: "number", "integer or null"."""
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return " or ".join(str(one) for one in kinds)
    if not kinds and (options := _options(schema)):
        return " or ".join(dict.fromkeys(kind(option) for option in options))
    return str(kinds) if kinds else "value"


def _parameter(name: str, schema: Mapping[str, Any]) -> str:
    meaning = str(schema.get("description") or "").strip().rstrip(".")
    choices = schema.get("enum")
    options = (
        ", one of " + ", ".join(map(repr, choices[:MOST_CHOICES])) if isinstance(choices, list) and choices else ""
    )
    return f"{name} ({kind(schema)}{options}, e.g. {example(name, schema)!r})" + (f" - {meaning}" if meaning else "")


def _inferred(name: str, schema: Mapping[str, Any]) -> object:
    first = _first_kind(schema)
    if first is None and (options := _options(schema)):
        return example(name, next((option for option in options if _first_kind(option) != "null"), {}))
    if first in (None, "string"):
        telling = (value for part, value in _BY_NAME if part in name.lower())
        return next(telling, _BY_TYPE["string"])
    if first == "array":
        items = schema.get("items")
        return [example(name.removesuffix("s"), items)] if isinstance(items, Mapping) else []
    return _BY_TYPE.get(first, "some text")


def _first_kind(schema: Mapping[str, Any]) -> str | None:
    kinds = schema.get("type")
    named = [one for one in (kinds if isinstance(kinds, list) else [kinds]) if isinstance(one, str)]
    return next((one for one in named if one != "null"), named[0] if named else None)


def _options(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    options = schema.get("anyOf") or schema.get("oneOf")
    return [one for one in options if isinstance(one, Mapping)] if isinstance(options, list) else []
