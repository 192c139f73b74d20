"""What is served is described."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.routing import APIRoute

from swarm.domain import errors
from swarm.domain.errors import SwarmError
from swarm.entrypoints.http.agents_api import agent_router
from swarm.entrypoints.http.health import health_router
from swarm.entrypoints.http.http_api import render
from swarm.entrypoints.http.operator_api import operator_router
from swarm.entrypoints.http.polling_api import HotRoutes
from swarm.entrypoints.web.identity import Identities
from swarm.entrypoints.web.openapi import BEARER, CODES
from tests.support.doors import OPERATOR_TOKEN, Doors

UNDOCUMENTED_CODES = {"configuration"}  # stops the start, so that no door ever shows it


async def document(doors: Doors) -> dict[str, Any]:
    described: dict[str, Any] = (await doors.http.get(f"{doors.base}/openapi.json")).json()
    return described


async def test_every_route_is_described(doors: Doors) -> None:
    services = doors.world.services
    identities = Identities(services.agents, OPERATOR_TOKEN)
    described = (await document(doors))["paths"]
    assert HotRoutes(services, identities).paths <= set(described)
    routes = [route for route in agent_router(services, identities).routes if isinstance(route, APIRoute)]
    routes += [route for route in operator_router(services, identities).routes if isinstance(route, APIRoute)]
    health = health_router(services.overview, dict, identities, tuple, dict)
    routes += [route for route in health.routes if isinstance(route, APIRoute)]
    assert len(routes) == 20
    for route in routes:
        assert {method.lower() for method in route.methods or ()} <= set(described[route.path])


async def test_every_operation_says_what_it_does_and_how_it_refuses(doors: Doors) -> None:
    for path, operations in (await document(doors))["paths"].items():
        for method, operation in operations.items():
            assert operation.get("description") or operation.get("summary"), (method, path)
            refusals = {int(status) for status in operation["responses"]} & set(CODES)
            assert path == "/healthz" or refusals, (method, path)
            assert (operation["security"] == []) == (path in ("/healthz", "/readyz"))


async def test_a_wrong_method_is_told_every_method_of_the_path(doors: Doors) -> None:
    wrong, paths = [], (await document(doors))["paths"]
    for path in paths:
        answer = await doors.operator.ask("PUT", path)
        same = [one for one in paths if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", one), path)]
        methods = {method.upper() for one in same for method in paths[one]}
        if answer.status_code != 405 or set(answer.headers["allow"].split(", ")) != methods:
            wrong.append((path, answer.status_code, answer.headers.get("allow"), methods))
    assert wrong == []


def test_every_error_of_the_tree_has_its_place_in_the_description() -> None:
    for error in every_error(SwarmError):
        if error.code not in UNDOCUMENTED_CODES and error.__module__ == errors.__name__:
            assert error.code in CODES[error.status], error


async def test_the_description_can_be_read_in_a_browser(doors: Doors) -> None:
    page = await doors.http.get(f"{doors.base}/docs")
    assert page.status_code == 200
    for path, operations in (await document(doors))["paths"].items():
        for method, operation in operations.items():
            assert f"<code>{method.upper()} {path}</code>" in page.text
            assert html.escape(operation["summary"], quote=False) in page.text.replace("&#39;", "'")


@pytest.mark.req("SEC-05")
async def test_the_page_loads_and_runs_nothing_and_stands_in_no_frame(doors: Doors) -> None:
    page = await doors.http.get(f"{doors.base}/docs")
    assert "<script" not in page.text
    assert re.findall(r"(?:src|href|action|url)\s*[=(]\s*[\"']?([^\"'>)]+)", page.text) == ["/openapi.json"]
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    style = re.search(r"<style>(.*?)</style>", page.text, re.DOTALL)
    assert style is not None
    assert base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode() in policy
    assert (page.headers["x-content-type-options"], page.headers["referrer-policy"]) == ("nosniff", "no-referrer")
    assert (await doors.http.get(f"{doors.base}/redoc")).status_code == 404


def test_what_a_description_says_is_no_markup() -> None:
    hostile = "<script>alert(1)</script>"
    operation = {"summary": hostile, "tags": [hostile], "security": [], "responses": {"200": {"description": hostile}}}
    page = render(
        {
            "info": {"title": hostile, "summary": hostile, "version": hostile},
            "paths": {f"/{hostile}": {"get": operation}},
            "components": {"schemas": {hostile: {"description": hostile}}, **BEARER},
        }
    )
    assert "<script" not in page


def every_error(root: type[SwarmError]) -> Iterator[type[SwarmError]]:
    yield root
    for child in root.__subclasses__():
        yield from every_error(child)
