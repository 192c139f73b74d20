"""The runs of this process, one asyncio task each, and the notices that stop them."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncGenerator
from typing import Final

import structlog

from swarm.clock import SECOND, boottime
from swarm.domain.answers.agents import StreamingAgent
from swarm.domain.model.agents import Agent
from swarm.domain.model.leases import FinishOutcome
from swarm.domain.model.runs import UNFINISHED
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.model.threads import is_user
from swarm.domain.model.triggers import NoticeView, Trigger, TriggerKind
from swarm.services.ground.guarded import attempt
from swarm.services.ground.idempotency import Caller
from swarm.services.ground.locks import LockTerm
from swarm.services.inbox.work import Work
from swarm.services.runs.answer_run import AnswerRun, RunContext, RunSource
from swarm.services.runs.event_sources import AgentSource, HandleNotifications, ManagedAgent, StreamSource
from swarm.services.tasks.delegate import Delegations
from swarm.services.tasks.tasks import Tasks
from swarm.store.bridge.statements import Row
from swarm.store.bridge.transaction import Transaction
from swarm.store.runs import run_events, runs

CARD_WAITS_SECONDS: Final = 10.0
"""How long a card waits, from its creation, for the text that leads to it. Slack may be slow to accept streams, and
people have to be asked nevertheless.
"""

_LOOK_SECONDS: Final = 0.1

_log = structlog.get_logger(__name__)


class ActiveRuns:
    """Control of the runs in this process: their start, stop and end."""

    def __init__(self, run_context: RunContext) -> None:
        self._run_context = run_context
        self._term = LockTerm(0, -math.inf, boottime)
        self._runs: dict[AnswerRun, asyncio.Task[None]] = {}
        self._changed = asyncio.Condition()

    def begin_term(self, term: LockTerm) -> None:
        """Sets the term during which this process may call Slack for runs."""
        self._term = term

    def places(self, agent_id: str, parallel: int) -> int:
        """Returns how many more runs an agent may have."""
        return parallel - sum(run.source.agent_id == agent_id for run in self._runs)

    def has_room(self, agent_id: str, parallel: int) -> bool:
        """Whether an agent may have another run."""
        return self.places(agent_id, parallel) > 0

    async def room(self, agent_id: str, parallel: int) -> None:
        """Waits until an agent may have another run."""
        async with self._changed:
            await self._changed.wait_for(lambda: self.has_room(agent_id, parallel))

    def begin(self, agent: Agent, one: ManagedAgent, trigger: Trigger, take_news: HandleNotifications) -> None:
        """Starts the run for a claimed trigger."""
        self._begin(AgentSource(self._run_context, agent, one, trigger, take_news))

    async def begin_streams(self) -> None:
        """Starts showing each open answer of a polling agent that this process does not show yet."""
        for run_id in await self._run_context.database.read(run_events.running):
            if not self.runs(run_id):
                self._begin(StreamSource(self._run_context, run_id))

    def stop(self, run_id: str, by: str | None) -> None:
        """Stops a run for the person with this user id. A run of another process is stopped by that process."""
        for run in self._runs:
            if run.run_id == run_id:
                run.stop(by)

    def stop_for_task(self, task_id: str, by: str | None) -> None:
        """Stops the run of a cancelled task; ``by`` is the user id of the person if a person cancelled the task."""
        for run in self._runs:
            if run.source.task_id == task_id:
                run.stop(by)

    def withdraw(self, inbox_message_id: str) -> None:
        """Stops a run after the deletion of its last remaining message."""
        for run in self._runs:
            if inbox_message_id in run.source.inbox_message_ids:
                run.source.inbox_message_ids.remove(inbox_message_id)
                if not run.source.inbox_message_ids:
                    run.stop(None)

    def lose(self, agent_id: str) -> None:
        """Ends the runs of a removed agent as lost and stops showing their answers."""
        for run in self._runs:
            if run.source.agent_id == agent_id:
                run.lose()

    def runs(self, run_id: str) -> bool:
        """Whether this process executes a run, or is just starting or ending it."""
        return any(run.run_id == run_id for run in self._runs)

    @contextlib.asynccontextmanager
    async def around_card(self, card: Row) -> AsyncGenerator[None, None]:
        """Keeps the reading order around the card of a request.

        Waits for a limited time until Slack has what the agent of the request has said in the thread so far, in
        messages that are final. What it says in the meantime comes below the card.
        """
        seconds, run_ids = await self._run_context.database.read(self._around_card, card)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    for run_id in run_ids:
                        await self._sealed(run_id)
            yield
        finally:
            for run in self._runs:
                if run.run_id in run_ids:
                    run.go_on()

    @staticmethod
    def _around_card(tx: Transaction, card: Row) -> tuple[float, list[str]]:
        """Returns how long a card may still wait, and the runs of its agent that may lead to it."""
        age_seconds = (tx.now - card["created_at"]) / SECOND
        found = [
            run.id
            for run in runs.of_thread(tx, card["thread_id"])
            if run.agent_id == card["agent_id"] and run.status in UNFINISHED
        ]
        return max(0.0, CARD_WAITS_SECONDS - age_seconds), found

    async def _sealed(self, run_id: str) -> None:
        """Waits until the messages of a run are final, or the run has ended."""
        while (found := next((run for run in self._runs if run.run_id == run_id), None)) is None:
            row = await self._run_context.database.read(runs.get, run_id)
            if row is None or row.status not in UNFINISHED:
                return
            await asyncio.sleep(_LOOK_SECONDS)  # it is about to begin here
        task = self._runs[found]
        sealing = asyncio.create_task(attempt(found.seal(), "deliver", turn=run_id))
        try:
            await asyncio.wait({task, sealing}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sealing.cancel()

    async def end_all(self) -> None:
        """Ends every run and waits until all shown messages are sealed."""
        tasks = list(self._runs.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, source: RunSource) -> None:
        run = AnswerRun(self._run_context, source, self._term)
        task = asyncio.create_task(run.run(), name=f"run {run.run_id}")
        self._runs[run] = task
        task.add_done_callback(lambda done: self._ended(run, done))

    def _ended(self, run: AnswerRun, task: asyncio.Task[None]) -> None:
        self._runs.pop(run, None)
        if not task.cancelled() and task.exception() is not None:
            _log.error("a run failed", action="turn", turn=run.run_id, exc_info=task.exception())
        self._run_context.background.start(self._tell())

    async def _tell(self) -> None:
        async with self._changed:
            self._changed.notify_all()


class RunNotifications:
    """The handler of notices for agents that the coordinator runs, because these agents receive no notices during a
    run.
    """

    def __init__(self, work: Work, tasks: Tasks, delegations: Delegations, running: ActiveRuns) -> None:
        self._work = work
        self._tasks = tasks
        self._delegations = delegations
        self._runs = running

    async def hear(self, agent: Agent, one: ManagedAgent) -> None:
        """Handles all notices for an agent."""
        heartbeat = await self._work.renew(agent, [])
        for trigger in heartbeat.notices:
            await self.take(agent, one, trigger)

    async def take(self, agent: Agent, one: ManagedAgent, trigger: Trigger) -> None:
        """Handles one notice and finishes it, or starts the run that it needs."""
        if starts_run(one.spec, trigger):
            self._runs.begin(agent, one, trigger, self.take)
            return
        await attempt(self._act(agent, trigger), "turn_news", trigger=trigger.id)
        if trigger.kind is TriggerKind.AGENT_MESSAGE and one.spec.has_team:
            await self._work.set_aside(agent, trigger.lease_token)
        else:
            await self._work.finish(agent, [trigger.lease_token], FinishOutcome.DONE)

    async def _act(self, agent: Agent, trigger: Trigger) -> None:
        notice = trigger.notice
        caller = Caller(agent=agent, lease_token=trigger.lease_token)
        match trigger.kind:
            case TriggerKind.MESSAGE_DELETED if notice and notice.inbox_message_id:
                self._runs.withdraw(notice.inbox_message_id)
            case TriggerKind.TASK_CANCELLED if trigger.task:
                self._runs.stop_for_task(trigger.task.id, _person(notice))
            case TriggerKind.TASK_OFFERED if trigger.task:
                await self._delegations.accept(caller, trigger.task.id)
            case TriggerKind.TASK_RETURNED if trigger.task:
                await self._tasks.cancel(caller, trigger.task.id, "its worker has gone")
            case _:
                """The agent replies to messages from people; other notices need no action."""


def starts_run(spec: StreamingAgent, trigger: Trigger) -> bool:
    """Whether a notice starts a run of an agent. The ends of tasks do, for agents that delegate, except those that a
    person has cancelled: the thread has been told, and a lead could give out again what people have stopped.
    """
    is_end = spec.leads and trigger.kind in (TriggerKind.TASK_FINISHED, TriggerKind.TASK_RETURNED)
    is_cancelled = trigger.task is not None and trigger.task.status is TaskStatus.CANCELLED
    return is_end and not (is_cancelled and _person(trigger.notice))


def _person(notice: NoticeView | None) -> str | None:
    """Returns the user id of the person who caused a notice; None for an agent or an operator."""
    actor = notice.actor if notice else None
    return actor.id if actor and is_user(actor.id) else None
