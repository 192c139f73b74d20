"""The HTTP API and the MCP server on a free port, in the loop of the test, with real clients for both."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import httpx2
import uvicorn
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult
from starlette.types import ASGIApp

from swarm.domain.model.agents import Role
from swarm.domain.troubles import SlackTrouble
from swarm.entrypoints.http.agents_api import Warnings, no_warnings
from swarm.entrypoints.http.http_api import create_app
from swarm.entrypoints.http.operator_api import Reload
from swarm.entrypoints.mcp.mcp_server import McpEntryPoint
from swarm.entrypoints.web.identity import Identities
from swarm.entrypoints.web.server import DEFAULT_LIMITS, Config, ConnectionLimits
from swarm.store.agents import AGENTS
from swarm.store.bridge.wakeups import Wakeups
from tests.support.http import client as http_client
from tests.support.world import World

PATIENCE_SECONDS = 20.0
OPERATOR_TOKEN = "operator-of-the-tests"
ENROLMENT_KEY = "enrolment-of-the-tests"

Mode = Literal["auto", "legacy"]


class WatchedWakeups(Wakeups):
    """Tells a test when somebody has begun to wait, and when nobody does any more."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0
        self._changed = asyncio.Condition()

    async def wait(
        self, topic: str, seen: int, timeout_seconds: float, waiter: asyncio.Future[None] | None = None
    ) -> bool:
        if topic == AGENTS:  # where tokens are looked after, always
            return await super().wait(topic, seen, timeout_seconds)
        await self._count(1)
        try:
            return await super().wait(topic, seen, timeout_seconds, waiter)
        finally:
            await self._count(-1)

    async def until(self, count: int) -> None:
        """Returns when so many wait."""
        async with asyncio.timeout(PATIENCE_SECONDS), self._changed:
            await self._changed.wait_for(lambda: self.count == count)

    async def _count(self, by: int) -> None:
        self.count += by
        async with self._changed:
            self._changed.notify_all()


