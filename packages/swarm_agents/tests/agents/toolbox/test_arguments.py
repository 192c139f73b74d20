"""Arguments of calls: what a model meant by them, and what is wrong with them."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from swarm.domain.text.unique_keys import read_json
from swarm_agents.toolbox.arguments import Checked, checked, mended, parameters, required

pytestmark = pytest.mark.req("AGENT-02")


def schema(*needed: str, **properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(needed)}


INTEGER = {"type": "integer"}
TEXT = {"type": "string"}
OPTIONAL = {"anyOf": [{"type": "integer"}, {"type": "null"}]}


# What is wrong


def test_what_is_missing_is_told_in_the_schemas_order() -> None:
    wanted = schema("b", "a", a=INTEGER, b=INTEGER)
    assert checked(wanted, {}) == Checked(missing=("b", "a"))
    assert checked(wanted, {"b": 1}) == Checked(missing=("a",))
    assert checked(wanted, {"a": 1, "b": 2}).is_fine


@pytest.mark.parametrize("nothing", [None, "", "  \n"])
def test_a_required_parameter_without_a_value_is_missing(nothing: object) -> None:
    assert checked(schema("a", a=TEXT), {"a": nothing}).missing == ("a",)
    assert checked(schema("a", a=INTEGER), {"a": nothing}).missing == ("a",)


def test_a_text_of_nothing_is_a_value_where_the_schema_says_so() -> None:
    assert checked(schema("a", a={"type": "string", "minLength": 0}), {"a": ""}).is_fine
    assert checked(schema("a", a={"type": "string", "enum": ["", "x"]}), {"a": ""}).is_fine


def test_null_is_a_value_where_the_schema_says_so_but_nothing_at_all_is_not() -> None:
    for part in ({"type": ["string", "null"]}, OPTIONAL, {"$ref": "#/$defs/maybe"}):
        wanted = {**schema("a", a=part), "$defs": {"maybe": OPTIONAL}}
        assert checked(wanted, {"a": None}).is_fine
        assert checked(wanted, {}).missing == ("a",)
    assert checked(schema("a", a={"anyOf": [INTEGER, TEXT]}), {"a": None}).missing == ("a",)


def test_values_that_do_not_fit_are_named_with_where_they_are() -> None:
    wanted = schema("a", a=INTEGER, of={"type": "array", "items": {"enum": ["x", "y"]}})
    found = checked(wanted, {"a": "six", "of": ["x", "z"]})
    assert found.missing == ()
    assert found.problems == ("a: 'six' is not of type 'integer'", "of.1: 'z' is not one of ['x', 'y']")


def test_only_the_first_problems_are_told_and_long_ones_are_cut() -> None:
    wanted = schema(**{f"p{number}": INTEGER for number in range(9)})
    found = checked(wanted, {f"p{number}": "x" * 1000 for number in range(9)})
    assert len(found.problems) == 5
    assert all(len(problem) < 220 for problem in found.problems)


@pytest.mark.parametrize(
    "nested",
    [
        {"allOf": [{"required": ["b"]}]},
        {"if": {"properties": {"a": {"const": 1}}}, "then": {"required": ["b"]}},
        {"dependentRequired": {"a": ["b"]}},
        {"anyOf": [{"required": ["b"]}, {"required": ["c"]}]},
    ],
)
def test_what_is_required_on_a_condition_is_checked_too(nested: dict[str, Any]) -> None:
    wanted = {**schema("a", a=INTEGER), **nested}
    assert not checked(wanted, {"a": 1}).is_fine
    assert checked(wanted, {"a": 1, "b": 2}).is_fine


def test_parameters_that_stand_elsewhere_in_the_schema_are_found() -> None:
    wanted = {
        **schema("p", p={"$ref": "#/$defs/level", "description": "how much"}),
        "$defs": {"level": {"$ref": "#/$defs/words"}, "words": {"type": "string", "enum": ["low", "high"]}},
    }
    assert parameters(wanted)["p"] == {"type": "string", "enum": ["low", "high"], "description": "how much"}
    assert checked(wanted, {"p": "low"}).is_fine
    assert checked(wanted, {"p": "none"}).problems == ("p: 'none' is not one of ['low', 'high']",)
    assert mended(wanted, {"p": "HIGH"}) == {"p": "high"}


def test_a_schema_that_as_a_whole_stands_elsewhere_is_checked() -> None:
    wanted = {"$ref": "#/$defs/all", "$defs": {"all": schema("a", a=INTEGER)}}
    assert not checked(wanted, {}).is_fine
    assert not checked(wanted, {"a": "x"}).is_fine
    assert checked(wanted, {"a": 1}).is_fine


@pytest.mark.parametrize(
    "part",
    [
        {"type": "nonsense"},
        {"type": {"a": 1}},
        {"type": [["x"]]},
        {"pattern": "("},
        {"enum": 7},
        {"minLength": "long"},
        {"$ref": "#/$defs/none"},
        {"$ref": "#/properties/a"},
        {"$ref": "http://127.0.0.1:9/schema.json"},
        {"$dynamicRef": "#x"},
        {"multipleOf": 1e-320},
        7,
        None,
        [],
    ],
)
def test_a_broken_schema_stops_nobody_but_what_is_missing_is_still_missing(part: Any) -> None:
    wanted = schema("a", "b", a=part, b=INTEGER)
    assert checked(wanted, {"b": 1}).missing == ("a",)
    for value in ("x", 10**400, [1], None):
        checked(wanted, mended(wanted, {"a": value, "b": "2"}))


@pytest.mark.parametrize("broken", [{"properties": 3}, {"required": 3}, {"required": [3, None]}, {"$schema": {}}, {}])
def test_a_schema_with_nothing_in_it_lets_everything_pass(broken: dict[str, Any]) -> None:
    assert checked(broken, {"a": 1}).is_fine
    assert mended(broken, {"a": "1", "b": None}) == {"a": "1", "b": None}


def test_what_json_cannot_say_is_a_problem() -> None:
    for value in (math.nan, math.inf, {"deep": [-math.inf]}):
        assert not checked(schema(a={}), {"a": value}).is_fine


def test_no_number_is_read_that_is_none_and_nothing_that_is_nested_too_deeply() -> None:
    for text in ("NaN", "-Infinity", "[" * 100_000, "", "{", "1" * 10_000):
        with pytest.raises(ValueError):
            read_json(text)
    assert read_json('{"a": 1.5}') == {"a": 1.5}


# What was meant


@pytest.mark.parametrize(
    ("part", "written", "meant"),
    [
        (INTEGER, "7", 7),
        (INTEGER, " 7 ", 7),
        ({"type": "number"}, "7.5", 7.5),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "False", False),
        ({"type": "array"}, "[1, 2]", [1, 2]),
        ({"type": "object"}, '{"x": 1}', {"x": 1}),
        (OPTIONAL, "7", 7),
        ({"type": ["integer", "null"]}, "7", 7),
        ({"enum": [1, 2]}, "2", 2),
        (TEXT, 42, "42"),
        ({"type": "string", "enum": ["low", "urgent"]}, "Urgent ", "urgent"),
    ],
)
def test_another_spelling_that_fits_is_what_was_meant(part: Any, written: Any, meant: Any) -> None:
    found = mended(schema("a", a=part), {"a": written})
    assert found == {"a": meant}
    assert type(found["a"]) is type(meant)


@pytest.mark.parametrize(
    ("part", "written"),
    [
        (INTEGER, "six"),
        (INTEGER, "7.5"),
        (INTEGER, "true"),
        (INTEGER, "NaN"),
        (INTEGER, True),
        ({"type": "boolean"}, "yes"),
        ({"type": "boolean"}, 1),
        ({"type": "array"}, "a, b"),
        (TEXT, "7"),
        (TEXT, True),
        ({"type": "string", "enum": ["low"]}, "lower"),
        ({}, "7"),
    ],
)
def test_what_fits_as_it_is_or_in_no_spelling_stays(part: Any, written: Any) -> None:
    assert mended(schema("a", a=part), {"a": written}) == {"a": written}


def test_null_for_an_optional_parameter_means_that_it_is_not_given() -> None:
    wanted = schema("a", a=INTEGER, b=INTEGER, c=OPTIONAL, d={})
    given_values = {"a": None, "b": None, "c": None, "d": None, "unknown": None}
    assert mended(wanted, given_values) == {"a": None, "c": None, "d": None, "unknown": None}


# Whatever comes

PARTS = st.sampled_from(
    [INTEGER, TEXT, OPTIONAL, {"type": "number"}, {"type": "boolean"}, {"enum": ["a", "b"]}, {"type": "array"}, {}]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(["a", "b", "c"])
SCHEMAS = st.builds(
    lambda properties, needed: schema(*sorted(needed), **properties),
    st.dictionaries(NAMES, PARTS),
    st.sets(NAMES),
)
KEYWORDS = st.sampled_from(["type", "properties", "required", "$ref", "enum", "items", "anyOf", "pattern", "minimum"])
ANY_SCHEMA = st.dictionaries(KEYWORDS, JSON | PARTS | st.dictionaries(NAMES, JSON | PARTS), max_size=4)


@given(SCHEMAS, st.dictionaries(NAMES, JSON))
def test_arguments_that_fit_are_left_as_they_are(wanted: dict[str, Any], arguments: dict[str, Any]) -> None:
    found = mended(wanted, arguments)
    if Draft202012Validator(wanted).is_valid(arguments):
        assert found == arguments
    assert mended(wanted, found) == found
    assert json.loads(json.dumps(found)) == found


@given(SCHEMAS, st.dictionaries(NAMES, JSON))
def test_what_is_fine_fits_the_schema_and_only_empty_texts_are_refused_beyond_it(
    wanted: dict[str, Any], arguments: dict[str, Any]
) -> None:
    found, fits = checked(wanted, arguments), Draft202012Validator(wanted).is_valid(arguments)
    if found.is_fine:
        assert fits
    elif fits:
        assert all(arguments.get(name) is None or str(arguments[name]).strip() == "" for name in found.missing)
    assert set(found.missing) <= set(required(wanted))


@given(st.dictionaries(NAMES, st.integers()))
def test_numbers_that_are_written_as_text_come_out_as_numbers(numbers: dict[str, int]) -> None:
    wanted = schema(**dict.fromkeys(numbers, INTEGER))
    assert mended(wanted, {name: str(number) for name, number in numbers.items()}) == numbers


@given(ANY_SCHEMA, st.dictionaries(NAMES, JSON))
def test_no_schema_and_no_arguments_raise_anything(wanted: dict[str, Any], arguments: dict[str, Any]) -> None:
    checked(wanted, mended(wanted, arguments))
    assert set(mended(wanted, arguments)) <= set(arguments)
