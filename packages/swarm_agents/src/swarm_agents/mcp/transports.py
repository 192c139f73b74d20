"""The transports of the MCP client: a program's stdin and stdout with one message per line, and streamable HTTP.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports

This module replaces the client's own stdio transport, which passes on more of our environment, leaves child processes
running when their parent exits by itself, accepts lines of unlimited length, and logs unexpected output unchanged. HTTP
uses a client configured here.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from subprocess import PIPE
from typing import TYPE_CHECKING, Final

import anyio
import httpx2
import mcp_types as types
import structlog
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from swarm.agents.http import CONNECT_SECONDS, Limited, open_client
from swarm.config.mcp_servers import Address, McpServer, Program
from swarm.domain.patterns import has_few_values
from swarm_agents.mcp.calls import MOST_VALUES, McpServerUnusable
from swarm_agents.mcp.status import Timeouts
from swarm_base.processes.child import Child
from swarm_base.redaction import Redactor

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams


LINE_BYTES: Final = 16 * 1024 * 1024
"""The maximum length of a server's message; messages with images are long."""

_LAST_WORDS_SECONDS: Final = 0.2
"""The time for reading the remaining output after a program has exited."""

_CHUNK_BYTES: Final = 64 * 1024
_EVENT_END: Final = re.compile(rb"(?>\r\n|\r|\n){2}")
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
INHERITED: Final = (
    *("PATH", "HOME", *_PROXIES, *map(str.lower, _PROXIES)),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS"),
)
"""The variables that a program gets, in addition to its own ``env``: how to find programs and to reach the network."""

_LOGGED_LINE_BYTES: Final = 1_000
_LOGGED_LINES_PER_MINUTE: Final = 120

_log = structlog.get_logger(__name__)

_MAX_BYTES: Final = LINE_BYTES
"""The maximum length of a server's message."""

_WRITE_SECONDS: Final = 30.0


@asynccontextmanager
async def over_stdio(
    server: McpServer, program: Program, timeouts: Timeouts, on_end: Callable[[], None]
) -> AsyncGenerator[TransportStreams]:
    """Connects to a program, which starts on entry and is terminated with all its children on exit.

    ``on_end`` is called if the program exits by itself. Raises McpServerUnusable if it does not start.
    """
    child = await _started(program, timeouts)
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage](0)
    log_pump = _LogPump(server, child.pid)
    async with to_client, from_server, to_server, from_client, anyio.create_task_group() as tasks:
        tasks.start_soon(_read, child.stdout, to_client, log_pump, on_end)
        tasks.start_soon(_write, child.stdin, from_client)
        tasks.start_soon(log_pump.follow, child.stderr)
        tasks.start_soon(_watch, child, to_client, on_end)
        try:
            yield from_server, to_server
        finally:
            from_server.close()  # later output is read and dropped
            to_server.close()
            with anyio.CancelScope(shield=True):
                await _end(child, timeouts)
            tasks.cancel_scope.cancel()


async def _started(program: Program, timeouts: Timeouts) -> Child:
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    try:
        return await Child.start(
            [program.command, *program.args],
            env={**inherited, **program.env},
            cwd=program.cwd,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            line_bytes=LINE_BYTES,
            grace_seconds=timeouts.term_seconds,
        )
    except OSError as error:
        raise McpServerUnusable(
            f"its program {program.command!r} cannot be started: {error.strerror or error}"
        ) from error
    except ValueError as error:
        raise McpServerUnusable(f"its program {program.command!r} cannot be started") from error


async def _end(child: Child, timeouts: Timeouts) -> None:
    """Closes stdin, then sends SIGTERM, then kills the program; on cancellation kills it immediately."""
    try:
        child.stdin.close()
        if not await child.is_gone_within(timeouts.end_seconds):
            await child.end()
    finally:
        await child.kill()
        child.close()


async def _read(
    stdout: asyncio.StreamReader,
    to_client: MemoryObjectSendStream[SessionMessage | Exception],
    log_pump: _LogPump,
    on_end: Callable[[], None],
) -> None:
    """Passes on every message. After that, it continues to read, because a program with a full pipe could not exit."""
    try:
        while line := await stdout.readline():
            if not has_few_values(line, MOST_VALUES):
                raise ValueError
            message = _message(line, log_pump)
            if message is not None:
                await to_client.send(message)
    except ValueError:
        log_pump.tell(b"(a line of more than %d bytes, or of more than %d values)" % (LINE_BYTES, MOST_VALUES))
    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
        pass  # the client has disconnected
    except ConnectionError:
        pass  # treated like the exit of the program
    to_client.close()
    on_end()
    while await stdout.read(_CHUNK_BYTES):
        pass


