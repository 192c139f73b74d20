"""What foreign schemas and patterns may cost, and that a limited check finds what an unlimited one does."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from swarm.domain.errors import Invalid
from swarm.domain.model.requests import FieldType, FormField, HumanDecision, NewRequest, Option, ToolRequest
from swarm.domain.patterns import MOST_STEPS, TooCostly, WorkLimit, fits_pattern, has_few_values
from swarm.domain.policy.decision_rules import check_new
from swarm.domain.requests.edited_arguments import TOO_COSTLY, argument_problem
from swarm.domain.requests.forms import fill
from swarm.domain.requests.schema_checks import SchemaCheck
from swarm_base.schema_forms import fields_of
from tests.support.quick import quick
from tests.support.schema_bombs import BOMBS, HARMLESS, PATTERNS, SLOW_ELSEWHERE

pytestmark = pytest.mark.req("SEC-09")


class Counted(WorkLimit):
    """WorkLimit that are counted."""

    def __init__(self) -> None:
        super().__init__()
        self.spent = 0

    def spend(self, steps: float) -> None:
        self.spent += 1
        super().spend(steps)


# Schemas


@pytest.mark.parametrize("name", BOMBS)
def test_a_check_ends_when_its_steps_are_used_up(name: str) -> None:
    schema, arguments = BOMBS[name]
    steps = Counted()
    with pytest.raises(TooCostly):
        SchemaCheck(schema, steps).errors(arguments)
    assert steps.spent <= 20 * MOST_STEPS + 1  # measuring a value costs less than a step


@pytest.mark.parametrize("name", quick(BOMBS, 3))
def test_a_change_that_takes_too_long_to_check_is_refused_with_what_to_do(name: str) -> None:
    schema, arguments = BOMBS[name]
    tool = ToolRequest(name="t", arguments={}, schema=schema)
    assert argument_problem(tool, arguments) == ("arguments", TOO_COSTLY)


@pytest.mark.req("HITL-04")
@pytest.mark.parametrize("name", HARMLESS)
def test_what_only_the_asker_can_check_is_left_to_the_asker(name: str) -> None:
    schema, arguments = HARMLESS[name]
    assert argument_problem(ToolRequest(name="t", schema=schema), arguments) is None


def test_beside_what_is_left_out_everything_is_checked() -> None:
    part = {"type": "object", "patternProperties": {"^x": {}}, "additionalProperties": False, "required": ["b"]}
    tool = ToolRequest(name="t", schema={"properties": {"a": part}, "unevaluatedProperties": False})
    assert argument_problem(tool, {"a": {"y": 1}}) == ("a", "'b' is a required property")


@pytest.mark.parametrize("is_unique", [True, False])
def test_equal_items_are_found_in_any_spelling(is_unique: bool) -> None:
    items = [{"a": 1, "b": [2]}, {"b": [3 if is_unique else 2], "a": 1}]
    tool = ToolRequest(name="t", schema={"properties": {"a": {"uniqueItems": True}}})
    assert (argument_problem(tool, {"a": items}) is None) is is_unique


_SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "ab"])
_VALUES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
)
_SCHEMAS: st.SearchStrategy[Any] = st.recursive(
    st.booleans()
    | st.fixed_dictionaries({"type": st.sampled_from(["string", "integer", "array", "object", "null"])})
    | st.fixed_dictionaries({"enum": st.lists(_SCALARS, min_size=1, max_size=3)})
    | st.fixed_dictionaries({"minimum": st.integers(-3, 3)})
    | st.fixed_dictionaries({"maxLength": st.integers(0, 2)}),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(("anyOf", "oneOf", "allOf", "prefixItems"), st.lists(inner, min_size=1, max_size=3)),
            **dict.fromkeys(("not", "items", "contains", "additionalProperties", "if", "then"), inner),
            "properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
            "required": st.lists(st.sampled_from("ab"), max_size=2, unique=True),
        },
    ),
    max_leaves=6,
)


@given(schema=_SCHEMAS.filter(lambda schema: isinstance(schema, dict)), value=_VALUES)
def test_a_limited_check_finds_what_the_library_finds(schema: dict[str, Any], value: Any) -> None:
    expected = [error.message for error in Draft202012Validator(schema).iter_errors(value)]
    assert [error.message for error in SchemaCheck(schema).errors(value)] == expected


# Patterns


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_that_takes_too_long_is_not_tried(pattern: str) -> None:
    with pytest.raises(TooCostly):
        fits_pattern(pattern, "ab" * 5000)


@pytest.mark.parametrize("pattern", SLOW_ELSEWHERE)
def test_a_pattern_that_goes_back_elsewhere_does_not_here(pattern: str) -> None:
    assert fits_pattern(pattern, "a" * 5000 + "!") is False


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$", "0193b0c0-6400-7000-8000-00000000aaaa"),
        (r"^[A-Za-z0-9._%+-]+@[A-Za-z0-9.-]+\.[A-Za-z]{2,}$", "a@b.example"),
        (r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}(:\d{2})?$", "2026-11-27T10:00"),
        (r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$", "my-service"),
        (r"^https?://[\w.-]+(:\d{1,5})?(/[\w./?%&=-]*)?$", "https://example.com/a?b=c"),
        (r"\S", "x" * 10_000),
    ],
)
def test_usual_patterns_cost_little(pattern: str, text: str) -> None:
    assert fits_pattern(pattern, text, WorkLimit(MOST_STEPS / 20))


def test_a_form_says_which_text_takes_too_long_and_checks_the_others() -> None:
    fields = [FormField(name="a", pattern=r"^\w{0,50}$"), FormField(name="b", pattern="^b$")]
    found = fill(fields, {"a": "x" * 10_000, "b": "b"})
    assert set(found.problems) == {"a"} | ({"b"} & found.problems.keys())
    assert found.problems["a"].startswith("Enter a shorter text")


def test_all_patterns_of_a_form_share_their_steps() -> None:
    fields = [FormField(name=f"f{n}", pattern="(a|b)*a(a|b){100}c") for n in range(50)]
    found = fill(fields, {field.name: "ab" * 1000 for field in fields})
    assert any(problem.startswith("Enter a shorter text") for problem in found.problems.values())


# What is refused to whoever asks


def problems_of(**asked: Any) -> dict[str, str]:
    try:
        check_new(NewRequest(**({"key": "k", "title": "May I?"} | asked)))
    except Invalid as refused:
        return dict(refused.fields)
    return {}


@pytest.mark.parametrize("pattern", PATTERNS[1:3])
def test_a_field_whose_pattern_takes_too_long_for_any_text_is_refused(pattern: str) -> None:
    problems = problems_of(fields=(FormField(name="a"), FormField(name="b", pattern=pattern)), decisions=_ANSWER)
    assert problems == {"fields.b": "a shorter pattern, or none: this one takes too long to check"}


def test_a_call_whose_changes_nobody_could_check_is_refused_unless_they_are_not_asked_for() -> None:
    schema, arguments = BOMBS["anyOf"]
    tool = ToolRequest(name="t", arguments=arguments, schema=schema)
    edit = (HumanDecision.APPROVE, HumanDecision.EDIT, HumanDecision.REJECT)
    assert set(problems_of(tool=tool, decisions=edit)) == {"tool.schema"}
    assert problems_of(tool=tool) == {}


@pytest.mark.req("HITL-01")
def test_a_form_that_would_lose_a_field_is_refused() -> None:
    many = {f"f{n}": {"type": "string"} for n in range(51)}
    assert problems_of(fields=fields_of({"properties": many}), decisions=_ANSWER) == {"fields": "at most 50"}
    long = fields_of({"properties": {"x" * 201: {}}, "required": ["x" * 201]})
    assert problems_of(fields=long, decisions=_ANSWER) == {"fields": "with names of 1 to 200 characters"}
    (unnamed,) = fields_of({"properties": {}, "required": ["branch"]})
    assert (unnamed.name, unnamed.required) == ("branch", True)


@pytest.mark.req("HITL-01")
def test_two_labels_for_one_value_are_refused_and_the_same_choice_twice_is_one() -> None:
    twice = {"enum": ["a", "b", "a"], "enumNames": ["A", "B", "A"]}
    (field,) = fields_of({"properties": {"where": twice}})
    assert field.options == (Option(value="a", label="A"), Option(value="b", label="B"))
    for same in ({"enum": ["a", "a"], "enumNames": ["A", "Z"]}, {"enum": [1, "1"], "enumNames": ["one", "text"]}):
        fields = fields_of({"properties": {"where": same}})
        assert fields[0].type is FieldType.SELECT
        assert set(problems_of(fields=fields, decisions=_ANSWER)) == {"fields.where"}


_ANSWER = (HumanDecision.ANSWER, HumanDecision.REJECT)


# JSON


@pytest.mark.parametrize("text", ["[{" * 50, '", [' * 50, "\\" * 51, "ü\ud800,", '\n\t"'])
def test_what_stands_in_the_texts_of_json_is_no_value(text: str) -> None:
    document = json.dumps({text: [text, 1, {"a": text}]}, ensure_ascii=False)
    assert has_few_values(document, 5)
    assert not has_few_values(document, 4)


@pytest.mark.parametrize("part", ["[]", "{}", "1", '""', '"a"', "null", '{"a":1}'])
def test_many_values_of_any_kind_are_many(part: str) -> None:
    assert not has_few_values(f"[{','.join([part] * 101)}]", 100)
    assert not has_few_values(b'data: "\n: "\r"\r\n' + f"[{','.join([part] * 101)}]".encode(), 100)
