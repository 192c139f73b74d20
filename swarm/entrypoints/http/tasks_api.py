"""Tasks over HTTP, for operators and leads."""

from __future__ import annotations

from dataclasses import asdict
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from swarm.domain.model.agents import Agent
from swarm.domain.model.tasks import MAX_TITLE_CHARACTERS, FoundTasks, TaskStatus, TaskView
from swarm.domain.selections import Batch
from swarm.entrypoints.web.answers import Answer
from swarm.entrypoints.web.body import read_model
from swarm.entrypoints.web.identity import LEASE_HEADER, Identities
from swarm.entrypoints.web.openapi import problems, takes
from swarm.entrypoints.web.schema import Input, Limit, RedriveAll
from swarm.services.ground.idempotency import Caller
from swarm.services.tasks.tasks import brief
from swarm.services.use_cases import Services

_TaskIds = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=200)], ...], Field(max_length=20)]


class NewTask(Input):
    title: Annotated[
        str | None, Field(max_length=MAX_TITLE_CHARACTERS, description="By default the description's first line.")
    ] = None
    description: str
    agent: Annotated[str | None, Field(description="A worker's name or id; null to assign the task later.")] = None
    priority: Annotated[
        int, Field(ge=0, le=100, description="Tasks with a higher priority come first; messages from Slack have 50.")
    ] = 50
    depends_on: _TaskIds = ()
    parent_id: str | None = None


class Assignment(Input):
    agent: Annotated[str, Field(min_length=1, max_length=200, description="A worker's name or id.")]


class Cancellation(Input):
    reason: Annotated[str, Field(max_length=2000)] = ""


class TasksQuery(Input):
    status: TaskStatus | None = None
    limit: Limit = 50


def task_router(services: Services, identities: Identities) -> APIRouter:
    """Returns the route ``/tasks`` and the routes below it."""
    routes = _TaskRoutes(services, identities)
    router = APIRouter(tags=["tasks"])
    add = router.add_api_route
    add(
        "/tasks", routes.create, methods=["POST"], status_code=201, response_model=TaskView,
        openapi_extra=takes(NewTask),
        responses=problems(400, 401, 403, 404, 409, 413, 422),
    )  # fmt: skip
    add("/tasks", routes.latest, response_model=FoundTasks, responses=problems(401, 403, 422))
    add("/tasks/{task_id}", routes.get, response_model=TaskView, responses=problems(401, 403, 404))
    for name, act, body in (("assign", routes.assign, Assignment), ("cancel", routes.cancel, Cancellation)):
        add(
            f"/tasks/{{task_id}}/{name}", act, methods=["POST"], response_model=TaskView, openapi_extra=takes(body),
            responses=problems(400, 401, 403, 404, 409, 413, 422),
        )  # fmt: skip
    add(
        "/tasks/{task_id}/redrive", routes.redrive, methods=["POST"], response_model=TaskView,
        responses=problems(401, 403, 404, 409),
    )  # fmt: skip
    add("/tasks/redrive", routes.redrive_all, methods=["POST"], response_model=Batch, responses=problems(401, 403, 422))
    return router


class _TaskRoutes:
    """The endpoints for tasks."""

    def __init__(self, services: Services, identities: Identities) -> None:
        self._tasks = services.tasks
        self._identities = identities

    async def create(self, request: Request) -> Response:
        """Create a task. If a lead passes a lease in X-Swarm-Lease, the task belongs to that lease's thread."""
        caller = await self._caller(request)
        said = await read_model(request, NewTask)
        wording = brief(said.description, said.title, said.priority, said.depends_on)
        task = await self._tasks.create(caller, wording, agent=said.agent, parent_id=said.parent_id)
        return Answer(task, HTTPStatus.CREATED)

    async def latest(self, request: Request, query: Annotated[TasksQuery, Query()]) -> Response:
        """List the newest tasks, optionally of one status."""
        found = await self._tasks.latest(await self._reader(request), query.status, query.limit)
        return Answer({"tasks": found})

    async def get(self, request: Request, task_id: str) -> Response:
        """Return one task."""
        return Answer(await self._tasks.get(await self._reader(request), task_id))

    async def assign(self, request: Request, task_id: str) -> Response:
        """Give an unassigned task to a worker."""
        caller = await self._caller(request)
        said = await read_model(request, Assignment)
        return Answer(await self._tasks.assign(caller, task_id, said.agent))

    async def cancel(self, request: Request, task_id: str) -> Response:
        """Cancel a task that has not ended. Its run and its thread are notified at once. The body is optional."""
        caller = await self._caller(request)
        empty = request.headers.get("content-length", "0") == "0"
        said = Cancellation() if empty else await read_model(request, Cancellation)
        return Answer(await self._tasks.cancel(caller, task_id, said.reason))

    async def redrive(self, request: Request, task_id: str) -> Response:
        """Bring back a dead task, with its attempts set to zero."""
        await self._identities.operator(request.scope)
        return Answer(await self._tasks.redrive(task_id))

    async def redrive_all(self, request: Request, wanted: RedriveAll) -> Response:
        """Bring back all dead tasks that match, or only count them."""
        await self._identities.operator(request.scope)
        selection = wanted.where.selection(wanted.where.status)
        return Answer(asdict(await self._tasks.redrive_all(selection, dry_run=wanted.dry_run)))

    async def _reader(self, request: Request) -> Agent | None:
        return await self._identities.operator_or_lead(request.scope)

    async def _caller(self, request: Request) -> Caller | None:
        """Returns the calling lead with its lease, or None for the operator."""
        agent = await self._identities.operator_or_lead(request.scope)
        return Caller(agent=agent, lease_token=request.headers.get(LEASE_HEADER)) if agent else None
