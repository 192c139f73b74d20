"""A minimal Slack that sends events and takes the time: every call is answered at once, and nothing is stored."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

import orjson
from aiohttp import WSMsgType, web

from swarm.bench.figures import BenchError

BOT_USER: Final = "U0BENCHBOT"
CHANNELS: Final = tuple(f"C0BENCH{number:02}" for number in range(8))
"""So few that Slack reports their names at once; a claim in a channel without a known name waits for its name."""

_TEAM: Final = "T0BENCH"
_ACK_SECONDS: Final = 30.0
_CONNECT_SECONDS: Final = 30.0
_FIRST_TS: Final = 1_763_700_000


class BenchSlack:
    """The part of Slack's Web API and Socket Mode that a coordinator needs to receive events."""

    def __init__(self) -> None:
        self.base_url = ""
        self.on_post: Callable[[str], None] | None = None  # called with the text of each post
        self._numbers = itertools.count(1)
        self._unacknowledged: dict[str, asyncio.Future[None]] = {}
        self._sockets: list[web.WebSocketResponse] = []
        self._changed = asyncio.Condition()

    @property
    def environment(self) -> dict[str, str]:
        """The settings that connect a coordinator to this Slack."""
        return {
            "SLACK_BOT_TOKEN": "xoxb-bench",
            "SLACK_APP_TOKEN": "xapp-bench",
            "SLACK_API_BASE_URL": f"{self.base_url}/api/",
        }

    async def connected(self, count: int) -> None:
        """Waits until ``count`` coordinators are connected. Raises BenchError after half a minute."""
        try:
            async with asyncio.timeout(_CONNECT_SECONDS), self._changed:
                await self._changed.wait_for(lambda: len(self._sockets) >= count)
        except TimeoutError as error:
            raise BenchError("a coordinator did not connect over Socket Mode") from error

    async def send(self, text: str) -> float:
        """Sends a person's message, in a thread of its own. Returns the seconds until its acknowledgement."""
        number = next(self._numbers)
        envelope_id = f"envelope-{number}"
        acknowledged = self._unacknowledged[envelope_id] = asyncio.get_running_loop().create_future()
        envelope = orjson.dumps(_envelope(envelope_id, number, text)).decode()
        begun = time.perf_counter()
        await self._next_socket(number).send_str(envelope)
        try:
            async with asyncio.timeout(_ACK_SECONDS):
                await acknowledged
        except TimeoutError as error:
            raise BenchError(f"an event was not acknowledged within {_ACK_SECONDS:.0f} s") from error
        return time.perf_counter() - begun

    def _next_socket(self, number: int) -> web.WebSocketResponse:
        """Returns the connections in turn."""
        if not self._sockets:
            raise BenchError("the coordinator has left Socket Mode")
        return self._sockets[number % len(self._sockets)]

    async def send_many(self, texts: list[str], in_flight: int) -> None:
        """Sends messages with at most ``in_flight`` of them unacknowledged; returns when all are acknowledged."""
        left = iter(texts)

        async def sender() -> None:
            for text in left:
                await self.send(text)

        await asyncio.gather(*(sender() for _ in range(in_flight)))

    async def serve_socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(autoping=True)
        await socket.prepare(request)
        await socket.send_json({"type": "hello", "num_connections": 1, "connection_info": {"app_id": "A0BENCH"}})
        self._sockets.append(socket)
        async with self._changed:
            self._changed.notify_all()
        try:
            async for message in socket:
                if message.type is WSMsgType.TEXT:
                    self._acknowledge(message.data)
        finally:
            self._sockets.remove(socket)
        return socket

    def _acknowledge(self, said: str) -> None:
        """Notes an acknowledgement; other text is the client's own ping."""
        if said.startswith("{"):
            waiting = self._unacknowledged.pop(orjson.loads(said)["envelope_id"], None)
            if waiting and not waiting.done():
                waiting.set_result(None)

    async def answer(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        if method == "chat.postMessage" and self.on_post:
            self.on_post(str((await request.json(loads=orjson.loads)).get("text", "")))
        return web.json_response({"ok": True, **self._content(method)})

    def _content(self, method: str) -> dict[str, object]:
        match method:
            case "auth.test":
                me = {"user_id": BOT_USER, "bot_id": "B0BENCH", "user": "swarm", "team": "bench", "team_id": _TEAM}
                return {**me, "url": "https://bench.slack.example/"}
            case "apps.connections.open":
                return {"url": self.base_url.replace("http://", "ws://") + "/socket"}
            case "users.info":
                return {"user": {"id": "U0BENCH", "name": "ann", "real_name": "Ann", "team_id": _TEAM, "profile": {}}}
            case "conversations.info":
                return {"channel": {"id": CHANNELS[0], "name": "bench"}}
            case _:
                return {"ts": _ts(next(self._numbers)), "channel": CHANNELS[0], "messages": [], "has_more": False}


@asynccontextmanager
async def bench_slack() -> AsyncIterator[BenchSlack]:
    """Serves a bench Slack on a free port of this machine."""
    slack = BenchSlack()
    app = web.Application()
    app.router.add_route("*", "/api/{method}", slack.answer)
    app.router.add_get("/socket", slack.serve_socket)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        slack.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield slack
    finally:
        await runner.cleanup()


def _envelope(envelope_id: str, number: int, text: str) -> dict[str, object]:
    event = {
        "type": "message",
        "channel": CHANNELS[number % len(CHANNELS)],
        "channel_type": "channel",
        "user": "U0BENCH",
        "text": text,
        "ts": _ts(number),
        "event_ts": _ts(number),
        "client_msg_id": f"00000000-0000-4000-8000-{number:012}",
        "blocks": [],
        "team": _TEAM,
    }
    payload = {
        "token": "unused",
        "team_id": _TEAM,
        "api_app_id": "A0BENCH",
        "type": "event_callback",
        "event_id": f"Ev{number:010}",
        "event_time": _FIRST_TS,
        "authorizations": [{"team_id": _TEAM, "user_id": BOT_USER, "is_bot": True}],
        "event": event,
    }
    return {"type": "events_api", "envelope_id": envelope_id, "accepts_response_payload": False, "payload": payload}


def _ts(number: int) -> str:
    return f"{_FIRST_TS + number // 1_000_000}.{number % 1_000_000:06}"
