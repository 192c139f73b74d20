"""Budgets: how far an approval goes, and how amounts are shown."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm.domain.model.budgets import BudgetScope, BudgetUnit, UsedBudget, dollars_text, usage_text

pytestmark = pytest.mark.req("RUN-06")


def budget(step: int, limit: int, used: int, unit: BudgetUnit = BudgetUnit.TOKENS) -> UsedBudget:
    return UsedBudget(scope=BudgetScope.AGENT, unit=unit, subject="wim 2026-11-24", step=step, limit=limit, used=used)


@pytest.mark.req("SEC-10")
@given(st.integers(1, 10**6), st.integers(0, 50), st.integers(0, 10**7))
def test_an_approval_allows_one_step_more_however_much_is_used(step: int, raised: int, over: int) -> None:
    limit = step * (1 + raised)
    found = budget(step, limit, limit + over)
    assert found.next_limit == limit + step


def test_amounts_are_shown_with_their_unit() -> None:
    assert budget(10, 1_000, 1_234).sentence == "The budget of wim for today is used up: 1,234 of 1,000 tokens"
    dear = budget(10, 1_500_000, 2_000_000, BudgetUnit.DOLLARS)
    assert dear.sentence == "The budget of wim for today is used up: $2.00 of $1.50"
    assert (dear.number(dear.used), budget(1, 1, 7).number(7)) == (2.0, 7)


def test_usage_is_short() -> None:
    shown = {
        (0, None): "",
        (0, 0): "",
        (1, None): "1 token",
        (999, 0): "999 tokens",
        (1_000, None): "1k tokens",
        (1_290, None): "1.2k tokens",
        (12_345, 80_000): "12k tokens · $0.08",
        (999_999, None): "999k tokens",
        (2_500_000, 12_340_000): "2.5M tokens · $12.34",
        (0, 2_500): "$0.0025",
    }
    assert {usage: usage_text(*usage) for usage in shown} == shown
    assert [dollars_text(cost) for cost in (0, 1, 10_000, 1_000_000_000)] == [
        "$0.00",
        "$0.000001",
        "$0.01",
        "$1,000.00",
    ]
