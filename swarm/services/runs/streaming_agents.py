"""Runs the streaming agents: the elected coordinator process claims their work itself.

Each agent has a loop that claims work, and each claim becomes a run in an asyncio task of its own. The reducer
(`swarm.domain.answers`) decides what to show, `run_ends` settles the work, and `run_recovery` handles unfinished runs
after a crash. Only the elected process runs agents, because Slack's limits for streams are too low for two processes
without coordination. Its actions are fenced by its term, by the row of the run and by the lease.
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
from swarm.services.ground.guarded import attempt, watch
from swarm.services.ground.locks import LockTerm
from swarm.services.inbox.polls import Polls
from swarm.services.runs.active_runs import ActiveRuns, RunNotifications, starts_run
from swarm.services.runs.event_sources import ManagedAgent
from swarm.services.runs.run_recovery import Recovery
from swarm.store import agents
from swarm.store.agents import AGENTS
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.runs import runs

POLL_SECONDS: Final = 20.0
HEALTH_SECONDS: Final = 30.0
"""The interval between health checks of an agent, whether reachable or not."""

WORK: Final = frozenset({TriggerKind.SLACK_INBOX_MESSAGE, TriggerKind.TASK_ASSIGNED})

AT_ONCE: Final = 10
"""The number of triggers claimed together, so that no run waits while another author's name is fetched from Slack."""

AGAIN_SECONDS: Final = 2.0

RECOVER_SECONDS: Final = 10.0
"""The interval between searches for unfinished runs that no process executes."""

ENDING_SECONDS: Final = 5.0
"""The time allowed for sealing active runs when the coordinator stops."""

_log = structlog.get_logger(__name__)


class _Removed(Exception):
    """Raised when an operator has removed an agent, which then gets no more work."""


class StreamingAgentRuns:
    """The service that runs the streaming agents."""

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
        self._runs = running
        self._recovery = recovery
        self._news = news
        self._hired = {one.spec.name: one for one in hired}

    async def run(self, term: LockTerm) -> None:
        """Runs the agents while this process is elected.

        On cancellation, it seals active answers and gives their work back.
        """
        self._runs.begin_term(term)
        try:
            async with asyncio.TaskGroup() as works:
                works.create_task(self._recover(term), name="recovery")
                looks = watch(
                    self._database.wakeups,
                    runs.RUNS,
                    self._look_at_runs,
                    "turn_stop",
                    seconds=AGAIN_SECONDS,
                    after_shutdown=True,
                )
                works.create_task(looks, name="runs")
                for one in self._hired.values():
                    works.create_task(self._employ(one), name=f"agent {one.spec.name}")
        finally:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ENDING_SECONDS):
                    await self._runs.end_all()

    async def introduce(self, names: Collection[str] | None = None) -> None:
        """Registers all agents, or the named agents, before the first message arrives or after a removal."""
        for one in (one for name, one in self._hired.items() if names is None or name in names):
            await attempt(self._database.write(register, one.spec), "agent_register", agent=one.spec.name)

    async def close(self) -> None:
        """Closes all connections to agents."""
        await asyncio.gather(*(one.client.aclose() for one in self._hired.values()))

    async def _recover(self, term: LockTerm) -> None:
        """Ends the unfinished runs of a predecessor, and earlier runs that could not be ended."""
        while True:
            await attempt(self._recovery.recover(self._runs.runs, term.is_ours), "turn_recover")
            await asyncio.sleep(RECOVER_SECONDS)

    async def _employ(self, one: ManagedAgent) -> None:
        """Registers an agent and gives it work whenever it is reachable, unless it is removed."""
        agent = await self._registered(one)
        while True:
            with contextlib.suppress(_Removed):
                await self._serve(agent, one)
            self._runs.lose(agent.id)
            _log.warning(
                "an agent was removed; it comes back with the next reload or start",
                action="agent_removed",
                agent=agent.name,
            )
            agent = await self._returned(one)

    async def _serve(self, agent: Agent, one: ManagedAgent) -> None:
        """Gives an agent work whenever it is reachable. Raises only `_Removed`."""
        while True:
            await self._until_reachable(one)
            until = asyncio.get_running_loop().time() + HEALTH_SECONDS
            while asyncio.get_running_loop().time() < until:
                await self._hand_out_once(agent, one)

    async def _returned(self, one: ManagedAgent) -> Agent:
        """Waits until any process has registered the removed agent again on a reload, and returns the agent."""
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
        """Gives the agent work once. Raises only `_Removed`."""
        try:
            await self._hand_out(agent, one)
        except _Removed:
            raise
        except Exception:  # noqa: BLE001 - any failure concerns this piece of work only
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
        """Waits until the agent is reachable. In the meantime the agent is offline, with the usual failover."""
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
        """Claims due work when another run may start, and starts the run."""
        await self._hear_until_room(agent, one)
        if self._database.wakeups.closed:
            await asyncio.sleep(AGAIN_SECONDS)  # the coordinator is stopping: no new runs start
            return
        if await self._database.read(agents.by_id, agent.id) is None:
            raise _Removed
        limit = max(1, min(AT_ONCE, self._runs.places(agent.id, one.spec.parallel)))
        news = []
        triggers = await self._polls.poll(agent, wait_seconds=POLL_SECONDS, limit=limit, hold=one.spec.leads)
        for trigger in triggers:
            if trigger.kind in WORK or starts_run(one.spec, trigger):
                self._runs.begin(agent, one, trigger, self._news.take)
            else:
                news.append(trigger)
        for trigger in news:  # handled after all work has started: a failure here must not leave work claimed
            await self._news.take(agent, one, trigger)

    async def _hear_until_room(self, agent: Agent, one: ManagedAgent) -> None:
        """Waits until another run may start. In the meantime notices are handled, because a notice may end an active
        run.
        """
        wakeups, parallel = self._database.wakeups, one.spec.parallel
        while not self._runs.has_room(agent.id, parallel) and not wakeups.closed:
            seen = wakeups.generation(agent.id)
            await attempt(self._news.hear(agent, one), "turn_news", agent=agent.name)
            room = asyncio.create_task(self._runs.room(agent.id, parallel))
            waits: list[asyncio.Task[Any]] = [room, asyncio.create_task(wakeups.wait(agent.id, seen, POLL_SECONDS))]
            try:
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for wait in waits:
                    wait.cancel()

    async def _look_at_runs(self) -> None:
        """Starts the streams of polling agents at once, and stops runs at the request of any process."""
        await attempt(self._runs.begin_streams(), "stream_begin")
        await self._stop_wanted()

    async def _stop_wanted(self) -> None:
        for run in await self._database.read(self._stops_wanted):
            self._runs.stop(run.id, run.stop_requested_by)

    @staticmethod
    def _stops_wanted(tx: Transaction) -> list[runs.Run]:
        found = (runs.get(tx, run_id) for run_id in runs.stops_wanted(tx))
        return [run for run in found if run]


def register(tx: Transaction, spec: StreamingAgent) -> Agent:
    """Registers the agent for routing. It gets no token, because it never calls the coordinator."""
    if spec.formerly and agents.rename(tx, spec.formerly, spec.name, spec.reach):
        _log.info("an agent was renamed", action="agent_register", agent=spec.name, formerly=spec.formerly)
    agent = agents.ensure(tx, spec.name, spec.role, spec.description, (), spec.reach)
    tx.wake(AGENTS)
    return agent
