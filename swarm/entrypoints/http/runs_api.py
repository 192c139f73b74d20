"""The operator's view of built-in agents' runs over HTTP: individual runs, and their total usage."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from swarm.domain.json_shapes import shape
from swarm.domain.model.language_models import ModelUsageRecord, UsagePurpose, UsageTotal
from swarm.entrypoints.web.answers import Answer
from swarm.entrypoints.web.identity import Identities
from swarm.entrypoints.web.openapi import problems
from swarm.entrypoints.web.schema import Input, Limit
from swarm.services.builtin.model_usage import MOST_DAYS, ModelUsageLog

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


class UsageShape(TypedDict):
    """Usage. Costs are in millionths of a US dollar, or null if the price is not known."""

    requests: int
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    tool_calls: int
    cost_microdollars: int | None


class RunRow(UsageShape):
    """One run of a built-in agent."""

    id: str
    agent: str
    door: str
    session_id: str
    turn_id: str | None
    requester: str | None
    model: str | None
    outcome: str
    note: str | None
    started_at: str
    ended_at: str
    purpose: str


class UsageRow(UsageShape):
    """The usage of an agent's runs on one day with one model. The cost includes only runs with a known cost."""

    day: str
    agent: str
    model: str | None
    runs: int
    runs_of_unknown_cost: int


class Runs(TypedDict):
    runs: list[RunRow]


class Usage(TypedDict):
    usage: list[UsageRow]


def run_router(model_usage: ModelUsageLog, identities: Identities) -> APIRouter:
    """Returns the routes ``/runs`` and ``/usage``."""
    routes = _RunRoutes(model_usage, identities)
    router = APIRouter(tags=["operator"])
    add = router.add_api_route
    add("/runs", routes.runs, response_model=Runs, responses=problems(401, 403, 422, 503))
    add("/usage", routes.usage, response_model=Usage, responses=problems(401, 403, 422, 503))
    return router


class _RunRoutes:
    """The endpoints for runs and their usage."""

    def __init__(self, model_usage: ModelUsageLog, identities: Identities) -> None:
        self._model_runs = model_usage
        self._identities = identities

    async def runs(self, request: Request, query: Annotated[RunsQuery, Query()]) -> Response:
        """List the latest runs of built-in agents (answers and summaries), newest first, each with its usage."""
        await self._identities.operator(request.scope)
        runs = await self._model_runs.latest(query.agent, query.limit, query.before, purpose=query.purpose)
        return Answer({"runs": [_run_row(run) for run in runs]})

    async def usage(self, request: Request, query: Annotated[UsageQuery, Query()]) -> Response:
        """Return the usage of built-in agents by day, agent and model, newest day first."""
        await self._identities.operator(request.scope)
        totals = await self._model_runs.usage(query.days, purpose=query.purpose)
        return Answer({"usage": [_usage_row(total) for total in totals]})


def _run_row(run: ModelUsageRecord) -> RunRow:
    texts = {key: getattr(run, key) or None for key in ("requester", "model", "note")}
    return shape(RunRow, run, run.usage, turn_id=run.run_id or None, **texts)


def _usage_row(total: UsageTotal) -> UsageRow:
    return shape(UsageRow, total, total.usage, model=total.model or None)
