"""The connection to one MCP server, which is kept open and reopened when it breaks.

One task owns the connection, because a client must be closed by the task that opened it. Other tasks call tools. A
changed list of tools, the exit of the program and a failed call wake the owner, which reads the list again and thereby
checks the server. Notifications are hints: without any, the owner checks periodically.

A call is never repeated, because an interrupted call may have been executed.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from functools import partial
from importlib.metadata import version
from typing import Any, Final

import anyio
import mcp_types as types
import structlog
from mcp import Client, MCPError
from mcp.client.session import ClientSession
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

from swarm.agents.failures import OUR_FAULT
from swarm.config.mcp_servers import McpServer, Program
from swarm_agents.mcp.calls import McpServerUnusable, busy, call, leaves, reason, unavailable
from swarm_agents.mcp.elicitation import ServerQuestions, form_only
from swarm_agents.mcp.listed import digest, sound, why_unusable
from swarm_agents.mcp.status import ServerStatus, Timeouts
from swarm_agents.mcp.transports import Refusals, over_http, over_stdio
from swarm_agents.toolbox.people import AskPeople
from swarm_agents.toolbox.tool import ToolAnswer
from swarm_base.processes.background import checked_in_turn

_SETTLE_SECONDS: Final = 0.1
"""Changes of the list within this time are read together."""

_NOT_TRIED: Final = "it has not been reached yet"
_BROKEN: Final = "the connection has broken off"
_CLOSED: Final = "the connection is closed"
_RENEWED: Final = "it is connected anew, because a call that was given up may still ask people"
_MODES: Final = ("auto", "legacy")  # servers that support only "legacy" should answer "auto", but some fail

_MOST_PAGES: Final = 100
_MOST_TOOLS: Final = 10_000
"""A list with more pages, or with another page after so many tools, counts as endless."""

_log = structlog.get_logger(__name__)


class _Client(Client):
    """A client that does not offer to open links, which the library offers together with forms, and that drops odd
    tools from a list, with which the library would refuse the list.
    """

    judge: Callable[[Any, str], Any]  # gets a page of the list and the version of the protocol

    async def _build_session(self, exit_stack: AsyncExitStack) -> ClientSession:
        session = await super()._build_session(exit_stack)
        build, send = session._build_capabilities, session._dispatcher.send_raw_request
        session._build_capabilities = lambda version: form_only(build(version))  # type: ignore[method-assign]

        async def send_and_judge(method: str, *given: Any) -> dict[str, Any]:
            answer = await send(method, *given)
            if method != "tools/list":
                return answer
            return await checked_in_turn(self.judge, answer, session.protocol_version)

        session._dispatcher.send_raw_request = send_and_judge  # type: ignore[method-assign, assignment]
        return session


class McpConnection:
    """The connection to one server. Callers call `begin` once, and `leave` at the end.

    ``ask`` asks people what the server wants to know from them; None: nobody is asked, and the server knows.
    """

    def __init__(self, server: McpServer, timeouts: Timeouts, ask: AskPeople | None = None) -> None:
        self.server = server
        self.settled = asyncio.Event()  # set when the first attempt has succeeded or failed
        self.tools: Mapping[str, types.Tool] = {}  # by name, allowed or not; empty while disconnected
        self._timeouts = timeouts
        self._client: Client | None = None  # None while disconnected
        self._questions = ServerQuestions(server, ask)  # of the current or the last connection
        self._detail = _NOT_TRIED
        self._logged: object = None  # the status of the tools that was last logged
        self._good: dict[str, bytes] = {}  # by the tool's name: a digest of the schema that was found usable
        self._refused: dict[str, bytes] = {}  # by the tool's name: a digest of what the log has refused
        self._odd: dict[str, str] = {}  # why tools of the last list are not offered, by name
        self._mode = 0  # index in `_MODES` of the last mode that worked, or of the next one to try
        self._scope: anyio.CancelScope | None = None  # covers everything that the client opens
        self._closing = asyncio.Event()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> asyncio.Task[None]:
        """Starts to connect. Returns the owner task, which ends when everything is closed."""
        self._task = self._task or asyncio.create_task(self._keep(), name=f"mcp server {self.server.name}")
        return self._task

    def leave(self) -> None:
        """Starts to disconnect from the server and to terminate its program, without delay; this takes a few seconds at
        most.
        """
        self._closing.set()
        self._wake.set()
        if self._scope:  # the current step may continue briefly; an attempt to connect is aborted
            is_away = self._client is None
            self._scope.deadline = anyio.current_time() + (0 if is_away else self._timeouts.close_seconds)

    def status(self) -> ServerStatus:
        """Returns the current status."""
        allowed = tuple(name for name in self.server.allowed if name in self.tools)
        others = tuple(name for name in self.tools if name not in self.server.allowed)
        is_up = self._client is not None
        return ServerStatus(
            name=self.server.name,
            is_up=is_up,
            detail="" if is_up else self._detail,
            allowed=allowed,
            others=others,
            refused=dict(self._odd) if is_up else {},
        )

    async def call(self, tool: str, arguments: Mapping[str, Any], *, offered: str = "") -> ToolAnswer:
        """Calls a tool once if it is currently allowed and available. Raises only CancelledError.

        ``offered`` is the tool's name for people and models, if it is another one.
        """
        client, questions = self._client, self._questions
        if client is None or tool not in self.server.allowed or tool not in self.tools:
            return unavailable(tool, self.server.name)
        try:
            async with questions.call(offered or tool) as one:
                if client is not self._client or questions.is_closing:  # meanwhile, calls have to wait for their turn
                    one.is_answered = True
                    return unavailable(tool, self.server.name)
                answer, is_sound = await call(client, self.server, tool, arguments, questions, one)
        except TimeoutError:
            return busy(tool, self.server.name)
        if not is_sound:
            self._wake.set()
        return answer

    async def _keep(self) -> None:
        """Connects, and reconnects after each loss with increasing pauses."""
        now = asyncio.get_running_loop().time
        pause_seconds = self._timeouts.first_pause_seconds
        while not self._closing.is_set():
            began = now()
            self._note_down(await self._connect_once())
            self.settled.set()
            if now() - began > self._timeouts.longest_pause_seconds:
                pause_seconds = self._timeouts.first_pause_seconds  # the connection lasted for some time
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), pause_seconds)
            pause_seconds = min(pause_seconds * 2, self._timeouts.longest_pause_seconds)

    async def _connect_once(self) -> str:
        """Connects and stays connected. Returns the reason why the connection ended."""
        refusals = Refusals()
        self._wake.clear()  # set by an earlier connection; from here on every wake-up is handled
        try:
            # This scope encloses everything that the client opens, so it can end any part of it.
            with anyio.CancelScope(deadline=anyio.current_time() + self._timeouts.connect_seconds) as scope:
                self._scope = scope
                questions = self._questions.anew(self._wake.set)
                async with self._open(refusals, questions) as client:
                    tools = await self._read_tools(client)
                    scope.deadline = math.inf
                    try:
                        self._questions = questions
                        self._note_up(client, tools)
                        await self._stay(client)
                    finally:
                        self._client, self.tools, self._detail = None, {}, _BROKEN
                        scope.deadline = anyio.current_time() + self._timeouts.close_seconds
                        await questions.aclose()
                return _RENEWED if questions.is_closing else _CLOSED
        except Exception as error:  # noqa: BLE001 - whatever a server makes the library raise
            return refusals.reason or self._why(error)
        finally:
            self._scope = None
        if self._closing.is_set():
            return _CLOSED
        return f"it did not answer within {self._timeouts.connect_seconds:g} s"

    def _why(self, error: Exception) -> str:
        why = reason(error)
        ids = {"action": "mcp_down", "server": self.server.name}
        if why == OUR_FAULT:
            _log.error("The connection to an MCP server failed.", exc_info=error, **ids)
        else:  # the traceback would show the library's internals, and the error may quote the server
            _log.debug("Details of an unavailable MCP server.", errors=[repr(cause) for cause in leaves(error)], **ids)
        return why

    def _open(self, refusals: Refusals, questions: ServerQuestions) -> Client:
        """Returns a client to open. If one mode fails, the next client tries the other mode."""
        reached = self.server.reached
        mode, self._mode = _MODES[self._mode], (self._mode + 1) % len(_MODES)
        client = _Client(
            over_stdio(self.server, reached, self._timeouts, self._wake.set)
            if isinstance(reached, Program)
            else over_http(reached, refusals),
            mode=mode,
            read_timeout_seconds=self._timeouts.connect_seconds,
            message_handler=self._hear,
            client_info=types.Implementation(name="swarm", version=version("swarm")),
            cache=None,
            elicitation_callback=questions.hear if questions.ask else None,
        )
        client.judge = partial(sound, allowed=self.server.allowed, refuse=self._refuse)
        return client

    async def _stay(self, client: Client) -> None:
        """Maintains a connection until it is closed. Raises the library's error if the connection breaks."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._listen, client)
            while not self._is_leaving:
                with anyio.move_on_after(self._timeouts.refresh_seconds):
                    await self._wake.wait()
                    await anyio.sleep(0 if self._is_leaving else _SETTLE_SECONDS)
                self._wake.clear()
                if not self._is_leaving:
                    with anyio.fail_after(self._timeouts.connect_seconds):
                        self._note_tools(await self._read_tools(client))
            tasks.cancel_scope.cancel()

    @property
    def _is_leaving(self) -> bool:
        return self._closing.is_set() or self._questions.is_closing

    async def _listen(self, client: Client) -> None:
        """Subscribes to changes if the protocol requires this; older versions send them unsolicited, see `_hear`."""
        while True:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    self._wake.set()  # the list may have changed before the subscription
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
        self._mode = (self._mode - 1) % len(_MODES)  # this mode worked
        _log.info("An MCP server is connected.", action="mcp_up", server=self.server.name)
        self._note_tools(tools)
        self.settled.set()

    def _note_down(self, why: str) -> None:
        is_news = why not in (self._detail, _CLOSED)
        self._detail = why
        level = logging.WARNING if is_news else logging.DEBUG
        _log.log(level, "An MCP server is unavailable.", action="mcp_down", server=self.server.name, why=why)

    def _note_tools(self, tools: Mapping[str, types.Tool]) -> None:
        self.tools = tools
        status = self.status()
        missing = (
            []
            if self.server.shares_list
            else [name for name in self.server.allowed if name not in {*tools, *self._odd}]
        )
        if self._logged == (now := (status.allowed, status.others, *status.refused)):
            return
        self._logged = now
        _log.log(
            logging.WARNING if missing or not status.allowed else logging.INFO,
            "The tools of an MCP server: those that may be used, and those that allowedTools does not name.",
            action="mcp_tools",
            server=self.server.name,
            allowed=list(status.allowed),
            not_allowed=list(status.others),
            **({"refused": list(status.refused)} if status.refused else {}),
            **({"allowed_but_missing": missing} if missing else {}),
        )

    async def _read_tools(self, client: Client) -> dict[str, types.Tool]:
        """Reads all tools of the server by name, except the odd ones. If two have the same name, the first is used.

        Raises MCPError, ValidationError or McpServerUnusable.
        """
        tools: dict[str, types.Tool] = {}
        cursor: str | None = None
        self._odd = {}
        for _ in range(_MOST_PAGES):
            page = await _page(client, cursor)
            for tool in page.tools:
                if tool.name in tools:
                    self._refuse(tool.name, "a second tool has this name; the first one counts", tool)
                elif tool.name not in self.server.allowed or await checked_in_turn(self._is_usable, tool):
                    tools[tool.name] = tool
            if page.next_cursor is None:
                return tools
            if len(tools) > _MOST_TOOLS:
                break
            cursor = page.next_cursor
        raise McpServerUnusable("its list of tools is endless")

    def _is_usable(self, tool: types.Tool) -> bool:
        """Whether models can be given a tool. Its schema is judged once."""
        mark = digest(tool.input_schema)
        if self._good.get(tool.name) == mark:
            return True
        if why := why_unusable(tool.input_schema):
            self._refuse(tool.name, why, tool.input_schema)
            return False
        self._good[tool.name] = mark
        return True

    def _refuse(self, tool: str, why: str, listed: object) -> None:
        """Notes why a tool is not offered. Logs it once."""
        self._odd[tool] = why
        mark = digest(listed)
        if self._refused.get(tool) != mark:
            self._refused[tool] = mark
            _log.warning(
                "A tool is not offered, because its server describes it oddly.",
                action="mcp_tool_refused",
                server=self.server.name,
                tool=tool,
                why=why,
            )


async def _page(client: Client, cursor: str | None) -> types.ListToolsResult:
    try:
        return await client.list_tools(cursor=cursor)
    except MCPError as error:
        if error.code == types.METHOD_NOT_FOUND and cursor is None:
            return types.ListToolsResult(tools=[])  # a server may have only resources
        raise
