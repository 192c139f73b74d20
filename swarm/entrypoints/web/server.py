"""Time and size limits for an HTTP server. uvicorn itself limits only idle connections.

- The head of a request must be complete within ``head_seconds`` of its first byte (for the first request, of the start
  of the connection), and no larger than ``head_bytes``.
- While a body or a response is being sent, bytes must flow: if fewer bytes than the minimum pass within a time window,
  the connection is closed. Time in which the server did not read does not count against the client.
- The rest of a body that has already been answered (a 401, a 413) is read for at most one window.
- The client of a closed connection has one window to read the unsent bytes.

A client that waits for the server is never disconnected: the application may take any time to answer a complete request
(polls), and a response may continue indefinitely (server-sent events) as long as the client reads it. A request is
refused with 408, 431 or 503 if no response has begun; otherwise the connection is closed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from swarm.entrypoints.web.answers import AnswerTransport, Refusal

_KIB: Final = 1024


@dataclass(frozen=True, kw_only=True)
class ConnectionLimits:
    """The limits on a client's use of time and memory."""

    connections: int = 10_000  # simultaneous connections; another one is refused with 503
    pipelined: int = 16  # pipelined requests that wait for an earlier response
    head_seconds: float = 10.0
    head_bytes: int = 32 * _KIB  # the request line and all header fields
    body_window_seconds: float = 10.0
    body_window_bytes: int = 40 * _KIB  # 4 KiB per second, or the end of the body
    answer_window_seconds: float = 60.0  # long, since the kernel accepts a response in large pieces
    answer_window_bytes: int = 64 * _KIB


DEFAULT_LIMITS: Final = ConnectionLimits()

CLIENT: Final = "swarm.client"
"""The key under which a request's scope contains its `ClientConnection`."""


class ClientConnection:
    """A connection's client, for requests that have to know at once that nobody waits for their answer."""

    __slots__ = ("_on_leave", "has_gone")

    def __init__(self) -> None:
        self.has_gone = False
        self._on_leave: Callable[[], object] | None = None

    def call_on_leave(self, act: Callable[[], object] | None) -> None:
        """Calls ``act`` once when the client disconnects, at once if it has. For the one request being answered."""
        self._on_leave = act
        if act and self.has_gone:
            act()

    def leave(self) -> None:
        """Records that the client gets no further answer."""
        if not self.has_gone:
            self.has_gone = True
            if self._on_leave:
                self._on_leave()