@dataclass
class Visitor:
    """A client with a token."""

    base: str
    token: str
    http: httpx2.AsyncClient
    id: str = ""
    name: str = ""

    async def ask(self, method: str, path: str, **request: Any) -> httpx2.Response:
        headers = {"Authorization": f"Bearer {self.token}", **request.pop("headers", {})}
        return await self.http.request(method, self.base + path, headers=headers, **request)

    async def get(self, path: str) -> Any:
        """A read that must succeed."""
        answer = await self.ask("GET", path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    async def post(self, path: str, body: object = None) -> Any:
        """A call that must succeed."""
        answer = await self.ask("POST", path, json=body)
        assert answer.is_success, answer.text
        return answer.json()

    async def poll(self, **query: object) -> list[dict[str, Any]]:
        parts = "&".join(f"{name}={value}" for name, value in {"wait_seconds": 0, **query}.items())
        return list((await self.get(f"/poll?{parts}"))["triggers"])

    async def only(self, **query: object) -> dict[str, Any]:
        """The one trigger that there is."""
        (trigger,) = await self.poll(**query)
        return trigger

    @contextlib.asynccontextmanager
    async def mcp(self, mode: Mode = "auto", lease: str | None = None) -> AsyncIterator[Client]:
        headers = {"Authorization": f"Bearer {self.token}"} | ({"X-Swarm-Lease": lease} if lease else {})
        async with (
            http_client(headers=headers, timeout=PATIENCE_SECONDS) as http,
            Client(streamable_http_client(f"{self.base}/mcp", http_client=http), mode=mode) as client,
        ):
            yield client

    async def tool(self, name: str, /, lease: str | None = None, **arguments: object) -> CallToolResult:
        async with self.mcp(lease=lease) as client:
            return await client.call_tool(name, arguments)

    async def uses(self, name: str, /, lease: str | None = None, **arguments: object) -> dict[str, Any]:
        """A tool call that must succeed."""
        result = await self.tool(name, lease, **arguments)
        assert not result.is_error, result.content
        return structured(result)


@dataclass
class Doors:
    """A coordinator that serves, and ways in."""

    world: World
    wakeups: WatchedWakeups
    base: str
    http: httpx2.AsyncClient
    ready: dict[str, bool]
    troubles: list[SlackTrouble]
    operator: Visitor = field(init=False)

    def __post_init__(self) -> None:
        self.operator = self.visitor(OPERATOR_TOKEN)

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.base.removeprefix("http://").partition(":")
        return host, int(port)

    def visitor(self, token: str) -> Visitor:
        return Visitor(base=self.base, token=token, http=self.http)

    async def lead(self, name: str = "lea") -> Visitor:
        return await self._agent(name, Role.LEAD)

    async def worker(self, name: str = "wim") -> Visitor:
        return await self._agent(name, Role.WORKER)

    async def _agent(self, name: str, role: Role) -> Visitor:
        registered = await self.world.services.agents.register(name, role)
        await self.world.is_here(registered.agent)
        return Visitor(
            base=self.base, token=registered.token, http=self.http, id=registered.agent.id, name=registered.agent.name
        )

    async def everything(self) -> list[Any]:
        """All rows that tell what is so, to see that a call changed nothing."""
        tables = (
            "agents",
            "agent_tokens",
            "threads",
            "inbox_messages",
            "leases",
            "notices",
            "deliveries",
            "idempotency_keys",
        )
        return [await self.world.rows(f"SELECT * FROM {table}") for table in tables]


class _Server(uvicorn.Server):
    """Leaves the signals of the test run alone, tells when it serves, and stops at once."""

    serves: asyncio.Event
    stopped: asyncio.Event

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.serves.set()

    async def main_loop(self) -> None:
        await self.stopped.wait()


@contextlib.asynccontextmanager
async def serving(app: ASGIApp, limits: ConnectionLimits = DEFAULT_LIMITS) -> AsyncIterator[str]:
    """An application on a free port; its address."""
    # The protocol is named, since asyncio switches Nagle's algorithm off only for sockets that name it.
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.bind(("127.0.0.1", 0))
        server = _Server(Config(app, limits=limits, timeout_graceful_shutdown=2))
        server.serves, server.stopped = asyncio.Event(), asyncio.Event()
        task = asyncio.create_task(server.serve([listener]))
        await asyncio.wait_for(server.serves.wait(), PATIENCE_SECONDS)
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.stopped.set()
            await task


@contextlib.asynccontextmanager
async def open_doors(
    world: World, wakeups: WatchedWakeups, reload: Reload | None = None, warnings: Warnings = no_warnings
) -> AsyncIterator[Doors]:
    """A world with its doors open."""
    ready, troubles = {"slack": True}, list[SlackTrouble]()
    identities = Identities(world.services.agents, OPERATOR_TOKEN, ENROLMENT_KEY)
    mcp = McpEntryPoint(world.services, identities)
    app = create_app(
        world.services,
        identities,
        lambda: ready,
        routes=mcp.routes(),
        running=[mcp.running],
        reload=reload,
        warnings=warnings,
        troubles=lambda: troubles,
    )
    async with serving(app) as base, http_client(timeout=PATIENCE_SECONDS * 2) as http:
        yield Doors(world=world, wakeups=wakeups, base=base, http=http, ready=ready, troubles=troubles)
        wakeups.close()  # as at every shutdown: those who wait are answered first


def structured(result: CallToolResult) -> dict[str, Any]:
    """The data of a tool's result."""
    assert isinstance(result.structured_content, dict)
    return result.structured_content


def error_of(result: CallToolResult) -> dict[str, Any]:
    """The error of a tool call that failed; its text says the same."""
    assert result.is_error
    assert result.meta is not None
    error: dict[str, Any] = result.meta["swarm/error"]
    assert error["message"] in str(result.content[0])
    return error
