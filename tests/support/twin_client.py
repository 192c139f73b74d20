"""The twin's control API as tests use it, over HTTP: speak, look, plan faults, move the clock."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx2

from tests.support.waiting import PATIENCE_SECONDS, wait_until

STORED, ANSWERED = "eyes", "white_check_mark"

RETRY_SECONDS = 60
"""Between the second and the third time that the twin sends an event."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Conversation:
    """A thread as people see it."""

    root: str
    reactions: tuple[tuple[str, tuple[str, ...]], ...]  # of the first message: emoji and who gave it
    answers: tuple[str, ...]  # what the app said, in order
    texts: tuple[str, ...]  # everything, the first message included
    is_growing: bool = False  # an answer is still being written

    @property
    def emoji(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.reactions)

    def is_answered(self) -> bool:
        return bool(self.answers) and ANSWERED in self.emoji and not self.is_growing


class TwinClient:
    """A person, and the one who pulls the strings."""

    def __init__(self, base_url: str, http: httpx2.AsyncClient) -> None:
        self.base_url = base_url
        self._http = http

    async def ask(self, method: str, path: str, **request: Any) -> Any:
        """A control call that must succeed."""
        answer = await self._http.request(method, f"{self.base_url}/twin/{path}", **request)
        assert answer.is_success, answer.text
        return answer.json()

    async def say(self, text: str, *, channel: str = "general", user: str = "alice", thread: str | None = None) -> str:
        """Say something; its timestamp."""
        said = {"user": user, "channel": channel, "text": text, "thread_ts": thread}
        return str((await self.ask("POST", "messages", json=said))["ts"])

    async def press(self, ts: str, text: str, action_id: str, *, channel: str = "general", user: str = "alice") -> None:
        """Press a button under the message of a thread that contains this text."""
        messages = await self.messages(channel=channel, thread_ts=ts)
        (under,) = [message["ts"] for message in messages if text in message["text"]]
        pressed = {"user": user, "channel": channel, "ts": under, "action_id": action_id}
        assert (await self.ask("POST", "actions", json=pressed))["ok"]

    async def messages(self, *, channel: str = "general", thread_ts: str | None = None, user: str | None = None) -> Any:
        """The messages of a channel or a thread, oldest first."""
        query = {"channel": channel, "thread_ts": thread_ts, "user": user}
        return (await self.ask("GET", "messages", params={k: v for k, v in query.items() if v}))["messages"]

    async def private(self, user: str, channel: str) -> list[dict[str, Any]]:
        """What only this person sees."""
        messages = await self.messages(channel=channel, user=user)
        return [message for message in messages if message["subtype"] == "ephemeral"]

    async def conversation(self, ts: str, *, channel: str = "general", user: str | None = None) -> Conversation:
        """The thread below a message."""
        root, *replies = await self.messages(channel=channel, thread_ts=ts, user=user)
        return Conversation(
            root=root["text"],
            reactions=tuple((reaction["name"], tuple(reaction["users"])) for reaction in root["reactions"]),
            answers=tuple(reply["text"] for reply in replies if reply["kind"] == "bot"),
            texts=tuple(message["text"] for message in (root, *replies)),
            is_growing=any(reply["streaming"] for reply in replies),
        )

    async def until(
        self,
        ts: str,
        met: Callable[[Conversation], object],
        *,
        channel: str = "general",
        user: str | None = None,
        within_seconds: float = PATIENCE_SECONDS,
    ) -> Conversation:
        """The thread below a message once something is true of it."""
        return await wait_until(
            lambda: self.conversation(ts, channel=channel, user=user), met, within_seconds=within_seconds
        )

    async def now(self) -> int:
        """A number: what `calls` and `attempts` show since then has a higher one."""
        calls = await self.calls()
        return int(calls[-1]["seq"]) if calls else 0

    async def calls(self, method: str | None = None, *, since: int = 0, ok: bool | None = None) -> list[dict[str, Any]]:
        """Calls of the Web API, oldest first."""
        calls = (await self.ask("GET", "calls", params={"since": since}))["calls"]
        return [call for call in calls if method in (None, call["method"]) and ok in (None, call["ok"])]

    async def posts(self, ts: str) -> list[dict[str, Any]]:
        """The calls that posted, or tried to post, into a thread."""
        return [call for call in await self.calls("chat.postMessage") if call["args"].get("thread_ts") == ts]

    async def attempts(self, ts: str) -> list[dict[str, Any]]:
        """The attempts to tell the app of a message."""
        deliveries = (await self.ask("GET", "deliveries"))["deliveries"]
        return [attempt for attempt in deliveries if attempt["ts"] == ts and attempt["kind"] != "reaction_added"]

    async def told(self, ts: str) -> Counter[str]:
        """How often the app acknowledged each kind of event about a message."""
        return Counter(attempt["kind"] for attempt in await self.attempts(ts) if attempt["acked"])

    async def until_told(self, ts: str, *kinds: str, within_seconds: float = PATIENCE_SECONDS) -> None:
        """Let time pass until the app has acknowledged these kinds of events about a message.

        Time passes only while no attempt is under way: three seconds of the twin's time end an attempt, and after the
        fourth there is none. An app that needs longer for an acknowledgement than we need to look would never be heard.
        """

        async def look() -> list[dict[str, Any]]:
            attempts = await self.attempts(ts)
            if not any(_is_under_way(attempt) for attempt in attempts):
                await self.redeliver()
            return attempts

        def met(attempts: list[dict[str, Any]]) -> bool:
            return {attempt["kind"] for attempt in attempts if attempt["acked"]} >= set(kinds)

        await wait_until(look, met, within_seconds=within_seconds, what=f"the app acknowledges {kinds}")

    async def fault(self, kind: str, **about: object) -> None:
        """Plan a fault: ``method`` or ``event``, ``seconds``, ``times``, ``error``."""
        await self.ask("POST", "faults", json={"kind": kind, **about})

    async def clear_faults(self) -> None:
        await self.ask("DELETE", "faults")

    async def advance(self, seconds: float) -> None:
        """Let time pass, for the twin only."""
        await self.ask("POST", "clock", json={"advance_seconds": seconds})

    async def redeliver(self) -> None:
        """Let a minute pass: what was not acknowledged, nor when it was repeated at once, is sent a third time."""
        await self.advance(RETRY_SECONDS)


def _is_under_way(attempt: dict[str, Any]) -> bool:
    return not attempt["acked"] and attempt["error"] is None
