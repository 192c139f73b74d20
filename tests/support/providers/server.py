"""A provider on a free port of this machine, which plays a script over the provider's own protocol.

It speaks HTTP by hand, in the loop of the test, because much of what a client must survive no proper server would send.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import socket
import struct
from collections.abc import AsyncIterator, Iterator, Mapping

from swarm.domain.model.language_models import ModelSpec
from tests.support.http import PlayedServer
from tests.support.providers.request import Request
from tests.support.providers.script import (
    Call,
    Cut,
    Ends,
    EndsEarly,
    Fails,
    Raw,
    Reason,
    Reply,
    Say,
    Script,
    Silent,
    Step,
    Used,
    Wait,
    steps_of,
)
from tests.support.providers.wire import Whole, Wire
from tests.support.waiting import PATIENCE_SECONDS

USED_UP = Fails(418, message="The script of this test has no more answers.")


class ProviderServer(PlayedServer):
    """What is answered, and what was asked."""

    def __init__(self, wire: Wire, script: Script) -> None:
        super().__init__()
        self.wire = wire
        self.base_url = ""
        self.requests: list[Request] = []
        self._script = script
        self._replies: Iterator[Reply] = iter(()) if callable(script) else iter(script)

    def spec(
        self,
        name: str = "",
        *,
        api_key: str | None = None,
        timeout_seconds: float = PATIENCE_SECONDS,
        max_tokens: int | None = None,
        temperature: float | None = None,
    ) -> ModelSpec:
        """A model of this provider. Bedrock wants `AWS_ENVIRONMENT` set, too."""
        return ModelSpec(
            provider=self.wire.provider,
            name=name or self.wire.model_name,
            base_url=self.base_url,
            api_key=api_key or self.wire.api_key,
            region=self.wire.region,
            timeout_seconds=timeout_seconds,
            max_tokens=max_tokens,
            temperature=temperature,
        )

    async def asked(self, count: int = 1, within_seconds: float = PATIENCE_SECONDS) -> Request:
        """Wait for so many requests; the last of them."""
        async with asyncio.timeout(within_seconds), self._came:
            await self._came.wait_for(lambda: len(self.requests) >= count)
        return self.requests[count - 1]

    async def _handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        request = await _request(self.wire, reader)
        self.requests.append(request)
        async with self._came:
            self._came.notify_all()
        watcher = asyncio.create_task(_watch(request, reader))
        try:
            await _Connection(request, writer).play(await self._reply(request))
        finally:
            watcher.cancel()
            request.over.set()

    async def _reply(self, request: Request) -> tuple[Step, ...]:
        if not self.wire.is_for(request):
            return (Fails(404, message=f"There is nothing at {request.path}."),)
        if not callable(self._script):
            return steps_of(next(self._replies, USED_UP))
        reply = self._script(request)
        return steps_of(await reply if inspect.isawaitable(reply) else reply)


class _Connection:
    """Plays the steps of one reply."""

    def __init__(self, request: Request, writer: asyncio.StreamWriter) -> None:
        self.request = request
        self.writer = writer
        self.encoder = request.wire.encoder(request)
        self.has_begun = False
        self.calls: list[tuple[str, Call]] = []
        self.text = ""
        self.reason: Reason = "stop"
        self.used = Used()

    async def play(self, steps: tuple[Step, ...]) -> None:
        for step in steps:
            match step:
                case Silent():
                    await self.request.left.wait()
                    return
                case Fails():
                    await self._fail(step)
                    return
                case Cut():
                    await self._cut(step)
                    return
                case EndsEarly(but_done):
                    end = self.encoder.finish(self.reason, self.used).removesuffix(b"data: [DONE]\n\n")
                    await self._body(end if but_done else b"")
                    await self._write(b"0\r\n\r\n")
                    return
                case Raw(body) if not self.has_begun and not self.request.is_streamed:
                    await self._whole(200, {"Content-Type": "application/json"}, body)
                    return
                case _:
                    await self._go_on(step)
        await self._finish()

    async def _go_on(self, step: Step) -> None:
        match step:
            case Wait(event):
                await event.wait()
            case Ends(reason):
                self.reason = reason
            case Used():
                self.used = step
            case Raw(body):
                await self._body(body)
            case Say():
                for piece in step.pieces:
                    await self._say(piece)
            case Call():
                await self._call(step)

    async def _say(self, piece: str) -> None:
        self.text += piece
        if self.request.is_streamed:
            await self._begin()
            await self._body(self.encoder.say(piece))

    async def _call(self, call: Call) -> None:
        id = call.id or f"call_{len(self.calls) + 1}_{call.tool}"
        self.calls.append((id, call))
        if self.request.is_streamed:
            await self._begin()
            for part in self.encoder.call(id, call):
                await self._body(part)

    async def _begin(self) -> None:
        if not self.has_begun:
            await self._body(self.encoder.start())

    async def _finish(self) -> None:
        if not self.request.is_streamed:
            whole = Whole(self.text, tuple(self.calls), self.reason, self.used)
            body = json.dumps(self.request.wire.whole(self.request, whole)).encode()
            await self._whole(200, {"Content-Type": "application/json"}, body)
            return
        await self._begin()
        await self._body(self.encoder.finish(self.reason, self.used))
        await self._write(b"0\r\n\r\n")

    async def _fail(self, fails: Fails) -> None:
        if self.has_begun:
            await self._body(self.encoder.fail(fails))
            await self._write(b"0\r\n\r\n")
            return
        headers, body = self.request.wire.failure(fails)
        if fails.body is not None:
            body = fails.body if isinstance(fails.body, Mapping) else {}
        data = fails.body if isinstance(fails.body, bytes) else json.dumps(body).encode()
        wait = {} if fails.retry_after is None else {"Retry-After": f"{fails.retry_after:g}"}
        await self._whole(fails.status, {"Content-Type": "application/json", **headers, **wait, **fails.headers}, data)

    async def _cut(self, cut: Cut) -> None:
        if cut.with_head:
            await self._head()
            if cut.after:
                await self._say(cut.after)
        raw: socket.socket = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def _whole(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        await self._write(_head(status, {**headers, "Content-Length": str(len(body))}) + body)

    async def _head(self) -> None:
        if not self.has_begun:
            self.has_begun = True
            headers = {"Content-Type": self.request.wire.stream_type, "Transfer-Encoding": "chunked"}
            await self._write(_head(200, headers))

    async def _body(self, data: bytes) -> None:
        await self._head()
        if data:
            await self._write(b"%x\r\n%b\r\n" % (len(data), data))

    async def _write(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()


def _head(status: int, headers: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode()


async def _watch(request: Request, reader: asyncio.StreamReader) -> None:
    """The client sends nothing more, so what comes is the end."""
    with contextlib.suppress(OSError):
        await reader.read()
    request.left.set()


async def _request(wire: Wire, reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(wire, method, target, headers, body)


@contextlib.asynccontextmanager
async def serve(wire: Wire, script: Script) -> AsyncIterator[ProviderServer]:
    """A server on a free port of this machine."""
    scripted = ProviderServer(wire, script)
    server = await asyncio.start_server(scripted.handle, "127.0.0.1", 0, limit=4 * 1024 * 1024)
    scripted.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{wire.base_path}"
    try:
        yield scripted
    finally:
        server.close()
        await scripted.stop()
