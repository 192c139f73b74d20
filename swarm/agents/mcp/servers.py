"""All MCP servers of the built-in agents, and the tools that they may use at this moment."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from swarm.agents.mcp.names import OfferedNames
from swarm.agents.mcp.server import USUAL_TIMEOUTS, McpServer, ServerStatus, Timeouts
from swarm.agents.toolbox.tool import Tool

if TYPE_CHECKING:
    from swarm.agents.mcp.connection import McpConnection


INSIST_SECONDS: Final = 0.1


class McpServers:
    """Connections to servers, each kept up by itself. `start` once, `aclose` at the end, or ``async with``.

    ``reserved`` are names under which no tool may be offered: those of other tools of the same agents.
    """

    def __init__(
        self, servers: Iterable[McpServer], *, timeouts: Timeouts = USUAL_TIMEOUTS, reserved: Collection[str] = ()
    ) -> None:
        self._servers = tuple(servers)
        self._timeouts = timeouts
        self._names = OfferedNames(self._servers, reserved)
        self._connections: tuple[McpConnection, ...] = ()
        self._owners: Sequence[asyncio.Task[None]] = ()

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.aclose()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def start(self) -> None:
        """Begin to connect to all servers; returns when each is reached or is not, or after a few seconds.

        A server that is down stops nothing: its tools are offered when it comes.
        """
        from swarm.agents.mcp.connection import McpConnection  # takes half a second to load, and is not always needed

        self._connections = self._connections or tuple(
            McpConnection(server, self._timeouts) for server in self._servers
        )
        self._owners = [connection.begin() for connection in self._connections]
        if self._connections:
            settled = [asyncio.ensure_future(connection.settled.wait()) for connection in self._connections]
            try:
                await asyncio.wait(settled, timeout=self._timeouts.start_seconds)
            finally:
                for waiting in settled:
                    waiting.cancel()

    async def aclose(self) -> None:
        """Leave all servers at once, and end their programs with all that these have started. Calls break off.

        If this is cancelled, it stops asking programs to end, and kills them.
        """
        for connection in self._connections:
            connection.leave()
        await _ended(self._owners)

    def tools(self) -> tuple[Tool, ...]:
        """The tools that are allowed and there now, in the order in which they are allowed.

        A call of one that is not there any more, whatever its name may mean by then, is answered with a failure.
        """
        return tuple(tool for connection in self._connections for tool in self._tools(connection))

    def status(self) -> Sequence[ServerStatus]:
        """How each server is, in the order of the configuration."""
        return tuple(connection.status() for connection in self._connections)

    def _tools(self, connection: McpConnection) -> Iterator[Tool]:
        server = connection.server
        for name in server.allowed:
            known = connection.tools.get(name)
            if known is not None:
                yield Tool(
                    name=self._names.of(server.name, name),
                    description=known.description or known.title or "",
                    parameters={"type": "object", **known.input_schema},
                    call=partial(connection.call, name),
                    server=server.name,
                    is_read_only=bool(known.annotations and known.annotations.read_only_hint),
                )


async def _ended(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Wait for the end of tasks that have been asked to end; insist on it if the wait is cancelled."""
    if not tasks:
        return
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        while waiting := [task for task in tasks if not task.done()]:
            for task in waiting:
                task.cancel()  # once to leave what it does, once more to leave no time for farewells
            await asyncio.wait(waiting, timeout=INSIST_SECONDS)
        raise
