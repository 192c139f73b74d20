"""Servers that are reached over streamable HTTP: headers, sessions, both generations of the protocol, crashes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import anyio
import pytest
from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from packages.swarm_agents.tests.agents.mcp.conftest import (
    QUICK,
    at,
    call,
    names,
    plain_in,
    port_of_ours,
    until_offered,
    until_status,
)
from swarm_agents.mcp.servers import McpServers
from tests.support.doors import serving
from tests.support.processes import processes_in
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("AGENT-02")


@dataclass
class Web:
    """A server in this process, and what came to it."""

    mcp: MCPServer
    url: str = ""
    is_old: bool = False  # it knows nothing of the newest protocol
    as_json: bool = False  # its answers are no events
    token: str = ""  # which it wants to see
    refuses_with: int = 0  # an HTTP status
    keeps_sessions: bool = False  # it never answers when one is to be closed
    methods: list[str] = field(default_factory=list)  # of HTTP
    calls: list[str] = field(default_factory=list)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)


@asynccontextmanager
async def web(**manners: object) -> AsyncIterator[Web]:
    """A server with the tools "hello", "wait" and "grow"."""
    mcp = MCPServer("web")
    served = Web(mcp, **manners)  # type: ignore[arg-type]

    @mcp.tool()
    def hello() -> str:
        """Greet."""
        served.calls.append("hello")
        return "hello"

    @mcp.tool()
    async def wait() -> str:
        """Take for ever."""
        served.calls.append("wait")
        try:
            await anyio.sleep_forever()
        finally:
            served.cancelled.set()
        return ""

    @mcp.tool()
    async def grow(ctx: Context) -> str:
        """Get another tool."""
        mcp.add_tool(lambda: "grown", name="grown", description="There since lately.")
        await ctx.notify_tools_changed()
        if served.is_old:
            await ctx.session.send_tool_list_changed()
        return "done"

    @mcp.tool(structured_output=True)
    def many(values: int, text: str = "") -> dict[str, list[int | str]]:
        """Return many values."""
        return {"all": [text, *[1] * values]}

    async with serving(_guarded(served, mcp.streamable_http_app(json_response=served.as_json))) as url:
        served.url = url
        yield served


def _guarded(served: Web, app: ASGIApp) -> ASGIApp:
    async def guarded(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await app(scope, receive, send)
            return
        served.methods.append(scope["method"])
        headers = {name.decode(): value.decode() for name, value in scope["headers"]}
        if served.keeps_sessions and scope["method"] == "DELETE":
            while (await receive())["type"] != "http.disconnect":
                pass
        elif served.refuses_with:
            await PlainTextResponse("no", served.refuses_with)(scope, receive, send)
        elif served.token and headers.get("authorization") != f"Bearer {served.token}":
            await PlainTextResponse("no", 401)(scope, receive, send)
        elif served.is_old and headers.get("mcp-method"):
            await PlainTextResponse("Bad Request: no such version", 400)(scope, receive, send)
        else:
            await app(scope, receive, send)

    return guarded


@pytest.mark.parametrize("is_old", [False, True], ids=["newest protocol", "with a session"])
async def test_offers_the_allowed_tools_calls_them_and_hears_of_new_ones(is_old: bool) -> None:
    async with web(is_old=is_old) as served:
        async with McpServers([at(served.url, "hello", "grow", "grown")], timeouts=QUICK) as servers:
            assert names(servers) == ["hello", "grow"]
            assert (await call(servers, "hello")).text == "hello"
            assert servers.status()[0].others == ("wait", "many")
            await call(servers, "grow")
            await until_offered(servers, "hello", "grow", "grown")
            assert (await call(servers, "grown")).text == "grown"
        assert ("DELETE" in served.methods) is is_old  # a session is closed


@pytest.mark.req("SEC-09")
@pytest.mark.parametrize("as_json", [False, True], ids=["events", "JSON"])
async def test_an_answer_of_too_many_values_is_not_read(as_json: bool) -> None:
    async with (
        web(as_json=as_json, is_old=True) as served,
        McpServers([at(served.url, "many", "hello")], timeouts=QUICK) as servers,
    ):
        assert (await call(servers, "many", values=20_000, text='", [' * 20_000)).text.count("1,") == 19_999
        answer = await call(servers, "many", values=40_000)
        assert answer.failed
        assert ("more than 30,000 values" if as_json else "disconnected during the call") in answer.text
        assert (await call(servers, "hello")).text == "hello"


@pytest.mark.parametrize("is_old", [False, True], ids=["newest protocol", "with a session"])
async def test_a_call_that_takes_too_long_is_ended_at_the_server_too(is_old: bool) -> None:
    async with (
        web(is_old=is_old) as served,
        McpServers([at(served.url, "wait", "hello", timeout_seconds=0.2)], timeouts=QUICK) as servers,
    ):
        assert "did not answer within 0.2 s" in (await call(servers, "wait")).text
        await asyncio.wait_for(served.cancelled.wait(), 10)
        assert (await call(servers, "hello")).text == "hello"
    assert served.calls == ["wait", "hello"]


async def test_headers_are_sent_and_without_them_the_reason_is_told() -> None:
    async with web(token="open-sesame") as served:
        right = at(served.url, "hello", headers={"Authorization": "Bearer open-sesame"})
        wrong = replace(at(served.url, "hello", headers={"Authorization": "Bearer wrong"}), name="wrong")
        async with McpServers([right, wrong], timeouts=QUICK) as servers:
            assert (await call(servers, "web_hello")).text == "hello"
            assert servers.status()[1].detail == "it denies access (HTTP 401): check its headers"
        assert "open-sesame" not in repr(right)
        assert "open-sesame" not in repr(servers.status())


async def test_a_server_that_has_forgotten_our_session_is_connected_anew_and_the_call_not_repeated() -> None:
    async with (
        web(is_old=True) as served,
        McpServers([at(served.url, "hello")], timeouts=QUICK) as servers,
    ):
        served.refuses_with = 404
        assert (await call(servers, "hello")).failed
        down = await until_status(servers, is_up=False)
        assert not servers.tools()
        assert down.detail
        served.refuses_with = 0
        await until_offered(servers, "hello")
        assert (await call(servers, "hello")).text == "hello"
    assert served.calls == ["hello"]


async def test_a_server_that_does_not_answer_a_farewell_is_left_without() -> None:
    async with web(is_old=True, keeps_sessions=True) as served:
        timeouts = replace(QUICK, close_seconds=0.2)
        servers = McpServers([at(served.url, "hello")], timeouts=timeouts)
        await servers.start()
        await asyncio.wait_for(servers.aclose(), 5)
        assert "DELETE" in served.methods
        assert not servers.status()[0].is_up


async def test_a_server_that_is_killed_in_a_call_is_used_again_when_it_is_back(tmp_path: Path) -> None:
    with port_of_ours() as port, processes_in(tmp_path) as processes:
        plain = plain_in(tmp_path / "plain", f"http={port}", tools=("slow", "echo"))
        async with McpServers([at(f"http://127.0.0.1:{port}", "slow", "echo")], timeouts=QUICK) as servers:
            assert servers.status()[0].detail == "it cannot be reached"
            first = processes.start("web", *plain.command, env={})
            await until_offered(servers, "slow", "echo")
            calling = asyncio.create_task(call(servers, "slow"))

            async def calls() -> int:
                return len(plain.seen("tools/call"))

            await wait_until(calls, what="the call has arrived")
            first.kill()
            answer = await calling
            assert answer.failed
            assert answer.text == (
                "The server 'web' disconnected during the call; it may or may not have been carried out."
            )
            await until_status(servers, is_up=False)
            processes.start("web", *plain.command, env={})
            await until_offered(servers, "slow", "echo")
            assert (await call(servers, "echo")).text == "echo {}"
            assert await calls() == 2
