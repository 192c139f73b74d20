"""Requests as agents and the operator use them: asking, reading, withdrawing, the grants and the audit."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace
from typing import Final

import structlog

from swarm.domain.errors import Conflict, Invalid, NotFound, Unavailable
from swarm.domain.model.agents import Agent
from swarm.domain.model.grants import AuditKind, AuditLine, Grant
from swarm.domain.model.inbox import InboxStatus, InboxStep
from swarm.domain.model.requests import (
    OPERATOR,
    Asker,
    HumanRequest,
    NewRequest,
    RequestStatus,
    ResumeStatus,
    ResumeStep,
    tool_digest,
)
from swarm.domain.model.tasks import TaskStatus, TaskStep
from swarm.domain.policy.decision_rules import check_new
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.views import time_of
from swarm.services.ground.guarded import attempt
from swarm.services.ground.idempotency import Caller
from swarm.services.requests import asking as asking_people
from swarm.services.requests.asking import ask, cancel, lock_work, received, release, why_over
from swarm.services.speaking.silence import check_may_show
from swarm.services.work.fencing import AuthorizedMessage, AuthorizedTask, authorize_message, authorize_task
from swarm.services.work.leases import claimed_members, end_if_resolved
from swarm.store import deliveries, grants, requests, tasks
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.requests import DECISIONS, Waiting
from swarm.store.threads import threads
from swarm_base.processes.background import checked_in_turn

CALL_IS_OVER: Final = "the call that asked has ended"

_MISSING = "There is no such request."
_LOOK_SECONDS: Final = 60.0
_AGAIN_SECONDS: Final = 1.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class AskedWork:
    """The work that a question is about: exactly one of an inbox message and a task."""

    inbox_message_id: str | None = None
    task_id: str | None = None

    def __post_init__(self) -> None:
        if (self.inbox_message_id is None) == (self.task_id is None):
            problem = "exactly one of these"
            raise Invalid("Name the work that you ask about.", fields={"inbox_message_id": problem, "task_id": problem})


class HumanRequests:
    """The requests of agents. Methods that change something return after the commit."""

    def __init__(self, database: Database, operating_policy: OperatingPolicy) -> None:
        self._database = database
        self._operating_policy = operating_policy

    async def ask(self, caller: Caller, work: AskedWork, new: NewRequest, *, wait: bool) -> HumanRequest:
        """Asks people about a piece of work that the caller holds.

        Without ``wait``, the work waits for the decision and its lease ends. With it, the caller keeps the lease and
        waits with `get`. The same question about the same work is asked once, whoever asks. Raises Invalid, Conflict,
        and the errors of `authorize_message` and `authorize_task`.
        """
        await checked_in_turn(check_new, new)
        return await self._database.write(self._ask, caller, work, new, wait)

    def _ask(self, tx: Transaction, caller: Caller, work: AskedWork, new: NewRequest, wait: bool) -> HumanRequest:
        hold: AuthorizedMessage | AuthorizedTask
        if work.task_id is not None:
            hold = authorize_task(tx, caller.agent, work.task_id, caller.lease_token)
        else:
            hold = authorize_message(tx, caller.agent, work.inbox_message_id or "", caller.lease_token)
        waiting = _waiting(tx, caller, hold, Asker.LIVE if wait else Asker.DURABLE)
        thread = threads.get(tx, waiting.thread_id)
        check_may_show(thread, "people cannot be asked")
        tool = new.tool.name if new.tool else None
        policy = self._operating_policy.decision_policy(
            caller.agent.name, thread.channel if thread else None, tool, new.policy
        )
        key = f"work:{waiting.work_id}:{caller.request_id or new.key}"
        named = replace(new, key=key, policy=policy, agent_request_id=caller.request_id or new.agent_request_id)
        request = ask(tx, named, waiting)
        if request.is_open and not wait:
            _wait(tx, hold)
        if not request.is_open and request.resume is ResumeStatus.NONE:
            requests.resume(tx, ResumeStep.SEND, request)  # the caller may act on it now
        return request

    async def ask_during_run(self, run_id: str, tool: str, new: NewRequest) -> HumanRequest:
        """Asks people for a call of a tool that waits in this process; implements `AskPeople` of the agents.

        Returns the request when it has ended. If the caller is cancelled, the request is withdrawn. Raises Conflict if
        the run is over or has nobody to ask, Invalid, and Unavailable.
        """
        await checked_in_turn(check_new, new)
        asking = asyncio.ensure_future(
            self._database.write(asking_people.ask_during_run, run_id, tool, new, self._operating_policy)
        )
        try:
            request = await asyncio.shield(asking)
            while request.is_open:
                request = await self._next(request)
        except BaseException:
            await attempt(self._end_live(asking), "live_question", run_id=run_id)
            raise
        await attempt(self._database.write(self._note_received, request.id), "live_question", request=request.id)
        return request

    @staticmethod
    def _note_received(tx: Transaction, request_id: str) -> None:
        """Records that a call has received the decision for which it waited."""
        request = lock_work(tx, request_id)
        if request and request.answers and requests.resume(tx, ResumeStep.SEND, request):
            received(tx, replace(request, resume=ResumeStatus.SENT))

    async def get(self, agent: Agent | None, request_id: str, wait_seconds: float = 0) -> HumanRequest:
        """Returns a request, at once when it has ended, otherwise after ``wait_seconds``. Raises NotFound.

        ``agent`` is the asker; None: the operator.
        """
        end, wakeups = time.monotonic() + wait_seconds, self._database.wakeups
        while True:
            seen = wakeups.generation(DECISIONS)
            found = await self._database.read(_of_agent, agent, request_id)
            left = end - time.monotonic()
            if agent and not found.is_open and found.resume is ResumeStatus.NONE and found.asker is Asker.LIVE:
                await self._database.write(self._handed_out, found.id)
            if not found.is_open or left <= 0 or wakeups.closed:
                return found
            await wakeups.wait(DECISIONS, seen, min(left, 5.0))

    @staticmethod
    def _handed_out(tx: Transaction, request_id: str) -> None:
        """Records that the waiting call gets the decision, so that a later run of the same work is told."""
        request = lock_work(tx, request_id)
        if request and request.resume is ResumeStatus.NONE:
            requests.resume(tx, ResumeStep.SEND, request)

    async def withdraw(self, agent: Agent | None, request_id: str, reason: str) -> HumanRequest:
        """Withdraws an open request; its work goes on. Raises NotFound, and Conflict if it has ended."""
        return await self._database.write(self._withdraw, agent, request_id, reason)

    @staticmethod
    def _withdraw(tx: Transaction, agent: Agent | None, request_id: str, reason: str) -> HumanRequest:
        _of_agent(tx, agent, request_id)
        request = lock_work(tx, request_id)
        who = "the operator" if agent is None else agent.name
        if request is None or not cancel(
            tx, request, reason.strip() or f"withdrawn by {who}", None if agent else OPERATOR
        ):
            raise Conflict("This request has ended already.")
        release(tx, request, "its request was withdrawn")
        return _of_agent(tx, agent, request_id)

    async def latest(self, status: RequestStatus | None, limit: int) -> list[HumanRequest]:
        """Returns the newest requests, optionally with one status."""
        return await self._database.read(requests.latest, status, limit)

    async def cards(self, request_id: str) -> list[tuple[str, str]]:
        """Returns the messages in Slack that show a request, each as channel and timestamp."""
        rows = await self._database.read(deliveries.of_request, request_id)
        return [(row["channel"], row["sent_ts"]) for row in rows if row["sent_ts"]]

    async def grants(self, limit: int) -> list[Grant]:
        """Returns the valid grants, newest first."""
        return await self._database.read(grants.valid, limit)

    async def revoke(self, grant_id: str, person: str = OPERATOR) -> None:
        """Ends a grant. Raises NotFound, and Conflict if it was revoked before."""
        await self._database.write(self._revoke, grant_id, person)

    @staticmethod
    def _revoke(tx: Transaction, grant_id: str, person: str) -> None:
        grant = grants.get(tx, grant_id)
        if grant is None:
            raise NotFound("There is no such grant.", hint="`swarm grants list` shows all.")
        if not grants.revoke(tx, grant_id):
            raise Conflict("This grant was revoked before.")
        grants.note(tx, AuditKind.REVOKED, f"grant {grant.id} ({grant.scope})", person=person, grant=grant)

    async def audit(self, since: str | None, after: int, limit: int) -> list[AuditLine]:
        """Returns the lines of the audit since a time (ISO 8601) with numbers after ``after``. Raises Invalid."""
        return await self._database.read(grants.lines, time_of(since), after, limit)

    async def _next(self, request: HumanRequest) -> HumanRequest:
        """Waits for the end of a request for a limited time. The database may be unavailable meanwhile."""
        if self._database.wakeups.closed:
            raise Unavailable("The coordinator is being restarted.")
        try:
            return await self.get(None, request.id, _LOOK_SECONDS)
        except Unavailable as error:
            _log.warning("a question cannot be read now", action="live_question", error=error.message)
            await asyncio.sleep(_AGAIN_SECONDS)
            return request

    async def _end_live(self, asking: asyncio.Future[HumanRequest]) -> None:
        """Withdraws the question of a call that does not wait any more. The sweep withdraws what this cannot."""
        (request,) = await asyncio.gather(asking, return_exceptions=True)
        if isinstance(request, HumanRequest):
            await self._database.write(self._withdraw_live, request.id)

    @staticmethod
    def _withdraw_live(tx: Transaction, request_id: str) -> None:
        request = lock_work(tx, request_id)
        if request:
            cancel(tx, request, why_over(tx, request, CALL_IS_OVER))


def key_of(**asked: object) -> str:
    """Returns the key of a question without an id of its own: its digest."""
    return tool_digest("request-human-input", asked)


def _waiting(tx: Transaction, caller: Caller, hold: AuthorizedMessage | AuthorizedTask, asker: Asker) -> Waiting:
    if isinstance(hold, AuthorizedTask):
        if hold.task.status not in (TaskStatus.IN_PROGRESS, TaskStatus.WAITING):
            raise Conflict(f"This task is {hold.task.status}, so nothing can be asked about it.")
        return Waiting(
            agent_id=caller.agent.id,
            thread_id=hold.task.thread_id,
            work_id=hold.task.id,
            task_id=hold.task.id,
            lease_token=hold.lease.token,
            requesters=(hold.task.requester,) if hold.task.requester else (),
            asker=asker,
        )
    message = hold.inbox_message
    if message.status not in (InboxStatus.CLAIMED, InboxStatus.WAITING):
        raise Conflict(f"This inbox message is {message.status}, so nothing can be asked about it.")
    members = [message.id, *(one.id for one in claimed_members(tx, hold.lease) if one.id != message.id)]
    claimed = {one.id for one in inbox.members(tx, hold.lease.token)}
    is_of_bundle = {message.id, hold.lease.trigger_id} <= claimed
    return Waiting(
        agent_id=caller.agent.id,
        thread_id=hold.thread.id,
        work_id=hold.lease.trigger_id if is_of_bundle else message.id,  # all messages of a run wait together
        inbox_message_ids=tuple(members),
        lease_token=hold.lease.token,
        asker=asker,
    )


def _wait(tx: Transaction, hold: AuthorizedMessage | AuthorizedTask) -> None:
    """Lets the work wait for the decision, and ends its lease."""
    if isinstance(hold, AuthorizedTask):
        tasks.move(tx, TaskStep.ASK, hold.task)
    else:
        for message in [hold.inbox_message, *claimed_members(tx, hold.lease)]:
            if message.status is InboxStatus.CLAIMED:
                inbox.move(tx, InboxStep.ASK, message)
        threads.answered(tx, hold.thread.id)
    end_if_resolved(tx, hold.lease, even_if_held=True)


def _of_agent(tx: Transaction, agent: Agent | None, request_id: str) -> HumanRequest:
    found = requests.get(tx, request_id)
    if found is None or (agent is not None and found.agent_id != agent.id):
        raise NotFound(_MISSING, hint="Use the id that request-human-input returned.")
    return found
