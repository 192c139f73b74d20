"""What the swarm's own tools do for the agents that run in the coordinator.

Who may act: a run while it has its work. Its calls are those of its agent, under the lease of its work.

What happens on failure: a run that is repeated after a crash finds what it has created before, because its request ids
count for the work, not for the lease. After an answer, a failure or a Stop, the work of another run counts anew.
"""

from __future__ import annotations

from dataclasses import dataclass

from swarm.domain.answers.events import InputMessage, Speaker
from swarm.domain.errors import Conflict, LeaseLost, NotFound, Withdrawn
from swarm.domain.model.agents import Agent
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.runs import RunStatus
from swarm.services.inbox.triggers import ThreadTranscript, Triggers, inbox_message_views, read_conversation
from swarm.services.work.fencing import authorize_message
from swarm.store import agents, requests
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.runs import runs
from swarm.store.runs.runs import Run


@dataclass(frozen=True, kw_only=True, slots=True)
class RunWork:
    """The work of a run, on whose behalf its model calls tools."""

    agent: Agent
    lease_token: str
    work: str  # the same for all runs that repeat each other; see `swarm.services.ground.idempotency.Caller.work`
    thread_id: str | None
    inbox_message_id: str | None  # the first message that needs an answer; None: the run is about something else


class RunCalls:
    """Finds the work of runs, and the messages that people write to a run meanwhile."""

    def __init__(self, database: Database, triggers: Triggers) -> None:
        self._database = database
        self._triggers = triggers

    async def work_of(self, run_id: str) -> RunWork:
        """Returns the work of a run. Raises Conflict if the run has ended."""
        return await self._database.read(self._work_of, run_id)

    @staticmethod
    def _work_of(tx: Transaction, run_id: str) -> RunWork:
        run = runs.get(tx, run_id)
        agent = agents.by_id(tx, run.agent_id) if run else None
        if run is None or agent is None or run.status is not RunStatus.RUNNING:
            raise Conflict("This run has ended.", hint="Stop working on it.")
        tries = runs.count_ended(tx, run.thread_id, run.trigger_id) if run.thread_id else 0
        found = [inbox.get(tx, inbox_message_id) for inbox_message_id in run.inbox_message_ids]
        open_ids = [one.id for one in found if one and one.status is InboxStatus.CLAIMED]
        return RunWork(
            agent=agent,
            lease_token=run.lease_token,
            work=f"{run.trigger_id}:{tries}",
            thread_id=run.thread_id,
            inbox_message_id=next(iter((*open_ids, *run.inbox_message_ids)), None),
        )

    async def follow_ups(self, run_id: str) -> tuple[InputMessage, ...]:
        """Returns what people have written in the thread since a task's run has begun, each message once.

        The run has to answer these messages: they end with its task, or are handed out again. Raises Unavailable.
        """
        if not await self._database.read(self._has_follow_ups, run_id):
            return ()
        try:
            conversation = await self._database.write(self._taken, run_id)
        except (Conflict, LeaseLost, NotFound, Withdrawn):  # nothing was taken: the run is ending, or a message is gone
            return ()
        if conversation is None:
            return ()
        _, readable = await self._triggers.conversation(conversation)
        return tuple(
            InputMessage(id=one.id, speaker=Speaker.USER, text=one.text, author=one.user.name, standing=one.standing)
            for one in inbox_message_views(readable)
        )

    @staticmethod
    def _has_follow_ups(tx: Transaction, run_id: str) -> bool:
        return bool(_waiting(tx, runs.get(tx, run_id)))

    @staticmethod
    def _taken(tx: Transaction, run_id: str) -> ThreadTranscript | None:
        """Puts the follow-ups under the lease of the run and returns them with their thread.

        None if there are none but those that have waited for a decision with the task, whose earlier run has read them.
        """
        run = runs.get(tx, run_id)
        agent = agents.by_id(tx, run.agent_id) if run else None
        if run is None or agent is None:
            return None
        held = [authorize_message(tx, agent, one, run.lease_token) for one in _waiting(tx, run)]
        asked = requests.of_works(tx, [run.task_id or ""]).get(run.task_id or "", ())
        heard = {message_id for request in asked for message_id in request.inbox_message_ids}
        new = [one.inbox_message for one in held if one.inbox_message.id not in heard]
        return read_conversation(tx, new) if new else None


def _waiting(tx: Transaction, run: Run | None) -> list[str]:
    """Returns the ids of the unread messages in the thread of a task's run."""
    if run is None or run.task_id is None or run.thread_id is None or run.status is not RunStatus.RUNNING:
        return []
    found = inbox.unread_of_lane(tx, run.agent_id, run.thread_id)  # not locked: the thread is locked before
    return [one.id for one in found if one.task_id == run.task_id]
