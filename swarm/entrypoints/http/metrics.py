"""Serves ``/metrics`` for Prometheus, and counts HTTP requests.

The page needs a bearer token, either the operator's or one for metrics only (``SWARM_METRICS_TOKEN``), since a team's
amount of work and its tools are private. ``SWARM_METRICS_OPEN`` opens the page for networks that strangers cannot
reach. The client's address proves nothing: behind a proxy all clients connect from loopback.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Final

import structlog
from prometheus_client import CollectorRegistry
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from swarm.domain.errors import Unavailable
from swarm.entrypoints.web.errors import RecordedSend
from swarm.entrypoints.web.identity import Identities, bearer_token
from swarm.services.operate.overview import FigureReader, Figures, Overview
from swarm.telemetry.metrics import Metrics

_METRICS_PATH: Final = "/metrics"
_NO_ROUTE: Final = "(none)"
_CLIENT_GONE: Final = "gone"
"""The status of a request whose client did not wait for the answer, for example a poll whose agent was stopped."""

_POLL: Final = "/poll"
_METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
_DATABASE_SECONDS: Final = 5.0

_Offices = Callable[[], Mapping[str, bool]]
"""Whether this process holds each election office: ``{"sender": True}``."""

_log = structlog.get_logger(__name__)


class MetricsEntryPoint:
    """``GET /metrics``: :meth:`routes` for the application.

    ``readiness`` and ``offices`` are called at each scrape. If the database does not answer, only the gauges of the
    backlog are missing.
    """

    def __init__(
        self,
        metrics: Metrics,
        figures: FigureReader,
        identities: Identities,
        readiness: Callable[[], Mapping[str, bool]],
        overview: Overview,
        *,
        offices: _Offices = dict,
        token: str | None = None,
        open_to_all: bool = False,
    ) -> None:
        self._registry = metrics.registry
        self._figures = figures
        self._identities = identities
        self._readiness = readiness
        self._overview = overview
        self._offices = offices
        self._token = token.encode() if token else None
        self._open_to_all = open_to_all

    def routes(self) -> list[Route]:
        """Returns the route ``/metrics``."""
        return [Route(_METRICS_PATH, self.metrics, methods=["GET"], include_in_schema=False)]

    async def metrics(self, request: Request) -> Response:
        """Return all metrics in the scraper's preferred format."""
        await self._check(request.scope)
        encode, content_type = _encoder(request.headers.get("accept", ""))
        figures, not_stored = await asyncio.gather(self._read(), self._overview.why_not_stored())
        ready = {"database": figures is not None, "writes": not_stored is None, **self._readiness()}
        page = ScrapeCollector(self._registry, figures, ready, self._offices())
        return Response(encode(page), headers={"Content-Type": content_type})

    async def _check(self, scope: Scope) -> None:
        if self._open_to_all:
            return
        if self._token and hmac.compare_digest(self._token, bearer_token(scope)):
            return
        await self._identities.operator(scope)

    async def _read(self) -> Figures | None:
        try:
            async with asyncio.timeout(_DATABASE_SECONDS):
                return await self._figures.figures()
        except (Unavailable, TimeoutError) as error:
            _log.warning("The backlog cannot be read.", action="metrics", error=str(error))
            return None


class Measured:
    """An application whose requests are counted by route template."""

    def __init__(self, app: ASGIApp, metrics: Metrics, *, plain_paths: Collection[str] = ()) -> None:
        self._app = app
        self._metrics = metrics
        self._plain_paths = frozenset(plain_paths)  # the paths of routes without parameters

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answered = RecordedSend(send)
        polls = 1 if scope["path"] == _POLL else 0
        begun = time.perf_counter()
        self._metrics.count.polls_waiting += polls
        try:
            await self._app(scope, receive, answered)
        finally:
            self._metrics.count.polls_waiting -= polls
            method = scope["method"] if scope["method"] in _METHODS else "(other)"
            seconds = time.perf_counter() - begun
            status = str(answered.status) if answered.began else _CLIENT_GONE
            self._metrics.request_answered(method, self._route(scope), status, seconds)

    def _route(self, scope: Scope) -> str:
        if scope["path"] in self._plain_paths:
            return str(scope["path"])
        template = getattr(scope.get("route"), "path", None)  # FastAPI sets this value, Starlette alone does not
        return template if isinstance(template, str) else _NO_ROUTE


class ScrapeCollector(Collector):
    """A collector of all counters, and of the gauges at the time of a scrape."""

    def __init__(
        self,
        counted: CollectorRegistry,
        figures: Figures | None,
        ready: Mapping[str, bool],
        offices: Mapping[str, bool],
    ) -> None:
        self._counted = counted
        self._figures = figures
        self._ready = ready
        self._offices = offices

    def collect(self) -> Iterator[Metric]:
        yield from self._counted.collect()
        yield _gauge("swarm_ready", "1 if this need is met, as in /readyz.", "part", self._ready.items())
        yield _gauge("swarm_elected", "1 if this process holds the office.", "role", self._offices.items())
        if self._figures:
            yield from _backlog(self._figures)


def _encoder(accept: str) -> tuple[Callable[[Collector], bytes], str]:
    """Returns the page's format for an ``Accept`` header, or the oldest format for an invalid header."""
    try:
        return choose_encoder(accept)
    except (TypeError, ValueError):  # an invalid version
        return choose_encoder("")


def _backlog(figures: Figures) -> Iterator[GaugeMetricFamily]:
    yield _number("swarm_inbox_unread", "Inbox messages that no agent has claimed.", figures.inbox_unread)
    yield _number(
        "swarm_inbox_dead", "Inbox messages set aside after their last attempt (dead letters).", figures.inbox_dead
    )
    yield _number(
        "swarm_inbox_oldest_unread_seconds", "Age of the oldest unread inbox message.", figures.oldest_unread_seconds
    )
    yield _gauge("swarm_tasks", "Tasks that are open or dead.", "status", figures.tasks.items())
    yield _gauge("swarm_deliveries_open", "Deliveries that have not ended.", "status", figures.deliveries.items())
    agents = GaugeMetricFamily("swarm_agents", "Registered agents.", labels=["role", "state"])
    for (role, online), count in figures.agents.items():
        agents.add_metric([role, "online" if online else "offline"], count)
    yield agents


def _number(name: str, help: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, help, value=value)


def _gauge(name: str, help: str, label: str, values: Iterable[tuple[str, float]]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, help, labels=[label])
    for key, value in values:
        family.add_metric([key], value)
    return family
