"""Clients that take their time, or more than their share, over raw sockets, against an impatient server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from swarm.entrypoints.web.server import ConnectionLimits
from tests.support.doors import serving

pytestmark = pytest.mark.req("SEC-05")

PATIENCE_SECONDS = 20.0
IMPATIENT = ConnectionLimits(
    head_seconds=0.2,
    head_bytes=4096,
    body_window_seconds=0.2,
    body_window_bytes=2048,
    answer_window_seconds=0.2,
    pipelined=4,
)
GET = b"GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = b"POST /%s HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"


@dataclass
class App:
    """``/echo`` says how much it read, ``/early`` answers at once, ``/wait`` when told, ``/flood`` without end."""

    may_answer: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    flooded: asyncio.Event = field(default_factory=asyncio.Event)
    served: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return
        self.served += 1
        match scope["path"]:
            case "/flood":
                await StreamingResponse(self._flood())(scope, receive, send)
                self.flooded.set()
                return
            case "/wait":
                self.waiting.release()
                await self.may_answer.wait()
                said = b"waited"
            case "/echo":
                try:
                    said = str(len(await Request(scope, receive).body())).encode()
                except ClientDisconnect:
                    return
            case _:
                said = b"early"
        headers = [(b"content-length", str(len(said)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": said})

    async def _flood(self) -> AsyncIterator[bytes]:
        while True:
            await asyncio.sleep(0)
            yield b"x" * 65_536


@dataclass
class Server:
    app: App
    address: tuple[str, int]

    async def connect(self, *said: bytes) -> Line:
        reader, writer = await asyncio.open_connection(*self.address)
        line = Line(reader, writer)
        for piece in said:
            await line.say(piece)
        return line


@dataclass
class Line:
    """A connection of an attacker."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def say(self, piece: bytes) -> None:
        self.writer.write(piece)
        await self.writer.drain()

    async def end(self) -> bytes:
        """All that is answered until the server closes; empty where it cuts the connection."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                return await self.reader.read()
        except ConnectionResetError:
            return b""
        finally:
            self.writer.close()

    async def answer(self) -> tuple[int, bytes]:
        """One answer, with its length."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length"))
            return int(head.split()[1]), await self.reader.readexactly(int(length.split()[1]))

    async def drip(self, piece: bytes, every_seconds: float) -> None:
        """One byte after the other, until the server has had enough."""
        try:
            for byte in piece:
                await self.say(bytes([byte]))
                await asyncio.sleep(every_seconds)
        except (ConnectionResetError, BrokenPipeError):
            return


@pytest.fixture
async def server(request: pytest.FixtureRequest) -> AsyncIterator[Server]:
    app = App()
    async with serving(app, getattr(request, "param", IMPATIENT)) as base:
        host, _, port = base.removeprefix("http://").partition(":")
        yield Server(app=app, address=(host, int(port)))
        app.may_answer.set()


def refusal(answer: bytes) -> tuple[int, dict[str, Any]]:
    """Status and error of an answer that ends the connection."""
    head, _, body = answer.partition(b"\r\n\r\n")
    assert b"connection: close" in head
    assert b"content-type: application/json" in head
    error: dict[str, Any] = json.loads(body)["error"]
    assert set(error) == {"code", "message", "hint"}
    return int(head.split()[1]), error


@pytest.mark.parametrize(
    "said", [b"", b"GET /ec", GET[:-2] % b"echo", b"\r\n"], ids=["nothing", "half a line", "half a head", "empty lines"]
)
async def test_a_head_that_does_not_come_is_not_waited_for(server: Server, said: bytes) -> None:
    line = await server.connect(said)
    status, error = refusal(await line.end())
    assert (status, error["code"]) == (408, "bad_request")
    assert "0.2 seconds" in error["hint"]


async def test_a_head_byte_by_byte_gets_no_more_time(server: Server) -> None:
    line = await server.connect()
    dripping = asyncio.create_task(line.drip(GET % (b"x" * 1000), 0.02))
    end = await line.end()
    assert not end or refusal(end)[0] == 408  # what is sent on meanwhile may reset the connection
    assert server.app.served == 0
    dripping.cancel()


async def test_the_second_head_of_a_connection_has_the_same_time(server: Server) -> None:
    line = await server.connect(GET % b"early")
    assert await line.answer() == (200, b"early")
    await line.say(b"GET /earl")
    assert refusal(await line.end())[0] == 408


async def test_half_open_requests_go_while_a_poll_waits_and_a_post_works(server: Server) -> None:
    poll = await server.connect(GET % b"wait")
    await server.app.waiting.acquire()
    crowd = await asyncio.gather(*(server.connect(b"POST /echo HTTP/1.1\r\nHost: loc") for _ in range(350)))
    post = await server.connect(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc")
    assert await post.answer() == (200, b"3")
    assert [refusal(end)[0] for end in await asyncio.gather(*(line.end() for line in crowd))] == [408] * 350
    server.app.may_answer.set()
    assert await poll.answer() == (200, b"waited")
    for line in (poll, post):
        line.writer.close()


async def test_who_waits_for_an_answer_is_never_cut(server: Server) -> None:
    poll = await server.connect(GET % b"wait")
    await server.app.waiting.acquire()
    await asyncio.sleep(3 * IMPATIENT.head_seconds)
    server.app.may_answer.set()
    assert await poll.answer() == (200, b"waited")
    poll.writer.close()


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"x" * 5000,
        b"GET /early HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 5000,
        b"GET /early HTTP/1.1\r\nHost: localhost\r\n" + b"X-Many: 1\r\n" * 500 + b"\r\n",
        b"GET /early HTTP/1.1\r\nHost: localhost\r\nX-Long: " + b"x" * 5000 + b"\r\n\r\n",
    ],
    ids=["half an address", "half a field", "many fields", "a whole field"],
)
async def test_a_giant_head_is_refused(server: Server, head: bytes) -> None:
    line = await server.connect(head)
    status, error = refusal(await line.end())
    assert (status, error["code"]) == (431, "bad_request")
    assert "4096" in error["hint"]
    assert server.app.served == 0


