"""A Slack workspace for one execution of the suite: a twin on a free port, with Slack's rate limits switched on."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2
from slack_twin.clock import Clock
from slack_twin.seed import DEFAULT
from slack_twin.server import running
from slack_twin.twin import build_twin

from swarm.domain.answers.calls import AnswerTarget
from swarm.domain.watchers import NO_WATCHERS, Watcher
from swarm.slack.outgoing.gateway import Gateway
from swarm.slack.outgoing.pacing import Pacing
from swarm_lab.conformance.record import POSTS, SHOWING, UPDATES, Call, Message

CHANNEL: Final = "general"

_PERSON: Final = "alice"
_ANSWER_SECONDS: Final = 30.0


class Workspace:
    """A client for the twin over HTTP, and for our app in it."""

    def __init__(self, http: httpx2.AsyncClient, gateway: Gateway, clock: Clock, person: str) -> None:
        self._http = http
        self._clock = clock
        self._person = person
        self.gateway = gateway

    def now(self) -> float:
        """Returns seconds since 1970 on the clock of the twin's records, which never goes backwards."""
        return self._clock.now()

    async def ask(self, text: str, agent_name: str, run_id: str) -> AnswerTarget:
        """Posts a person's message. Returns the target of the answer."""
        said = {"user": _PERSON, "channel": CHANNEL, "text": f"@{DEFAULT.apps[0].name} {text}"}
        posted = (await self._http.post("messages", json=said)).raise_for_status().json()
        return AnswerTarget(
            team=(await self.gateway.identify()).team,
            channel=posted["channel"],
            thread_ts=posted["ts"],
            is_direct=False,
            requester=self._person,
            agent_name=agent_name,
            run_id=run_id,
        )

    async def calls(self, place: AnswerTarget) -> tuple[Call, ...]:
        """Returns the visible calls for an answer, as Slack received them."""
        noted = (await self._get("calls", {"since": "0"}))["calls"]
        ours = await self._timestamps(place)
        return tuple(_call(call) for call in noted if call["method"] in SHOWING and _is_about(call, place, ours))

    async def messages(self, place: AnswerTarget) -> tuple[Message, ...]:
        """Returns the answer as people see it now."""
        return tuple(_message(shape) for shape in await self._replies(place))

    async def _timestamps(self, place: AnswerTarget) -> set[str]:
        return {shape["ts"] for shape in await self._replies(place)}

    async def _replies(self, place: AnswerTarget) -> list[dict[str, Any]]:
        where = {"channel": place.channel, "thread_ts": place.thread_ts}
        replies: list[dict[str, Any]] = (await self._get("messages", where))["messages"][1:]
        return replies

    async def _get(self, what: str, query: Mapping[str, str]) -> Any:
        return (await self._http.get(what, params=query)).raise_for_status().json()


@asynccontextmanager
async def workspace(
    watcher: Watcher = NO_WATCHERS, *, monotonic: Callable[[], float] = time.monotonic
) -> AsyncIterator[Workspace]:
    """Runs a workspace while the context is open. Raises OSError if no port is available."""
    apart = time.time() - monotonic()
    clock = Clock(lambda: apart + monotonic())  # changes of the system clock must not affect the order
    twin = build_twin(clock=clock)
    async with running(twin) as url:
        pacing = Pacing(monotonic=monotonic)
        gateway = Gateway(DEFAULT.apps[0].bot_token, base_url=f"{url}api/", pacing=pacing, watcher=watcher)
        try:
            async with httpx2.AsyncClient(base_url=f"{url}twin/", timeout=_ANSWER_SECONDS, trust_env=False) as http:
                yield Workspace(http, gateway, clock, twin.workspace.directory.id_of_user(_PERSON) or "")
        finally:
            await gateway.close()


def _is_about(call: Mapping[str, Any], place: AnswerTarget, ours: set[str]) -> bool:
    args = call["args"]
    return args.get("channel") == place.channel and (args.get("thread_ts") == place.thread_ts or args.get("ts") in ours)


def _call(call: Mapping[str, Any]) -> Call:
    chunks: Sequence[Mapping[str, Any]] = call["args"].get("chunks") or []
    blocks: Sequence[Mapping[str, Any]] = call["args"].get("blocks") or []
    is_post = call["method"] in (POSTS, UPDATES)
    texts = [str(chunk.get("text", "")) for chunk in chunks] + [str(call["args"].get("text", ""))] * is_post
    return Call(
        at=call["at"],
        method=call["method"],
        ok=call["ok"],
        has_text=any(text.strip() for text in texts),
        has_footer=any(block.get("type") == "context" for block in blocks),
        cards=tuple((str(chunk["title"]), str(chunk["status"])) for chunk in chunks if chunk["type"] == "task_update"),
    )


def _message(shape: Mapping[str, Any]) -> Message:
    blocks: Sequence[Mapping[str, Any]] = shape["blocks"]
    tasks = sum(len(block.get("tasks", ())) for block in blocks if block["type"] == "plan")
    return Message(
        text=shape["text"],
        markdown="".join(str(block["text"]) for block in blocks if block["type"] == "markdown"),
        is_open=shape["streaming"],
        cards=tasks + sum(block["type"] == "task_card" for block in blocks),
        has_footer=any(block["type"] == "context" for block in blocks),
    )
