"""Tables as one test: each failing case is named, and none hides another."""

from __future__ import annotations

import pytest

from tests.support.every import every


@every("number, square", [(1, 1), (2, 4), (3, 9)])
def test_all_cases_may_be_well(number: int, square: int) -> None:
    assert number * number == square


def test_every_failing_case_is_named() -> None:
    seen = []

    @every("number", [0, 1, pytest.param(2, id="two"), 3])
    def table(number: int) -> None:
        seen.append(number)
        assert number != 1
        with pytest.raises(ValueError):
            int("x" if number < 2 else "2")

    with pytest.raises(BaseExceptionGroup, match=r"^3 of 4 cases fail: 1; two; 3") as failed:
        table()
    assert seen == [0, 1, 2, 3]
    assert isinstance(failed.value.exceptions[0], AssertionError)
    assert [error.__notes__ for error in failed.value.exceptions] == [["case: 1"], ["case: two"], ["case: 3"]]


def test_a_table_in_a_table_runs_every_pair() -> None:
    seen = []

    @every("one", "ab")
    @every("other", "xy")
    def table(one: str, other: str) -> None:
        seen.append(one + other)

    table()
    assert seen == ["ax", "ay", "bx", "by"]


def test_cases_may_have_names() -> None:
    @every("number", [1, 2], ids=["one", "two"])
    def table(number: int) -> None:
        assert number == 1

    with pytest.raises(ExceptionGroup, match=r"^1 of 2 cases fail: two"):
        table()


def test_a_table_without_a_case_is_refused() -> None:
    with pytest.raises(AssertionError, match="proves nothing"):
        every("number", [])