@pytest.mark.parametrize("path", [b"echo", b"wait"])
async def test_a_body_that_stops_is_not_waited_for(server: Server, path: bytes) -> None:
    line = await server.connect(POST % path, b"begun")
    status, error = refusal(await line.end())
    assert (status, error["code"]) == (408, "bad_request")
    assert "2048 bytes" in error["hint"]


async def test_a_body_below_the_least_rate_is_refused(server: Server) -> None:
    line = await server.connect(POST % b"echo")
    dripping = asyncio.create_task(line.drip(b"x" * 1000, 0.02))
    end = await line.end()
    assert not end or refusal(end)[0] == 408  # what is sent on meanwhile may reset the connection
    assert not dripping.done()
    dripping.cancel()


async def test_a_large_body_may_take_many_windows(server: Server) -> None:
    line = await server.connect(POST % b"echo")
    for _ in range(10):
        await line.say(b"x" * 10_000)
        await asyncio.sleep(IMPATIENT.body_window_seconds / 4)
    assert await line.answer() == (200, b"100000")
    line.writer.close()


async def test_what_comes_of_a_body_after_its_answer_is_read_for_a_window_only(server: Server) -> None:
    line = await server.connect(POST % b"early")
    assert await line.answer() == (200, b"early")
    dripping = asyncio.create_task(line.drip(b"x" * 1000, 0.02))
    assert await line.end() == b""
    dripping.cancel()


async def test_a_chunked_body_is_held_to_the_same_rate(server: Server) -> None:
    line = await server.connect(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc")
    assert refusal(await line.end())[0] == 408


async def test_who_reads_nothing_of_an_endless_answer_is_cut(server: Server) -> None:
    line = await server.connect(GET % b"flood")
    async with asyncio.timeout(PATIENCE_SECONDS):
        await server.app.flooded.wait()
    line.writer.close()


@pytest.mark.parametrize("protocol", [b"websocket", b"h2c"])
async def test_an_offer_of_another_protocol_is_answered_in_this_one(server: Server, protocol: bytes) -> None:
    offer = b"Connection: Upgrade\r\nUpgrade: " + protocol + b"\r\nSec-WebSocket-Version: 13\r\n\r\n"
    line = await server.connect((GET % b"early")[:-2] + offer)
    assert await line.answer() == (200, b"early")
    await line.say(b"and then anything")
    assert await line.end() == b"" or server.app.served == 1


async def test_pipelined_requests_are_answered_in_order(server: Server) -> None:
    line = await server.connect(GET % b"early" + POST % b"echo" + b"x" * 100_000 + GET % b"early")
    assert [await line.answer() for _ in range(3)] == [(200, b"early"), (200, b"100000"), (200, b"early")]
    line.writer.close()


async def test_a_crowd_of_pipelined_requests_is_cut(server: Server) -> None:
    line = await server.connect(GET % b"wait" + GET % b"early" * 10)
    assert await line.end() == b""
    assert server.app.served <= 1


@pytest.mark.parametrize(
    "head",
    [
        b"Content-Length: 3\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nContent-Length: 3",
        b"Content-Length: 3\r\nContent-Length: 4",
        b"Content-Length: -3",
        b"Content-Length: 3\r\nTransfer-Encoding: identity",
        b"Transfer-Encoding: chunked, gzip",
        b"Bad Name: x",
        b"X-Split: a\rb",
    ],
)
async def test_requests_that_two_servers_may_read_in_two_ways_are_refused(server: Server, head: bytes) -> None:
    line = await server.connect(b"POST /echo HTTP/1.1\r\nHost: localhost\r\n" + head + b"\r\n\r\n0\r\n\r\n")
    status, error = refusal(await line.end())
    assert (status, error["code"]) == (400, "bad_request")


@pytest.mark.parametrize("server", [replace(IMPATIENT, connections=3)], indirect=True)
async def test_more_connections_than_there_may_be_are_told_so(server: Server) -> None:
    held = [await server.connect(GET % b"wait") for _ in range(3)]
    for _ in held:
        await server.app.waiting.acquire()
    status, error = refusal(await (await server.connect(GET % b"early")).end())
    assert (status, error["code"]) == (503, "unavailable")
    server.app.may_answer.set()
    for line in held:
        assert await line.answer() == (200, b"waited")
        line.writer.close()
        await line.writer.wait_closed()
    free = await server.connect(GET % b"early")
    assert await free.answer() == (200, b"early")
    free.writer.close()
