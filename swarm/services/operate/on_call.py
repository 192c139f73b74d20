"""Escalations as agents ask for them, and the question who is on call.

The on-call agent, of any kind, has a task. The sweep looks at these tasks in the elected process: it takes the person
from the answer, asks Slack for that person, and posts the mention. What is guaranteed: the thread is told exactly once
who is on call, or that nobody was found; also after a restart at any step, because everything is in the rows. What
happens on failure: while Slack does not answer, the next round tries again until the time is over.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import structlog
from typing_extensions import TypedDict

from swarm.clock import to_iso
from swarm.domain.errors import Conflict, Invalid, NotFound, Unavailable
from swarm.domain.model.tasks import OPEN_STATUSES, TaskStatus
from swarm.domain.policy.escalations import (
    Escalation,
    EscalationAsker,
    EscalationDoor,
    OnCall,
    asked_by,
    email_in,
    not_found_text,
    on_call_text,
    user_id_in,
)
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.ports import Directory, PeopleFinder
from swarm.services.ground.guarded import attempt
from swarm.services.ground.idempotency import Caller, IdempotentCall, idempotent
from swarm.services.requests.human_requests import AskedWork
from swarm.services.speaking.escalations import escalate, tell_on_call
from swarm.services.speaking.participants import read_roster
from swarm.services.speaking.silence import check_may_show
from swarm.services.work import task_ends
from swarm.services.work.fencing import authorize_message, authorize_task, lock_task
from swarm.store import escalations, tasks
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.threads import threads

BATCH: Final = 100
LOOKUP_SECONDS: Final = 2.0
"""The time for one lookup in a round; the sweep has other work."""

_NO_ANSWER: Final = "{agent} gave no answer in time"
_NOBODY: Final = "{agent} named nobody"
_UNKNOWN: Final = "{agent} named nobody in this Slack"
_SLACK_SILENT: Final = "Slack did not answer"
_GONE: Final = "{agent} is offline"
_FAILED: Final = "{agent} could not answer"

_log = structlog.get_logger(__name__)


class EscalationResult(TypedDict):
    """The thread's escalation: ``asked`` now, or ``asked_before``; who asked, when (ISO 8601), and why."""

    status: str
    by: str
    at: str
    reason: str


class Escalations:
    """The use case of agents. People's clicks are handled with the other buttons."""

    def __init__(self, database: Database, operating_policy: OperatingPolicy, directory: Directory) -> None:
        self._database = database
        self._operating_policy = operating_policy
        self._directory = directory

    async def escalate(self, caller: Caller, work: AskedWork, reason: str) -> EscalationResult:
        """Asks for a human in the thread of a piece of work that the caller holds. Its state does not change.

        Raises Invalid without a reason, Conflict if the work has no thread or the channel offers no help, and the
        errors of `authorize_message` and `authorize_task`.
        """
        if not reason.strip():
            raise Invalid("Say why a human is needed.", fields={"reason": "a sentence for people"})
        channel = await self._database.read(self._channel_of, work)
        name = await self._directory.channel_name(channel) if channel else ""
        return await self._database.write(self._escalate, caller, work, reason, name)

    @staticmethod
    def _channel_of(tx: Transaction, work: AskedWork) -> str | None:
        found = tasks.get(tx, work.task_id) if work.task_id else inbox.get(tx, work.inbox_message_id or "")
        thread = threads.get(tx, found.thread_id) if found and found.thread_id else None
        return thread.channel if thread else None

    def _escalate(
        self, tx: Transaction, caller: Caller, work: AskedWork, reason: str, channel_name: str
    ) -> EscalationResult:
        found = tasks.get(tx, work.task_id) if work.task_id else inbox.get(tx, work.inbox_message_id or "")
        work_id = work.task_id or work.inbox_message_id or ""
        lease_token = found.lease_token if found else None
        call = IdempotentCall.of(caller, "escalate", work_id, {"reason": reason}, lease_token)

        def act() -> EscalationResult:
            thread = (
                authorize_task(tx, caller.agent, work.task_id, caller.lease_token).thread
                if work.task_id
                else authorize_message(tx, caller.agent, work_id, caller.lease_token).thread
            )
            if thread is None:
                raise Conflict("This task has no Slack thread, so no human can be asked there.")
            check_may_show(thread, "no human can be called")
            asker = EscalationAsker(
                door=EscalationDoor.TOOL,
                agent_id=caller.agent.id,
                name=caller.agent.name,
                channel_name=channel_name,
            )
            escalation, is_new = escalate(tx, thread, asker, reason, self._operating_policy)
            return _result(escalation, is_new=is_new)

        return idempotent(tx, call, act)


