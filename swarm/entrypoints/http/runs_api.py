"""Usage of runs over HTTP: for agents that report it, and for the operator, of individual runs and in total."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from swarm.domain.errors import BadRequest, Invalid
from swarm.domain.model.budgets import (
    MICRODOLLARS,
    MOST_DOLLARS,
    MOST_TOKENS_REPORTED,
    BudgetScope,
    BudgetUnit,
    UsedBudget,
)
from swarm.domain.model.language_models import (
    Door,
    ModelUsage,
    ModelUsageRecord,
    UsageGrouping,
    UsageOutcome,
    UsagePurpose,
    UsageTotal,
)
from swarm.domain.views import JsonView, Time, facts_of
from swarm.entrypoints.web.answers import Answer
from swarm.entrypoints.web.body import parse_model, read_body, read_model
from swarm.entrypoints.web.identity import Identities
from swarm.entrypoints.web.openapi import problems, takes
from swarm.entrypoints.web.schema import Input, Limit
from swarm.services.builtin.model_usage import MOST_DAYS, ModelUsageLog
from swarm.services.requests.budgets import RunUsage

Name = Annotated[str, Field(min_length=1, max_length=500)]
_Purpose = Annotated[
    UsagePurpose | None, Field(description="Only runs for this purpose: an answer, or a summary of a session.")
]


class RunsQuery(Input):
    agent: Annotated[Name | None, Field(description="Only runs of the agent with this name.")] = None
    limit: Limit = 100
    before: Annotated[Name | None, Field(description="Only runs that ended before the run with this id.")] = None
    purpose: _Purpose = None


class UsageQuery(Input):
    days: Annotated[int, Field(ge=1, le=MOST_DAYS, description="The number of days in UTC, including today.")] = 30
    purpose: _Purpose = None
    by: Annotated[
        UsageGrouping,
        Field(
            description="What is added up: day (by agent and model), agent, thread, or run. Other than by day, at "
            "most 1,000 rows, the latest first."
        ),
    ] = UsageGrouping.DAY
    agent: Annotated[Name | None, Field(description="Only runs of the agent with this name.")] = None
    thread_id: Annotated[Name | None, Field(description="Only runs in this thread.")] = None


_Tokens = Annotated[int, Field(ge=0, le=MOST_TOKENS_REPORTED, strict=True)]


class UsageReport(Input):
    """The total usage of a run so far. A total that is lower than before is ignored; leave out what is not known."""

    input_tokens: Annotated[_Tokens | None, Field(description="Including tokens read from a cache.")] = None
    output_tokens: _Tokens | None = None
    cost_dollars: Annotated[
        float | None, Field(ge=0, le=MOST_DOLLARS, allow_inf_nan=False, strict=True, description="In US dollars.")
    ] = None
    model: Annotated[str | None, Field(max_length=200)] = None


class BudgetQuestion(Input):
    """A budget that is used up."""

    scope: BudgetScope
    unit: BudgetUnit


class ExceededBudget(TypedDict):
    """A budget that is used up. Amounts are in tokens or US dollars; the limit includes what people have approved."""

    scope: str
    unit: str
    limit: float
    used: float
    text: str  # a sentence for people


class ReportedUsage(TypedDict):
    exceeded: list[ExceededBudget]


class AskedBudget(TypedDict):
    """The request to people, or no id if the budget is not used up."""

    request_id: str | None
    status: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class RunRow(ModelUsage, JsonView):
    """One run."""

    id: str
    agent: str
    door: Door
    session_id: str
    turn_id: str | None
    thread_id: str | None
    requester: str | None
    model: str | None
    outcome: UsageOutcome
    note: str | None
    started_at: Time
    ended_at: Time
    purpose: UsagePurpose


@dataclass(frozen=True, kw_only=True, slots=True)
class UsageRow(ModelUsage, JsonView):
    """The usage of a group of runs; what the group does not tell is null. The cost includes only runs with a known
    cost."""

    day: str | None
    agent: str | None
    model: str | None
    thread_id: str | None
    run_id: str | None
    runs: int
    runs_of_unknown_cost: int


class Runs(TypedDict):
    runs: list[RunRow]


class Usage(TypedDict):
    usage: list[UsageRow]


def run_router(model_usage: ModelUsageLog, run_usage: RunUsage, identities: Identities) -> APIRouter:
    """Returns the routes ``GET /runs``, ``/usage``, and ``/runs/{run_id}/usage`` and ``/runs/{run_id}/budget``."""
    routes = _RunRoutes(model_usage, run_usage, identities)
    router = APIRouter(tags=["operator"])
    add = router.add_api_route
    add("/runs", routes.runs, response_model=Runs, responses=problems(401, 403, 422, 503))
    add("/usage", routes.usage, response_model=Usage, responses=problems(401, 403, 422, 503))
    writes = problems(400, 401, 403, 404, 409, 413, 422, 503)
    add(
        "/runs/{run_id}/usage", routes.report, methods=["POST"], response_model=ReportedUsage, tags=["agent"],
        openapi_extra=takes(UsageReport), responses=writes,
    )  # fmt: skip
    add(
        "/runs/{run_id}/budget", routes.ask, methods=["POST"], response_model=AskedBudget, tags=["agent"],
        openapi_extra=takes(BudgetQuestion), responses=writes,
    )  # fmt: skip
    return router


class _RunRoutes:
    """The endpoints for runs and their usage."""

    def __init__(self, model_usage: ModelUsageLog, run_usage: RunUsage, identities: Identities) -> None:
        self._model_runs = model_usage
        self._run_usage = run_usage
        self._identities = identities

    async def runs(self, request: Request, query: Annotated[RunsQuery, Query()]) -> Response:
        """List the latest runs with their usage, newest first: answers and summaries of built-in agents, and runs of
        polling agents that report usage.
        """
        await self._identities.operator(request.scope)
        runs = await self._model_runs.latest(query.agent, query.limit, query.before, purpose=query.purpose)
        return Answer({"runs": [_run_row(run) for run in runs]})

    async def usage(self, request: Request, query: Annotated[UsageQuery, Query()]) -> Response:
        """Return the usage of all agents that report it by day, agent and model, or by agent, thread or run, newest
        first.
        """
        await self._identities.operator(request.scope)
        totals = await self._model_runs.usage(
            query.days, purpose=query.purpose, by=query.by, agent=query.agent, thread_id=query.thread_id
        )
        return Answer({"usage": [_usage_row(total) for total in totals]})

    async def report(self, request: Request, run_id: str) -> Response:
        """Report what your run has used of models so far, and learn which budgets are used up. Repeated reports change
        nothing; with an empty body you only learn about the budgets. A report that is not valid is refused, and uses up
        the budget of its run, and no other.
        """
        agent = await self._identities.agent(request.scope)
        body = await read_body(request)
        try:
            said = parse_model(body, UsageReport)
        except (BadRequest, Invalid):
            await self._run_usage.refuse(agent, run_id)
            raise
        total = ModelUsage(
            input_tokens=said.input_tokens or 0,
            output_tokens=said.output_tokens or 0,
            cost_microdollars=None if said.cost_dollars is None else round(said.cost_dollars * MICRODOLLARS),
        )
        found = await self._run_usage.report(agent, run_id, total, said.model or "")
        return Answer({"exceeded": [_exceeded(budget) for budget in found]})

    async def ask(self, request: Request, run_id: str) -> Response:
        """Ask people whether your run may use more of a budget that is used up. Wait with GET /requests/{id}; an
        approval raises the limit. The same question is asked once.
        """
        agent = await self._identities.agent(request.scope)
        said = await read_model(request, BudgetQuestion)
        asked = await self._run_usage.ask(agent, run_id, said.scope, said.unit)
        return Answer({"request_id": asked and asked.id, "status": asked and asked.status.value})


def _exceeded(budget: UsedBudget) -> ExceededBudget:
    limit, used = budget.number(budget.limit), budget.number(budget.used)
    return ExceededBudget(
        scope=budget.scope.value, unit=budget.unit.value, limit=limit, used=used, text=f"{budget.sentence}."
    )


def _run_row(run: ModelUsageRecord) -> RunRow:
    return RunRow(
        **facts_of(ModelUsage, run.usage),
        id=run.id,
        agent=run.agent,
        door=run.door,
        session_id=run.session_id,
        turn_id=run.run_id or None,
        thread_id=run.thread_id,
        requester=run.requester or None,
        model=run.model or None,
        outcome=run.outcome,
        note=run.note or None,
        started_at=run.started_at,
        ended_at=run.ended_at,
        purpose=run.purpose,
    )


def _usage_row(total: UsageTotal) -> UsageRow:
    return UsageRow(
        **facts_of(ModelUsage, total.usage),
        day=total.day,
        agent=total.agent,
        model=total.model or None,
        thread_id=total.thread_id,
        run_id=total.run_id,
        runs=total.runs,
        runs_of_unknown_cost=total.runs_of_unknown_cost,
    )
