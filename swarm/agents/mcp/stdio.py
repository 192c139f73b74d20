"""A transport of the MCP client over the stdin and stdout of a program: a message a line.

https://modelcontextprotocol.io/specification/2025-11-25/basic/transports#stdio

The client's own transport hands more of our environment on, leaves children alive whose parent ends by itself, takes
lines without an end, and logs whatever is no message, as it is. Hence this one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from subprocess import PIPE
from typing import TYPE_CHECKING, Final

import anyio
import mcp_types as types
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import SessionMessage

from swarm.agents.mcp.failures import McpServerUnusable
from swarm.agents.mcp.log_pump import LogPump
from swarm.agents.mcp.server import McpServer, Program, Timeouts
from swarm.processes.child import Child

if TYPE_CHECKING:
    from mcp.client._transport import TransportStreams

LINE_BYTES: Final = 16 * 1024 * 1024
"""The longest message of a server; one with pictures in it is long."""

LAST_WORDS_SECONDS: Final = 0.2
"""So long what a program has written before its end is still read."""

_CHUNK_BYTES: Final = 64 * 1024
_INHERITED: Final = ("PATH", "HOME")


@asynccontextmanager
async def over_stdio(
    server: McpServer, program: Program, timeouts: Timeouts, on_end: Callable[[], None]
) -> AsyncGenerator[TransportStreams]:
    """The way to a program, which is started when the way is entered, and ended with all its children when it is left.

    ``on_end`` is called when the program ends by itself. Raises Unusable if it does not start.
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
            from_server.close()  # what it says from now on is read, and forgotten
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
    """Ask it to end by closing its stdin, then by SIGTERM; after that, or if this is cancelled, it is killed."""
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
    """Hand on every message; afterwards read on, since a program that nobody reads could not end."""
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
        pass  # as good as its end
    to_client.close()
    on_end()
    while await stdout.read(_CHUNK_BYTES):
        pass


def _message(line: bytes, log_pump: LogPump) -> SessionMessage | None:
    """A message, if the line is one. Programs do print other things, though they should not."""
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
            return  # it does not listen any more: `_watch` and `_read` see its end


async def _watch(
    child: Child, to_client: MemoryObjectSendStream[SessionMessage | Exception], on_end: Callable[[], None]
) -> None:
    """The end of the program ends the connection, even if a child of it keeps its stdout open."""
    await child.ended.wait()
    await anyio.sleep(LAST_WORDS_SECONDS)
    to_client.close()
    on_end()
