"""Schemas and patterns that would keep a program busy for hours, each with arguments that set it off."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

Schema = dict[str, Any]

_LEAF: Final = {"type": "object", "required": ["none"]}
_KNOWN: Final = {"a": 1, "b": 1}


def _doubling(part: Callable[[Schema], Any], leaf: Any = _LEAF, *, dialect: str = "", key: str = "$defs") -> Schema:
    """A schema of forty parts, each of which applies the next one twice."""
    parts = {f"d{n}": part({"$ref": f"#/{key}/d{n + 1}"}) for n in range(40)}
    named = {"$schema": dialect} if dialect else {}
    return {**named, "allOf": [{"$ref": f"#/{key}/d0"}], key: {**parts, "d40": leaf}}


def _of_a(part: Schema) -> Schema:
    return {"type": "object", "properties": {"a": part}}


BOMBS: Final[dict[str, tuple[Schema, dict[str, Any]]]] = {
    "anyOf": (_doubling(lambda ref: {"anyOf": [ref, ref]}), _KNOWN),
    "oneOf": (_doubling(lambda ref: {"oneOf": [ref, ref]}), _KNOWN),
    "oneOf that fits": (_doubling(lambda ref: {"oneOf": [ref, ref]}, {"type": "object"}), _KNOWN),
    "allOf": (_doubling(lambda ref: {"allOf": [ref, ref]}, {"type": "object"}), _KNOWN),
    "not": (_doubling(lambda ref: {"allOf": [{"not": {"not": ref}}] * 2}, {}), _KNOWN),
    "if": (_doubling(lambda ref: {"if": ref, "then": ref, "else": ref}), _KNOWN),
    "dependentSchemas": (_doubling(lambda ref: {"dependentSchemas": {"a": ref, "b": ref}}), _KNOWN),
    "dependencies": (
        _doubling(
            lambda ref: {"dependencies": {"a": ref, "b": ref}},
            dialect="http://json-schema.org/draft-07/schema#",
            key="definitions",
        ),
        _KNOWN,
    ),
    "draft 4": (
        _doubling(lambda ref: {"anyOf": [ref, ref]}, dialect="http://json-schema.org/draft-04/schema#"),
        _KNOWN,
    ),
    "many alternatives": (_of_a({"anyOf": [{"type": "integer"}] * 10_000}), {"a": "x" * 100_000}),
    "nested contains": (
        _of_a({"contains": {"contains": {"contains": {"const": 1}}}}),
        {"a": [[[0] * 40] * 40] * 40},
    ),
    "contains of many": (_of_a({"contains": {"enum": list(range(5000))}}), {"a": [-1] * 8000}),
    "propertyNames": (
        _of_a({"propertyNames": {"anyOf": [{"const": f"k{n}"} for n in range(1000)]}}),
        {"a": {f"n{n}": 1 for n in range(3000)}},
    ),
    "enum of many": (_of_a({"items": {"enum": list(range(20_000))}}), {"a": [-1] * 5000}),
    "const of many": (_of_a({"items": {"const": list(range(20_000))}}), {"a": [list(range(20_000))] * 50}),
    "additionalProperties": (
        {
            "additionalProperties": {
                "additionalProperties": {"additionalProperties": {"anyOf": [{"type": "null"}] * 50}}
            }
        },
        {str(i): {str(j): {str(k): 1 for k in range(30)} for j in range(30)} for i in range(30)},
    ),
    "unknown keywords": (_of_a({"items": {f"x{n}": 1 for n in range(5000)}}), {"a": [0] * 8000}),
    "anchors": (
        {
            "allOf": [{"$ref": "#x"}] * 3000,
            "$defs": {**{str(n): {"$anchor": f"a{n}"} for n in range(2000)}, "x": {"$anchor": "x"}},
        },
        _KNOWN,
    ),
    "references of a part with an id": (
        {
            **_of_a({"items": {"$id": "http://part/", "$ref": "#/$defs/x", "$defs": {"x": {"type": "integer"}}}}),
            "$defs": {str(n): {"type": "string"} for n in range(3000)},
        },
        {"a": list(range(3000))},
    ),
    "required": ({"type": "object", "required": [str(n) for n in range(30_000)]}, _KNOWN),
    "errors from below": (
        {**_of_a({"$ref": "#/$defs/a"}), "$defs": {"a": {"items": {"$ref": "#/$defs/a"}, "type": ["array", "null"]}}},
        {"a": [[[[[[[[[[1] * 5000]]]]]]]]]},
    ),
    "long messages": (_of_a({"items": {"type": "string"}, "allOf": [{"type": "string"}] * 500}), {"a": ["x" * 90_000]}),
    "patterns": (_of_a({"items": {"pattern": "(a|b)*a(a|b){500}c"}}), {"a": ["ab" * 500] * 500}),
}
"""Too much work for anybody. The names are what they are made of."""

HARMLESS: Final[dict[str, tuple[Schema, dict[str, Any]]]] = {
    "uniqueItems": (_of_a({"uniqueItems": True}), {"a": [{"n": n} for n in range(8000)]}),
    "an endless reference": ({"$ref": "#"}, _KNOWN),
    "a circle": ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}}, _KNOWN),
    "unevaluatedProperties": (
        {**_doubling(lambda ref: {"properties": {"a": {}}}, {}), "unevaluatedProperties": False},
        _KNOWN,
    ),
    "unevaluatedItems": (_of_a({"unevaluatedItems": False}), {"a": [1]}),
    "patternProperties": ({"patternProperties": {"^(a+)+$": {"type": "string"}}}, {"a" * 40 + "!": 1}),
    "patternProperties and no others": (
        {"patternProperties": {"^(a+)+$": {}}, "additionalProperties": False},
        {"a" * 40 + "!": 1},
    ),
    "a dynamic reference": ({"$dynamicAnchor": "n", "anyOf": [{"$dynamicRef": "#n"}] * 2}, _KNOWN),
    "a recursive reference": (
        {
            "$schema": "https://json-schema.org/draft/2019-09/schema",
            "$recursiveAnchor": True,
            "anyOf": [{"$recursiveRef": "#"}] * 2,
        },
        _KNOWN,
    ),
    "formats": (_of_a({"format": "regex"}), {"a": "(" * 10_000}),
    "multipleOf": (_of_a({"multipleOf": 1e-320}), {"a": 0}),
    "a pattern that looks ahead": (_of_a({"pattern": "^(?=(a+)+$)"}), {"a": "a" * 40 + "!"}),
}
"""Looks like too much work, but is not: what would be is left to the schema's author, or there is a faster way."""

PATTERNS: Final = (
    "(a|b)*a(a|b){2000}c",
    "(?:(?:a?){50}){50}c",
    "((((((a{0,9}){0,9}){0,9}){0,9}){0,9}){0,9}){0,9}c",
    r"(\w{0,60}x){0,60}y",
    r"[\s\S]{0,3000}z",
    r"\p{L}{1000}",
    "[^a]{0,999}" * 20,
    r"(\w*)*" * 500,
    "[a-z&&[^aeiou]]{99}",
    r"\pL{100}",
    r"(?:\pL*+{8}+{8})\d",
    "[é-ჿ]?{60}x",
    "é?{600}x",
    "(?:a?+{9}+{9}+{9}+{9}x)",
    "(?x)a # a comment with ( in it\n{9999}",
)
"""Patterns that nobody compares with a text of ten thousand characters."""

SLOW_ELSEWHERE: Final = ("^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "(x+x+)+y", "^(([a-z])+.)+[A-Z]([a-z])+$")
"""Patterns that take for ever in engines that go back."""
