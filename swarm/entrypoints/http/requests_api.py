"""Requests to people over HTTP: for the agents that ask, and for the operator who decides."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from swarm.domain.model.grants import AuditLine, Grant
from swarm.domain.model.request_views import RequestView
from swarm.domain.model.requests import OPERATOR, Decide, EntryPoint, HumanDecision, HumanRequest, RequestStatus
from swarm.domain.requests.audiences import for_asker, for_people
from swarm.entrypoints.web.answers import Answer
from swarm.entrypoints.web.body import read_model
from swarm.entrypoints.web.identity import Identities
from swarm.entrypoints.web.openapi import problems, takes
from swarm.entrypoints.web.schema import Input, Limit
from swarm.services.use_cases import Services


class FoundRequests(TypedDict):
    """Requests, newest first."""

    requests: list[RequestView]


class FoundGrants(TypedDict):
    """The valid grants, newest first."""

    grants: list[Grant]


class FoundAudit(TypedDict):
    """Lines of the audit, oldest first."""

    audit: list[AuditLine]


class RequestsQuery(Input):
    status: RequestStatus | None = None
    limit: Limit = 50


class WaitQuery(Input):
    wait_seconds: Annotated[
        float, Field(ge=0, le=60, description="How long to wait for a decision before the answer.")
    ] = 0


class AuditQuery(Input):
    since: Annotated[str | None, Field(max_length=40, description="A time in ISO 8601.")] = None
    after: Annotated[int, Field(ge=0, description="The seq of the last line that you have.")] = 0
    limit: Annotated[int, Field(ge=1, le=1000)] = 500


class DecisionInput(Input):
    decision: HumanDecision
    values: Annotated[dict[str, Any] | None, Field(description="The values of the form, by field.")] = None
    arguments: Annotated[
        dict[str, Any] | None, Field(description="With the decision edit: all arguments of the tool call.")
    ] = None
    as_: Annotated[
        str | None,
        Field(
            alias="as", min_length=1, max_length=100,
            description="A Slack user id: the person decides, if the request's policy allows it. By default the "
            "operator decides, whom no policy limits.",
        ),
    ] = None  # fmt: skip
    door: Annotated[EntryPoint, Field(description="Where the person decided, for the audit: http, cli or page.")] = (
        EntryPoint.HTTP
    )


class Withdrawal(Input):
    reason: Annotated[str, Field(max_length=500)] = ""


def request_router(services: Services, identities: Identities) -> APIRouter:
    """Returns the routes ``/requests``, ``/grants`` and ``/audit``."""
    routes = _RequestRoutes(services, identities)
    router = APIRouter(tags=["requests to people"])
    add = router.add_api_route
    add("/requests", routes.latest, response_model=FoundRequests, responses=problems(401, 403, 422))
    add("/requests/{request_id}", routes.get, response_model=RequestView, responses=problems(401, 403, 404, 422))
    changes = problems(400, 401, 403, 404, 409, 413, 422, 503)
    add(
        "/requests/{request_id}/decide", routes.decide, methods=["POST"], response_model=RequestView,
        openapi_extra=takes(DecisionInput), responses=changes,
    )  # fmt: skip
    add(
        "/requests/{request_id}/cancel", routes.cancel, methods=["POST"], response_model=RequestView,
        openapi_extra=takes(Withdrawal), responses=changes,
    )  # fmt: skip
    add("/grants", routes.grants, response_model=FoundGrants, responses=problems(401, 403))
    add(
        "/grants/{grant_id}", routes.revoke, methods=["DELETE"], status_code=204,
        responses=problems(401, 403, 404, 409),
    )  # fmt: skip
    add("/audit", routes.audit, response_model=FoundAudit, responses=problems(401, 403, 422))
    return router


class _RequestRoutes:
    """The endpoints for requests, grants and the audit."""

    def __init__(self, services: Services, identities: Identities) -> None:
        self._requests = services.requests
        self._decisions = services.decisions
        self._identities = identities

    async def latest(self, request: Request, query: Annotated[RequestsQuery, Query()]) -> Response:
        """List the newest requests to people, optionally of one status."""
        await self._identities.operator(request.scope)
        found = await self._requests.latest(query.status, query.limit)
        return Answer({"requests": [await self._shown(one) for one in found]})

    async def get(self, request: Request, request_id: str, query: Annotated[WaitQuery, Query()]) -> Response:
        """Return a request of yours. With wait_seconds, the answer comes when it is decided, or after that time."""
        agent = await self._identities.agent_or_operator(request.scope)
        found = await self._requests.get(agent, request_id, query.wait_seconds)
        return Answer(await self._shown(found, is_asker=agent is not None))

    async def decide(self, request: Request, request_id: str) -> Response:
        """Decide on a request, as the operator or as a person. A refusal changes nothing but the audit."""
        await self._identities.operator(request.scope)
        said = await read_model(request, DecisionInput)
        wish = Decide(
            request_id=request_id,
            decision=said.decision,
            person=said.as_ or OPERATOR,
            door=EntryPoint.HTTP if said.door is EntryPoint.SLACK else said.door,
            values=said.values,
            arguments=said.arguments,
        )
        return Answer(await self._shown(await self._decisions.decide(wish)))

    async def cancel(self, request: Request, request_id: str) -> Response:
        """Withdraw an open request of yours. Its work goes on without a decision. The body is optional."""
        agent = await self._identities.agent_or_operator(request.scope)
        empty = request.headers.get("content-length", "0") == "0"
        said = Withdrawal() if empty else await read_model(request, Withdrawal)
        found = await self._requests.withdraw(agent, request_id, said.reason)
        return Answer(await self._shown(found, is_asker=agent is not None))

    async def grants(self, request: Request) -> Response:
        """List the valid permissions that people have given in advance."""
        await self._identities.operator(request.scope)
        return Answer({"grants": await self._requests.grants(500)})

    async def revoke(self, request: Request, grant_id: str) -> Response:
        """End a permission."""
        await self._identities.operator(request.scope)
        await self._requests.revoke(grant_id)
        return Response(status_code=204)

    async def audit(self, request: Request, query: Annotated[AuditQuery, Query()]) -> Response:
        """Return who asked for what and who decided, oldest first; pass the last seq as after to read on."""
        await self._identities.operator(request.scope)
        return Answer({"audit": await self._requests.audit(query.since, query.after, query.limit)})

    async def _shown(self, request: HumanRequest, *, is_asker: bool = False) -> RequestView:
        view = for_asker if is_asker else for_people
        return view(request, await self._requests.cards(request.id))
