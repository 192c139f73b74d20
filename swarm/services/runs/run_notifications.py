"""News for streaming agents. They hear nothing while they run, so the coordinator acts on the news itself."""

from __future__ import annotations

from swarm.domain.model.agents import Agent
from swarm.domain.model.leases import FinishOutcome
from swarm.domain.model.triggers import NoticeView, Trigger, TriggerKind
from swarm.services.inbox.work import Work
from swarm.services.rules.guarded import attempt
from swarm.services.rules.reply import Caller
from swarm.services.runs.active_runs import ActiveRuns
from swarm.services.runs.run_input import is_user
from swarm.services.tasks.delegate import Delegations
from swarm.services.tasks.tasks import Tasks


class RunNotifications:
    """What a notice means for a streaming agent."""

    def __init__(self, work: Work, tasks: Tasks, delegations: Delegations, running: ActiveRuns) -> None:
        self._work = work
        self._tasks = tasks
        self._delegations = delegations
        self._turns = running

    async def hear(self, agent: Agent) -> None:
        """Act on all news that there is for an agent."""
        heartbeat = await self._work.renew(agent, [])
        for trigger in heartbeat.notices:
            await self.take(agent, trigger)

    async def take(self, agent: Agent, trigger: Trigger) -> None:
        """Act on one notice, and finish it."""
        await attempt(self._act(agent, trigger), "turn_news", trigger=trigger.id)
        await self._work.finish(agent, [trigger.lease_token], FinishOutcome.DONE)

    async def _act(self, agent: Agent, trigger: Trigger) -> None:
        notice = trigger.notice
        caller = Caller(agent=agent, lease_token=trigger.lease_token)
        match trigger.kind:
            case TriggerKind.MESSAGE_DELETED if notice and notice.inbox_message_id:
                self._turns.withdraw(notice.inbox_message_id)
            case TriggerKind.TASK_CANCELLED if trigger.task:
                self._turns.stop_for_task(trigger.task.id, _person(notice))
            case TriggerKind.TASK_OFFERED if trigger.task:
                await self._delegations.accept(caller, trigger.task.id)
            case TriggerKind.TASK_RETURNED if trigger.task:
                await self._tasks.cancel(caller, trigger.task.id, "its worker has gone")
            case _:
                """It answers what people said, and is done with it."""


def _person(notice: NoticeView | None) -> str | None:
    """Who caused it, by user id; None if an agent did, or an operator."""
    actor = notice.actor_id if notice else None
    return actor if actor and is_user(actor) else None
