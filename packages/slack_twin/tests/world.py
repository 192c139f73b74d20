"""The tests' access to the twin: its control API, the real SDK, and a bare Socket Mode connection."""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import aiohttp
import orjson
from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.client import WebClient
from slack_twin import Twin, build_twin, running
from slack_twin.clock import still_clock
from slack_twin.seed import DEFAULT

PATIENCE_SECONDS = 20.0
BOT_TOKEN, APP_TOKEN = "xoxb-twin-swarm", "xapp-twin-swarm"


@dataclass
class Line:
    """A Socket Mode connection that acknowledges only on request."""

    socket: aiohttp.ClientWebSocketResponse

    async def next(self) -> dict[str, Any]:
        return await asyncio.wait_for(self.socket.receive_json(), PATIENCE_SECONDS)

    async def acknowledge(self, envelope: dict[str, Any], payload: object = None) -> None:
        answer = {"envelope_id": envelope["envelope_id"]} | ({} if payload is None else {"payload": payload})
        await self.socket.send_str(orjson.dumps(answer).decode())

    async def next_acknowledged(self) -> dict[str, Any]:
        envelope = await self.next()
        await self.acknowledge(envelope)
        return envelope


@dataclass
class World:
    """A running twin with methods to act as a person."""

    twin: Twin
    base: str
    http: aiohttp.ClientSession
    general: str = "C0GENERAL"
    lines: list[Line] = field(default_factory=list)

    def client(self, token: str | None = BOT_TOKEN) -> AsyncWebClient:
        return AsyncWebClient(token, base_url=f"{self.base}api/", retry_handlers=[])

    def sync_client(self, token: str | None = BOT_TOKEN) -> WebClient:
        return WebClient(token, base_url=f"{self.base}api/", retry_handlers=[])

    async def control(self, verb: str, path: str, body: object = None) -> tuple[int, Any]:
        async with self.http.request(verb, f"{self.base}twin/{path}", json=body) as answer:
            return answer.status, await answer.json()

    async def ask(self, verb: str, path: str, body: object = None) -> Any:
        """Makes a control call that must succeed."""
        status, answer = await self.control(verb, path, body)
        assert status == 200, answer
        return answer

    async def say(self, user: str, text: str, channel: str = "general", **more: object) -> str:
        answer = await self.ask("POST", "messages", {"user": user, "channel": channel, "text": text, **more})
        return str(answer["ts"])

    async def seen(self, channel: str = "general", **query: str) -> list[dict[str, Any]]:
        parts = "".join(f"&{name}={value}" for name, value in query.items())
        return list((await self.ask("GET", f"messages?channel={channel}{parts}"))["messages"])

    async def raw(self, method: str, *, token: str | None = BOT_TOKEN, **request: Any) -> tuple[int, Any]:
        """Makes a Web API call with raw bytes, without the SDK."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        headers |= request.pop("headers", {})
        async with self.http.post(f"{self.base}api/{method}", headers=headers, **request) as answer:
            return answer.status, await answer.json()

    async def error(self, method: str, **request: Any) -> str:
        status, answer = await self.raw(method, **request)
        assert (status, answer["ok"]) == (200, False), answer
        return str(answer["error"])

    async def line(self, app_token: str = APP_TOKEN) -> Line:
        """Connects, and reads the hello message."""
        opened = await self.client().apps_connections_open(app_token=app_token)
        line = Line(await self.http.ws_connect(opened["url"]))
        assert (await line.next())["type"] == "hello"
        self.lines.append(line)
        return line

    async def advance(self, seconds: float) -> None:
        await self.ask("POST", "clock", {"advance_seconds": seconds})

    async def deliveries(self) -> list[dict[str, Any]]:
        return list((await self.ask("GET", "deliveries"))["deliveries"])


@asynccontextmanager
async def new_world() -> AsyncIterator[World]:
    """Yields a twin on a free port whose clock moves only when advanced. The default seed's app has a command here."""
    seed = replace(DEFAULT, apps=tuple(replace(app, commands=None) for app in DEFAULT.apps))
    twin = build_twin(seed=seed, clock=still_clock())
    async with running(twin) as base, aiohttp.ClientSession() as http:
        world = World(twin=twin, base=base, http=http)
        yield world
        for line in world.lines:
            await line.socket.close()


@asynccontextmanager
async def connected_with_threads(app: Callable[[], App]) -> AsyncIterator[None]:
    """Connect an app by the SDK's built-in client. It is made in a thread, since it may call Slack."""
    handler = await asyncio.to_thread(lambda: SocketModeHandler(app(), APP_TOKEN))
    await asyncio.to_thread(handler.connect)
    try:
        yield
    finally:
        await asyncio.to_thread(close, handler)


def close(handler: SocketModeHandler) -> None:
    """Close a handler for certain.

    ``SocketModeClient.close`` of slack_sdk 3.47 marks the session as terminated and joins the thread that runs it. That
    thread may begin the session once more in between, which takes the mark away, and then neither of them ever ends.
    """
    closing = threading.Thread(target=handler.close)
    closing.start()
    while closing.is_alive():
        handler.client.current_session_state.terminated = True
        closing.join(0.05)
