"""The turns that this process runs at the moment, one task each."""

from __future__ import annotations

import asyncio
import math

import structlog

from swarm.domain.model.agents import Agent
from swarm.domain.model.triggers import Trigger
from swarm.services.outbox.elections import OfficeTerm, boottime
from swarm.services.runs.active_streams import ActiveStreams
from swarm.services.runs.answer_run import AnswerRun
from swarm.services.runs.run_context import HandleNotifications, ManagedAgent, RunContext

_log = structlog.get_logger(__name__)


class ActiveRuns:
    """Begins turns, stops them, and ends them all."""

    def __init__(self, crew: RunContext) -> None:
        self._streams = ActiveStreams(crew)
        self._crew = crew
        self._term = OfficeTerm(0, -math.inf, boottime)
        self._runs: dict[AnswerRun, asyncio.Task[None]] = {}
        self._changed = asyncio.Condition()

    def begin_term(self, term: OfficeTerm) -> None:
        """From now on this process may call Slack for turns, as long as the term holds."""
        self._term = term

    def places(self, agent_id: str, parallel: int) -> int:
        """How many more runs an agent may have beside those it has."""
        return parallel - sum(run.agent.id == agent_id for run in self._runs)

    def has_room(self, agent_id: str, parallel: int) -> bool:
        """Whether it may have another one."""
        return self.places(agent_id, parallel) > 0

    async def room(self, agent_id: str, parallel: int) -> None:
        """Wait until there is."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.has_room(agent_id, parallel))

    def begin(self, agent: Agent, one: ManagedAgent, trigger: Trigger, take_news: HandleNotifications) -> None:
        """Begin the run for what was claimed."""
        run = AnswerRun(self._crew, agent, one, trigger, self._term, take_news)
        task = asyncio.create_task(run.run(), name=f"turn {run.turn_id}")
        self._runs[run] = task
        task.add_done_callback(lambda done: self._ended(run, done))

    def stop(self, turn_id: str, by: str | None) -> None:
        """A person, by user id, does not want a turn any more. One that does not run here is left to where it does."""
        self._streams.stop(turn_id, by)
        for run in self._runs:
            if run.turn_id == turn_id:
                run.stop(by)

    def stop_for_task(self, task_id: str, by: str | None) -> None:
        """A task is cancelled, by a person with this user id or by somebody else."""
        for run in self._runs:
            if run.task_id == task_id:
                run.stop(by)

    def withdraw(self, entry_id: str) -> None:
        """A message is deleted: a run that has no other to answer is stopped."""
        for run in self._runs:
            run.withdraw(entry_id)

    def lose(self, agent_id: str) -> None:
        """An agent was removed: its work is not its own any more, and nothing more of it is shown."""
        for run in self._runs:
            if run.agent.id == agent_id:
                run.lose()

    def runs(self, turn_id: str) -> bool:
        """Whether this process runs a turn, or is just beginning or ending it."""
        return self._streams.shows(turn_id) or any(run.turn_id == turn_id for run in self._runs)

    async def begin_streams(self) -> None:
        """Begin to show what polling agents have opened."""
        await self._streams.begin_opened(self._term)

    async def end_all(self) -> None:
        """End every run, and wait until what it showed is sealed."""
        tasks = list(self._runs.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(self._streams.end_all(), *tasks, return_exceptions=True)

    def _ended(self, run: AnswerRun, task: asyncio.Task[None]) -> None:
        self._runs.pop(run, None)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a turn failed", action="turn", turn=run.turn_id, exc_info=task.exception())
        self._crew.background(self._tell())

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()
