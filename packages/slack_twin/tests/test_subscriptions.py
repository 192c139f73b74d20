"""The events of an app according to its manifest or its seed, and the verification of its request URL."""

import asyncio
import json
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.app.async_app import AsyncApp
from slack_sdk.web.async_client import AsyncWebClient
from slack_twin import build_twin, running
from slack_twin.clock import still_clock
from slack_twin.manifest import app_of, seed_from_manifests
from slack_twin.server import listen

from tests.world import PATIENCE_SECONDS, World

pytestmark = pytest.mark.req("TWIN-01")

MANIFEST: dict[str, Any] = {
    "display_information": {"name": "Deploy Bot", "description": "Ships things"},
    "features": {
        "bot_user": {"display_name": "Deploy Bot", "always_online": True},
        "slash_commands": [{"command": "/deploy", "description": "Ship it", "usage_hint": "[service]"}],
        "shortcuts": [
            {"name": "Roll back", "type": "global", "callback_id": "roll_back", "description": "Undo"},
            {"name": "File it", "type": "message", "callback_id": "file_it", "description": "Keep"},
        ],
    },
    "oauth_config": {"scopes": {"bot": ["app_mentions:read", "chat:write", "commands", "im:history"]}},
    "settings": {
        "event_subscriptions": {"bot_events": ["app_mention", "message.im"]},
        "interactivity": {"is_enabled": True},
        "socket_mode_enabled": True,
    },
}


async def heard(world: World, token: str, count: int) -> list[str]:
    line = await world.line(token)
    events = [(await line.next_acknowledged())["payload"]["event"] for _ in range(count)]
    return [event.get("channel_type") or event["type"] for event in events]


async def test_an_app_hears_only_what_it_subscribed_to(world: World) -> None:
    apps = [{"name": "picky", "events": ["message.channels", "reaction_added"]}, {"name": "keen"}]
    await world.ask("POST", "seed", {"apps": apps})
    ts = await world.say("alice", "hello @picky and @keen")
    await world.say("alice", "psst", channel="@picky")
    await world.ask("POST", "reactions", {"user": "bob", "channel": "general", "ts": ts, "name": "eyes"})
    await world.say("alice", "done")
    entries = [entry for entry in await world.deliveries() if entry["attempt"] == 0]
    assert [entry["kind"] for entry in entries if entry["app"] == "picky"] == ["message", "reaction_added", "message"]
    assert [entry["kind"] for entry in entries if entry["app"] == "keen"] == [
        *("app_mention", "message", "reaction_added", "message"),
    ]


REFUSED = [
    ({"events": ["message"]}, "'message' is not an event to subscribe to"),
    ({"events": ["message.im"], "scopes": ["chat:write"]}, "the event 'message.im' needs the scope im:history"),
    ({"manifest": {}}, "display_information.name is missing"),
    ({"manifest": {"display_information": {"name": 7}}}, "display_information.name must be a string"),
    ({"manifest": MANIFEST | {"oauth_config": {"scopes": {"bot": ["chat:write"]}}}}, "'app_mention' needs the scope"),
    ({"manifest": MANIFEST | {"features": {"shortcuts": [{"type": "global"}]}}}, "shortcuts[0].callback_id is missing"),
    ({"manifest": MANIFEST | {"settings": {"event_subscriptions": {"bot_events": ["app_mention"]}}}}, "request_url"),
]


@pytest.mark.parametrize(("app", "message"), REFUSED)
async def test_subscriptions_and_manifests_that_slack_would_not_take_are_refused(
    world: World, app: dict[str, Any], message: str
) -> None:
    status, answer = await world.control("POST", "seed", {"apps": [{"name": "x", **app}]})
    assert (status, message in answer["error"]["message"]) == (422, True), answer


def test_a_manifest_names_its_app_its_scopes_and_what_people_can_do() -> None:
    app = app_of(MANIFEST)
    assert (app.name, app.display_name, app.bot_token) == ("deploy_bot", "Deploy Bot", "xoxb-twin-deploy_bot")
    assert (app.scopes, app.events) == (
        ("app_mentions:read", "chat:write", "commands", "im:history"),
        ("app_mention", "message.im"),
    )
    assert [(one.name, one.usage_hint) for one in app.commands or ()] == [("/deploy", "[service]")]
    assert [one.callback_id for one in app.shortcuts or () if one.is_global] == ["roll_back"]
    assert [one.callback_id for one in app.shortcuts or () if not one.is_global] == ["file_it"]
    assert app.request_url is None


def test_a_manifest_over_http_names_an_address_for_each_thing() -> None:
    http = {
        "event_subscriptions": {"bot_events": ["app_mention"], "request_url": "http://a.test/events"},
        "interactivity": {"is_enabled": True, "request_url": "http://a.test/acts"},
    }
    features = {"slash_commands": [{"command": "/deploy", "url": "http://a.test/deploy"}]}
    app = app_of(MANIFEST | {"settings": http, "features": features})
    assert (app.request_url, app.interactivity_url) == ("http://a.test/events", "http://a.test/acts")
    assert [one.url for one in app.commands or ()] == ["http://a.test/deploy"]


