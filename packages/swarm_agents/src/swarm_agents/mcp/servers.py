"""All MCP servers of the built-in agents, their available tools, and the names of the tools for models."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from types import TracebackType
from typing import TYPE_CHECKING, Final, Self

from swarm.config.mcp_servers import McpServer
from swarm_agents.mcp.status import USUAL_TIMEOUTS, ServerStatus, Timeouts
from swarm_agents.toolbox.tool import Tool

if TYPE_CHECKING:
    from mcp_types import ToolAnnotations

    from swarm_agents.mcp.connection import McpConnection
    from swarm_agents.toolbox.people import AskPeople

_INSIST_SECONDS: Final = 0.1
_LONGEST_NAME: Final = 64

_VALID: Final = re.compile(rf"[A-Za-z0-9_-]{{1,{_LONGEST_NAME}}}")
_INVALID: Final = re.compile(r"[^A-Za-z0-9_-]+")
_HASH_CHARACTERS: Final = 8


class McpServers:
    """Connections to servers, each maintained independently. Callers call `start` once and `aclose` at the end, or use
    ``async with``.

    ``reserved`` are names that no tool may get, because they belong to other tools of the same agents. ``ask`` asks
    people what servers want to know from them.
    """

    def __init__(
        self,
        servers: Iterable[McpServer],
        *,
        timeouts: Timeouts = USUAL_TIMEOUTS,
        reserved: Collection[str] = (),
        ask: AskPeople | None = None,
    ) -> None:
        self._servers = tuple(servers)
        self._timeouts = timeouts
        self._ask = ask
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
        """Begins to connect to all servers. Returns when each attempt has succeeded or failed, or after a few seconds.

        An unavailable server blocks nothing: its tools are offered once it is available.
        """
        from swarm_agents.mcp.connection import McpConnection  # importing takes half a second, and is not always needed

        self._connections = self._connections or tuple(
            McpConnection(server, self._timeouts, self._ask) for server in self._servers
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
        """Disconnects from all servers at once, and terminates their programs with all child processes. Running calls
        are aborted.

        On cancellation, programs are killed without waiting.
        """
        for connection in self._connections:
            connection.leave()
        await _ended(self._owners)

    def tools(self) -> tuple[Tool, ...]:
        """Returns the tools that are currently allowed and available, in the order of the configuration.

        A call to a tool that has disappeared fails, even if its name then belongs to another tool.
        """
        return tuple(tool for connection in self._connections for tool in self._tools(connection))

    @property
    def allow_any(self) -> bool:
        """Whether a tool is allowed at all, available or not."""
        return any(server.allowed for server in self._servers)

    def status(self) -> Sequence[ServerStatus]:
        """Returns the status of each server, in the order of the configuration."""
        return tuple(connection.status() for connection in self._connections)

    def _tools(self, connection: McpConnection) -> Iterator[Tool]:
        server = connection.server
        for name in server.allowed:
            known = connection.tools.get(name)
            if known is not None:
                offered = self._names.of(server.name, name)
                yield Tool(
                    name=offered,
                    description=known.description or known.title or "",
                    parameters={"type": "object", **known.input_schema},
                    call=partial(connection.call, name, offered=offered),
                    server=server.name,
                    server_name=name,
                    is_read_only=bool(known.annotations and known.annotations.read_only_hint),
                    is_destructive=_is_destructive(known.annotations),
                )


def _is_destructive(hints: ToolAnnotations | None) -> bool:
    """Returns whether the server calls a tool destructive.

    A missing ``destructiveHint`` means true, as in MCP, but only if the server gives other hints about what the tool
    does. A server that gives none, or only a title, says nothing about its tools.
    """
    if hints is None or hints.read_only_hint:
        return False
    if hints.destructive_hint is not None:
        return hints.destructive_hint
    return any(hint is not None for hint in (hints.read_only_hint, hints.idempotent_hint, hints.open_world_hint))


async def _ended(tasks: Sequence[asyncio.Task[None]]) -> None:
    """Waits for tasks that were asked to end; cancels them repeatedly if the wait is cancelled."""
    if not tasks:
        return
    try:
        await asyncio.wait(tasks)
    except asyncio.CancelledError:
        while waiting := [task for task in tasks if not task.done()]:
            for task in waiting:
                task.cancel()  # the first cancellation ends the current step, the second skips the closing time
            await asyncio.wait(waiting, timeout=_INSIST_SECONDS)
        raise


class OfferedNames:
    """The names under which allowed tools are offered. A name is unique and always refers to the same tool.

    A tool keeps its own name if no other server has a tool with this name and models accept it; otherwise it is
    prefixed with the server's name. If allowed tools are listed per server, the names depend on nothing else:
    connecting or disconnecting a server renames no tool of another server. If one list applies to all servers, the
    owner of a tool is not known in advance, and the first server whose tool is requested keeps the tool's own name.
    Names in ``reserved`` are never given.
    """

    def __init__(self, servers: Sequence[McpServer], reserved: Collection[str] = ()) -> None:
        keys = [(server.name, tool) for server in servers if not server.shares_list for tool in server.allowed]
        counts = Counter(tool for _, tool in keys)
        self._names = {key: key[1] for key in keys if counts[key[1]] == 1 and _is_free(key[1], reserved)}
        self._taken = {*reserved, *self._names.values()}
        for key in keys:
            if key not in self._names:
                self._give(key, _free(key, self._taken))

    def of(self, server: str, tool: str) -> str:
        """Returns the name under which a server's tool is offered."""
        key = (server, tool)
        if key not in self._names:
            self._give(key, tool if _is_free(tool, self._taken) else _free(key, self._taken))
        return self._names[key]

    def _give(self, key: tuple[str, str], name: str) -> None:
        self._names[key] = name
        self._taken.add(name)


def _is_free(tool: str, taken: Collection[str]) -> bool:
    return bool(_VALID.fullmatch(tool)) and tool not in taken


def _free(key: tuple[str, str], taken: Collection[str]) -> str:
    """Joins the cleaned names of the server and the tool. If the name is taken, a hash of both makes it unique."""
    plain = "_".join(_INVALID.sub("_", part).strip("_") or "x" for part in key)
    if plain not in taken and len(plain) <= _LONGEST_NAME:
        return plain
    mark = sha256("\0".join(key).encode(errors="surrogatepass")).hexdigest()
    kept = plain[: _LONGEST_NAME - _HASH_CHARACTERS - 1]
    choices = (f"{kept}_{mark[at : at + _HASH_CHARACTERS]}" for at in range(len(mark) - _HASH_CHARACTERS))
    return next(name for name in choices if name not in taken)
