"""Liveness and readiness of the coordinator."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from typing import Annotated, Final, Literal

import structlog
from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from typing_extensions import TypedDict

from swarm.domain.errors import SwarmError, Unavailable
from swarm.domain.troubles import SlackTrouble
from swarm.entrypoints.web.answers import Answer
from swarm.entrypoints.web.errors import describe
from swarm.entrypoints.web.identity import Identities
from swarm.entrypoints.web.openapi import problems
from swarm.services.operate.overview import Backlog, Overview

Readiness = Callable[[], Mapping[str, bool]]
"""Whether each requirement of the coordinator other than the database is met, by name: ``{"slack": True}``."""

_DATABASE_SECONDS: Final = 5.0

_PROBLEMS: Final = {
    "database": f"The database cannot be read, or does not answer within {_DATABASE_SECONDS:g} seconds.",
    "writes": "Nothing can be stored: {reason}. Slack sends an event that could not be stored up to three more times.",
    "slack": "There is no connection to Slack, so no events arrive; the connection is retried continuously.",
}
_OF_TRAFFIC: Final = ("database", "writes")
"""What agents need: a balancer must not cut them off because Slack is away."""

_ELSE: Final = "It is not available."

_log = structlog.get_logger(__name__)


class Alive(TypedDict):
    status: str


Since = Callable[[], dict[str, int | None]]
Troubles = Callable[[], Sequence[SlackTrouble]]
"""What keeps the swarm from working with Slack now."""


class TroubleShape(TypedDict):
    """One reason why the swarm cannot work with Slack as it should, and what to do. Slack's own code is shown to the
    operator only; others see the name of the part."""

    code: str
    message: str
    remedy: str


class Ready(TypedDict):
    """Each requirement and whether it is met, the problems, and the backlog (null if the database does not answer).

    ``gap_seconds`` is the age of the gap whose messages are now being read from Slack, or 0 if there is none;
    ``last_event_seconds`` the time since Slack's last event reached this process, and ``last_post_seconds`` since Slack
    took a post of it; null if there was none.
    """

    ready: bool
    checks: dict[str, bool]
    problems: dict[str, str]
    troubles: list[TroubleShape]
    backlog: dict[str, int] | None
    gap_seconds: int | None
    last_event_seconds: int | None
    last_post_seconds: int | None


def health_router(
    overview: Overview, readiness: Readiness, identities: Identities, troubles: Troubles, since: Since
) -> APIRouter:
    """Returns the routes ``/healthz`` and ``/readyz``, which are open to all callers, since their answers contain no
    secrets."""
    routes = _HealthRoutes(overview, readiness, identities, troubles, since)
    router = APIRouter(tags=["health"])
    router.add_api_route("/healthz", routes.healthz, response_model=Alive)
    router.add_api_route("/readyz", routes.readyz, response_model=Ready, responses=problems(503))
    return router


@dataclass
class _HealthRoutes:
    """The health endpoints."""

    _overview: Overview
    _readiness: Readiness
    _identities: Identities
    _troubles: Troubles
    _since: Since
    _missing_before: list[str] = field(default_factory=list)

    async def healthz(self, request: Request) -> Response:
        """Report that the process is alive."""
        return Answer({"status": "ok"})

    async def readyz(
        self,
        request: Request,
        needed_for: Annotated[
            Literal["traffic"] | None,
            Query(alias="for", description="traffic: only the database counts, as for a load balancer."),
        ] = None,
    ) -> Response:
        """Report whether all requirements are met and the database can store data. If not, the status is 503, with the
        unmet requirements.
        """
        (backlog, gap), not_stored = await asyncio.gather(self._backlog(), self._overview.why_not_stored())
        troubles = self._troubles()
        checks = {"database": backlog is not None, "writes": not_stored is None, **self._readiness()}
        checks |= {trouble.part: False for trouble in troubles if trouble.is_fatal}
        unmet = sorted(name for name, there in checks.items() if not there)
        self._log_change(unmet, not_stored)
        missing = [name for name in unmet if name in _OF_TRAFFIC or not needed_for]
        texts = {trouble.part: f"{trouble.message} {trouble.remedy}" for trouble in troubles}
        texts |= {name: _PROBLEMS.get(name, _ELSE).format(reason=not_stored) for name in unmet if name not in texts}
        shows_codes = bool(troubles) and await self._is_operator(request)
        shown: dict[str, object] = {
            "ready": not missing,
            "checks": checks,
            "problems": texts,
            "troubles": [
                {"code": one.code if shows_codes else one.part, "message": one.message, "remedy": one.remedy}
                for one in troubles
            ],
            "backlog": asdict(backlog) if backlog else None,
            "gap_seconds": gap,
            "last_event_seconds": None,
            "last_post_seconds": None,
        } | self._since()
        if not missing:
            return Answer(shown)
        shown["error"] = describe(Unavailable(f"Not ready: {', '.join(missing)}."))
        return Answer(shown, HTTPStatus.SERVICE_UNAVAILABLE)

    async def _is_operator(self, request: Request) -> bool:
        try:
            await self._identities.operator(request.scope)
        except SwarmError:
            return False
        return True

    async def _backlog(self) -> tuple[Backlog | None, int | None]:
        try:
            async with asyncio.timeout(_DATABASE_SECONDS):
                return await self._overview.backlog(), await self._overview.gap_seconds()
        except (Unavailable, TimeoutError) as error:
            _log.debug("The backlog cannot be read.", action="readyz", error=str(error))
            return None, None  # the response shows the failure

    def _log_change(self, missing: list[str], not_stored: str | None) -> None:
        """Logs a change of readiness. Probes ask every few seconds, so only changes are logged."""
        if missing and missing != self._missing_before:
            _log.warning("Not ready.", action="not_ready", missing=missing, not_stored=not_stored)
        if self._missing_before and not missing:
            _log.info("Ready again.", action="ready")
        self._missing_before = missing


def waiting_app() -> ASGIApp:
    """Returns the application of a first start that waits for Slack: the process is alive, and nothing is ready."""
    why = "Slack does not answer, and this is the first start: the other routes open when it has answered."

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        error = describe(Unavailable(why))
        shown = {"ready": False, "checks": {"slack": False}, "problems": {"slack": why}, "error": error}
        is_alive = scope["path"] == "/healthz"
        answer = Answer({"status": "ok"}) if is_alive else Answer(shown, HTTPStatus.SERVICE_UNAVAILABLE)
        await answer(scope, receive, send)

    return app
