"""Web pages of `http.allowed_origins` in a real browser, whose own rules decide what they get to see."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from playwright.async_api import BrowserContext
from starlette.applications import Starlette
from starlette.responses import HTMLResponse
from starlette.routing import Route

from packages.swarm_agents.tests.contract.agui_api.scene import EVERYBODY, HELLO, Scripted, agui_input
from swarm.clock import ManualClock
from swarm.entrypoints.http.http_api import PAGES_MAY_CALL, create_app
from swarm.entrypoints.web.access import Access, checked_origin
from swarm.entrypoints.web.identity import Identities
from swarm.services.builtin.agent_runs import AgentRuns
from swarm.services.builtin.conversation_locks import ConversationLocks
from swarm.store.bridge.database import Database
from swarm_agents.agui.agui_api import AguiEntryPoint
from tests.support.browser import browser
from tests.support.doors import OPERATOR_TOKEN, serving
from tests.support.world import World

ASK = """async ({url, body, token}) => {
  const headers = {Authorization: `Bearer ${token}`, "Content-Type": "application/json"};
  const method = body ? "POST" : "GET";
  try {
    const answer = await fetch(url, {method, headers, body: body && JSON.stringify(body)});
    return {status: answer.status, text: await answer.text()};
  } catch (error) {
    return {status: 0, text: String(error)};
  }
}"""


@pytest.mark.browser
@pytest.mark.long
@pytest.mark.req("SEC-05")
async def test_a_browser_lets_a_page_that_is_allowed_run_an_agent_and_no_other(sqlite_url: str) -> None:
    async with a_page() as friend, a_page() as stranger, coordinator(sqlite_url, friend) as base, browser() as context:
        run = await told(context, friend, f"{base}/agui/router", agui_input())
        assert (run["status"], run["text"].count("RUN_FINISHED")) == (200, 1)
        assert (await told(context, friend, f"{base}/api/v1/agents"))["status"] == 200
        for page, path in ((friend, "/agents"), (stranger, "/api/v1/agents"), (stranger, "/agents")):
            refused = await told(context, page, base + path)
            assert (refused["status"], "TypeError" in refused["text"]) == (0, True), (page, path)


@contextlib.asynccontextmanager
async def coordinator(url: str, origin: str) -> AsyncIterator[str]:
    """The address of one with a built-in agent, which allows the pages of an origin."""
    access = Access(origins=[checked_origin(origin)], origin_paths=PAGES_MAY_CALL)
    async with Database(url) as database:
        world = World(database, ManualClock())
        identities = Identities(world.services.agents, OPERATOR_TOKEN)
        runs = AgentRuns({"router": Scripted(*HELLO)}, ConversationLocks(database), {"router": EVERYBODY})
        app = create_app(
            world.services, identities, dict, routes=AguiEntryPoint(runs, identities).routes(), access=access
        )
        async with serving(app) as base:
            yield base
        await runs.close()


@contextlib.asynccontextmanager
async def a_page() -> AsyncIterator[str]:
    """The origin of a page of somebody's."""

    async def page(request: object) -> HTMLResponse:
        return HTMLResponse("<!doctype html><link rel=icon href=data:,><title>a page</title>")

    async with serving(Starlette(routes=[Route("/", page)])) as base:
        yield base


async def told(context: BrowserContext, page: str, url: str, body: object = None) -> Any:
    """What a page gets of a call with the operator's token; status 0 where the browser keeps it from the page."""
    opened = await context.new_page()
    await opened.goto(page)
    return await opened.evaluate(ASK, {"url": url, "body": body, "token": OPERATOR_TOKEN})
