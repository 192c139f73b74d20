"""One answer in the twin's #general that is shown live, what people see of it, and agents that are told what to say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from slack_twin.clock import still_clock
from slack_twin.server import running
from slack_twin.twin import build_twin

from swarm.domain.answers.calls import AnswerTarget, Closing
from swarm.domain.answers.events import (
    AgentEvent,
    AnswerOutcome,
    Finished,
    TextDelta,
)
from swarm.domain.answers.showing import AnswerShown, Last
from swarm.domain.answers.state import Pace
from swarm.slack.outgoing.gateway import Gateway
from swarm.slack.outgoing.live import LiveAnswer
from tests.contract.slack.answers import place
from tests.contract.slack.workspace import Workspace

PATIENCE_SECONDS = 20.0
FAST = Pace(append=0.03, line=0.01, update=0.03)

Events = AsyncGenerator[AgentEvent, None]
Script = Callable[[], Events]


class Scene:
    """One answer in #general, and what people see of it."""

    def __init__(self, workspace: Workspace, gateway: Gateway, where: AnswerTarget) -> None:
        self.workspace = workspace
        self.gateway = gateway
        self.where = where
        self.closed = asyncio.Event()  # the agent's generator came to its end
        self.answer = self.make()

    def make(self, where: AnswerTarget | None = None, **more: Any) -> LiveAnswer:
        settings: dict[str, Any] = {"pace": FAST, "doubt_seconds": 0.05, **more}
        self.answer = LiveAnswer(where or self.where, self.gateway.streams, **settings)
        return self.answer

    async def show(self, script: Script) -> AnswerShown:
        """Show a run to its end."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self.answer.show(self.events(script))

    def begin(self, script: Script) -> asyncio.Task[AnswerShown]:
        return asyncio.create_task(self.show(script))

    async def events(self, script: Script) -> Events:
        """What the script yields; says when it is closed."""
        try:
            async for event in script():
                yield event
        finally:
            self.closed.set()

    async def shown(self) -> list[dict[str, Any]]:
        """The answer's messages."""
        return (await self.workspace.messages(self.where.thread_ts))[1:]

    async def text(self) -> str:
        return "".join(str(message["text"]) for message in await self.shown())

    async def until(self, is_so: Callable[[], Awaitable[bool]]) -> None:
        """Look after every change of the workspace."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not await is_so():
                await asyncio.sleep(0.01)

    async def until_shown(self, piece: str) -> None:
        async def is_shown() -> bool:
            return piece in await self.text()

        await self.until(is_shown)

    async def until_called(self, method: str, count: int = 1) -> None:
        async def are_called() -> bool:
            return len(await self.workspace.calls(method)) >= count

        await self.until(are_called)

    async def methods(self) -> list[str]:
        """The calls that were made, but for those that look or set a status."""
        return [call["method"] for call in await self.workspace.all_calls() if call["method"].startswith("chat.")]


@asynccontextmanager
async def live_scene() -> AsyncIterator[Scene]:
    """A twin without rate limits, a gateway to it, and a question in #general."""
    twin = build_twin(rates=False, clock=still_clock())
    async with running(twin) as url, aiohttp.ClientSession() as http:
        workspace = Workspace(twin, url, http)
        gateway = workspace.gateway()
        yield Scene(workspace, gateway, place(await workspace.say("@swarm hello")))
        await gateway.close()


def saying(*deltas: str, end: AgentEvent | None = None) -> Script:
    """An agent that says this at once."""

    async def script() -> Events:
        for delta in deltas:
            yield TextDelta(text=delta, message_id="1")
        yield end or Finished()

    return script


def typing(scene: Scene, *lines: str, end: AgentEvent | None = None) -> Script:
    """An agent that goes on only when people see what it has said."""

    async def script() -> Events:
        for line in lines:
            yield TextDelta(text=line, message_id="1")
            await scene.until_shown(line.strip())
        yield end or Finished()

    return script


LINES = tuple(f"This is line {number}.\n" for number in range(1, 7))


def blocks_of(messages: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [block for message in messages for block in message["blocks"] if block["type"] == kind]


def endless(*deltas: str) -> Script:
    """An agent that says something, and then works on without a word."""

    async def script() -> Events:
        for delta in deltas:
            yield TextDelta(text=delta, message_id="1")
        await asyncio.Event().wait()

    return script


class Notes:
    """What a record was told, in order; ``hold`` keeps it from taking the next beginning."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.hold = asyncio.Event()
        self.hold.set()

    async def beginning(self, page: int, *, is_post: bool) -> None:
        self.told.append(f"beginning {page}")
        await self.hold.wait()

    async def began(self, page: int, ts: str) -> None:
        self.told.append(f"began {page} {ts}")

    async def begins_after(self, page: int) -> int:
        return 0

    async def leaving(self, page: int, text: str) -> None:
        self.told.append(f"leaving {page}")

    async def ending(self, call: Last, outcome: AnswerOutcome) -> Closing:
        self.told.append("ending")
        return call.closing

    async def ended(self, page: int, text: str) -> None:
        self.told.append(f"ended {page} {text}")

    async def showing_status(self) -> None:
        """Not recorded here."""
