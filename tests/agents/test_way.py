"""The way to an agent: proxies, cookies, connections."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from swarm.domain.answers.events import Finished
from tests.agents.asking import CAIPE, reached, run, run_input
from tests.support.agui_server import AguiServer, Answer, answering

pytestmark = pytest.mark.req("STREAM-01")

ELSEWHERE = "http://agent.example"


@pytest.fixture
def proxy(server: AguiServer, monkeypatch: pytest.MonkeyPatch) -> AguiServer:
    """The scripted server, as the environment's proxy."""
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, server.url)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    server.on("/", *answering("hi"))
    return server


async def test_an_agent_elsewhere_is_reached_over_the_proxy(proxy: AguiServer) -> None:
    assert (await run(ELSEWHERE))[-1] == Finished()
    assert proxy.requests[0].target == f"{ELSEWHERE}/"


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2"])
async def test_an_agent_on_this_machine_is_reached_directly(host: str, proxy: AguiServer) -> None:
    await run(proxy.url.replace("127.0.0.1", host))
    assert [request.target for request in proxy.requests] in (["/"], [])


async def test_where_no_proxy_is_wanted_none_is_used(proxy: AguiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "agent.example")
    await run(ELSEWHERE)
    assert not proxy.requests


async def test_runs_do_not_know_of_each_other_by_cookies(server: AguiServer) -> None:
    headers = {"Content-Type": "text/event-stream", "Set-Cookie": "session=1; Path=/"}
    server.on("/", Answer(headers=headers), *answering("hi"))
    async with reached(server.url) as agent:
        for _ in range(2):
            assert [event async for event in agent.run(run_input())][-1] == Finished()
    assert "cookie" not in server.requests[1].headers


async def test_every_request_has_a_connection_of_its_own() -> None:
    """The second one does not begin on a connection that the agent is about to close."""
    writers: list[asyncio.StreamWriter] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{"content": "1"}')

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as server:
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with reached(url, dialect=CAIPE) as agent:
            assert [await agent.invoke(run_input()) for _ in range(2)] == [Finished(result="1")] * 2
        assert len(writers) == 2
        for writer in writers:
            writer.close()
            await writer.wait_closed()
