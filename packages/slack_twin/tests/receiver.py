"""A small web server for an app that receives deliveries over signed HTTP."""

import asyncio
import hashlib
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

import orjson
from aiohttp import web

from tests.world import PATIENCE_SECONDS, World

SECRET = "s3cret"


@dataclass
class Receiver:
    """Checks signatures, stores deliveries, and answers each with `status` and `answer`."""

    status: int = 200
    answer: object = None
    heard: asyncio.Queue[tuple[Any, bytes]] = field(default_factory=asyncio.Queue)

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.read()
        signed = f"v0:{request.headers['X-Slack-Request-Timestamp']}:".encode() + body
        digest = hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
        assert request.headers["X-Slack-Signature"] == f"v0={digest}"
        if b'"url_verification"' in body:
            return web.json_response({"challenge": orjson.loads(body)["challenge"]})
        self.heard.put_nowait((request.headers, body))
        if isinstance(self.answer, str):
            return web.Response(text=self.answer, status=self.status)
        said = b"" if self.answer is None else orjson.dumps(self.answer)
        return web.Response(body=said, status=self.status, content_type="application/json")

    async def next(self) -> tuple[Any, dict[str, str]]:
        """Returns the form fields and the headers of the next delivery."""
        headers, body = await asyncio.wait_for(self.heard.get(), PATIENCE_SECONDS)
        return headers, {name: values[0] for name, values in parse_qs(body.decode(), keep_blank_values=True).items()}


@asynccontextmanager
async def receiving(
    world: World, *, app: str = "swarm", status: int = 200, answer: object = None
) -> AsyncIterator[Receiver]:
    """Delivers to `app` over HTTP while the context lasts."""
    receiver, application = Receiver(status=status, answer=answer), web.Application()
    application.router.add_post("/slack/events", receiver.handle)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/slack/events"
    await world.ask("POST", "seed", {"apps": [{"name": app, "signing_secret": SECRET, "request_url": url}]})
    try:
        yield receiver
    finally:
        await runner.cleanup()