class Config(uvicorn.Config):
    """The configuration of a server with limits for clients. There are no WebSockets."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: ConnectionLimits = DEFAULT_LIMITS,
        protocol: type[HttpProtocol] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(
            app,
            http=protocol or HttpProtocol,
            ws="none",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            **options,
        )  # nothing here reads the address of a client
        self.limits = limits


class _Reading(Enum):
    """The part of a request that the server is waiting for."""

    HEAD = "head"
    BODY = "body"
    NOTHING = "nothing"  # the request is complete, or none has begun since the last one


class _Drain:
    """A guard that closes a connection whose client does not read the bytes sent to it."""

    def __init__(self, transport: asyncio.Transport, limits: ConnectionLimits) -> None:
        self._transport = transport
        self._limits = limits
        self._timer: asyncio.TimerHandle | None = None
        self._unsent = 0

    def begin(self) -> None:
        """Starts watching the client, since more has been written than it has read."""
        self.end()
        self._unsent = self._transport.get_write_buffer_size()
        self._timer = self._later(self._check)

    def end(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None

    def close(self) -> None:
        """Closes the connection. The client has one more window to read the unsent bytes."""
        self._transport.close()
        self.end()
        self._timer = self._later(self._transport.abort)

    def _check(self) -> None:
        unsent = self._transport.get_write_buffer_size()
        if self._unsent - unsent < self._limits.answer_window_bytes:
            self._transport.abort()
            return
        self.begin()

    def _later(self, what: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(self._limits.answer_window_seconds, what)


class HttpProtocol(HttpToolsProtocol):
    """One connection, subject to the `ConnectionLimits` of its `Config`."""

    def __init__(self, config: uvicorn.Config, *args: Any, **options: Any) -> None:
        super().__init__(config, *args, **options)
        assert isinstance(config, Config)
        self.limits = config.limits
        self._client = ClientConnection()
        self._reading = _Reading.HEAD
        self._deadline = 0.0  # on the loop's clock: the deadline for a head, or the end of a window
        self._chunk_bytes = 0  # size of the chunk in the parser
        self._head_bytes = 0  # size of an incomplete head before this chunk
        self._window_bytes = 0  # bytes received in this window
        self._timer: asyncio.TimerHandle | None = None
        self._drain: _Drain = None  # type: ignore[assignment]  # until there is a connection, as in uvicorn

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._drain = _Drain(transport, self.limits)
        self._await_head()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_watches()
        super().connection_lost(exc)
        self._client.leave()

    def data_received(self, data: bytes) -> None:
        if self._reading is _Reading.NOTHING:
            self._await_head()
        self._chunk_bytes = len(data)
        self._window_bytes += len(data)
        super().data_received(data)
        if self._reading is _Reading.HEAD:
            self._head_bytes += len(data)
            if self._head_bytes > self.limits.head_bytes:
                self._refuse(_head_too_large(self.limits))
        if self._reading is not _Reading.NOTHING and self._timer is None and not self.transport.is_closing():
            self._watch()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._reading is not _Reading.HEAD:  # pipelined, in the same chunk as the previous request
            self._await_head()

    def on_headers_complete(self) -> None:
        if self.transport.is_closing() or len(self.pipeline) >= self.limits.pipelined:
            self.transport.abort()
            return
        self._reading = _Reading.BODY
        self._begin_window()
        refusal = self._refusal()
        if refusal:
            self.app = refusal
        self.scope[CLIENT] = self._client  # type: ignore[typeddict-unknown-key]
        super().on_headers_complete()
        if self.scope["method"] != "HEAD":  # which no body answers, so nothing follows the head
            self.cycle.transport = AnswerTransport(self.transport, self.loop)

    def _refusal(self) -> Refusal | None:
        """Returns the refusal of the current request, if any."""
        if len(self.connections) > self.limits.connections:
            return _BUSY
        longest = self._head_bytes + self._chunk_bytes
        if longest > self.limits.head_bytes and self._size_of_head() > self.limits.head_bytes:
            return _head_too_large(self.limits)
        return None

    def _size_of_head(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + len(b": \r\n") for name, value in self.headers)

    def on_message_complete(self) -> None:
        self._reading = _Reading.NOTHING
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.transport.is_closing():
            self._drain.close()

    def timeout_keep_alive_handler(self) -> None:
        self._drain.close()

    def send_400_response(self, msg: str) -> None:
        self._refuse(Refusal(status=400, code="bad_request", message="This is not a valid HTTP request.", hint=msg))

    def _unsupported_upgrade_warning(self) -> None:
        """Logs nothing. A client that offers another protocol simply gets an HTTP/1.1 response."""

    def pause_writing(self) -> None:
        super().pause_writing()
        self._drain.begin()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._drain.end()

    def _await_head(self) -> None:
        self._reading = _Reading.HEAD
        self._head_bytes = 0
        self._deadline = self.loop.time() + self.limits.head_seconds

    def _begin_window(self) -> None:
        self._window_bytes = 0
        self._deadline = self.loop.time() + self.limits.body_window_seconds

    def _watch(self) -> None:
        """Starts the timer. One timer serves all requests of a connection; a request that arrives in one piece needs no
        timer."""
        self._timer = self.loop.call_at(self._deadline, self._check)

    def _check(self) -> None:
        self._timer = None
        if self._reading is _Reading.NOTHING or self.transport.is_closing():
            return
        if self.loop.time() >= self._deadline:
            if not self._may_go_on():
                return
            self._begin_window()
        self._watch()

    def _may_go_on(self) -> bool:
        """Whether the client gets another window. If not, the request is refused."""
        if self.flow.read_paused:
            return True
        if self._reading is _Reading.HEAD:
            self._refuse(_slow_head(self.limits))
            return False
        if self.cycle.response_complete:
            self._drain.close()
            return False
        if self.cycle.waiting_for_100_continue or self._window_bytes >= self.limits.body_window_bytes:
            return True
        self._refuse(_slow_body(self.limits))
        return False

    def _refuse(self, refusal: Refusal) -> None:
        """Sends the refusal in place of the application's response and closes the connection. If a response has begun,
        only closes the connection."""
        if self.transport.is_closing():
            return
        is_in_body = self._reading is _Reading.BODY and self.cycle is not None and not self.cycle.response_started
        is_free = self.cycle is None or self.cycle.response_complete or is_in_body
        if self.pipeline or not is_free:
            self.transport.abort()
            return
        if is_in_body:
            # This tells the application that the client has disconnected, and drops its response.
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            self._client.leave()
        self.transport.write(refusal.as_bytes())
        self._drain.close()

    def _end_watches(self) -> None:
        if self._timer:
            self._timer.cancel()
            self._timer = None
        if self._drain:
            self._drain.end()


_BUSY: Final = Refusal(
    status=503,
    code="unavailable",
    message="Too many connections are open.",
    hint="Close connections that you do not need, and try again.",
    retry_after_seconds=1,
)


def _head_too_large(limits: ConnectionLimits) -> Refusal:
    return Refusal(
        status=431,
        code="bad_request",
        message="The address and the header fields are too large.",
        hint=f"Together they may have at most {limits.head_bytes} bytes.",
    )


def _slow_head(limits: ConnectionLimits) -> Refusal:
    return Refusal(
        status=408,
        code="bad_request",
        message="The head of the request did not arrive in time.",
        hint=f"Send it within {limits.head_seconds:g} seconds.",
    )


def _slow_body(limits: ConnectionLimits) -> Refusal:
    return Refusal(
        status=408,
        code="bad_request",
        message="The body of the request arrives too slowly.",
        hint=f"Send at least {limits.body_window_bytes} bytes, or the rest, in {limits.body_window_seconds:g} seconds.",
    )
