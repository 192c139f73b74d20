"""Helpers for tests of people's actions: acts through the control API while an app listens on a bare socket."""

import asyncio
from collections.abc import Coroutine
from typing import Any

from tests.test_shapes import differences, sample
from tests.world import PATIENCE_SECONDS, Line, World

Json = dict[str, Any]

# Slack sends these according to its documentation; the samples leave them empty or omit them.
DOCUMENTED = {
    "action_ts",
    "channel",
    "event.view.blocks",
    "event.view.state.values",
    "is_enterprise_install",
    "response_urls",
    "state.values",
    "view.blocks",
    "view.state.values",
}


def strange(payload: Json, name: str, *, folder: str = "app-backend") -> list[str]:
    """Returns the differences from the recorded payload `name`."""
    return [place for place in differences(payload, sample(f"{folder}/{name}.json")) if place not in DOCUMENTED]


def plain(text: str) -> Json:
    return {"type": "plain_text", "text": text}


def button(action_id: str, **more: Any) -> Json:
    return {"type": "button", "action_id": action_id, "text": plain(action_id.capitalize())} | more


def actions(*elements: Json, block_id: str = "row") -> Json:
    return {"type": "actions", "block_id": block_id, "elements": list(elements)}


def options(*values: str) -> list[Json]:
    return [{"text": plain(value.capitalize()), "value": value} for value in values]


def text_input(block_id: str, **element: Any) -> Json:
    shape = {"type": "plain_text_input", "action_id": "text"} | element
    return {"type": "input", "block_id": block_id, "label": plain(block_id.capitalize()), "element": shape}


def modal(*blocks: Json, **more: Any) -> Json:
    return {"type": "modal", "title": plain("A form"), "submit": plain("Send"), "blocks": list(blocks)} | more


async def posted(world: World, *blocks: Json, **more: Any) -> str:
    """Posts a message of the app with blocks; returns its timestamp."""
    answer = await world.client().chat_postMessage(channel=world.general, text="see below", blocks=list(blocks), **more)
    return str(answer["ts"])


def pressing(world: World, ts: str, action_id: str, **more: Any) -> asyncio.Task[Any]:
    """Starts an action of alice on a message."""
    body = {"user": "alice", "channel": "general", "ts": ts, "action_id": action_id, "wait_seconds": 0, **more}
    return asyncio.create_task(world.ask("POST", "actions", body))


def on_view(world: World, view_id: str, **more: Any) -> asyncio.Task[Any]:
    """Starts an action of alice on a view."""
    return asyncio.create_task(
        world.ask("POST", "actions", {"user": "alice", "view_id": view_id, "wait_seconds": 0, **more})
    )


async def heard(line: Line, asking: asyncio.Task[Any], answer: object = None) -> tuple[Json, Json]:
    """Returns the app's payload, and the person's response after the app has acknowledged with `answer`."""
    envelope = await line.next()
    await line.acknowledge(envelope, answer)
    return envelope["payload"], await within(asking)


async def within(waiting: "asyncio.Task[Any] | Coroutine[Any, Any, Any]") -> Any:
    return await asyncio.wait_for(waiting, PATIENCE_SECONDS)


async def opened(world: World, line: Line, view: Json) -> Json:
    """Opens a modal for alice with a button of a message."""
    asking = pressing(world, await posted(world, actions(button("open"))), "open")
    envelope = await line.next()
    trigger_id = envelope["payload"]["trigger_id"]
    answer = await world.client().views_open(trigger_id=trigger_id, view=view)
    await line.acknowledge(envelope)
    assert (await within(asking))["view"]["id"] == answer["view"]["id"]
    return dict(answer["view"])
