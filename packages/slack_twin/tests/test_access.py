"""The twin and pages of other sites: whoever opens one on this machine is no person of the workspace."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import pytest
from starlette.routing import Mount, Route, WebSocketRoute
from swarm.entrypoints.web.server import ConnectionLimits

from slack_twin import build_twin, create_app, running
from slack_twin.server import access
from tests.world import APP_TOKEN, World

pytestmark = pytest.mark.req("SEC-05")

PAGE = "http://localhost:3000"
FOREIGN = (
    {"Host": "evil.example"},
    {"Host": "evil.example", "Origin": "http://evil.example"},
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": PAGE},
)
SAID = {"user": "alice", "channel": "general", "text": "not me"}


async def test_no_route_of_the_twin_answers_a_foreign_page(world: World) -> None:
    answered = []
    asked = 0
    for route in create_app(world.twin).routes:
        path = route.path.replace("{method}", "auth.test") if isinstance(route, Route) else "/static/app.js"
        if isinstance(route, WebSocketRoute):
            continue
        assert isinstance(route, Route | Mount)
        for method in sorted(getattr(route, "methods", None) or {"GET"}):
            for headers in FOREIGN:
                asked += 1
                async with world.http.request(method, world.base + path[1:], headers=headers) as answer:
                    body = await answer.read()
                    error = json.loads(body)["error"] if body else {"code": "forbidden", "hint": "--allow"}
                    if (answer.status, error["code"]) != (403, "forbidden") or "--allow" not in error["hint"]:
                        answered.append((method, path, headers, answer.status))
    assert asked > 100
    assert not answered


async def test_a_foreign_page_posts_as_nobody(world: World) -> None:
    for headers in FOREIGN:
        async with world.http.post(world.base + "twin/messages", json=SAID, headers=headers) as answer:
            assert answer.status == 403
    assert (await world.ask("GET", "messages?channel=general"))["messages"] == []


async def test_a_foreign_page_opens_no_socket(world: World) -> None:
    opened = await world.client().apps_connections_open(app_token=APP_TOKEN)
    for address in (f"{world.base}page/live?user=alice", opened["url"]):
        for headers in FOREIGN:
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await world.http.ws_connect(address, headers=headers)
            assert refused.value.status == 403


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_the_page_works_under_each_name_of_this_machine(world: World, host: str) -> None:
    base = world.base.replace("127.0.0.1", host)
    own = {"Origin": base.rstrip("/"), "Sec-Fetch-Site": "same-origin"}
    async with world.http.get(base) as page:
        assert page.status == 200
        policy = page.headers["Content-Security-Policy"]
        assert "script-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
    async with world.http.ws_connect(f"{base}page/live?user=alice", headers=own) as live:
        assert json.loads(await live.receive_bytes())["kind"] == "hello"
    async with world.http.post(f"{base}page/messages", json=SAID, headers=own) as answer:
        assert answer.status == 200


@pytest.fixture
async def allowing() -> AsyncIterator[str]:
    """A twin that another page may call."""
    async with running(build_twin(), allowed=access("127.0.0.1", origins=[PAGE])) as base:
        yield base


async def test_a_page_that_was_allowed_may_call(allowing: str) -> None:
    asked = {"Origin": PAGE, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "content-type"}
    async with aiohttp.ClientSession() as http:
        async with http.options(allowing + "twin/messages", headers=asked) as preflight:
            assert (preflight.status, preflight.headers["Access-Control-Allow-Origin"]) == (200, PAGE)
        async with http.post(allowing + "twin/messages", json=SAID, headers={"Origin": PAGE}) as answer:
            assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (200, PAGE)
        async with http.post(allowing + "twin/messages", json=SAID, headers={"Origin": "http://localhost:1"}) as answer:
            assert answer.status == 403


async def test_requests_that_never_come_are_not_waited_for() -> None:
    async with running(build_twin(), limits=ConnectionLimits(head_seconds=0.2, body_window_seconds=0.2)) as base:
        port = int(base.rstrip("/").rpartition(":")[2])
        for said in (
            b"POST /twin/mess",
            b"POST /twin/messages HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n",
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(said)
            answer = await asyncio.wait_for(reader.read(), 20)
            assert answer.startswith(b"HTTP/1.1 408 ")
            writer.close()
