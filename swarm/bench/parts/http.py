"""A bare HTTP client: it shares two cores with the measured system, so it does as little as possible."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

import orjson

from swarm.bench.figures import BenchError

ANSWER_SECONDS: Final = 90
"""Slightly longer than the longest poll."""

_HEAD_END: Final = b"\r\n\r\n"
_LENGTH: Final = b"content-length:"


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """An answer, and the arrival of its last byte in seconds since 1970 UTC."""

    status: int
    body: bytes
    at: float

    def json(self) -> Any:
        """Returns the decoded body. Raises BenchError unless the status is one of success."""
        if not 200 <= self.status < 300:
            raise BenchError(f"the coordinator answered {self.status}: {self.body[:300].decode(errors='replace')}")
        return orjson.loads(self.body)


class Connection(asyncio.Protocol):
    """One kept connection of one caller, with one request at a time. Reads only answers with a Content-Length."""

    def __init__(self, token: str) -> None:
        self._token = token
        self._received = bytearray()
        self._waiting: asyncio.Future[Answer] | None = None
        self._transport: asyncio.Transport | None = None
        self.closed = False  # by either side

    @classmethod
    async def open(cls, port: int, token: str) -> Connection:
        """Connects to a port of this machine. Raises BenchError."""
        try:
            _, connection = await asyncio.get_running_loop().create_connection(lambda: cls(token), "127.0.0.1", port)
        except OSError as error:
            raise BenchError(f"no connection to the coordinator: {error}") from error
        return connection

    async def call(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Sends one request and returns its answer, whatever its status. Raises BenchError without an answer."""
        assert self._transport is not None
        if self.closed:
            raise BenchError("the coordinator has hung up")
        content = b"" if body is None else orjson.dumps(body)
        head = f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self._token}\r\n"
        if content:
            head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.write(head.encode() + b"\r\n" + content)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._waiting
        except TimeoutError as error:
            raise BenchError(f"{method} {path} was not answered within {ANSWER_SECONDS} s") from error

    def close(self) -> None:
        """Closes the connection."""
        self.closed = True
        if self._transport:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but its base class

    def data_received(self, data: bytes) -> None:
        self._received += data
        head_end = self._received.find(_HEAD_END)
        if head_end < 0:
            return
        body_at = head_end + len(_HEAD_END)
        end = body_at + _content_length(bytes(self._received[:head_end]))
        if len(self._received) < end or self._waiting is None or self._waiting.done():
            return
        status = int(self._received[9:12])
        self._waiting.set_result(Answer(status=status, body=bytes(self._received[body_at:end]), at=time.time()))
        del self._received[:end]

    def connection_lost(self, error: Exception | None) -> None:
        self.closed = True
        if self._waiting and not self._waiting.done():
            self._waiting.set_exception(BenchError(f"the coordinator hung up: {error or 'without an answer'}"))


def _content_length(head: bytes) -> int:
    lowered = head.lower()
    at = lowered.find(_LENGTH)
    if at < 0:
        raise BenchError("the coordinator's answer has no Content-Length")
    return int(lowered[at + len(_LENGTH) :].split(b"\r\n", 1)[0])
