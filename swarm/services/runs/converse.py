"""Running the agents that answer live: the coordinator claims their work itself, in the elected process.

Each agent has a loop that claims, and each claim becomes a turn with a task of its own. What a turn shows is the
reducer's business (`swarm.domain.answers`), what becomes of the work `run_ends`'s, and what is found unfinished
after a crash `run_recovery`'s. Only the elected process does any of this, since Slack's limits for streams are so low
that two could not share them without talking; it is fenced by its term, by the turn's row and by the lease.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Collection, Sequence
from typing import Any, Final

import structlog

from swarm.domain.answers.agents import Health, StreamingAgent
from swarm.domain.errors import SwarmError
from swarm.domain.model.agents import Agent
from swarm.domain.model.triggers import TriggerKind
from swarm.services.inbox.claim import Polls
from swarm.services.outbox.elections import OfficeTerm
from swarm.services.rules.guarded import attempt
from swarm.services.rules.participants import AGENTS
from swarm.services.runs.active_runs import ActiveRuns, RunNotifications
from swarm.services.runs.run_recovery import Recovery
from swarm.services.runs.sources import ManagedAgent
from swarm.store import agents
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.runs import runs

POLL_SECONDS: Final = 20.0
HEALTH_SECONDS: Final = 30.0
"""An agent that cannot be reached is asked again after this time, and one that can is, now and then, too."""

WORK: Final = frozenset({TriggerKind.SLACK_INBOX_MESSAGE, TriggerKind.TASK_ASSIGNED})

AT_ONCE: Final = 10
"""So much work is claimed together, so that nobody waits while Slack is asked for somebody else's name."""

AGAIN_SECONDS: Final = 2.0

RECOVER_SECONDS: Final = 10.0
"""So often turns are looked for that nobody runs."""

ENDING_SECONDS: Final = 5.0
"""So long the turns that run have to be sealed when the coordinator stops."""

_log = structlog.get_logger(__name__)


class Removed(Exception):
    """An operator has removed an agent: it gets nothing more."""


