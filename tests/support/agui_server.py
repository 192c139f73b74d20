"""Remote agents whose every byte is scripted, over real HTTP on a free port, in the loop of the test.

It speaks HTTP by hand, because most of what a client must survive no proper server would send::

    async with agui_server() as server:
        server.on("/", STARTED, *said("hello"), FINISHED)   # every request to / is answered so
        server.next("/", Answer(401))                        # but the next one so
        ...
        assert server.requests[0].json["threadId"] == "c1"
        await server.requests[0].left.wait()                 # the client closed the connection

A script is a sequence of steps: an event (of `ag_ui.core`, or a mapping) goes out as a server-sent event, ``bytes`` go
out as they are, an `asyncio.Event` is waited for, and `Answer`, `Flood`, `STALL`, `DROP` are told below.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any
from urllib.parse import urlsplit

from ag_ui.core import (
    BaseEvent,
    EventType,
    RunFinishedEvent,
    RunStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)

from tests.support.http import PlayedServer
from tests.support.waiting import PATIENCE_SECONDS

_TLS_HANDSHAKE = b"\x16"

EVENT_STREAM = {"Content-Type": "text/event-stream"}


@dataclass(frozen=True)
class Answer:
    """Status, headers and body of an answer that is something else than a stream of events; the first step, if any.

    With ``body`` it is a whole answer; without, the steps after it are its body. ``chunked=False`` leaves the end of
    the body to the end of the connection. Status 0 sends nothing at all: the steps are the answer, byte for byte.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: EVENT_STREAM)
    body: bytes | None = None
    chunked: bool = True

    @property
    def is_chunked(self) -> bool:
        return bool(self.status) and self.chunked and self.body is None

    def head(self) -> bytes:
        if not self.status:
            return b""
        lines = [f"HTTP/1.1 {self.status} Whatever", *(f"{name}: {value}" for name, value in self.headers.items())]
        if self.body is not None:
            lines.append(f"Content-Length: {len(self.body)}")
        elif self.is_chunked:
            lines.append("Transfer-Encoding: chunked")
        return "\r\n".join([*lines, "Connection: close", "", ""]).encode()


def answer_json(value: object, status: int = 200) -> Answer:
    """A whole answer of JSON."""
    return Answer(status, {"Content-Type": "application/json"}, json.dumps(value).encode())


@dataclass(frozen=True)
class Flood:
    """The same bytes over and over, until the client closes the connection or ``count`` is reached."""

    piece: bytes
    count: int


@dataclass(frozen=True)
class Drip:
    """One byte after another, with a pause after each: what is slow, but never silent."""

    data: bytes
    seconds: float


class End(Enum):
    """How a script may end, other than properly."""

    STALL = "say nothing more, until the client closes the connection"
    DROP = "reset the connection"
    EOF = "close the connection without the end of the body"


STALL, DROP, EOF = End

Step = BaseEvent | Mapping[str, Any] | bytes | asyncio.Event | Answer | Flood | Drip | End


@dataclass
class Request:
    """A request that came, and what became of its connection."""

    method: str
    target: str  # path and query
    headers: dict[str, str]  # names in lower case
    body: bytes
    sent_bytes: int = 0  # of the answer, as far as the client's side took them
    left: asyncio.Event = field(default_factory=asyncio.Event)  # the client closed the connection
    over: asyncio.Event = field(default_factory=asyncio.Event)  # the script has ended

    @property
    def path(self) -> str:
        return urlsplit(self.target).path

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class AguiServer(PlayedServer):
    """What is answered, and what was asked."""

    def __init__(self) -> None:
        super().__init__()
        self.url = ""
        self.requests: list[Request] = []
        self._always: dict[str, tuple[Step, ...]] = {}
        self._once: dict[str, list[tuple[Step, ...]]] = {}

    def on(self, path: str, *steps: Step) -> None:
        """Answer every request to this path so. A path that nothing is said of is answered with 404."""
        self._always[path] = steps

    def next(self, path: str, *steps: Step) -> None:
        """Answer one request to this path so, after those of earlier calls."""
        self._once.setdefault(path, []).append(steps)

    def to(self, path: str) -> list[Request]:
        """The requests to this path, oldest first."""
        return [request for request in self.requests if request.path == path]

    async def asked(self, path: str, count: int = 1, within_seconds: float = PATIENCE_SECONDS) -> Request:
        """Wait for so many requests to a path; the last of them."""
        async with asyncio.timeout(within_seconds), self._came:
            await self._came.wait_for(lambda: len(self.to(path)) >= count)
        return self.to(path)[count - 1]

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = await reader.readexactly(1)
        if first == _TLS_HANDSHAKE:
            writer.write(b"HTTP/1.1 400 Plain HTTP only\r\n\r\n")
            return
        request = await _request(first, reader)
        self.requests.append(request)
        async with self._came:
            self._came.notify_all()
        try:
            await _Connection(request, reader, writer).play(self._steps(request.path))
        finally:
            request.over.set()

    def _steps(self, path: str) -> tuple[Step, ...]:
        once = self._once.get(path)
        if once:
            return once.pop(0)
        return self._always.get(path, (Answer(404, {}, b"nothing here"),))


