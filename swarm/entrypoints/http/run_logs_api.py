"""Runs that agents report over HTTP, and the logs of runs."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from swarm.entrypoints.web.answers import Answer
from swarm.entrypoints.web.body import read_model
from swarm.entrypoints.web.identity import LEASE_HEADER, Identities
from swarm.entrypoints.web.openapi import problems, takes
from swarm.entrypoints.web.schema import Input
from swarm.services.inbox.run_logs import RunLogs
from swarm.services.rules.idempotency import Caller

_Id = Annotated[str | None, Field(min_length=1, max_length=200)]


class NewRun(Input):
    """Exactly one of the two ids."""

    inbox_message_id: _Id = None
    task_id: _Id = None


class StartedRun(TypedDict):
    id: str


def run_log_router(logs: RunLogs, identities: Identities) -> APIRouter:
    """Returns the routes ``POST /runs`` and ``/runs/{id}/log``."""
    routes = _RunLogRoutes(logs, identities)
    router = APIRouter(tags=["agent"])
    router.add_api_route(
        "/runs", routes.start, methods=["POST"], response_model=StartedRun, openapi_extra=takes(NewRun),
        responses=problems(400, 401, 403, 404, 409, 413, 422, 503),
    )  # fmt: skip
    return router


class _RunLogRoutes:
    """The endpoints for reported runs and for logs."""

    def __init__(self, logs: RunLogs, identities: Identities) -> None:
        self._logs = logs
        self._identities = identities

    async def start(self, request: Request) -> Response:
        """Get the id of your run, for its log and its usage: once for each lease. An answer that you stream with
        slack-stream has an id already, which this call returns as well.
        """
        agent = await self._identities.agent(request.scope)
        caller = Caller(agent=agent, lease_token=request.headers.get(LEASE_HEADER))
        wanted = await read_model(request, NewRun)
        run_id = await self._logs.start(caller, inbox_message_id=wanted.inbox_message_id, task_id=wanted.task_id)
        return Answer({"id": run_id})