class Converse:
    """The use case that runs streaming agents."""

    def __init__(
        self,
        database: Database,
        polls: Polls,
        running: ActiveRuns,
        recovery: Recovery,
        news: RunNotifications,
        hired: Sequence[ManagedAgent],
    ) -> None:
        self._database = database
        self._polls = polls
        self._turns = running
        self._recovery = recovery
        self._news = news
        self._hired = {one.spec.name: one for one in hired}

    async def run(self, term: OfficeTerm) -> None:
        """Run the agents for as long as this process is elected. Cancelled, what runs is sealed and given back."""
        self._turns.begin_term(term)
        try:
            async with asyncio.TaskGroup() as works:
                works.create_task(self._recover(term), name="recovery")
                works.create_task(self._watch(), name="turns")
                for one in self._hired.values():
                    works.create_task(self._employ(one), name=f"agent {one.spec.name}")
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ENDING_SECONDS):
                    await self._turns.end_all()

    async def introduce(self, names: Collection[str] | None = None) -> None:
        """Register the agents, or those of these names: before the first message comes, and where they were removed."""
        for one in (one for name, one in self._hired.items() if names is None or name in names):
            await attempt(self._database.write(register, one.spec), "agent_register", agent=one.spec.name)

    async def close(self) -> None:
        """Let go of all connections to agents."""
        await asyncio.gather(*(one.client.aclose() for one in self._hired.values()))

    async def _recover(self, term: OfficeTerm) -> None:
        """Bring to an end what a predecessor left unfinished, and what could not be ended since."""
        while True:
            await attempt(self._recovery.recover(self._turns.runs, term.is_ours), "turn_recover")
            await asyncio.sleep(RECOVER_SECONDS)

    async def _employ(self, one: ManagedAgent) -> None:
        """Register an agent, and hand it work whenever it can be reached, except while it is removed."""
        agent = await self._registered(one)
        while True:
            with contextlib.suppress(Removed):
                await self._serve(agent, one)
            self._turns.lose(agent.id)
            _log.warning(
                "an agent was removed; it comes back with the next reload or start",
                action="agent_removed",
                agent=agent.name,
            )
            agent = await self._returned(one)

    async def _serve(self, agent: Agent, one: ManagedAgent) -> None:
        """Hand an agent work whenever it can be reached. Raises Removed, and nothing else."""
        while True:
            await self._until_reachable(one)
            until = asyncio.get_running_loop().time() + HEALTH_SECONDS
            while asyncio.get_running_loop().time() < until:
                await self._hand_out_once(agent, one)

    async def _returned(self, one: ManagedAgent) -> Agent:
        """The agent that was removed, once a reload, of any process, has registered it again."""
        wakeups = self._database.wakeups
        while True:
            seen = wakeups.generation(AGENTS)
            try:
                agent = await self._database.read(agents.by_name, one.spec.name)
            except SwarmError as error:
                _log.warning("an agent cannot be looked up", action="agent_register", error=str(error))
                agent = None
            if agent and agent.reach is one.spec.reach:
                return agent
            if wakeups.closed:
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                await wakeups.wait(AGENTS, seen, POLL_SECONDS)

    async def _hand_out_once(self, agent: Agent, one: ManagedAgent) -> None:
        """Raises Removed, and nothing else."""
        try:
            await self._hand_out(agent, one)
        except Removed:
            raise
        except Exception:  # noqa: BLE001 - whatever it is, it concerns this piece of work only
            _log.exception("work could not be handed out", action="converse", agent=agent.name)
            await asyncio.sleep(AGAIN_SECONDS)

    async def _registered(self, one: ManagedAgent) -> Agent:
        while True:
            try:
                return await self._database.write(register, one.spec)
            except SwarmError as error:
                _log.error(
                    "an agent cannot be registered", action="agent_register", agent=one.spec.name, error=str(error)
                )
                await asyncio.sleep(HEALTH_SECONDS)

    async def _until_reachable(self, one: ManagedAgent) -> None:
        """Wait until a run would reach the agent. Meanwhile it is offline, and people are told so as ever."""
        was: Health | None = None
        name = one.spec.name
        while not (health := await one.client.health()).reachable:
            if was != health:
                _log.warning("an agent cannot be reached", action="agent_health", agent=name, why=health.detail)
            was = health
            await asyncio.sleep(HEALTH_SECONDS / 3)
        if was:
            _log.info("an agent can be reached again", action="agent_health", agent=name)

    async def _hand_out(self, agent: Agent, one: ManagedAgent) -> None:
        """Claim what is due, once there is room for another run, and begin it."""
        await self._hear_until_room(agent, one.spec.parallel)
        if self._database.wakeups.closed:
            await asyncio.sleep(AGAIN_SECONDS)  # the coordinator stops: nothing new is begun
            return
        if await self._database.read(agents.by_id, agent.id) is None:
            raise Removed
        limit = max(1, min(AT_ONCE, self._turns.places(agent.id, one.spec.parallel)))
        news = []
        for trigger in await self._polls.poll(agent, wait_seconds=POLL_SECONDS, limit=limit):
            if trigger.kind in WORK:
                self._turns.begin(agent, one, trigger, self._news.take)
            else:
                news.append(trigger)
        for trigger in news:  # after all work was begun: what fails here must not leave any of it claimed
            await self._news.take(agent, trigger)

    async def _hear_until_room(self, agent: Agent, parallel: int) -> None:
        """Wait until another run may begin. Meanwhile news is heard: it may be what ends one of those that go on."""
        wakeups = self._database.wakeups
        while not self._turns.has_room(agent.id, parallel) and not wakeups.closed:
            seen = wakeups.generation(agent.id)
            await attempt(self._news.hear(agent), "turn_news", agent=agent.name)
            room = asyncio.create_task(self._turns.room(agent.id, parallel))
            waits: list[asyncio.Task[Any]] = [room, asyncio.create_task(wakeups.wait(agent.id, seen, POLL_SECONDS))]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()

    async def _watch(self) -> None:
        """What polling agents open is shown at once, and what people want stopped is stopped, wherever they said so."""
        wakeups = self._database.wakeups
        while True:
            seen = wakeups.generation(runs.TURNS)
            await attempt(self._turns.begin_streams(), "stream_begin")
            await attempt(self._stop_wanted(), "turn_stop")
            if wakeups.closed:
                await asyncio.sleep(AGAIN_SECONDS)
            else:
                await wakeups.wait(runs.TURNS, seen, AGAIN_SECONDS)

    async def _stop_wanted(self) -> None:
        for turn in await self._database.read(_stops_wanted):
            self._turns.stop(turn.id, turn.stop_requested_by)


def register(tx: Transaction, spec: StreamingAgent) -> Agent:
    """The agent as it is known to routing; it has no token, since it never calls."""
    agent = agents.ensure(tx, spec.name, spec.role, spec.description, (), spec.reach)
    tx.wake(AGENTS)
    return agent


def _stops_wanted(tx: Transaction) -> list[runs.Run]:
    found = (runs.get(tx, turn_id) for turn_id in runs.stops_wanted(tx))
    return [turn for turn in found if turn]
