"""The events that a workspace sends about the selftest's own posts, and how they differ from the twin's.

Slack gives each event to one connection of the app. So events are taken only while the app has no other connection, and
those about anything but the selftest's posts are not acknowledged: Slack sends them again, to whichever is open then.
https://docs.slack.dev/apis/events-api/using-socket-mode
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import aiohttp
import orjson
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

JsonObject = dict[str, Any]

COMPARED: Final = ("text", "blocks", "attachments", "metadata", "subtype")
"""Fields of a message whose values are compared, and not only their kinds."""

_KEPT: Final = frozenset({*COMPARED, "type", "channel_type"})
_OF_ONE_WORKSPACE: Final = frozenset({"block_id", "id", "ts", "user", "bot_id", "app_id", "team"})
_HELLO_SECONDS: Final = 10.0


@dataclass(kw_only=True)
class Heard:
    """What was received; ``not_tried`` says why the events cannot be compared."""

    events: dict[str, JsonObject] = field(default_factory=dict)  # by their ids, about the selftest's own posts
    others: set[str] = field(default_factory=set)  # the ids of events that were left unacknowledged
    not_tried: str = ""
    came: asyncio.Event = field(default_factory=asyncio.Event)

    def about(self, ts: str) -> list[JsonObject]:
        """Returns the events about a message in the order in which they happened."""
        found = (event for event in self.events.values() if message_of(event).get("ts") == ts)
        return sorted(found, key=lambda event: str(event["event_ts"]))

    async def until(self, expected: Mapping[str, int], patience_seconds: float) -> bool:
        """Waits for a number of events about each message, and returns whether they came."""
        while any(len(self.about(ts)) < count for ts, count in expected.items()):
            self.came.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0 if self.not_tried else patience_seconds):
                    await self.came.wait()
            if not self.came.is_set():
                return False
        return True


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A place in the events where Slack and the twin differ in the same way for these rules."""

    where: str
    slack: Any
    twin: Any
    rules: list[str] = field(default_factory=list)


def message_of(event: JsonObject) -> JsonObject:
    """Returns the message that an event is about."""
    found: JsonObject = event.get("message") or event.get("previous_message") or event
    return found


@contextlib.asynccontextmanager
async def listening(
    client: AsyncWebClient, app_token: str | None, is_own: Callable[[JsonObject], bool]
) -> AsyncIterator[Heard]:
    """Receives events by Socket Mode while the context lasts, unless the app has another connection."""
    heard = Heard()
    if not app_token:
        heard.not_tried = "SLACK_APP_TOKEN is not set"
        yield heard
        return
    async with contextlib.AsyncExitStack() as connection:
        socket, count, heard.not_tried = await _connected(client, app_token, connection)
        if socket is None or count > 1:
            heard.not_tried = heard.not_tried or "the app is connected elsewhere: stop its coordinator for the test"
            await connection.aclose()
            yield heard
            return
        receiving = asyncio.create_task(_receive(socket, heard, is_own))
        try:
            yield heard
        finally:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)


async def is_shared(client: AsyncWebClient, app_token: str) -> bool:
    """Returns whether the app has a further connection besides that of :func:`listening`."""
    async with contextlib.AsyncExitStack() as connection:
        return (await _connected(client, app_token, connection))[1] > 2


async def _connected(
    client: AsyncWebClient, app_token: str, stack: contextlib.AsyncExitStack
) -> tuple[aiohttp.ClientWebSocketResponse | None, int, str]:
    """Returns a new connection, how many the app has now, and otherwise why there is none."""
    try:
        url = (await client.apps_connections_open(app_token=app_token))["url"]
        session = await stack.enter_async_context(aiohttp.ClientSession(trust_env=True))
        socket = await stack.enter_async_context(session.ws_connect(url))
        hello = await socket.receive_json(timeout=_HELLO_SECONDS)
    except SlackApiError as refused:
        return None, 0, str(refused.response["error"])
    except (aiohttp.ClientError, TimeoutError, TypeError) as error:
        return None, 0, f"the connection failed: {type(error).__name__}"
    return socket, int(hello.get("num_connections") or 11), ""  # without a number, Slack has refused one more


async def _receive(socket: aiohttp.ClientWebSocketResponse, heard: Heard, is_own: Callable[[JsonObject], bool]) -> None:
    async for frame in socket:
        envelope = orjson.loads(frame.data)
        if envelope.get("type") == "disconnect":
            break
        payload = envelope.get("payload") or {}
        event, name = payload.get("event") or {}, payload.get("event_id") or envelope.get("envelope_id")
        if is_own(event):
            await socket.send_json({"envelope_id": envelope["envelope_id"]})
            heard.events[name] = event
            heard.came.set()
        elif name:
            heard.others.add(name)
    heard.not_tried = "Slack closed the connection"
    heard.came.set()


def comparable(value: object) -> object:
    """Returns a value with the texts and blocks of messages, and otherwise with the kinds of its fields."""
    if isinstance(value, dict):
        return {key: _anywhere(one) if key in _KEPT else comparable(one) for key, one in value.items()}
    if isinstance(value, list):
        return [comparable(one) for one in value]
    kinds = {str: "a text", int: "a number", float: "a number"}
    return kinds.get(type(value), value)


def _anywhere(value: object) -> object:
    """Returns a value without what differs between any two workspaces."""
    if isinstance(value, dict):
        return {key: _anywhere(one) for key, one in value.items() if key not in _OF_ONE_WORKSPACE}
    return [_anywhere(one) for one in value] if isinstance(value, list) else value


def differences(slack: Sequence[JsonObject], twin: Sequence[JsonObject]) -> Iterator[tuple[str, Any, Any]]:
    """Yields where the events about a message differ, and both values there."""
    kinds, twin_kinds = [[event.get("subtype", event["type"]) for event in events] for events in (slack, twin)]
    if kinds != twin_kinds:
        yield "which events", kinds, twin_kinds
        return
    for kind, one, other in zip(kinds, slack, twin, strict=True):
        yield from _differing(kind, comparable(one), comparable(other))


def _differing(where: str, slack: Any, twin: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(slack, dict) and isinstance(twin, dict):
        for key in sorted(slack.keys() | twin.keys()):
            yield from _differing(f"{where}.{key}", slack.get(key, "absent"), twin.get(key, "absent"))
    elif slack != twin:
        yield where, slack, twin
