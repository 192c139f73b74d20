"""The connection to one MCP server: kept up, and made anew when it breaks.

One task owns it: a client has to be left by the task that has entered it. Others call tools beside it. What the owner
has to look at wakes it: a notification that the list of tools has changed, the end of a program, a call that failed.
Each time it reads the list anew, and so sees whether the server is still there. Notifications are hints: without any,
it looks from time to time.

No call is ever repeated: one that broke may have been carried out.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping
from contextlib import suppress
from importlib.metadata import version
from typing import Any, Final

import anyio
import mcp_types as types
import structlog
from mcp import Client, MCPError
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

from swarm.agents.failures import OUR_FAULT
from swarm.agents.mcp.calls import call
from swarm.agents.mcp.failures import leaves, reason, unavailable
from swarm.agents.mcp.server import McpServer, Program, ServerStatus, Timeouts
from swarm.agents.mcp.stdio import over_stdio
from swarm.agents.mcp.streamable import Refusals, over_http
from swarm.agents.mcp.toollist import read_tools
from swarm.agents.toolbox.tool import ToolAnswer

SETTLE_SECONDS: Final = 0.1
"""Changes of a list that come within this time are read together."""

NOT_TRIED: Final = "it has not been reached yet"
BROKEN: Final = "the connection has broken off"
CLOSED: Final = "the connection is closed"

_MODES: Final = ("auto", "legacy")  # servers that know only the latter should answer the former, but some break

_log = structlog.get_logger(__name__)


class McpConnection:
    """One server. `begin` once, `leave` at the end."""

    def __init__(self, server: McpServer, timeouts: Timeouts) -> None:
        self.server = server
        self.settled = asyncio.Event()  # it was reached, or could not be
        self.tools: Mapping[str, types.Tool] = {}  # by name, those that are not allowed too; empty while it is away
        self._timeouts = timeouts
        self._client: Client | None = None  # None: it is away
        self._detail = NOT_TRIED
        self._said: object = None  # what was last said of its tools
        self._mode = 0  # the one of `_MODES` that worked last, or is to be tried next
        self._scope: anyio.CancelScope | None = None  # round all that the client opens
        self._closing = asyncio.Event()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> asyncio.Task[None]:
        """Start to connect; the task that does, and that has ended when everything is closed."""
        self._task = self._task or asyncio.create_task(self._keep(), name=f"mcp server {self.server.name}")
        return self._task

    def leave(self) -> None:
        """Leave the server, and end its program: begin with it, at once. That takes a few seconds at most."""
        self._closing.set()
        self._wake.set()
        if self._scope:  # whatever it is just doing: not for long, and not to connect
            is_away = self._client is None
            self._scope.deadline = anyio.current_time() + (0 if is_away else self._timeouts.close_seconds)

    def status(self) -> ServerStatus:
        """What is known of it now."""
        allowed = tuple(name for name in self.server.allowed if name in self.tools)
        others = tuple(name for name in self.tools if name not in self.server.allowed)
        is_up = self._client is not None
        return ServerStatus(
            name=self.server.name, is_up=is_up, detail="" if is_up else self._detail, allowed=allowed, others=others
        )

    async def call(self, tool: str, arguments: Mapping[str, Any]) -> ToolAnswer:
        """Call a tool, once, if it is allowed and there at this moment. Raises nothing but CancelledError."""
        client = self._client
        if client is None or tool not in self.server.allowed or tool not in self.tools:
            return unavailable(tool, self.server.name)
        answer, is_sound = await call(client, self.server, tool, arguments)
        if not is_sound:
            self._wake.set()
        return answer

    async def _keep(self) -> None:
        """Connect, and again when the connection is gone, with growing pauses."""
        now = asyncio.get_running_loop().time
        pause_seconds = self._timeouts.first_pause_seconds
        while not self._closing.is_set():
            began = now()
            self._note_down(await self._connect_once())
            self.settled.set()
            if now() - began > self._timeouts.longest_pause_seconds:
                pause_seconds = self._timeouts.first_pause_seconds  # it had been well
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), pause_seconds)
            pause_seconds = min(pause_seconds * 2, self._timeouts.longest_pause_seconds)

    async def _connect_once(self) -> str:
        """Connect and stay until the connection is gone; why it is."""
        refusals = Refusals()
        self._wake.clear()  # of an earlier connection; from here on nothing is forgotten that has not been looked at
        try:
            # Of all that the client opens this scope is the outermost, so it may end any of it.
            with anyio.CancelScope(deadline=anyio.current_time() + self._timeouts.connect_seconds) as scope:
                self._scope = scope
                async with self._open(refusals) as client:
                    tools = await read_tools(client)
                    scope.deadline = math.inf
                    try:
                        self._note_up(client, tools)
                        await self._stay(client)
                    finally:
                        self._client, self.tools, self._detail = None, {}, BROKEN
                        scope.deadline = anyio.current_time() + self._timeouts.close_seconds
                return CLOSED
        except Exception as error:  # noqa: BLE001 - whatever a server makes the library raise
            return refusals.reason or self._why(error)
        finally:
            self._scope = None
        if self._closing.is_set():
            return CLOSED
        return f"it did not answer within {self._timeouts.connect_seconds:g} s"

    def _why(self, error: Exception) -> str:
        why = reason(error)
        ids = {"action": "mcp_down", "server": self.server.name}
        if why == OUR_FAULT:
            _log.error("The connection to an MCP server failed.", exc_info=error, **ids)
        else:  # the traceback would show the library's inside; what it is about may be what a server has sent
            _log.debug("Why an MCP server is away.", errors=[repr(cause) for cause in leaves(error)], **ids)
        return why

    def _open(self, refusals: Refusals) -> Client:
        """A client, to be entered. When one way to begin fails, the next client tries the other."""
        reached = self.server.reached
        mode, self._mode = _MODES[self._mode], (self._mode + 1) % len(_MODES)
        return Client(
            over_stdio(self.server, reached, self._timeouts, self._wake.set)
            if isinstance(reached, Program)
            else over_http(reached, refusals),
            mode=mode,
            read_timeout_seconds=self._timeouts.connect_seconds,
            message_handler=self._hear,
            client_info=types.Implementation(name="swarm", version=version("swarm")),
            cache=None,
        )

    async def _stay(self, client: Client) -> None:
        """Look after a connection until it is to be closed; raises what the library does when it breaks."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen, client)
            while not self._closing.is_set():
                with anyio.move_on_after(self._timeouts.refresh_seconds):
                    await self._wake.wait()
                    await anyio.sleep(0 if self._closing.is_set() else SETTLE_SECONDS)
                self._wake.clear()
                if not self._closing.is_set():
                    self._note_tools(await read_tools(client))
            tasks.cancel_scope.cancel()

    async def _listen(self, client: Client) -> None:
        """Subscribe to changes, where the protocol wants that; before, they came unasked, see `_hear`."""
        while True:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    self._wake.set()  # there may have been one before
                    if not changes.honored.tools_list_changed:
                        return
                    async for _ in changes:
                        self._wake.set()
            except ListenNotSupportedError:
                return
            except (MCPError, SubscriptionLost, TimeoutError):
                self._wake.set()
            await anyio.sleep(self._timeouts.refresh_seconds)

    async def _hear(self, message: object) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._wake.set()

    def _note_up(self, client: Client, tools: Mapping[str, types.Tool]) -> None:
        self._client, self._detail = client, ""
        self._mode = (self._mode - 1) % len(_MODES)  # it worked
        _log.info("An MCP server is there.", action="mcp_up", server=self.server.name)
        self._note_tools(tools)
        self.settled.set()

    def _note_down(self, why: str) -> None:
        is_news = why not in (self._detail, CLOSED)
        self._detail = why
        level = logging.WARNING if is_news else logging.DEBUG
        _log.log(level, "An MCP server is away.", action="mcp_down", server=self.server.name, why=why)

    def _note_tools(self, tools: Mapping[str, types.Tool]) -> None:
        self.tools = tools
        status = self.status()
        missing = [] if self.server.shares_list else [name for name in self.server.allowed if name not in tools]
        if self._said == (said := (status.allowed, status.others)):
            return
        self._said = said
        _log.log(
            logging.WARNING if missing or not status.allowed else logging.INFO,
            "The tools of an MCP server: those that may be used, and those that allowedTools does not name.",
            action="mcp_tools",
            server=self.server.name,
            allowed=list(status.allowed),
            not_allowed=list(status.others),
            **({"allowed_but_missing": missing} if missing else {}),
        )
