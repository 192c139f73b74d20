"""What each kind of field takes, in which type, and what people read about what it does not take."""

from __future__ import annotations

import math
from typing import Any

import pytest

from swarm.domain.model.requests import FieldType, FormField, options
from swarm.domain.requests.forms import FilledForm, fill

NUMBER, WHOLE, TEXT = FieldType.NUMBER, FieldType.INTEGER, FieldType.TEXT
ONE, SEVERAL = FieldType.SELECT, FieldType.MULTISELECT


def one(kind: FieldType, given: Any, **limits: Any) -> FilledForm:
    return fill([FormField(name="f", type=kind, options=options("a", "b"), **limits)], {"f": given})


@pytest.mark.req("HITL-02")
@pytest.mark.parametrize(
    ("kind", "given", "limits", "value"),
    [
        (NUMBER, " 1.5 ", {}, 1.5),
        (NUMBER, 3, {"min": 3, "max": 3}, 3),
        (WHOLE, "3", {}, 3),
        (WHOLE, 3.0, {}, 3),
        (FieldType.BOOLEAN, "Yes", {}, True),
        (FieldType.BOOLEAN, "0", {}, False),
        (ONE, "a", {}, "a"),
        (SEVERAL, ["b", "a", "b"], {"min": 2, "max": 2}, ["b", "a"]),
        (TEXT, " abc", {"min": 4, "max": 4}, " abc"),
        (TEXT, 5, {}, "5"),
        (FieldType.URL, "https://shop.example/x", {}, "https://shop.example/x"),
        (FieldType.EMAIL, "a@shop.example", {}, "a@shop.example"),
    ],
)
def test_a_value_becomes_the_type_of_its_field(kind: FieldType, given: Any, limits: dict[str, Any], value: Any) -> None:
    filled = one(kind, given, **limits)
    assert (filled.values, filled.problems) == ({"f": value}, {})
    assert type(filled.values["f"]) is type(value)


@pytest.mark.req("HITL-02")
@pytest.mark.parametrize(
    ("kind", "given", "limits", "wrong"),
    [
        (NUMBER, 2.9, {"min": 3}, "Enter at least 3."),
        (NUMBER, 3.1, {"max": 3}, "Enter at most 3."),
        (NUMBER, True, {}, "Enter a number."),
        (NUMBER, "abc", {}, "Enter a number."),
        (NUMBER, math.inf, {}, "Enter a number."),
        (NUMBER, "nan", {}, "Enter a number."),
        (NUMBER, "1" * 51, {}, "Enter a number."),
        (WHOLE, "3.5", {}, "Enter a whole number."),
        (WHOLE, 2**63, {}, "Enter a whole number."),
        (FieldType.BOOLEAN, "perhaps", {}, "Choose yes or no."),
        (ONE, "c", {}, "Choose one of the options."),
        (SEVERAL, "a", {}, "Choose from the options."),
        (SEVERAL, ["a"], {"min": 2}, "Choose at least 2."),
        (SEVERAL, ["a", "b"], {"max": 1}, "Choose at most 1."),
        (TEXT, "abc", {"min": 4}, "Enter at least 4 characters."),
        (TEXT, "abcde", {"max": 4}, "Enter at most 4 characters."),
        (TEXT, ["abc"], {}, "Enter a text."),
        (FieldType.URL, "shop.example", {}, "Enter a link that begins with https:// or http://."),
        (FieldType.EMAIL, "a@shop", {}, "Enter an e-mail address."),
        (NUMBER, "", {"required": True}, "This is needed."),
        (SEVERAL, [], {"required": True}, "This is needed."),
    ],
)
def test_what_a_field_does_not_take_is_answered_in_words(
    kind: FieldType, given: Any, limits: dict[str, Any], wrong: str
) -> None:
    filled = one(kind, given, **limits)
    assert (filled.values, filled.problems) == ({}, {"f": wrong})


@pytest.mark.parametrize("given", [None, "", []])
def test_an_empty_value_of_an_optional_field_is_left_out(given: object) -> None:
    assert one(NUMBER, given) == FilledForm()
