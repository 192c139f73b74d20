"""Unmodified Bolt apps with buttons, forms, commands and menus: over Socket Mode and signed HTTP, async and sync."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
import uvicorn
from slack_bolt import App
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.adapter.starlette.async_handler import AsyncSlackRequestHandler
from slack_bolt.async_app import AsyncApp
from slack_twin.server import listen
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.acting import actions, button, modal, options, plain, posted, text_input
from tests.world import APP_TOKEN, PATIENCE_SECONDS, World, connected_with_threads

pytestmark = pytest.mark.req("TWIN-01")

FORM = modal(text_input("name"), callback_id="form")
MENU = {"type": "external_select", "action_id": "city", "min_query_length": 0}


def async_app(world: World, **settings: Any) -> AsyncApp:
    """Returns an app with a command that opens a form, a button that answers, and a menu of cities."""
    app = AsyncApp(client=world.client(), **settings)

    @app.command("/swarm")
    async def open_form(ack: Any, body: dict[str, Any], client: Any) -> None:
        await ack("One moment.")
        await client.views_open(trigger_id=body["trigger_id"], view=FORM)

    @app.view("form")
    async def take_form(ack: Any, view: dict[str, Any], client: Any) -> None:
        name = view["state"]["values"]["name"]["text"]["value"]
        if name == "taken":
            await ack(response_action="errors", errors={"name": "That is taken."})
            return
        await ack()
        await client.chat_postMessage(channel=world.general, text=f"Welcome {name}")

    @app.action("go")
    async def answer_press(ack: Any, respond: Any) -> None:
        await ack()
        await respond(text="Pressed.", replace_original=True)

    @app.options("city")
    async def offer(ack: Any, payload: dict[str, Any]) -> None:
        await ack(options=options(f"{payload['value']}ville"))

    @app.action("city")
    async def take_city(ack: Any, respond: Any, action: dict[str, Any]) -> None:
        await ack()
        await respond(text=action["selected_option"]["value"], response_type="in_channel")

    return app


def sync_app(world: World) -> App:
    """Returns the same app with threads."""
    app = App(client=world.sync_client(), token_verification_enabled=False)

    @app.command("/swarm")
    def open_form(ack: Any, body: dict[str, Any], client: Any) -> None:
        ack("One moment.")
        client.views_open(trigger_id=body["trigger_id"], view=FORM)

    @app.view("form")
    def take_form(ack: Any, view: dict[str, Any], client: Any) -> None:
        name = view["state"]["values"]["name"]["text"]["value"]
        if name == "taken":
            ack(response_action="errors", errors={"name": "That is taken."})
            return
        ack()
        client.chat_postMessage(channel=world.general, text=f"Welcome {name}")

    @app.action("go")
    def answer_press(ack: Any, respond: Any) -> None:
        ack()
        respond(text="Pressed.", replace_original=True)

    @app.options("city")
    def offer(ack: Any, payload: dict[str, Any]) -> None:
        ack(options=options(f"{payload['value']}ville"))

    @app.action("city")
    def take_city(ack: Any, respond: Any, action: dict[str, Any]) -> None:
        ack()
        respond(text=action["selected_option"]["value"], response_type="in_channel")

    return app


@contextlib.asynccontextmanager
async def by_socket(world: World) -> AsyncIterator[None]:
    handler = AsyncSocketModeHandler(async_app(world), APP_TOKEN)
    await handler.connect_async()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        await handler.close_async()  # type: ignore[no-untyped-call]


def by_socket_with_threads(world: World) -> AbstractAsyncContextManager[None]:
    return connected_with_threads(lambda: sync_app(world))


@contextlib.asynccontextmanager
async def by_http(world: World) -> AsyncIterator[None]:
    bolt = AsyncSlackRequestHandler(async_app(world, signing_secret="s3cret"))

    async def endpoint(request: Request) -> Response:
        return await bolt.handle(request)

    listening = listen("127.0.0.1", 0)
    web = Starlette(routes=[Route("/slack/events", endpoint, methods=["POST"])])
    server = uvicorn.Server(uvicorn.Config(web, log_config=None, lifespan="off"))
    serving = asyncio.create_task(server._serve(sockets=[listening]))
    url = f"http://127.0.0.1:{listening.getsockname()[1]}/slack/events"
    app = {"name": "swarm", "signing_secret": "s3cret", "request_url": url}
    await world.ask("POST", "seed", {"apps": [app]})
    try:
        yield
    finally:
        server.should_exit = True
        await serving
        listening.close()


Way = Callable[[World], AbstractAsyncContextManager[None]]
WAYS = pytest.mark.parametrize("way", [by_socket, by_socket_with_threads, by_http], ids=lambda way: way.__name__)


async def act(world: World, **body: Any) -> Any:
    return await world.ask("POST", "actions", {"user": "alice", "wait_seconds": 5} | body)


async def said(world: World, text: str) -> None:
    """Waits for a message with `text`."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while text not in [message["text"] for message in await world.seen()]:
            await asyncio.sleep(0)


@WAYS
async def test_a_command_opens_a_form_whose_mistakes_can_be_put_right(world: World, way: Way) -> None:
    async with way(world):
        command = {"user": "alice", "channel": "general", "command": "/swarm", "wait_seconds": 5}
        view = (await world.ask("POST", "commands", command))["view"]
        form = {"view_id": view["id"], "submit": True, "wait_seconds": 0}
        told = await act(world, **form, state={"name": "taken"})
        assert told["errors"] == {"name": "That is taken."}
        assert await act(world, **form, state={"name": "alice"}) == {"ok": True}
        await said(world, "Welcome alice")
    assert [message["text"] for message in await world.seen(user="alice")] == ["Welcome alice", "One moment."]


@WAYS
async def test_a_press_is_answered_by_its_response_url(world: World, way: Way) -> None:
    async with way(world):
        ts = await posted(world, actions(button("go")))
        assert await act(world, channel="general", ts=ts, action_id="go", wait_seconds=0) == {"ok": True}
        await said(world, "Pressed.")


@WAYS
async def test_a_menu_is_filled_by_the_app_and_chosen_from(world: World, way: Way) -> None:
    async with way(world):
        ts = await posted(world, actions(MENU))
        asked = {"user": "alice", "channel": "general", "ts": ts, "action_id": "city", "value": "Park"}
        offered = await world.ask("POST", "suggestions", asked)
        assert offered["options"] == [{"text": plain("Parkville"), "value": "Parkville"}]
        place = {"channel": "general", "ts": ts, "action_id": "city", "wait_seconds": 0}
        assert await act(world, **place, value="Parkville") == {"ok": True}
        await said(world, "Parkville")
