"""The operator's budgets, and how much the reports of one run count for budgets that it shares with others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from typing import Final

from pydantic import Field, field_validator

from swarm.domain.model.budgets import MICRODOLLARS, MOST_DOLLARS, MOST_TOKENS_REPORTED, BudgetScope, BudgetUnit
from swarm.domain.policy.section import Section, named

COUNTED_TOKENS: Final = 20_000_000
COUNTED_DOLLARS: Final = 200
"""The most that the reports of one run without a limit of its own count for the budgets of others."""

_UNLIMITED: Final = 2**62


class Budget(Section):
    """The limits of one budget; null: no limit."""

    tokens: int | None = Field(None, ge=1, le=MOST_TOKENS_REPORTED, description="input and output tokens")
    dollars: Decimal | None = Field(
        None, ge=Decimal("0.000001"), le=MOST_DOLLARS, description="cost, where it is known"
    )

    @property
    def limits(self) -> Iterator[tuple[BudgetUnit, int]]:
        """The limits that are set, in tokens and in millionths of a dollar."""
        if self.tokens is not None:
            yield BudgetUnit.TOKENS, self.tokens
        if self.dollars is not None:
            yield BudgetUnit.DOLLARS, int(self.dollars * MICRODOLLARS)


class ReportedBudget(Budget):
    """How much the reports of one run count for the budgets that it shares with others; null: all."""

    tokens: int | None = Field(COUNTED_TOKENS, ge=1, le=MOST_TOKENS_REPORTED, description="input and output tokens")
    dollars: Decimal | None = Field(
        Decimal(COUNTED_DOLLARS), ge=Decimal("0.000001"), le=MOST_DOLLARS, description="cost, where it is known"
    )


class AgentBudgets(Section):
    """The budgets of one agent, in place of those for all agents; null: those for all."""

    run: Budget | None = None
    agent: Budget | None = None


class Budgets(Section):
    """How much runs of all agents may use of models before people are asked. ``limits`` end a run, and ask nobody."""

    run: Budget = Field(Budget(), description="one run")
    thread: Budget = Field(
        Budget(), description="all runs in one thread, for good; limits.thread is for one day, and asks nobody"
    )
    agent: Budget = Field(Budget(), description="each agent's runs in one day; the operator decides")
    day: Budget = Field(Budget(), description="all runs in one day; the operator decides")
    agents: Mapping[str, AgentBudgets] = Field(default_factory=dict, description="by the agent's name")
    reported: ReportedBudget = Field(
        ReportedBudget(), description="the most that one run's reports count for others, if the run has no limit"
    )
    show_usage: bool = Field(True, description="show tokens and cost below answers, where they are known")

    @field_validator("agents")
    @classmethod
    def _have_names(cls, agents: Mapping[str, AgentBudgets]) -> Mapping[str, AgentBudgets]:
        return named(agents)

    def of(self, agent: str) -> dict[BudgetScope, Budget]:
        """Returns the budgets for the runs of an agent."""
        own = self.agents.get(agent, AgentBudgets())
        return {
            BudgetScope.RUN: own.run or self.run,
            BudgetScope.THREAD: self.thread,
            BudgetScope.AGENT: own.agent or self.agent,
            BudgetScope.DAY: self.day,
        }

    def counted(self, agent: str) -> dict[BudgetUnit, int]:
        """Returns how much the reports of one run of an agent count for the budgets that it shares with others."""
        return dict(self.reported.limits) | dict(self.of(agent)[BudgetScope.RUN].limits)

    def least_counted(self, unit: BudgetUnit) -> int:
        """Returns the smallest `counted` amount of any agent: a run that reported no more counts as a whole."""
        return min(self.counted(agent).get(unit, _UNLIMITED) for agent in ("", *self.agents))
