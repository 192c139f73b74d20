"""Unmodified Bolt apps against the twin: over Socket Mode and over signed HTTP."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
import uvicorn
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.adapter.starlette.async_handler import AsyncSlackRequestHandler
from slack_bolt.async_app import AsyncApp
from slack_twin.server import listen
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.world import APP_TOKEN, PATIENCE_SECONDS, World

pytestmark = pytest.mark.req("TWIN-01")


def answering_app(world: World, **options: Any) -> AsyncApp:
    """Returns an app that answers every mention in its thread."""
    app = AsyncApp(client=world.client(), process_before_response=True, **options)

    async def answer(event: dict[str, Any], say: Any) -> None:
        await say(text=f"Hello <@{event['user']}>", thread_ts=event["ts"])

    async def listen(event: dict[str, Any]) -> None:
        """Acknowledges plain messages."""

    app.event("app_mention")(answer)
    app.event("message")(listen)
    return app


@contextlib.asynccontextmanager
async def connected(app: AsyncApp) -> AsyncIterator[AsyncSocketModeHandler]:
    handler = AsyncSocketModeHandler(app, APP_TOKEN)
    await handler.connect_async()  # type: ignore[no-untyped-call]
    try:
        yield handler
    finally:
        await handler.close_async()  # type: ignore[no-untyped-call]


async def answered(world: World, ts: str) -> list[dict[str, Any]]:
    """Returns the thread after an answer and the acknowledgement of all its events."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(thread := await world.seen(thread_ts=ts)) < 2 or not all(
            entry["acked"] for entry in await world.deliveries()
        ):
            await asyncio.sleep(0)
    return thread


async def test_a_bolt_app_answers_over_socket_mode(world: World) -> None:
    async with connected(answering_app(world)):
        thread = await answered(world, await world.say("alice", "@swarm hello"))
    assert [(message["author"], message["text"]) for message in thread] == [
        ("alice", "@swarm hello"),
        ("swarm", "Hello @alice"),
    ]


async def test_a_bolt_app_that_is_asked_to_reconnect_goes_on_answering(world: World) -> None:
    async with connected(answering_app(world)) as handler:
        first = await handler.client.session_id()
        await world.ask("POST", "faults", {"kind": "close_socket", "error": "refresh_requested"})
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await handler.client.session_id() == first or not await handler.client.is_connected():
                await asyncio.sleep(0)
        thread = await answered(world, await world.say("bob", "@swarm again"))
    assert thread[1]["text"] == "Hello @bob"


async def test_a_bolt_app_that_raises_gets_the_event_again(world: World) -> None:
    app = AsyncApp(client=world.client(), process_before_response=True)
    attempts: asyncio.Queue[int] = asyncio.Queue()
    counter = itertools.count()

    async def fail_once(event: dict[str, Any]) -> None:
        attempts.put_nowait(attempt := next(counter))
        if attempt == 0:
            raise RuntimeError("not yet")

    app.event("message")(fail_once)
    async with connected(app), asyncio.timeout(PATIENCE_SECONDS):
        await world.say("alice", "hello")
        await attempts.get()
        await world.advance(3)
        await attempts.get()
        while not (await world.deliveries())[-1]["acked"]:
            await asyncio.sleep(0)
    assert [entry["acked"] for entry in await world.deliveries()] == [False, True]


async def test_a_bolt_app_answers_over_signed_http(world: World) -> None:
    bolt = AsyncSlackRequestHandler(answering_app(world, signing_secret="s3cret"))

    async def events(request: Request) -> Response:
        return await bolt.handle(request)

    listening = listen("127.0.0.1", 0)
    web = Starlette(routes=[Route("/slack/events", events, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(web, log_config=None, lifespan="off"))
    serving = asyncio.create_task(server._serve(sockets=[listening]))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/slack/events"
    app = {"name": "swarm", "signing_secret": "s3cret", "request_url": url}
    await world.ask("POST", "seed", {"apps": [app]})
    thread = await answered(world, await world.say("carol", "@swarm hello"))
    assert thread[1]["text"] == "Hello @carol"
    async with aiohttp.ClientSession() as http, http.post(url, data=b"{}") as forged:
        assert forged.status == 401
    server.should_exit = True
    await serving
    listening.close()
