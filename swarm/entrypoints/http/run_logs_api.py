"""Runs that agents report over HTTP, and the logs of runs."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from swarm.domain.errors import Invalid
from swarm.entrypoints.web.answers import Answer
from swarm.entrypoints.web.body import read_body, read_model
from swarm.entrypoints.web.identity import LEASE_HEADER, Identities
from swarm.entrypoints.web.openapi import problems, takes
from swarm.entrypoints.web.schema import Input
from swarm.services.ground.idempotency import Caller
from swarm.services.inbox.run_logs import LogPart, RunLogs, TaskRun

_OFFSET: Final = re.compile(r"[0-9]{1,15}")
_MOST_OFFSET: Final = 10**15
_Id = Annotated[str | None, Field(min_length=1, max_length=200)]


class NewRun(Input):
    """Exactly one of the two ids."""

    inbox_message_id: _Id = None
    task_id: _Id = None


class StartedRun(TypedDict):
    """A run, and how often its agent has answered without a stream; 0 while a message of the lease is open."""

    id: str
    answers: int


class NextOffset(TypedDict):
    """The offset of the next chunk, and the most bytes that the log may have."""

    next: int
    limit: int


class TaskRuns(TypedDict):
    runs: list[TaskRun]


class LogQuery(Input):
    after: Annotated[
        int, Field(ge=0, le=_MOST_OFFSET, description="Continue after this entry (0: from the beginning).")
    ] = 0
    wait_seconds: Annotated[float, Field(ge=0, le=60, description="How long to wait for more of a running run.")] = 0


_CHUNK: Final[dict[str, Any]] = {
    "requestBody": {"required": True, "content": {"text/plain": {"schema": {"type": "string"}}}},
    "parameters": [
        {
            "name": "X-Swarm-Log-Offset",
            "in": "header",
            "required": True,
            "description": "The number of bytes of the log before this chunk.",
            "schema": {"type": "integer", "minimum": 0},
        }
    ],
}


def run_log_router(logs: RunLogs, identities: Identities) -> APIRouter:
    """Returns the routes ``POST /runs`` and ``/runs/{id}/log``."""
    routes = _RunLogRoutes(logs, identities)
    router = APIRouter(tags=["agent"])
    router.add_api_route(
        "/runs", routes.start, methods=["POST"], response_model=StartedRun, openapi_extra=takes(NewRun),
        responses=problems(400, 401, 403, 404, 409, 413, 422, 503),
    )  # fmt: skip
    router.add_api_route(
        "/runs/{run_id}/log", routes.append, methods=["POST"], response_model=NextOffset, openapi_extra=_CHUNK,
        responses=problems(400, 401, 403, 404, 409, 413, 422, 503),
    )  # fmt: skip
    router.add_api_route(
        "/runs/{run_id}/log", routes.read, response_model=LogPart, responses=problems(401, 403, 404, 422, 503)
    )
    router.add_api_route(
        "/tasks/{task_id}/runs", routes.of_task, response_model=TaskRuns, tags=["operator"],
        responses=problems(401, 403, 404, 503),
    )  # fmt: skip
    return router


class _RunLogRoutes:
    """The endpoints for reported runs and for logs."""

    def __init__(self, logs: RunLogs, identities: Identities) -> None:
        self._logs = logs
        self._identities = identities

    async def start(self, request: Request) -> Response:
        """Get the id of your run, for its log and its usage: once for each lease. An answer that you stream with
        slack-stream has an id already, which this call returns as well. For task_id you may also have the lease of a
        notice about a task that you gave.
        """
        agent = await self._identities.agent(request.scope)
        caller = Caller(agent=agent, lease_token=request.headers.get(LEASE_HEADER))
        wanted = await read_model(request, NewRun)
        run_id = await self._logs.start(caller, inbox_message_id=wanted.inbox_message_id, task_id=wanted.task_id)
        return Answer({"id": run_id, "answers": await self._logs.answers(caller)})

    async def append(self, request: Request, run_id: str) -> Response:
        """Append a chunk of at most 64 KiB to the log of your run. A chunk that is sent again counts once; 409 names
        the next offset if bytes are missing before it; 413 says that the log is full, so that you send no more.
        """
        agent = await self._identities.agent(request.scope)
        offset = _offset(request.headers.get("x-swarm-log-offset", ""))
        chunk = await read_body(request)
        following = await self._logs.append(agent, run_id, offset, chunk)
        return Answer({"next": following, "limit": self._logs.cap_bytes})

    async def read(self, request: Request, run_id: str, query: Annotated[LogQuery, Query()]) -> Response:
        """Return a part of a run's log: of your own run, or of any for the operator. Pass next as after to read on,
        until over. The text has no escape sequences and no invisible characters.
        """
        agent = await self._identities.agent_or_operator(request.scope)
        return Answer(await self._logs.read(agent, run_id, query.after, query.wait_seconds))

    async def of_task(self, request: Request, task_id: str) -> Response:
        """List the runs on a task, newest first, with the sizes of their logs."""
        await self._identities.operator(request.scope)
        return Answer({"runs": await self._logs.of_task(task_id)})


def _offset(given: str) -> int:
    if not _OFFSET.fullmatch(given):
        raise Invalid(
            "The header X-Swarm-Log-Offset is missing or not valid.",
            fields={"X-Swarm-Log-Offset": "the number of bytes of the log before this chunk"},
        )
    return int(given)
