"""Answers that polling agents give live, in tests: begun under a lease, and looked at as people see them."""

from __future__ import annotations

from dataclasses import dataclass

from swarm.domain.model.agents import Agent
from swarm.domain.model.threads import SlackMessage
from swarm.domain.model.triggers import Trigger
from swarm.services.ground.idempotency import Caller
from swarm.services.runs.stream import AnswerStreams, Streamed
from swarm.store.runs import runs
from swarm.store.runs.runs import Run
from tests.support.live import Show, Shown
from tests.support.waiting import wait_until
from tests.support.world import BOT, World, holding


@dataclass(frozen=True, kw_only=True)
class Writing:
    """A run that writes an answer."""

    world: World
    agent: Agent
    root: SlackMessage
    trigger: Trigger
    run_id: str

    @property
    def caller(self) -> Caller:
        return holding(self.trigger, self.agent)

    @property
    def streams(self) -> AnswerStreams:
        return self.world.services.streams

    async def append(self, text: str) -> Streamed:
        return await self.streams.append(self.caller, self.run_id, text)

    async def close(self, text: str = "", result: str | None = None, failed: str | None = None) -> Streamed:
        return await self.streams.close(self.caller, self.run_id, text, result, failed)

    async def run(self) -> Run:
        found = await self.world.database.read(runs.get, self.run_id)
        assert found is not None
        return found

    async def over(self, show: Show) -> Shown:
        """The one message of the answer once it has been brought to its end."""
        await self.ended()
        (message,) = show.live.of(self.root)
        return message

    async def ended(self) -> Run:
        return await wait_until(self.run, lambda run: run.ended_at is not None, what="the run has ended")

    async def until_shown(self, show: Show, piece: str) -> None:
        async def text() -> str:
            return "".join(shown.text for shown in show.live.of(self.root))

        await wait_until(text, lambda seen: piece in seen, what=f"{piece!r} is shown")


async def begun(world: World, agent: Agent, *, text: str = f"{BOT} hello", hold: bool = False) -> Writing:
    """Somebody asks, and a run begins to answer."""
    root = await world.says(text)
    return await begun_for(world, agent, root, await world.only(agent, hold=hold))


async def begun_for(world: World, agent: Agent, root: SlackMessage, trigger: Trigger) -> Writing:
    opened = await world.services.streams.open(holding(trigger, agent), inbox_message_id=trigger.id)
    return Writing(world=world, agent=agent, root=root, trigger=trigger, run_id=opened["turn_id"])
