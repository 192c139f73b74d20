"""Budgets of runs, in tokens and in money: their limits, what is used of them, and what people have approved.

A budget limits the use of one subject: a run, a thread, an agent in a day, or all agents in a day. Days are in UTC.
Usage counts for the day of its last report, so a run at midnight counts as a whole for the new day. What a polling
agent reports of one run counts for other budgets only up to the run's own limit: no report harms others (SEC-10).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

MICRODOLLARS: Final = 1_000_000
"""Millionths in a US dollar."""

MOST_TOKENS_REPORTED: Final = 10**12
"""The largest number of tokens that a run may report, and the largest limit."""

MOST_DOLLARS: Final = 10**6
"""The largest cost that a run may report, and the largest limit."""


class BudgetScope(StrEnum):
    """The subject of a budget."""

    RUN = "run"
    THREAD = "thread"
    AGENT = "agent"  # an agent's runs in a day
    DAY = "day"  # all runs in a day

    @property
    def is_shared(self) -> bool:
        """Whether the budget is shared by everybody, and not only by the people of one run or thread."""
        return self in (BudgetScope.AGENT, BudgetScope.DAY)


class BudgetUnit(StrEnum):
    """The unit of a budget's limit."""

    TOKENS = "tokens"
    DOLLARS = "dollars"


@dataclass(frozen=True, kw_only=True, slots=True)
class UsedBudget:
    """A budget that is used up. ``limit`` and ``used`` are in tokens or in millionths of a dollar."""

    scope: BudgetScope
    unit: BudgetUnit
    subject: str  # the run's or thread's id, the day, or the agent's name and the day
    step: int  # the operator's limit: an approval allows as much again
    limit: int  # with what people have approved
    used: int

    @property
    def next_limit(self) -> int:
        """The limit after an approval: one step more, however much was reported."""
        return self.limit + self.step

    @property
    def sentence(self) -> str:
        """What is used up, for people."""
        name = _NAMES[self.scope].format(agent=self.subject.partition(" ")[0])
        used = f"{self.used:,}" if self.unit is BudgetUnit.TOKENS else self.shown(self.used)
        return f"{name} is used up: {used} of {self.shown(self.limit)}"

    def shown(self, amount: int) -> str:
        """Returns an amount of this budget for people."""
        return f"{amount:,} tokens" if self.unit is BudgetUnit.TOKENS else dollars_text(amount)

    def number(self, amount: int) -> int | float:
        """Returns an amount in tokens or dollars."""
        return amount if self.unit is BudgetUnit.TOKENS else amount / MICRODOLLARS


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetRaise:
    """The new limit of a budget, which people are asked for, in tokens or in millionths of a dollar."""

    scope: BudgetScope
    unit: BudgetUnit
    subject: str
    limit: int


_NAMES: Final = {
    BudgetScope.RUN: "The budget of this run",
    BudgetScope.THREAD: "The budget of this thread",
    BudgetScope.AGENT: "The budget of {agent} for today",
    BudgetScope.DAY: "The budget of all agents for today",
}


def dollars_text(microdollars: int) -> str:
    """Returns an amount of money for people, such as ``$0.08``; small amounts with more digits."""
    dollars = microdollars / MICRODOLLARS
    return f"${dollars:,.2f}" if microdollars == 0 or dollars >= 0.01 else f"${dollars:.6f}".rstrip("0")


def usage_text(tokens: int, cost_microdollars: int | None) -> str:
    """Returns usage for people, such as ``12k tokens · $0.08``; empty without any."""
    parts = [f"{_short(tokens)} token{'' if tokens == 1 else 's'}"] if tokens else []
    if cost_microdollars:
        parts.append(dollars_text(cost_microdollars))
    return " · ".join(parts)


def _short(count: int) -> str:
    """Returns a count with at most three digits and a letter, rounded down, so that 999,999 stays below a million."""
    for size, letter in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            whole = count / size
            return f"{int(whole * 10) / 10:g}{letter}" if whole < 10 else f"{int(whole)}{letter}"
    return str(count)