async def test_a_bolt_app_runs_in_a_workspace_made_of_its_manifest(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps(MANIFEST), encoding="utf-8")
    twin = build_twin(seed=seed_from_manifests([path]), clock=still_clock())
    async with running(twin) as base, aiohttp.ClientSession() as http:
        world = World(twin=twin, base=base, http=http)
        told: asyncio.Queue[str] = asyncio.Queue()
        app = AsyncApp(client=AsyncWebClient("xoxb-twin-deploy_bot", base_url=f"{base}api/", retry_handlers=[]))

        @app.event("app_mention")
        async def mentioned(event: dict[str, Any]) -> None:
            told.put_nowait(event["text"])

        handler = AsyncSocketModeHandler(app, "xapp-twin-deploy_bot")
        await handler.connect_async()  # type: ignore[no-untyped-call]
        await world.say("alice", "not for you")
        await world.say("alice", "@deploy_bot ship it")
        assert "ship it" in await asyncio.wait_for(told.get(), PATIENCE_SECONDS)
        await handler.close_async()  # type: ignore[no-untyped-call]
        assert [entry["kind"] for entry in await world.deliveries()] == ["app_mention"]
        wrong = {"user": "alice", "app": "deploy_bot", "callback_id": "file_it"}
        assert (await world.control("POST", "shortcuts", wrong))[0] == 404


def test_a_manifest_that_makes_no_sense_is_named(tmp_path: Path) -> None:
    path = tmp_path / "manifest.json"
    path.write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"manifest\.json: "):
        seed_from_manifests([path])


async def verified(world: World) -> list[tuple[bool, str | None]]:
    """Returns the results of all challenges, once there is one and none is pending."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            tried = [entry for entry in await world.deliveries() if entry["kind"] == "url_verification"]
            if tried and all(entry["acked"] or entry["error"] for entry in tried):
                return [(entry["acked"], entry["error"]) for entry in tried]


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        (lambda challenge: web.json_response({"challenge": challenge}), (True, None)),
        (lambda challenge: web.Response(text=challenge), (True, None)),
        (lambda challenge: web.Response(text=f"challenge={challenge}"), (True, None)),
        (lambda challenge: web.Response(text="ok"), (False, "wrong_challenge")),
        (lambda challenge: web.Response(status=404), (False, "http_404")),
    ],
)
async def test_a_request_url_is_challenged_when_it_is_set(
    world: World, answer: Any, outcome: tuple[bool, str | None]
) -> None:
    async def handle(request: web.Request) -> Any:
        body = await request.json()
        return answer(body["challenge"]) if body["type"] == "url_verification" else web.Response()

    application = web.Application()
    application.router.add_post("/", handle)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
    await world.ask("POST", "seed", {"apps": [{"name": "swarm", "request_url": url}]})
    assert await verified(world) == [outcome]
    await world.say("alice", "events come all the same")
    assert await verified(world) == [outcome]
    await runner.cleanup()


async def test_where_nobody_answered_the_challenge_comes_again_before_the_next_event(world: World) -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
    url = f"http://127.0.0.1:{port}/"
    await world.ask("POST", "seed", {"apps": [{"name": "swarm", "request_url": url}]})
    assert await verified(world) == [(False, "connection_failed")]
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def handle(request: web.Request) -> web.Response:
        body = await request.json()
        heard.put_nowait(body["type"])
        return web.json_response({"challenge": body.get("challenge")})

    application = web.Application()
    application.router.add_post("/", handle)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", port).start()
    await world.say("alice", "there you are")
    told = [await asyncio.wait_for(heard.get(), PATIENCE_SECONDS) for _ in range(2)]
    assert told == ["url_verification", "event_callback"]
    assert (await verified(world))[-1] == (True, None)
    await runner.cleanup()


async def test_events_commands_acts_and_options_go_each_to_its_own_address(world: World) -> None:
    heard: asyncio.Queue[str] = asyncio.Queue()

    async def handle(request: web.Request) -> web.Response:
        body = await request.read()
        if b'"url_verification"' not in body:
            heard.put_nowait(request.path)
        return web.Response()

    application = web.Application()
    application.router.add_post("/{what}", handle)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    base = f"http://127.0.0.1:{runner.addresses[0][1]}"
    settings = {
        "event_subscriptions": {"bot_events": ["app_mention"], "request_url": f"{base}/events"},
        "interactivity": {
            "is_enabled": True,
            "request_url": f"{base}/acts",
            "message_menu_options_url": f"{base}/options",
        },
    }
    commands = [{"command": "/deploy", "url": f"{base}/deploy"}, {"command": "/undo"}]
    features = MANIFEST["features"] | {"slash_commands": commands}
    await world.ask("POST", "seed", {"apps": [{"manifest": MANIFEST | {"settings": settings, "features": features}}]})

    async def path_of(call: str, **body: Any) -> str:
        await world.ask("POST", call, {"user": "alice", **body})
        return await asyncio.wait_for(heard.get(), PATIENCE_SECONDS)

    place, menu = {"channel": "general"}, {"type": "external_select", "action_id": "pick", "min_query_length": 0}
    assert await path_of("messages", **place, text="@deploy_bot hi") == "/events"
    assert await path_of("commands", **place, command="/deploy") == "/deploy"
    assert await path_of("commands", **place, command="/undo") == "/events"
    assert await path_of("shortcuts", app="deploy_bot", callback_id="roll_back", wait_seconds=0) == "/acts"
    posted = await world.client("xoxb-twin-deploy_bot").chat_postMessage(
        channel="C0GENERAL", text="x", blocks=[{"type": "actions", "elements": [menu]}]
    )
    await world.control(
        "POST", "suggestions", {"user": "alice", **place, "ts": posted["ts"], "action_id": "pick", "value": ""}
    )
    assert await asyncio.wait_for(heard.get(), PATIENCE_SECONDS) == "/options"
    await runner.cleanup()
