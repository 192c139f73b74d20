"""The same conversation with every kind of Bolt app: sync and async, over each transport.

The app receives an event, acknowledges it and answers in its thread; it then streams and uploads a file with its own
client.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
import uvicorn
from slack_bolt import App
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler as AiohttpHandler
from slack_bolt.adapter.socket_mode.websockets import AsyncSocketModeHandler as WebsocketsHandler
from slack_bolt.adapter.starlette.async_handler import AsyncSlackRequestHandler
from slack_bolt.adapter.starlette.handler import SlackRequestHandler
from slack_bolt.app.async_app import AsyncApp
from slack_twin.server import listen
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.world import APP_TOKEN, PATIENCE_SECONDS, World, connected_with_threads

pytestmark = pytest.mark.req("TWIN-01", "TWIN-02")
SECRET = "s3cret"
RECIPIENT = {"recipient_team_id": "T0TWIN"}


def sync_app(world: World) -> App:
    """Returns an app that calls the twin during its creation, so it must be created in a separate thread."""
    app = App(client=world.sync_client(), signing_secret=SECRET, process_before_response=True)

    def answer(event: dict[str, Any], client: Any) -> None:
        place = {"channel": event["channel"], "thread_ts": event["ts"]}
        stream = client.chat_stream(**place, **RECIPIENT, recipient_user_id=event["user"])
        stream.append(markdown_text=f"Hello <@{event['user']}>")
        stream.stop()
        client.files_upload_v2(channel=event["channel"], thread_ts=event["ts"], filename="a.txt", content="text")

    app.event("app_mention")(answer)
    app.event("message")(lambda: None)
    return app


def async_app(world: World) -> AsyncApp:
    app = AsyncApp(client=world.client(), signing_secret=SECRET, process_before_response=True)

    async def answer(event: dict[str, Any], client: Any) -> None:
        place = {"channel": event["channel"], "thread_ts": event["ts"]}
        stream = await client.chat_stream(**place, **RECIPIENT, recipient_user_id=event["user"])
        await stream.append(markdown_text=f"Hello <@{event['user']}>")
        await stream.stop()
        await client.files_upload_v2(channel=event["channel"], thread_ts=event["ts"], filename="a.txt", content="text")

    async def listen_only() -> None:
        """Acknowledges plain messages."""

    app.event("app_mention")(answer)
    app.event("message")(listen_only)
    return app


@contextlib.asynccontextmanager
async def over_async_socket(world: World, handler_class: Any) -> AsyncIterator[None]:
    handler = handler_class(async_app(world), APP_TOKEN)
    await handler.connect_async()
    try:
        yield
    finally:
        await handler.close_async()


@contextlib.asynccontextmanager
async def over_http(world: World, handle: Callable[[Request], Awaitable[Response]]) -> AsyncIterator[None]:
    """Serves the app's request URL, and sets it in the twin."""
    listening = listen("127.0.0.1", 0)
    web = Starlette(routes=[Route("/slack/events", handle, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(web, log_config=None, lifespan="off"))
    serving = asyncio.create_task(server._serve(sockets=[listening]))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/slack/events"
    await world.ask("POST", "seed", {"apps": [{"name": "swarm", "signing_secret": SECRET, "request_url": url}]})
    try:
        yield
    finally:
        server.should_exit = True
        await serving
        listening.close()


@contextlib.asynccontextmanager
async def over_sync_http(world: World) -> AsyncIterator[None]:
    app = await asyncio.to_thread(sync_app, world)
    bolt = SlackRequestHandler(app)

    async def handle(request: Request) -> Response:
        """Runs the sync app in a thread, because it blocks while it calls the twin."""
        body = await request.body()
        threaded = Request(request.scope, _replay(body))
        return await asyncio.to_thread(lambda: asyncio.run(bolt.handle(threaded)))

    async with over_http(world, handle):
        yield


def _replay(body: bytes) -> Callable[[], Awaitable[Any]]:
    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


@contextlib.asynccontextmanager
async def over_async_http(world: World) -> AsyncIterator[None]:
    bolt = AsyncSlackRequestHandler(async_app(world))

    async def handle(request: Request) -> Response:
        return await bolt.handle(request)

    async with over_http(world, handle):
        yield


Link = Callable[[World], AbstractAsyncContextManager[None]]
LINKS: dict[str, Link] = {
    "sync app, builtin socket": lambda world: connected_with_threads(lambda: sync_app(world)),
    "async app, aiohttp socket": lambda world: over_async_socket(world, AiohttpHandler),
    "async app, websockets socket": lambda world: over_async_socket(world, WebsocketsHandler),
    "sync app, signed http": over_sync_http,
    "async app, signed http": over_async_http,
}


async def settled(world: World, ts: str) -> list[dict[str, Any]]:
    """Returns the thread with its answer and file, after all events are acknowledged."""
    async with asyncio.timeout(2 * PATIENCE_SECONDS):
        while len(thread := await world.seen(thread_ts=ts)) < 3 or not all(
            entry["acked"] for entry in await world.deliveries()
        ):
            await asyncio.sleep(0)
    return thread


@pytest.mark.parametrize("link", LINKS.values(), ids=LINKS.keys())
async def test_an_event_is_acknowledged_and_answered(world: World, link: Link) -> None:
    async with link(world):
        thread = await settled(world, await world.say("alice", "@swarm hello"))
    assert [(message["author"], message["text"]) for message in thread] == [
        ("alice", "@swarm hello"),
        ("swarm", "Hello @alice"),
        ("swarm", ""),
    ]
    assert (thread[1]["streaming"], thread[2]["files"][0]["name"]) == (False, "a.txt")
    entries = await world.deliveries()
    assert [entry["attempt"] for entry in entries if entry["kind"] != "url_verification"] == [0, 0]
    assert all(entry["acked"] for entry in entries), "Bolt answers the challenge of its request URL"