def _message(line: bytes, log_pump: _LogPump) -> SessionMessage | None:
    """Returns the message in the line, or None: programs also print other lines, although they should not."""
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        log_pump.tell(line)
        return None


async def _write(stdin: asyncio.StreamWriter, from_client: MemoryObjectReceiveStream[SessionMessage]) -> None:
    async for message in from_client:
        stdin.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
        try:
            await stdin.drain()
        except ConnectionError:
            return  # the program has stopped reading; `_watch` and `_read` detect its exit


async def _watch(
    child: Child, to_client: MemoryObjectSendStream[SessionMessage | Exception], on_end: Callable[[], None]
) -> None:
    """Ends the connection when the program exits, even if a child process keeps its stdout open."""
    await child.ended.wait()
    await anyio.sleep(_LAST_WORDS_SECONDS)
    to_client.close()
    on_end()


class _LogPump:
    """A log of a program's stderr and other unexpected output at debug level, limited in length and rate."""

    def __init__(self, server: McpServer, pid: int) -> None:
        self._server = server.name
        self._redactor = Redactor(server.secrets)
        self._pid = pid
        self._until = 0.0
        self._left = 0
        self._untold = 0

    async def follow(self, stream: asyncio.StreamReader) -> None:
        """Reads a stream to its end, even beyond the limits, because its writer must not block."""
        rest = b""
        while chunk := await stream.read(_CHUNK_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[:_LOGGED_LINE_BYTES]
            for line in lines:
                self.tell(line)
        self.tell(rest)

    def tell(self, line: bytes) -> None:
        """Logs one line of any length."""
        line = line.strip()
        if not line or not self._may_tell():
            self._untold += bool(line)
            return
        untold, self._untold = self._untold, 0
        _log.debug(
            "Output of an MCP server.",
            action="mcp_said",
            server=self._server,
            pid=self._pid,
            said=self._redactor.text(line[:_LOGGED_LINE_BYTES].decode(errors="replace")),
            **({"untold_lines": untold} if untold else {}),
        )

    def _may_tell(self) -> bool:
        if time.monotonic() >= self._until:
            self._until = time.monotonic() + 60.0
            self._left = _LOGGED_LINES_PER_MINUTE
        self._left -= 1
        return self._left >= 0


class Refusals:
    """The status with which a server refused the last request, if any. The library does not report it."""

    def __init__(self) -> None:
        self.last: int | None = None

    @property
    def reason(self) -> str | None:
        """The reason for the refusal, as far as the status reveals it; None if there was no refusal."""
        match self.last:
            case None:
                return None
            case 401 | 403:
                return f"it denies access (HTTP {self.last}): check its headers"
            case 404 | 405:
                return f"there is no MCP server at its address (HTTP {self.last})"
            case _:
                return f"it answered with HTTP {self.last}"


class _Messages(Limited):
    """The body of a response, message by message, because the library reads each whole, on the event loop."""

    def __init__(self, body: httpx2.AsyncByteStream, *, are_events: bool) -> None:
        super().__init__(body, _MAX_BYTES)
        self._are_events = are_events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        held = bytearray()
        async for chunk in super().__aiter__():
            begun = max(len(held) - 3, 0)
            held += chunk
            ends = [found.end() for found in _EVENT_END.finditer(held, begun)] if self._are_events else []
            if ends:
                self.count = len(held) - ends[-1]
            for begin, end in pairwise([0, *ends]):
                yield self._checked(held[begin:end])
            del held[: ends[-1] if ends else 0]
        yield self._checked(held)

    def _checked(self, message: bytearray) -> bytes:
        if has_few_values(bytes(message), MOST_VALUES):
            return bytes(message)
        words = f"It sent more than {MOST_VALUES:,} values at once."
        raise httpx2.SSEError(words) if self._are_events else httpx2.StreamError(words)


@asynccontextmanager
async def over_http(address: Address, refusals: Refusals) -> AsyncGenerator[TransportStreams]:
    """Connects to a server's address. Nothing is sent twice, and redirects stay within the origin."""

    async def look(response: httpx2.Response) -> None:
        if response.request.method == "POST":  # a server need not support the other methods
            refusals.last = response.status_code if response.is_error else None
        are_events = response.headers.get("Content-Type", "").startswith("text/event-stream")
        if isinstance(response.stream, httpx2.AsyncByteStream):
            response.stream = _Messages(response.stream, are_events=are_events)

    async with open_client([address.url]) as client:
        # The caller limits the time for a response.
        client.timeout = httpx2.Timeout(None, connect=CONNECT_SECONDS, write=_WRITE_SECONDS)
        client.headers.update(address.headers)
        client.event_hooks = {"response": [look]}
        async with streamable_http_client(address.url, http_client=client, max_sse_event_size=_MAX_BYTES) as streams:
            yield streams
