"""What the crash tests play with, and their judgement: what people see in the twin, never our own tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any

import httpx2
import pytest

from swarm_lab.bench.agents import Part, playing, question
from swarm_lab.bench.storm import Asked, Log, Seen, judge
from tests.crash.kill_agent import CarefulAgent
from tests.support.doors import Visitor
from tests.support.stage import Stage
from tests.support.twin_client import ANSWERED, STORED, Conversation, TwinClient
from tests.support.waiting import wait_until

Trigger = Mapping[str, Any]

both_engines = pytest.mark.parametrize(
    "engine", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)], indirect=True
)
"""On SQLite, and in ``make proof`` on PostgreSQL as well; without this a test runs on SQLite alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Scene:
    """A twin, a coordinator to be killed, and a lead that the test plays."""

    stage: Stage
    http: httpx2.AsyncClient
    twin: TwinClient
    lea: Visitor

    async def trigger(self, *timestamps: str) -> Trigger:
        """The next trigger of the lead, which must be about exactly these messages."""
        (trigger,) = await self.lea.poll(wait_seconds=20, limit=1)
        assert [inbox_message["ts"] for inbox_message in trigger["inbox_messages"]] == list(timestamps)
        return trigger

    async def reply(self, trigger: Trigger, text: str) -> None:
        """Answer a trigger with the real tool."""
        await self.lea.uses("slack-reply", lease_of(trigger), inbox_message_id=inbox_message_of(trigger), message=text)

    async def answered_once(self, ts: str, *answers: str, channel: str = "general") -> Conversation:
        """Nothing is left to do, and people see 👀, these answers and ✅, each once."""
        await self.settled()
        seen = await self.twin.conversation(ts, channel=channel)
        assert seen.answers == answers
        assert sorted(seen.reactions) == [(STORED, ("swarm",)), (ANSWERED, ("swarm",))]
        return seen

    async def settled(self, within_seconds: float = 60) -> None:
        """The coordinator has nothing left to do, and nothing for the lead."""
        await wait_until(
            lambda: self.stage.backlog(self.http), lambda n: n == 0, within_seconds=within_seconds, what="all is done"
        )
        assert await self.lea.poll() == []


def lease_of(trigger: Trigger) -> str:
    return str(trigger["lease"]["token"])


def inbox_message_of(trigger: Trigger) -> str:
    return str(trigger["inbox_messages"][-1]["id"])


async def ask(
    twin: TwinClient, number: int, channel: str, root: Asked | None, *, delegate: bool = False, mention: bool = True
) -> Asked:
    """Ask for the answer to message ``number``, in a new thread or below a root."""
    text = question(number, delegate=delegate)
    said = {"user": "alice", "channel": channel, "text": f"@swarm {text}" if mention else text}
    posted = await twin.ask("POST", "messages", json=said | ({"thread_ts": root.ts} if root else {}))
    thread_ts = root.ts if root else posted["ts"]
    return Asked(name=f"m{number}", channel=posted["channel"], ts=posted["ts"], thread_ts=thread_ts)


def answering(scene: Scene, runs: int = 3) -> AbstractAsyncContextManager[object]:
    """Runs of the lead that poll and answer, as a team of processes with one token would, whatever becomes of it."""
    return playing(CarefulAgent(Part(port=scene.stage.port, token=scene.lea.token, hands=runs)).play())


async def until_answered(twin: TwinClient, asked: Sequence[Asked], *, within_seconds: float) -> None:
    """Wait until each message has an answer."""

    async def missing() -> list[str]:
        log = await _log(twin)
        return [message.name for message in asked if not log.answered(message)]

    await wait_until(missing, lambda names: not names, within_seconds=within_seconds, what="answers")


async def _log(twin: TwinClient) -> Log:
    log = Log()
    log.read(await twin.calls())
    return log


async def verdict(twin: TwinClient, asked: Sequence[Asked]) -> dict[str, float]:
    """What is not as it should be: nothing, in the end."""
    seen = {
        (channel, message["ts"]): Seen.of(message)
        for channel in {one.channel for one in asked}
        for message in await twin.messages(channel=channel)
    }
    return {figure.what: figure.value for figure in judge(asked, await _log(twin), seen) if figure.value}