class _Connection:
    """Plays a script."""

    def __init__(self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.request = request
        self.reader = reader
        self.writer = writer
        self.chunked = False

    async def play(self, steps: tuple[Step, ...]) -> None:
        watcher = asyncio.create_task(self._watch())
        try:
            await self._play(steps)
        finally:
            watcher.cancel()

    async def _play(self, steps: Iterable[Step]) -> None:
        steps = list(steps)
        answer = steps.pop(0) if steps and isinstance(steps[0], Answer) else Answer()
        assert isinstance(answer, Answer)
        await self._write(answer.head() + (answer.body or b""))
        self.chunked = answer.is_chunked
        for step in steps:
            if isinstance(step, End):
                await self._end(step)
                return
            await self._step(step)
        if self.chunked:
            await self._write(b"0\r\n\r\n")

    async def _step(self, step: Step) -> None:
        match step:
            case BaseEvent():
                await self._body(sse(step.model_dump_json(by_alias=True)))
            case bytes():
                await self._body(step)
            case asyncio.Event():
                await step.wait()
            case Flood(piece, count):
                for _ in range(count):
                    await self._body(piece)
            case Drip(data, seconds):
                for at in range(len(data)):
                    await self._body(data[at : at + 1])
                    await asyncio.sleep(seconds)
            case Mapping():
                await self._body(sse(json.dumps(step)))

    async def _end(self, end: End) -> None:
        if end is STALL:
            await self.request.left.wait()
        elif end is DROP:
            raw: socket.socket = self.writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.writer.transport.abort()

    async def _body(self, data: bytes) -> None:
        if data:
            await self._write(b"%x\r\n%b\r\n" % (len(data), data) if self.chunked else data)

    async def _write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()
        self.request.sent_bytes += len(data)

    async def _watch(self) -> None:
        """The client sends nothing more, so what comes is the end."""
        with contextlib.suppress(OSError):
            await self.reader.read()
        self.request.left.set()


async def _request(first: bytes, reader: asyncio.StreamReader) -> Request:
    head = (first + await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(method, target, headers, body)


@contextlib.asynccontextmanager
async def agui_server(tls: ssl.SSLContext | None = None) -> AsyncIterator[AguiServer]:
    """A server on a free port; ``tls`` makes its address an https one."""
    scripted = AguiServer()
    server = await asyncio.start_server(scripted.handle, "127.0.0.1", 0, ssl=tls, limit=1024 * 1024)
    scripted.url = f"{'https' if tls else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield scripted
    finally:
        server.close()
        await scripted.stop()


def sse(data: str) -> bytes:
    """One server-sent event."""
    return f"data: {data}\n\n".encode()


STARTED = RunStartedEvent(type=EventType.RUN_STARTED, thread_id="c1", run_id="r1")
FINISHED = RunFinishedEvent(type=EventType.RUN_FINISHED, thread_id="c1", run_id="r1")


def said(*deltas: str, id: str = "m1") -> tuple[BaseEvent, ...]:
    """A whole text message, in these pieces."""
    return (
        TextMessageStartEvent(type=EventType.TEXT_MESSAGE_START, message_id=id, role="assistant"),
        *(TextMessageContentEvent(type=EventType.TEXT_MESSAGE_CONTENT, message_id=id, delta=delta) for delta in deltas),
        TextMessageEndEvent(type=EventType.TEXT_MESSAGE_END, message_id=id),
    )


def answering(text: str) -> tuple[BaseEvent, ...]:
    """A run that says this and ends well."""
    return (STARTED, *said(text), FINISHED)
