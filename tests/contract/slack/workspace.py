"""A twin with one app, and what the tests of our Slack side do with it."""

from __future__ import annotations

from typing import Any

import aiohttp
from slack_twin.people import App
from slack_twin.twin import Twin

from swarm.clock import new_id
from swarm.domain.model.deliveries import Delivery, DeliveryKind
from swarm.slack.outgoing.gateway import Gateway
from swarm.slack.outgoing.pacing import Pacing


class Workspace:
    """The twin over HTTP, as a test uses it."""

    def __init__(self, twin: Twin, url: str, http: aiohttp.ClientSession) -> None:
        self.twin = twin
        self.url = url
        self._http = http

    @property
    def api_url(self) -> str:
        return f"{self.url}api/"

    @property
    def app(self) -> App:
        return next(iter(self.twin.workspace.directory.apps.values()))

    def gateway(self, **options: Any) -> Gateway:
        """A gateway with the app's token that keeps no limits of its own."""
        settings = {"pacing": Pacing(enforced=False), "base_url": self.api_url, **options}
        return Gateway(settings.pop("token", self.app.bot_token), **settings)

    async def say(self, text: str, *, user: str = "alice", channel: str = "general", **more: object) -> str:
        """Post as somebody; the message's timestamp."""
        answer = await self._post("messages", {"user": user, "channel": channel, "text": text, **more})
        return str(answer["ts"])

    async def delete(self, ts: str, *, user: str = "alice", channel: str = "general") -> None:
        body = {"user": user, "channel": channel, "ts": ts}
        async with self._http.delete(f"{self.url}twin/messages", json=body) as answer:
            answer.raise_for_status()

    async def edit(self, ts: str, text: str, *, user: str = "alice", channel: str = "general") -> None:
        body = {"user": user, "channel": channel, "ts": ts, "text": text}
        async with self._http.patch(f"{self.url}twin/messages", json=body) as answer:
            answer.raise_for_status()

    async def messages(self, thread_ts: str | None = None) -> list[dict[str, Any]]:
        """What is in #general, or in one of its threads."""
        where = {"channel": "general"} | ({"thread_ts": thread_ts} if thread_ts else {})
        return list((await self._get("messages", where))["messages"])

    async def all_calls(self) -> list[dict[str, Any]]:
        return list((await self._get("calls", {"since": "0"}))["calls"])

    async def calls(self, method: str) -> list[dict[str, Any]]:
        return [call for call in await self.all_calls() if call["method"] == method]

    async def deliveries(self) -> list[dict[str, Any]]:
        return list((await self._get("deliveries", {"since": "0"}))["deliveries"])

    def connections(self) -> int:
        """How many Socket Mode connections of the app get events."""
        return self.twin.sockets.connection_count(self.app.id)

    async def stop(self, thread_ts: str, *, user: str = "alice", channel: str = "general") -> None:
        """Press Slack's own Stop."""
        await self._post("stop", {"user": user, "channel": channel, "thread_ts": thread_ts})

    async def press(self, ts: str, action_id: str, *, value: str | None = None, user: str = "alice") -> None:
        """Press a button under a message in #general; of feedback, the one with this value."""
        pressed = {"user": user, "channel": "general", "ts": ts, "action_id": action_id, "wait_seconds": 0}
        await self._post("actions", pressed | ({"value": value} if value else {}))

    async def act(self, user: str = "alice", **act: Any) -> dict[str, Any]:
        """Act on a message of #general (``ts``) or in a modal (``view_id``); the answer has the modal in front."""
        where = {} if "view_id" in act else {"channel": "general"}
        return await self._post("actions", {"user": user, "wait_seconds": 0, **where, **act})

    async def suggest(self, view_id: str, block_id: str, text: str, *, user: str = "alice") -> list[dict[str, Any]]:
        """Type into a menu of a modal; the options that the app offers."""
        asked = {"user": user, "view_id": view_id, "action_id": "value", "block_id": block_id, "value": text}
        return list((await self._post("suggestions", asked))["options"])

    async def seed(self, **seed: Any) -> None:
        """Add people, channels or user groups."""
        await self._post("seed", seed)

    async def ephemerals(self) -> list[dict[str, Any]]:
        """What was shown to one person only: the arguments of the calls."""
        return [call["args"] for call in await self.calls("chat.postEphemeral")]

    async def assistant(self) -> dict[str, Any]:
        """What stands beside the threads: statuses and agents' sessions."""
        return await self._get("assistant", {})

    async def fault(self, kind: str, **more: Any) -> None:
        await self._post("faults", {"kind": kind, **more})

    async def _post(self, what: str, body: dict[str, Any]) -> dict[str, Any]:
        async with self._http.post(f"{self.url}twin/{what}", json=body) as answer:
            result: dict[str, Any] = await answer.json()
            assert answer.status < 300, result
            return result

    async def _get(self, what: str, query: dict[str, str]) -> dict[str, Any]:
        async with self._http.get(f"{self.url}twin/{what}", params=query) as answer:
            result: dict[str, Any] = await answer.json()
            return result


def delivery(kind: DeliveryKind = DeliveryKind.POST, **more: Any) -> Delivery:
    """A delivery to #general with values that do not matter."""
    values: dict[str, Any] = {
        "id": new_id(),
        "kind": kind,
        "channel": "C0GENERAL",
        "thread_ts": None,
        "target_ts": None,
        "text": "done",
        "broadcast": False,
        "agent_name": "lead",
        "attempts": 1,
    }
    return Delivery(**{**values, **more})
