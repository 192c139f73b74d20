"""A Slack that does nothing but send events and take the time: every call is answered at once, nothing is kept."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import orjson
from aiohttp import WSMsgType, web

from swarm.bench.figures import BenchError

BOT_USER: Final = "U0BENCHBOT"
CHANNELS: Final = tuple(f"C0BENCH{number:02}" for number in range(8))
"""So few that Slack tells their names at once; a claim in a channel without a known name waits for it."""

_TEAM: Final = "T0BENCH"
_ACK_SECONDS: Final = 30.0
_CONNECT_SECONDS: Final = 30.0
_FIRST_TS: Final = 1_763_700_000


class BenchSlack:
    """Slack's Web API and Socket Mode, as far as a coordinator needs them to take events in."""

    def __init__(self) -> None:
        self.base_url = ""
        self._numbers = itertools.count(1)
        self._unacknowledged: dict[str, asyncio.Future[None]] = {}
        self._socket: web.WebSocketResponse | None = None
        self._connected = asyncio.Event()

    async def connected(self) -> None:
        """Wait until a coordinator listens. Raises BenchError after half a minute."""
        try:
            await asyncio.wait_for(self._connected.wait(), _CONNECT_SECONDS)
        except TimeoutError as error:
            raise BenchError("the coordinator did not connect over Socket Mode") from error

    async def send(self, text: str) -> float:
        """Send a message as a person's, in a thread of its own; seconds until its acknowledgement."""
        if self._socket is None or self._socket.closed:
            raise BenchError("the coordinator has left Socket Mode")
        number = next(self._numbers)
        envelope_id = f"envelope-{number}"
        acknowledged = self._unacknowledged[envelope_id] = asyncio.get_running_loop().create_future()
        envelope = orjson.dumps(_envelope(envelope_id, number, text)).decode()
        begun = time.perf_counter()
        await self._socket.send_str(envelope)
        try:
            async with asyncio.timeout(_ACK_SECONDS):
                await acknowledged
        except TimeoutError as error:
            raise BenchError(f"an event was not acknowledged within {_ACK_SECONDS:.0f} s") from error
        return time.perf_counter() - begun

    async def send_many(self, texts: list[str], in_flight: int) -> None:
        """Send messages with at most ``in_flight`` of them unacknowledged; returns when all are acknowledged."""
        left = iter(texts)

        async def sender() -> None:
            for text in left:
                await self.send(text)

        await asyncio.gather(*(sender() for _ in range(in_flight)))

    async def serve_socket(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(autoping=True)
        await socket.prepare(request)
        await socket.send_json({"type": "hello", "num_connections": 1, "connection_info": {"app_id": "A0BENCH"}})
        self._socket = socket
        self._connected.set()
        async for message in socket:
            if message.type is WSMsgType.TEXT:
                self._acknowledge(message.data)
        return socket

    def _acknowledge(self, said: str) -> None:
        """Note an acknowledgement; other text is the client's own ping."""
        if said.startswith("{"):
            waiting = self._unacknowledged.pop(orjson.loads(said)["envelope_id"], None)
            if waiting and not waiting.done():
                waiting.set_result(None)

    async def answer(self, request: web.Request) -> web.Response:
        method = request.match_info["method"]
        return web.json_response({"ok": True, **self._content(method)})

    def _content(self, method: str) -> dict[str, object]:
        match method:
            case "auth.test":
                me = {"user_id": BOT_USER, "bot_id": "B0BENCH", "user": "swarm", "team": "bench", "team_id": _TEAM}
                return {**me, "url": "https://bench.slack.example/"}
            case "apps.connections.open":
                return {"url": self.base_url.replace("http://", "ws://") + "/socket"}
            case "users.info":
                return {"user": {"id": "U0BENCH", "name": "ann", "real_name": "Ann", "profile": {}}}
            case "conversations.info":
                return {"channel": {"id": CHANNELS[0], "name": "bench"}}
            case _:
                return {"ts": _ts(next(self._numbers)), "channel": CHANNELS[0], "messages": [], "has_more": False}


@asynccontextmanager
async def bench_slack() -> AsyncIterator[BenchSlack]:
    """Serve it on a free port of this machine."""
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
