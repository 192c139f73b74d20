"""JSON responses, refusals that are sent before an application is called, in the same form as all our errors, and the
writing of an answer's bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from swarm.domain.views import dump, plain
from swarm_base.characters import data_for_model, is_json_for_model


class Answer(Response):
    """A JSON response. Agents pass responses to their models, so all texts are made safe for models."""

    media_type = "application/json"

    def __init__(self, content: object, status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(json_for_model(content), status_code=status, headers=headers)


def json_for_model(content: object) -> bytes:
    """Returns views and other data as JSON, with all texts made safe for models."""
    try:
        body = orjson.dumps(content, default=dump, option=orjson.OPT_PASSTHROUGH_DATACLASS)
        if is_json_for_model(body):
            return body
    except TypeError:  # a lone surrogate
        pass
    return orjson.dumps(data_for_model(plain(content)))


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """An error response, which is itself an ASGI application. The connection is closed after it."""

    status: int
    code: str  # an error code of docs/agents.md
    message: str
    hint: str
    closes: bool = True
    retry_after_seconds: int | None = None

    @property
    def body(self) -> bytes:
        return orjson.dumps({"error": {"code": self.code, "message": self.message, "hint": self.hint}})

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(self.body)).encode())]
        if self.retry_after_seconds is not None:
            headers.append((b"retry-after", str(self.retry_after_seconds).encode()))
        if self.closes:
            headers.append((b"connection", b"close"))
        return headers

    def as_bytes(self) -> bytes:
        """Returns the complete HTTP/1.1 response, for a request that does not reach an application."""
        lines = [f"HTTP/1.1 {self.status} {HTTPStatus(self.status).phrase}".encode()]
        lines += [name + b": " + value for name, value in self.headers]
        return b"\r\n".join([*lines, b"", self.body])

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers a request, or a WebSocket's handshake."""
        kind = "websocket.http.response" if scope["type"] == "websocket" else "http.response"
        await send({"type": f"{kind}.start", "status": self.status, "headers": self.headers})
        await send({"type": f"{kind}.body", "body": self.body})


class AnswerTransport(asyncio.Transport):
    """The transport of one answer. Head and first part of the body are written with one call to the system; a head that
    no body follows at once is written alone.

    It has only the methods that uvicorn calls for an answer.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._held = b""
        self._writing_alone: asyncio.Handle | None = None  # set from the first write on

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._writing_alone is None:
            self._held = bytes(data)
            self._writing_alone = self._loop.call_soon(self._write_alone)
        elif self._held:
            self._writing_alone.cancel()
            head, self._held = self._held, b""
            self._transport.writelines([head, data])
        else:
            self._transport.write(data)

    def close(self) -> None:
        self._write_alone()
        self._transport.close()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def _write_alone(self) -> None:
        head, self._held = self._held, b""
        if head and not self._transport.is_closing():
            self._transport.write(head)
