"""The operator's views and commands over HTTP."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response

from swarm.domain.model.deliveries import DeliveryRow
from swarm.domain.model.inbox import InboxMessageRow
from swarm.domain.policy.operating import ReloadResult
from swarm.domain.selections import Batch
from swarm.entrypoints.web.answers import Answer
from swarm.entrypoints.web.identity import Identities
from swarm.entrypoints.web.openapi import problems
from swarm.entrypoints.web.schema import (
    Deliveries,
    DeliveriesQuery,
    ExplainQuery,
    FeedbackQuery,
    InboxMessages,
    InboxQuery,
    Input,
    RedriveAll,
    ResendAll,
)
from swarm.services.operate.explain import Explained
from swarm.services.operate.overview import FoundFeedback, ThreadTimeline
from swarm.services.operate.people import Forgotten
from swarm.services.use_cases import Services

Reload = Callable[[], Awaitable[ReloadResult]]
"""Reads the settings again. Raises Invalid for unusable settings."""


class ForgetPerson(Input):
    """The options for forgetting a person."""

    dry_run: Annotated[bool, Field(description="Only count the data that would be removed.")] = False


def operator_router(services: Services, identities: Identities, reload: Reload | None = None) -> APIRouter:
    """Returns the routes ``/inbox``, ``/threads``, ``/deliveries``, ``/feedback``, ``/explain``, ``/people`` and, with
    ``reload``, ``/reload``."""
    routes = _OperatorRoutes(services, identities)
    router = APIRouter(tags=["operator"])
    add = router.add_api_route
    add("/inbox", routes.inbox, response_model=InboxMessages, responses=problems(401, 403, 422))
    add(
        "/inbox/{inbox_message_id}/redrive", routes.redrive, methods=["POST"], response_model=InboxMessageRow,
        responses=problems(401, 403, 404, 409),
    )  # fmt: skip
    add("/inbox/redrive", routes.redrive_all, methods=["POST"], response_model=Batch, responses=problems(401, 403, 422))
    add(
        "/deliveries/resend", routes.resend_all, methods=["POST"], response_model=Batch,
        responses=problems(401, 403, 422),
    )  # fmt: skip
    add(
        "/deliveries/{delivery_id}/resend", routes.resend, methods=["POST"], response_model=DeliveryRow,
        responses=problems(401, 403, 404, 409),
    )  # fmt: skip
    add("/threads/{thread_id}", routes.thread, response_model=ThreadTimeline, responses=problems(401, 403, 404))
    add("/deliveries", routes.deliveries, response_model=Deliveries, responses=problems(401, 403, 422))
    add("/feedback", routes.feedback, response_model=FoundFeedback, responses=problems(401, 403, 422))
    add("/explain", routes.explain, response_model=Explained, responses=problems(401, 403, 404, 422))
    add(
        "/people/{person}/forget", routes.forget, methods=["POST"], response_model=Forgotten,
        responses=problems(401, 403, 404, 409, 422),
    )  # fmt: skip
    if reload:
        reloading = _ReloadRoute(reload, identities)
        add(
            "/reload", reloading.reload, methods=["POST"], response_model=ReloadResult,
            responses=problems(401, 403, 422),
        )  # fmt: skip
    return router


class _ReloadRoute:
    """The endpoint ``POST /reload``, which exists only if the settings can be reloaded."""

    def __init__(self, reload: Reload, identities: Identities) -> None:
        self._reload = reload
        self._identities = identities

    async def reload(self, request: Request) -> Response:
        """Reload the settings of this process. Invalid settings change nothing; the status is then 422, and the error
        names their keys."""
        await self._identities.operator(request.scope)
        return Answer(asdict(await self._reload()))


class _OperatorRoutes:
    """The operator's endpoints."""

    def __init__(self, services: Services, identities: Identities) -> None:
        self._inbox = services.inbox
        self._resending = services.resending
        self._overview = services.overview
        self._explanations = services.explanations
        self._people = services.people
        self._identities = identities

    async def forget(self, request: Request, person: str, wanted: ForgetPerson) -> Response:
        """Permanently remove a person's texts and all mentions of their name. The person is given by Slack user id or
        ``@name``."""
        await self._identities.operator(request.scope)
        return Answer(asdict(await self._people.forget(person, dry_run=wanted.dry_run)))

    async def inbox(self, request: Request, query: Annotated[InboxQuery, Query()]) -> Response:
        """List the newest inbox messages, optionally of one status."""
        await self._identities.operator(request.scope)
        return Answer({"inbox_messages": await self._inbox.latest(query.status, query.limit)})

    async def redrive(self, request: Request, inbox_message_id: str) -> Response:
        """Bring back a dead message, with its attempts set to zero."""
        await self._identities.operator(request.scope)
        return Answer(await self._inbox.redrive(inbox_message_id))

    async def redrive_all(self, request: Request, wanted: RedriveAll) -> Response:
        """Bring back all dead messages that match, or only count them."""
        await self._identities.operator(request.scope)
        selection = wanted.where.selection(wanted.where.status)
        return Answer(asdict(await self._inbox.redrive_all(selection, dry_run=wanted.dry_run)))

    async def resend(self, request: Request, delivery_id: str) -> Response:
        """Send a failed or expired delivery again. A post is searched for in Slack before it is repeated."""
        await self._identities.operator(request.scope)
        return Answer(await self._resending.resend(delivery_id))

    async def resend_all(self, request: Request, wanted: ResendAll) -> Response:
        """Send all failed, or expired, deliveries again that match, or only count them."""
        await self._identities.operator(request.scope)
        selection = wanted.where.selection(wanted.where.status)
        return Answer(asdict(await self._resending.resend_all(selection, dry_run=wanted.dry_run)))

    async def thread(self, request: Request, thread_id: str) -> Response:
        """Return a thread's owner and timeline."""
        await self._identities.operator(request.scope)
        return Answer(await self._overview.timeline(thread_id))

    async def deliveries(self, request: Request, query: Annotated[DeliveriesQuery, Query()]) -> Response:
        """List the newest deliveries to Slack, optionally of one status."""
        await self._identities.operator(request.scope)
        return Answer({"deliveries": await self._overview.deliveries(query.status, query.limit)})

    async def feedback(self, request: Request, query: Annotated[FeedbackQuery, Query()]) -> Response:
        """Return what people think of answers: all opinions counted by agent, value and reason, and the newest; and the
        newest remarks about the swarm, unless an agent is given."""
        await self._identities.operator(request.scope)
        return Answer(await self._overview.feedback(query.since, query.agent, query.limit))

    async def explain(self, request: Request, query: Annotated[ExplainQuery, Query()]) -> Response:
        """Explain why a Slack message was routed to its agent."""
        await self._identities.operator(request.scope)
        return Answer(await self._explanations.explain(query.message))
