"""JSON responses, and refusals that are sent before an application is called, in the same form as all our errors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from swarm.domain.text.characters import data_for_model, is_json_for_model


class Answer(Response):
    """A JSON response. Agents pass responses to their models, so all texts are made safe for models."""

    media_type = "application/json"

    def __init__(self, content: object, status: int = HTTPStatus.OK, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(json_for_model(content), status_code=status, headers=headers)


def json_for_model(content: object) -> bytes:
    """Returns data as JSON, with all texts made safe for models."""
    try:
        body = orjson.dumps(content)
        if is_json_for_model(body):
            return body
    except TypeError:  # a lone surrogate, or a mapping that is not a dict
        pass
    return orjson.dumps(data_for_model(content))


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
