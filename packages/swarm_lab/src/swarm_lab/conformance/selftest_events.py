"""The events that a workspace sends about the selftest's own posts.

Slack gives each event to one connection of the app. So events are taken only while the app has no other connection, and
those about anything but the selftest's posts are not acknowledged: Slack sends them again, to whichever is open then.
https://docs.slack.dev/apis/events-api/using-socket-mode
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
import orjson
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

JsonObject = dict[str, Any]

ELSEWHERE: Final = "the app is connected elsewhere; stop its coordinator for the test"


@dataclass(kw_only=True)
class Heard:
    """What was received. ``not_tried`` says why events are not compared."""

    events: dict[str, JsonObject] = field(default_factory=dict)  # by their ids, about the selftest's own posts
    others: set[str] = field(default_factory=set)  # the ids of what was left unacknowledged
    not_tried: str = ""
    came: asyncio.Event = field(default_factory=asyncio.Event)
    patience_seconds: float = 0

    async def about(self, ts: str, count: int) -> list[JsonObject]:
        """Waits for a number of events about a message. Returns those that came, in their order."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.patience_seconds):
                while (
                    sum(ts == message_of(one).get("ts") for one in self.events.values()) < count and not self.not_tried
                ):
                    self.came.clear()
                    await self.came.wait()
        found = [event for event in self.events.values() if message_of(event).get("ts") == ts != ""]
        return sorted(found, key=lambda event: str(event["event_ts"]))


def message_of(event: JsonObject) -> JsonObject:
    """Returns the message that an event is about."""
    found: JsonObject = event.get("message") or event.get("previous_message") or event
    return found


@contextlib.asynccontextmanager
async def listening(
    client: AsyncWebClient, app_token: str | None, is_own: Callable[[JsonObject], bool], heard: Heard
) -> AsyncIterator[None]:
    """Receives events by Socket Mode while the context lasts, unless the app has another connection."""
    heard.not_tried = "" if app_token else "SLACK_APP_TOKEN is not set"
    async with contextlib.AsyncExitStack() as stack:
        try:
            socket, count = await _connected(client, app_token, stack) if app_token else (None, 0)
        except SlackApiError as refused:
            socket, heard.not_tried = None, str(refused.response["error"])
        if socket and count == 1:
            stack.callback(asyncio.create_task(_receive(socket, heard, is_own)).cancel)
        elif socket:
            heard.not_tried = ELSEWHERE
            await stack.aclose()
        yield


async def is_shared(client: AsyncWebClient, app_token: str) -> bool:
    """Returns whether the app has a further connection besides that of :func:`listening`."""
    async with contextlib.AsyncExitStack() as stack:
        return (await _connected(client, app_token, stack))[1] > 2


async def _connected(
    client: AsyncWebClient, app_token: str, stack: contextlib.AsyncExitStack
) -> tuple[aiohttp.ClientWebSocketResponse, int]:
    """Returns a new connection, and how many the app has now. Without a number, Slack has refused one more."""
    url = (await client.apps_connections_open(app_token=app_token))["url"]
    session = await stack.enter_async_context(aiohttp.ClientSession(trust_env=True))
    socket = await stack.enter_async_context(session.ws_connect(url))
    return socket, int((await socket.receive_json(timeout=10)).get("num_connections") or 11)


async def _receive(socket: aiohttp.ClientWebSocketResponse, heard: Heard, is_own: Callable[[JsonObject], bool]) -> None:
    async for frame in socket:
        envelope = orjson.loads(frame.data)
        payload = envelope.get("payload") or {}
        name = payload.get("event_id") or envelope.get("envelope_id")
        if is_own(payload.get("event") or {}):
            await socket.send_json({"envelope_id": envelope["envelope_id"]})
            heard.events[name] = payload["event"]
            heard.came.set()
        elif name:
            heard.others.add(name)
    heard.not_tried = "Slack closed the connection"
    heard.came.set()
