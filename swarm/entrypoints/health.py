"""Whether the coordinator lives, and whether it can do its work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import asdict
from http import HTTPStatus
from typing import Final

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response
from typing_extensions import TypedDict

from swarm.domain.errors import Unavailable
from swarm.entrypoints.answers import Answer
from swarm.entrypoints.errors import describe
from swarm.entrypoints.openapi import problems
from swarm.services.overview import Backlog, Overview

Readiness = Callable[[], Mapping[str, bool]]
"""What the coordinator needs beside its database, by name, and whether it is there: ``{"slack": True}``."""

_DATABASE_SECONDS: Final = 5.0


class Alive(TypedDict):
    status: str


class Ready(TypedDict):
    """Each need and whether it is met; how much waits (null while the database cannot say)."""

    ready: bool
    checks: dict[str, bool]
    backlog: dict[str, int] | None


def health_router(overview: Overview, readiness: Readiness) -> APIRouter:
    """``/healthz`` and ``/readyz``, open to anybody: they say nothing that must be kept from anybody."""
    routes = HealthRoutes(overview, readiness)
    router = APIRouter(tags=["health"])
    router.add_api_route("/healthz", routes.healthz, response_model=Alive)
    router.add_api_route("/readyz", routes.readyz, response_model=Ready, responses=problems(503))
    return router


class HealthRoutes:
    """The endpoints."""

    def __init__(self, overview: Overview, readiness: Readiness) -> None:
        self._overview = overview
        self._readiness = readiness

    async def healthz(self, request: Request) -> Response:
        """The process lives."""
        return Answer({"status": "ok"})

    async def readyz(self, request: Request) -> Response:
        """Everything it needs is there; else 503, with what is missing."""
        backlog = await self._backlog()
        checks = {"database": backlog is not None, **self._readiness()}
        missing = sorted(name for name, there in checks.items() if not there)
        shown: dict[str, object] = {
            "ready": not missing,
            "checks": checks,
            "backlog": asdict(backlog) if backlog else None,
        }
        if not missing:
            return Answer(shown)
        shown["error"] = describe(Unavailable(f"Not ready: {', '.join(missing)}."))
        return Answer(shown, HTTPStatus.SERVICE_UNAVAILABLE)

    async def _backlog(self) -> Backlog | None:
        try:
            async with asyncio.timeout(_DATABASE_SECONDS):
                return await self._overview.backlog()
        except (Unavailable, TimeoutError):
            return None  # which is what the answer then says
