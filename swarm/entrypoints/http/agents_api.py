"""Agents over HTTP: routes to register and manage agents, and routes for an agent's own data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from http import HTTPStatus

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from swarm.domain.errors import Forbidden, Invalid, NotFound
from swarm.domain.model.agents import Agent, AgentRow, ListedAgentRow, Role
from swarm.domain.model.triggers import Tray
from swarm.domain.views import facts_of
from swarm.entrypoints.web.answers import Answer
from swarm.entrypoints.web.body import read_model
from swarm.entrypoints.web.identity import BOUND_TO, Identities, Office, instance_id
from swarm.entrypoints.web.openapi import INSTANCE, problems, takes
from swarm.entrypoints.web.schema import (
    AgentChange,
    Agents,
    NewAgent,
    RegisteredShape,
)
from swarm.services.operate.agents import Present
from swarm.services.use_cases import Services

Warnings = Callable[[str], Sequence[str]]
"""Returns warnings about removing the agent with this name: the settings that name it, and the consequences."""


class RemovedShape(TypedDict):
    """Sentences about the settings that name the removed agent, and the consequences."""

    warnings: list[str]


def no_warnings(agent: str) -> Sequence[str]:
    """Returns no warnings, for settings that name no agent."""
    return ()


def agent_router(services: Services, identities: Identities, warnings: Warnings = no_warnings) -> APIRouter:
    """Returns the routes ``/agents``, ``/me`` and ``/tray``."""
    routes = _AgentRoutes(services, identities, warnings)
    router = APIRouter()
    add = router.add_api_route
    gone = problems(401, 403, 404)
    add("/me", routes.me, response_model=AgentRow, tags=["agent"], responses=problems(401, 403))
    add(
        "/me/instance", routes.leave, methods=["DELETE"], status_code=HTTPStatus.NO_CONTENT, tags=["agent"],
        openapi_extra={"parameters": [INSTANCE | {"required": True}]}, responses=problems(401, 403, 422, 503),
    )  # fmt: skip
    add("/tray", routes.tray, response_model=Tray, tags=["agent"], responses=problems(401, 403, 409))
    add("/agents", routes.everyone, response_model=Agents, tags=["operator"], responses=problems(401, 403))
    add(
        "/agents", routes.register, methods=["POST"], status_code=HTTPStatus.CREATED, response_model=RegisteredShape,
        tags=["operator"], openapi_extra=takes(NewAgent), responses=problems(400, 401, 403, 409, 413, 422),
    )  # fmt: skip
    add(
        "/agents/{agent}", routes.change, methods=["PATCH"], response_model=AgentRow, tags=["operator"],
        openapi_extra=takes(AgentChange), responses=problems(400, 401, 403, 404, 413, 422),
    )  # fmt: skip
    add(
        "/agents/{agent}", routes.revoke, methods=["DELETE"], status_code=HTTPStatus.NO_CONTENT, tags=["operator"],
        responses={200: {"model": RemovedShape, "description": "Removed; the settings name it"}, **gone},
    )  # fmt: skip
    add(
        "/agents/{agent}/rotate", routes.rotate, methods=["POST"], response_model=RegisteredShape, tags=["operator"],
        responses=problems(401, 403, 404, 409),
    )  # fmt: skip
    return router


class _AgentRoutes:
    """The endpoints for agents. ``agent`` in a path is an id or a name."""

    def __init__(self, services: Services, identities: Identities, warnings: Warnings) -> None:
        self._agents = services.agents
        self._trays = services.trays
        self._identities = identities
        self._warnings = warnings

    async def me(self, request: Request) -> Response:
        """Return the calling agent."""
        agent = await self._identities.agent(request.scope)
        return Answer((await self._present(agent.id)).row)

    async def leave(self, request: Request) -> Response:
        """End the instance of X-Swarm-Instance, so that another program may serve the agent at once. An instance that
        does not serve the agent, or no longer does, changes nothing.
        """
        agent = await self._identities.agent(request.scope)
        instance = instance_id(request.scope)
        if instance is None:
            raise Invalid(
                "The header X-Swarm-Instance is missing.", fields={"X-Swarm-Instance": "the id of your instance"}
            )
        await self._agents.leave(agent, instance)
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def tray(self, request: Request) -> Response:
        """Return the calling agent's tray: a summary of its pending work."""
        agent = await self._identities.agent_or_key(request.scope)
        return Answer(await self._trays.of(agent, request.scope[BOUND_TO]))

    async def everyone(self, request: Request) -> Response:
        """List all agents, oldest first."""
        await self._identities.operator(request.scope)
        rows = [one.row for one in await self._agents.present()]
        unoffered = self._agents.unoffered
        listed = [ListedAgentRow(**facts_of(AgentRow, row), unoffered=unoffered(row.name)) for row in rows]
        return Answer({"agents": listed})

    async def register(self, request: Request) -> Response:
        """Register an agent. Its token is not shown again. An enrolment key registers only workers."""
        office = await self._identities.registrar(request.scope)
        said = await read_model(request, NewAgent)
        if office is Office.ENROLMENT and said.role is not Role.WORKER:
            raise Forbidden("An enrolment key registers workers only.", hint="Ask the operator to register a lead.")
        registered = await self._agents.register(
            said.name, said.role, said.description, said.capabilities, enrolled=office is Office.ENROLMENT
        )
        return Answer(_registered(registered.agent, registered.token), HTTPStatus.CREATED)

    async def change(self, request: Request, agent: str) -> Response:
        """Change an agent's description or capabilities."""
        await self._identities.operator(request.scope)
        said = await read_model(request, AgentChange)
        changed = await self._agents.describe(agent, said.description, said.capabilities)
        return Answer((await self._present(changed.id)).row)

    async def revoke(self, request: Request, agent: str) -> Response:
        """Remove an agent. Its tokens become invalid at once, and its work goes to the default lead. The status is 204,
        or 200 with warnings if the settings name the agent. An agent that the settings declare is registered again at
        the next reload.
        """
        await self._identities.operator(request.scope)
        removed = await self._agents.revoke(agent)
        if warnings := self._warnings(removed.name):
            return Answer({"warnings": list(warnings)})
        return Response(status_code=HTTPStatus.NO_CONTENT)

    async def rotate(self, request: Request, agent: str) -> Response:
        """Create a new token for an agent. The old tokens become invalid at once."""
        await self._identities.operator(request.scope)
        rotated = await self._agents.rotate(agent)
        return Answer(_registered(rotated.agent, rotated.token))

    async def _present(self, agent_id: str) -> Present:
        for present in await self._agents.present():
            if present.agent.id == agent_id:
                return present
        raise NotFound("This agent has just been removed.")


def _registered(agent: Agent, token: str) -> RegisteredShape:
    return RegisteredShape(id=agent.id, name=agent.name, role=agent.role, token=token)
