"""Slash commands, shortcuts, and the apps' responses by a response URL."""

import asyncio
from typing import Any

import aiohttp
import pytest
from slack_sdk.webhook.async_client import AsyncWebhookClient
from slack_twin import build_twin
from slack_twin import running as serving

from tests.acting import Json, actions, button, heard, modal, posted, pressing, strange, within
from tests.receiver import receiving
from tests.world import Line, World

pytestmark = pytest.mark.req("TWIN-01")


def running(world: World, text: str = "", **more: Any) -> asyncio.Task[Any]:
    """Starts a command of alice."""
    body = {"user": "alice", "channel": "general", "command": "/swarm", "text": text, "wait_seconds": 0} | more
    return asyncio.create_task(world.ask("POST", "commands", body))


async def response_url(world: World, line: Line, ts: str | None = None) -> str:
    """Returns the response URL of a button press by alice on the message `ts`, or on a new message."""
    ts = ts or await posted(world, actions(button("go")))
    payload, _ = await heard(line, pressing(world, ts, "go"))
    return str(payload["response_url"])


async def respond(world: World, url: str, **body: Any) -> tuple[int, Json]:
    async with world.http.post(url, json=body) as answer:
        return answer.status, await answer.json()


async def test_a_command_reaches_its_app_over_the_socket(world: World) -> None:
    line = await world.line()
    asking = running(world, "tell @bob")
    envelope = await line.next()
    payload = envelope["payload"]
    assert (envelope["type"], envelope["accepts_response_payload"]) == ("slash_commands", True)
    assert payload.items() >= {"command": "/swarm", "text": "tell @bob", "user_name": "alice"}.items()
    assert (payload["channel_id"], payload["channel_name"]) == ("C0GENERAL", "general")
    assert payload.pop("is_enterprise_install") == "false"
    assert strange(payload, "slash-commands/SlashCommandPayload") == []
    await line.acknowledge(envelope)
    assert await within(asking) == {"ok": True}
    assert [entry["kind"] for entry in await world.deliveries()] == ["slash_commands"]
    assert await world.seen(user="alice") == []


async def test_a_command_reaches_its_app_as_a_signed_form(world: World) -> None:
    async with receiving(world, answer="On it.") as receiver:
        assert await within(running(world, "go")) == {"ok": True}
        _, form = await receiver.next()
    assert (form["command"], form["text"], form["is_enterprise_install"]) == ("/swarm", "go", "false")
    (seen,) = await world.seen(user="alice")
    assert (seen["text"], seen["subtype"]) == ("On it.", "ephemeral")


async def test_the_answer_of_a_command_is_for_the_person_unless_it_says_otherwise(world: World) -> None:
    line = await world.line()
    await heard(line, running(world), {"text": "only you"})
    assert await world.seen() == []
    await heard(line, running(world), {"text": "everybody", "response_type": "in_channel"})
    assert [(message["text"], message["author"]) for message in await world.seen()] == [("everybody", "swarm")]
    assert [message["text"] for message in await world.seen(user="alice")] == ["everybody", "only you"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ({"response_type": "in_channel"}, "no_text"),
        ({"text": "x", "response_type": "telegram"}, "invalid_response_type"),
        ({"blocks": [{"type": "nonsense"}]}, "invalid_blocks"),
        ({"text": ["x"]}, "invalid_arguments"),
        ([1], "invalid_response"),
    ],
)
async def test_an_answer_that_makes_no_sense_is_reported_to_the_person(
    world: World, answer: object, error: str
) -> None:
    _, told = await heard(await world.line(), running(world), answer)
    assert told == {"ok": False, "error": error}


async def test_a_command_can_open_a_modal(world: World) -> None:
    line = await world.line()
    asking = running(world, wait_seconds=10)
    envelope = await line.next_acknowledged()
    view = (await world.client().views_open(trigger_id=envelope["payload"]["trigger_id"], view=modal()))["view"]
    assert (await within(asking))["view"]["id"] == view["id"]


async def test_a_command_that_nobody_has_is_refused_with_those_there_are(world: World) -> None:
    body = {"user": "alice", "channel": "general", "command": "/dance"}
    status, answer = await world.control("POST", "commands", body)
    assert (status, answer["error"]["hint"]) == (404, "available: /swarm")


async def test_apps_have_the_commands_of_their_seed(world: World) -> None:
    apps = [{"name": "ops", "commands": ["deploy", {"name": "/rollback", "description": "Undo"}]}, {"name": "plain"}]
    await world.ask("POST", "seed", {"apps": apps})
    ops, plain = await world.line("xapp-twin-ops"), await world.line("xapp-twin-plain")
    for line, command in ((ops, "/deploy"), (ops, "rollback"), (plain, "/plain")):
        payload, told = await heard(line, running(world, command=command))
        assert (payload["command"].lstrip("/"), told) == (command.lstrip("/"), {"ok": True})


async def test_in_a_direct_conversation_the_channels_name_is_not_told(world: World) -> None:
    payload, _ = await heard(await world.line(), running(world, channel="@swarm"))
    assert payload["channel_name"] == "directmessage"