def _result(escalation: Escalation, *, is_new: bool) -> EscalationResult:
    return EscalationResult(
        status="asked" if is_new else "asked_before",
        by=asked_by(escalation),
        at=to_iso(escalation.created_at),
        reason=escalation.reason,
    )


# --- The question who is on call


@dataclass(frozen=True, kw_only=True, slots=True)
class _Answer:
    """The end of the question: the agent's text, or why there is none (a clause)."""

    agent: str
    text: str = ""
    why: str = ""
    is_late: bool = False  # the time is over


async def tend_on_call(database: Database, operating_policy: OperatingPolicy, people: PeopleFinder) -> None:
    """Tells the threads whose on-call agent has answered, or will not."""
    found = await database.read(escalations.waiting_for_on_call, BATCH)
    tending = (_tend(database, operating_policy, people, one) for one in found)
    await asyncio.gather(*(attempt(one, "tend_on_call") for one in tending))


async def _tend(
    database: Database, operating_policy: OperatingPolicy, people: PeopleFinder, escalation: Escalation
) -> None:
    answer = await database.read(_answer_to, escalation, operating_policy)
    if answer is None:
        return
    person, why = None, answer.why
    if not why:
        try:
            async with asyncio.timeout(LOOKUP_SECONDS):
                person = await _person_in(answer.text, people)
            why = (_UNKNOWN if _names_somebody(answer.text) else _NOBODY).format(agent=answer.agent)
        except NotFound as error:  # Slack refuses the lookup, for example without the scope users:read.email
            _log.warning("The person on call cannot be looked up.", action="on_call", error=error.message)
            why = f"Slack refused to look them up ({error.message.rstrip('.')})"
        except (TimeoutError, Unavailable):
            if not answer.is_late:
                raise
            why = _SLACK_SILENT
    await database.write(_conclude, escalation.id, person, why, operating_policy)


def _answer_to(tx: Transaction, escalation: Escalation, operating_policy: OperatingPolicy) -> _Answer | None:
    """Returns the end of an on-call agent's task; None while the agent may still answer."""
    task = tasks.get(tx, escalation.on_call_task_id or "")
    agent = read_roster(tx, operating_policy).by_id(task.agent_id) if task else None
    name = agent.name if agent else operating_policy.policy(_channel(tx, escalation)).escalation.agent or "the agent"
    is_late = tx.now >= (escalation.on_call_ends_at or 0)
    if task and task.status is TaskStatus.COMPLETED:
        return _Answer(agent=name, text=task.result or "", is_late=is_late)
    if task is None or task.status not in OPEN_STATUSES:
        return _Answer(agent=name, why=_FAILED.format(agent=name))
    if agent is None or not agent.online:
        return _Answer(agent=name, why=_GONE.format(agent=name))
    return _Answer(agent=name, why=_NO_ANSWER.format(agent=name)) if is_late else None


def _conclude(
    tx: Transaction, escalation_id: str, person: str | None, why: str, operating_policy: OperatingPolicy
) -> None:
    found = escalations.get(tx, escalation_id)
    if found is None:
        return
    thread = threads.locked(tx, found.thread_id)
    how, said = (OnCall.FOUND, person) if person else (OnCall.NOT_FOUND, why)
    if not escalations.on_call_ended(tx, found, how, said):
        return
    team = found.on_call_team
    tell_on_call(tx, thread, found, on_call_text(team, person) if person else not_found_text(team, why))
    task = lock_task(tx, found.on_call_task_id or "")
    if task and task.status in OPEN_STATUSES:
        task_ends.cancel(tx, task, "because nobody waits for the answer any more", operating_policy)


def _channel(tx: Transaction, escalation: Escalation) -> str:
    thread = threads.get(tx, escalation.thread_id)
    return thread.channel if thread else ""


def _names_somebody(answer: str) -> bool:
    return bool(email_in(answer) or user_id_in(answer))


async def _person_in(answer: str, people: PeopleFinder) -> str | None:
    """Returns the user id of the person that an answer names, as Slack confirms; None if it names nobody Slack knows.

    Raises Unavailable, or NotFound if Slack refuses the lookup.
    """
    email, user_id = email_in(answer), user_id_in(answer)
    person = await people.user_by_email(email) if email else await people.user(user_id) if user_id else None
    return person.id if person and person.is_known else None
