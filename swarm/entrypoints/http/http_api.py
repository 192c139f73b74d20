"""The HTTP API: combines all routes in one application, with ``/docs``, which shows the OpenAPI document without
scripts.

The document and the page are open to anyone who can reach the server, since they describe only the program, which is
public.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import orjson
from fastapi import FastAPI
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import Receive, Scope, Send

from swarm.entrypoints.http.agents_api import Warnings, agent_router, no_warnings
from swarm.entrypoints.http.files_api import file_router
from swarm.entrypoints.http.health import Readiness, Since, Troubles, health_router
from swarm.entrypoints.http.operator_api import Reload, operator_router
from swarm.entrypoints.http.polling_api import HotRoutes
from swarm.entrypoints.http.requests_api import request_router
from swarm.entrypoints.http.run_logs_api import run_log_router
from swarm.entrypoints.http.runs_api import run_router
from swarm.entrypoints.http.tasks_api import task_router
from swarm.entrypoints.web import openapi
from swarm.entrypoints.web.access import Access
from swarm.entrypoints.web.errors import Guard, translate
from swarm.entrypoints.web.identity import Identities
from swarm.services.use_cases import Services

PAGES_MAY_CALL: Final = ("/agui/", "/api/v1/")
"""Prefixes of the paths that web pages of `http.allowed_origins` may call: the built-in agents over AG-UI."""

_Running = Callable[[], AbstractAsyncContextManager[None]]
"""A context that stays open while the application runs."""


class Api(FastAPI):
    """FastAPI, with the hot routes handled first, and with our own parts of the OpenAPI document."""

    def __init__(self, hot: HotRoutes, access: Access, **settings: Any) -> None:
        super().__init__(**settings)
        self._hot_paths = hot.paths
        self._hot = Guard(hot)
        self._guarded = access.guard(self._serve)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._guarded(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] in self._hot_paths:
            await self._hot(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)

    @property
    def plain_paths(self) -> frozenset[str]:
        """The paths of all routes without parameters. Each such path is its own template."""
        paths = {route.path for route in self.routes if isinstance(route, Route)}
        return self._hot_paths | {path for path in paths if "{" not in path}

    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            self.openapi_schema = openapi.complete(super().openapi())
        return self.openapi_schema


def create_app(
    services: Services,
    identities: Identities,
    readiness: Readiness,
    *,
    routes: Sequence[BaseRoute] = (),
    running: Sequence[_Running] = (),
    reload: Reload | None = None,
    warnings: Warnings = no_warnings,
    troubles: Troubles = tuple,
    since: Since = dict,
    access: Access | None = None,
    version: str = "development",
) -> Api:
    """Returns the application with all routes under one origin.

    ``routes`` are the routes of additional entry points (MCP, Slack over HTTP); ``running`` is entered at the start and
    exited at the end; ``reload`` reads the settings again; ``warnings`` returns the consequences of removing an agent
    that the settings name; ``access`` has the accepted hosts and origins, by default those of a server on loopback. At
    shutdown, close the wakeups of the database first, so that waiting polls return an empty list.
    """
    app = Api(
        HotRoutes(services, identities),
        access or Access(),
        title="swarm",
        version=version,
        summary="A team of AI agents behind one Slack app",
        lifespan=_lifespan([services.agents.credentials.running, *running]),
        middleware=[Middleware(Guard)],
        redirect_slashes=False,
        docs_url=None,  # FastAPI's pages run scripts from other sites
        redoc_url=None,
    )
    translate(app)
    app.router.routes.append(_reference_route(app.openapi))
    app.router.routes.extend(routes)
    for router in (
        agent_router(services, identities, warnings),
        file_router(services, identities),
        operator_router(services, identities, reload),
        request_router(services, identities),
        run_router(services.model_usage, services.run_usage, identities),
        run_log_router(services.run_logs, identities),
        task_router(services, identities),
        health_router(services.overview, readiness, identities, troubles, since),
    ):
        app.router.routes.extend(router.routes)  # `include_router` would build every route again at the first request
    return app


def _lifespan(running: Sequence[_Running]) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for run in running:
                await stack.enter_async_context(run())
            yield

    return lifespan


_TEMPLATE: Final = Path(__file__).with_name("reference.html")
_STYLE: Final = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}"
    "section{border-top:1px solid #8886;padding:.5rem 0}h3{margin:.5rem 0}"
    "pre{overflow:auto;background:#8881;padding:.5rem}td,th{text-align:left;vertical-align:top;padding:0 1rem 0 0}"
    ":root{color-scheme:light dark}"
)
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()

_PAGE_HEADERS: Final = {
    "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


def _reference_route(document: Callable[[], dict[str, Any]]) -> Route:
    """Returns the route ``/docs`` for an application's document, which is rendered on the first request."""
    made: list[str] = []

    async def page(request: Request) -> Response:
        if not made:
            made.append(render(document()))
        return HTMLResponse(made[0], headers=_PAGE_HEADERS)

    return Route("/docs", page, include_in_schema=False)


def render(document: Mapping[str, Any]) -> str:
    """Returns an OpenAPI document as HTML, grouped by the first tag of each operation."""
    from jinja2 import Environment  # few people ask for the page

    environment = Environment(autoescape=True, trim_blocks=True)
    environment.filters |= {"json": _json, "pretty": _pretty}
    groups: dict[str, list[dict[str, Any]]] = {}
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            group = groups.setdefault(operation.get("tags", ["other"])[0], [])
            group.append({**operation, "method": method.upper(), "path": path})
    template = environment.from_string(_TEMPLATE.read_text(encoding="utf-8"))
    return template.render(document=document, groups=dict(sorted(groups.items())), style=_STYLE)


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def _pretty(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() if value else "no content"
