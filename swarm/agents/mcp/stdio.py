"""A transport of the MCP client over a program's stdin and stdout: one message per line.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio

The client's own transport passes on more of our environment, leaves child processes alive when their parent ends by
itself, accepts lines without a limit, and logs unexpected output unchanged. Hence this one.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from subprocess import PIPE
from typing import TYPE_CHECKING, Final

import anyio
import mcp_types as types
import structlog
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from swarm.agents.mcp.failures import McpServerUnusable
from swarm.agents.mcp.server import McpServer, Program, Timeouts
from swarm.processes.child import Child
from swarm.telemetry.redaction import Redactor

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

LINE_BYTES: Final = 16 * 1024 * 1024
"""The longest message of a server; messages with pictures are long."""

LAST_WORDS_SECONDS: Final = 0.2
"""The time for reading the rest of the output after a program's end."""

_CHUNK_BYTES: Final = 64 * 1024
_INHERITED: Final = ("PATH", "HOME")

LOGGED_LINE_BYTES: Final = 1_000
LOGGED_LINES_PER_MINUTE: Final = 120

_log = structlog.get_logger(__name__)


@asynccontextmanager
async def over_stdio(
    server: McpServer, program: Program, timeouts: Timeouts, on_end: Callable[[], None]
) -> AsyncGenerator[TransportStreams]:
    """Connects to a program, which starts on entering and ends with all its children on leaving.

    ``on_end`` is called when the program ends by itself. Raises McpServerUnusable if it does not start.
    """
    child = await _started(program, timeouts)
    to_client, from_server = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    to_server, from_client = anyio.create_memory_object_stream[SessionMessage](0)
    log_pump = LogPump(server, child.pid)
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
    inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
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
    """Closes stdin, then sends SIGTERM, then kills the program; on cancellation kills at once."""
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
    log_pump: LogPump,
    on_end: Callable[[], None],
) -> None:
    """Hands on every message; afterwards reads on, since a program with a full pipe could not end."""
    try:
        while line := await stdout.readline():
            message = _message(line, log_pump)
            if message is not None:
                await to_client.send(message)
    except ValueError:
        log_pump.tell(b"(a line of more than %d bytes)" % LINE_BYTES)
    except (anyio.ClosedResourceError, anyio.BrokenResourceError):
        pass  # the client has left
    except ConnectionError:
        pass  # equals the end of the program
    to_client.close()
    on_end()
    while await stdout.read(_CHUNK_BYTES):
        pass


def _message(line: bytes, log_pump: LogPump) -> SessionMessage | None:
    """Returns the line's message, or None: programs print other lines as well, though they should not."""
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
            return  # the program has stopped reading: `_watch` and `_read` notice its end


async def _watch(
    child: Child, to_client: MemoryObjectSendStream[SessionMessage | Exception], on_end: Callable[[], None]
) -> None:
    """Ends the connection with the program, even if a child process keeps its stdout open."""
    await child.ended.wait()
    await anyio.sleep(LAST_WORDS_SECONDS)
    to_client.close()
    on_end()


class LogPump:
    """Logs a program's output beside its messages at debug level, limited in length and rate."""

    def __init__(self, server: McpServer, pid: int, now: Callable[[], float] = time.monotonic) -> None:
        self._server = server.name
        self._redactor = Redactor(server.secrets)
        self._pid = pid
        self._now = now
        self._until = 0.0
        self._left = 0
        self._untold = 0

    async def follow(self, stream: asyncio.StreamReader) -> None:
        """Reads a stream to its end, also beyond the limits: its writer must not block."""
        rest = b""
        while chunk := await stream.read(_CHUNK_BYTES):
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[:LOGGED_LINE_BYTES]
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
            "An MCP server says something.",
            action="mcp_said",
            server=self._server,
            pid=self._pid,
            said=self._redactor.text(line[:LOGGED_LINE_BYTES].decode(errors="replace")),
            **({"untold_lines": untold} if untold else {}),
        )

    def _may_tell(self) -> bool:
        if self._now() >= self._until:
            self._until = self._now() + 60.0
            self._left = LOGGED_LINES_PER_MINUTE
        self._left -= 1
        return self._left >= 0