async def test_a_response_url_shows_a_message_to_the_person_or_to_all(world: World) -> None:
    line = await world.line()
    client = AsyncWebhookClient(await response_url(world, line))
    answer = await client.send(text="only you", blocks=[actions(button("further"))])
    assert (answer.status_code, answer.body) == (200, '{"ok":true}')
    assert [message["text"] for message in await world.seen()] == ["see below"]
    only = next(message for message in await world.seen(user="alice") if message["subtype"] == "ephemeral")
    assert only["text"] == "only you"
    payload, _ = await heard(line, pressing(world, only["ts"], "further"))
    await AsyncWebhookClient(payload["response_url"]).send(text="all", response_type="in_channel")
    assert [message["text"] for message in await world.seen()] == ["see below", "all"]


async def test_a_response_url_answers_in_a_thread(world: World) -> None:
    ts = await posted(world, actions(button("go")))
    url = await response_url(world, await world.line(), ts)
    assert await respond(world, url, text="in it", response_type="in_channel", thread_ts=ts) == (200, {"ok": True})
    assert [message["text"] for message in await world.seen(thread_ts=ts)] == ["see below", "in it"]


async def test_a_response_url_replaces_and_deletes_the_message_that_was_pressed(world: World) -> None:
    line = await world.line()
    ts = await posted(world, actions(button("go")))
    url = await response_url(world, line, ts)
    assert await respond(world, url, text="done", replace_original=True) == (200, {"ok": True})
    assert [(message["text"], message["blocks"]) for message in await world.seen()] == [("done", [])]
    assert await respond(world, url, delete_original="true") == (200, {"ok": True})
    assert await world.seen() == []
    assert await respond(world, url, text="x", replace_original=True) == (
        400,
        {"ok": False, "error": "message_not_found"},
    )


async def test_a_response_url_replaces_and_deletes_an_ephemeral_message(world: World) -> None:
    line = await world.line()
    shown = await world.client().chat_postEphemeral(
        channel=world.general, user="U000ALICE", text="psst", blocks=[actions(button("go"))]
    )
    url = await response_url(world, line, shown["message_ts"])
    assert await respond(world, url, text="psst!", replace_original=True) == (200, {"ok": True})
    assert [(message["ts"], message["text"]) for message in await world.seen(user="alice")] == [
        (shown["message_ts"], "psst!")
    ]
    assert await respond(world, url, delete_original=True) == (200, {"ok": True})
    assert await world.seen(user="alice") == []


async def test_a_response_url_serves_five_times_and_thirty_minutes(world: World) -> None:
    line = await world.line()
    url = await response_url(world, line)
    answers = [await respond(world, url, text=str(number), response_type="in_channel") for number in range(6)]
    assert [status for status, _ in answers] == [200] * 5 + [404]
    assert answers[-1][1]["error"] == "used_url"
    late = await response_url(world, line)
    await world.advance(30 * 60)
    assert await respond(world, late, text="x") == (404, {"ok": False, "error": "expired_url"})
    assert await respond(world, late + "x", text="x") == (404, {"ok": False, "error": "no_such_url"})


async def test_what_makes_no_sense_at_a_response_url_is_refused(world: World) -> None:
    url = await response_url(world, await world.line())
    for data in (b"", b"{", b"[]", b"\xff", b"payload=", b"payload=x", b"null"):
        async with world.http.post(url, data=data) as answer:
            assert (answer.status, (await answer.json())["error"]) == (400, "invalid_payload")
    async with world.http.post(url, data={"payload": '{"text": "as a form"}'}) as answer:
        assert answer.status == 200
    assert [message["text"] for message in await world.seen(user="alice")][-1] == "as a form"


async def test_a_shortcut_reaches_its_app_with_a_trigger(world: World) -> None:
    line = await world.line()
    body = {"user": "alice", "app": "swarm", "callback_id": "plan", "wait_seconds": 0}
    payload, told = await heard(line, asyncio.create_task(world.ask("POST", "shortcuts", body)))
    assert (payload["type"], payload["callback_id"], told) == ("shortcut", "plan", {"ok": True})
    assert payload["user"] == {"id": "U000ALICE", "username": "alice", "team_id": "T0TWIN"}
    await world.client().views_open(trigger_id=payload["trigger_id"], view=modal())


async def test_a_shortcut_of_a_message_brings_the_message(world: World) -> None:
    line = await world.line()
    ts = await world.say("bob", "look")
    await line.next_acknowledged()
    body = {
        "user": "alice",
        "app": "swarm",
        "callback_id": "plan",
        "channel": "general",
        "ts": ts,
        "wait_seconds": 0,
    }
    payload, told = await heard(line, asyncio.create_task(world.ask("POST", "shortcuts", body)))
    assert (payload["type"], payload["message"]["text"], payload["message_ts"]) == ("message_action", "look", ts)
    assert strange(payload, "interactive-components/MessageShortcutPayload") == []
    assert told == {"ok": True}
    assert await respond(world, payload["response_url"], text="seen") == (200, {"ok": True})


async def test_the_app_of_the_default_seed_has_one_command() -> None:
    body = {"user": "alice", "channel": "general", "command": "/dance"}
    async with (
        serving(build_twin()) as base,
        aiohttp.ClientSession() as http,
        http.post(f"{base}twin/commands", json=body) as answer,
    ):
        assert (answer.status, (await answer.json())["error"]["hint"]) == (404, "available: /swarm")
