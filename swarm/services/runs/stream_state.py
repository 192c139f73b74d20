"""Stores the streamed answer of a polling agent: its start, the right to add pieces, its pieces and its end.

An answer is a run under its lease and is fenced like every action of a run. Only that run knows the answer's id, so a
call without a lease token acts under the run's lease; a token, if given, must match that lease.

Pieces stored before the work was lost are still shown; then the events end as they do after a broken connection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from swarm.clock import new_id
from swarm.domain.answers.agents import conversation_id
from swarm.domain.answers.events import AgentEvent, AnswerOutcome, Broken, Closed, Finished, Opened, RunStopped
from swarm.domain.errors import Conflict, LeaseLost, NotFound, SwarmError, Withdrawn
from swarm.domain.model.inbox import InboxStatus
from swarm.domain.model.leases import MAX_MESSAGE_ATTEMPTS, MAX_TASK_ATTEMPTS, LeaseEnd, LeaseKind
from swarm.domain.model.runs import RunOutcome, RunStatus
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.model.threads import Thread
from swarm.domain.policy.operating import OperatingPolicy
from swarm.services.ground.idempotency import Caller
from swarm.services.speaking.system_messages import react_failed, show_answered
from swarm.services.work.fencing import NAME_LEASE, authorize_message, authorize_task
from swarm.services.work.leases import SILENT
from swarm.services.work.reply import last_person, with_others
from swarm.store import tasks
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, leases
from swarm.store.inbox.leases import Lease
from swarm.store.runs import run_events, run_pages, runs
from swarm.store.runs.run_events import RunEvent
from swarm.store.runs.runs import Run
from swarm.store.threads import transcript

_AGENTS_OWN_ENDS: Final = frozenset({LeaseEnd.RESOLVED, LeaseEnd.FINISHED})
_SETTLED: Final = frozenset({InboxStatus.DELEGATED, InboxStatus.RESPONDED, InboxStatus.DISMISSED})
_OVER: Final = "Your work is settled, so nothing more can be streamed."
_OVER_HINT: Final = "Post the rest with slack-reply; or poll with hold=true if you want to answer more than once."

_WHY_LOST: Final = {
    LeaseEnd.RELEASED: "the agent gave the work back",
    LeaseEnd.FAILED: "the agent reported a failure",
    LeaseEnd.REVOKED: "the agent was removed",
}


class StillShown(Conflict):
    """The answer of an earlier run is still being completed in Slack; try again in a few seconds."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Wanted:
    """The subject of an answer: exactly one of the two ids is set."""

    inbox_message_id: str | None
    task_id: str | None

    @property
    def about(self) -> str:
        """The id of the message or task."""
        return self.inbox_message_id or self.task_id or ""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Claim:
    """The leased work of a run, locked and checked."""

    lease: Lease
    thread: Thread
    inbox_message_ids: tuple[str, ...] = ()
    requester: str | None = None


def fenced(tx: Transaction, caller: Caller, wanted: Wanted) -> _Claim:
    """Locks and returns the leased work of the run.

    Raises the errors of `authorize_message` and `authorize_task`, and Conflict if the answer cannot be shown.
    """
    return _task(tx, caller, wanted.task_id) if wanted.task_id is not None else _messages(tx, caller, wanted.about)


def begin(tx: Transaction, wanted: Wanted, claim: _Claim) -> Run:
    """Starts a run for the answer under its lease, or continues the lease's run that was not shown so far.

    Raises StillShown and the errors described in `AnswerStreams.open`.
    """
    lease, thread = claim.lease, claim.thread
    if lease.kind is LeaseKind.NOTICE or not leases.holds(lease):
        raise Conflict(_OVER, hint=_OVER_HINT)
    if transcript.is_deleted(tx, thread.team, thread.channel, thread.thread_ts):
        raise Withdrawn("The thread's first message was deleted in Slack, so nothing can be shown there.")
    if run_pages.is_unsealed_in_thread(tx, thread.id, lease.agent_id):
        raise StillShown
    run = _continued(tx, claim) or runs.start(
        tx,
        agent_id=lease.agent_id,
        thread_id=thread.id,
        lease_token=lease.token,
        trigger_id=lease.trigger_id,
        attempt=lease.attempt,
        conversation_id=conversation_id(thread.team, thread.channel, thread.thread_ts),
        agui_run_id=new_id(),
        requester=claim.requester,
        task_id=wanted.task_id,
        inbox_message_ids=claim.inbox_message_ids,
    )
    if run is None:
        raise _in_the_way(tx, lease)
    run_events.add(tx, run.id, Opened())
    tx.wake(runs.RUNS)
    return run


def _continued(tx: Transaction, claim: _Claim) -> Run | None:
    """Returns the run that ``POST /runs`` has started under the lease, shown from now on; None if there is none.

    So usage, log and feedback of one piece of work belong to one run. A second answer is a run of its own, because the
    first one has its own messages, end and opinions.
    """
    found = runs.newest_of_lease(tx, claim.thread.id, claim.lease.token)
    if found is None or found.status is not RunStatus.ANSWERED or run_events.last(tx, found.id) is not None:
        return None
    if runs.in_hand(tx, claim.lease.trigger_id):
        raise _in_the_way(tx, claim.lease)
    return runs.stream(tx, found, claim.inbox_message_ids)


def own(tx: Transaction, caller: Caller, run_id: str) -> Run:
    """Returns the run of an answer that this caller's run has opened. Raises NotFound or LeaseLost."""
    run = runs.get(tx, run_id)
    if run is None or run.agent_id != caller.agent.id or run_events.last(tx, run_id) is None:
        raise NotFound(f"You have no stream '{run_id}'.", hint="Use the turn_id that action 'open' gave you.")
    if caller.lease_token not in (None, run.lease_token):
        raise LeaseLost(hint=f"This stream belongs to another run. {NAME_LEASE}")
    return run


def authorize_answer(tx: Transaction, run: Run) -> Lease:
    """Locks and returns the lease of an answer that accepts more pieces.

    Raises Conflict with the reason if the answer has ended, Withdrawn if the answered messages were deleted, and
    LeaseLost.
    """
    lease = leases.get(tx, run.lease_token, run.agent_id)
    now = runs.get(tx, run.id)
    assert now is not None  # runs are removed only long after their end
    _check_not_told_over(tx, now)
    is_settled = lease is not None and lease.ended_as in _AGENTS_OWN_ENDS
    if lease is None or not (is_settled or leases.holds(lease)):
        raise LeaseLost(hint="The next poll returns any remaining work.")
    if now.status is not RunStatus.RUNNING and not is_settled:
        why = f": {now.outcome_note}" if now.outcome_note else ""
        raise Conflict(f"This stream has ended{why}.", hint="If the work is still yours, answer with slack-reply.")
    if is_settled:
        raise Conflict(_OVER, hint=_OVER_HINT)
    return lease


def is_closed(tx: Transaction, run_id: str) -> bool:
    """Whether the agent has closed an answer."""
    last = run_events.last(tx, run_id)
    return last is not None and isinstance(last.piece, Closed)


def _is_withdrawn(tx: Transaction, run: Run) -> bool:
    """Whether all messages that a run answers were deleted in Slack."""
    inbox_messages = [inbox.get(tx, inbox_message_id) for inbox_message_id in run.inbox_message_ids]
    return bool(inbox_messages) and all(
        inbox_message is not None and inbox_message.status is InboxStatus.WITHDRAWN for inbox_message in inbox_messages
    )


def is_polling(tx: Transaction, run: Run) -> bool:
    """Whether a run is the answer of a polling agent."""
    return run_events.last(tx, run.id) is not None


def goes_on(tx: Transaction, run: Run) -> bool:
    """Whether an answer that no process currently shows should be shown, because all its pieces are stored.

    False after a Stop request, and for a run without its lease, whose work is handed out again.
    """
    last = run_events.last(tx, run.id)
    if last is None or run.status is not RunStatus.RUNNING or run.stop_requested_at is not None:
        return False
    lease = leases.peek(tx, run.lease_token)
    return isinstance(last.piece, Closed) or leases.holds(lease)


def is_ours_to_settle(tx: Transaction, run: Run, outcome: AnswerOutcome) -> bool:
    """Whether the end of a run settles its work."""
    last = run_events.last(tx, run.id)
    if last is None:
        return True
    return isinstance(outcome, RunStopped) and not isinstance(last.piece, Closed)


def is_settled_by_tools(tx: Transaction, lease: Lease) -> bool:
    """Whether all messages of a lease were answered, delegated or dismissed under it, so that its work is done whatever
    becomes of the run.
    """
    members = inbox.members(tx, lease.token)
    return bool(members) and all(one.status in _SETTLED and one.lease_token == lease.token for one in members)


def show_settled(tx: Transaction, run: Run, thread: Thread, operating_policy: OperatingPolicy) -> None:
    """Adds ✅ or ❌ to the messages that were settled when the agent closed its answer."""
    last = run_events.last(tx, run.id)
    for inbox_message_id in last.piece.settled if last and isinstance(last.piece, Closed) else ():
        inbox_message = inbox.get(tx, inbox_message_id)
        if inbox_message and inbox_message.status is InboxStatus.RESPONDED:
            show_answered(tx, thread, inbox_message.ts, operating_policy.reactions)
        elif inbox_message and inbox_message.status is InboxStatus.DEAD:
            react_failed(tx, thread, inbox_message.ts, operating_policy.reactions)


def look_at(tx: Transaction, run_id: str, after: int) -> tuple[list[RunEvent], AgentEvent | RunStopped | None]:
    """Returns the pieces after number ``after``, and the end of the answer if no more pieces can follow.

    The lease is read first, so that all pieces stored before its loss are included.
    """
    end = _end(tx, run_id)
    return run_events.after(tx, run_id, after), end


def _messages(tx: Transaction, caller: Caller, inbox_message_id: str) -> _Claim:
    got = authorize_message(tx, caller.agent, inbox_message_id, caller.lease_token)
    if got.inbox_message.status is InboxStatus.DELEGATED:
        raise Conflict("You have delegated this message.", hint="Post the rest with slack-reply.")
    members = with_others(tx, got)
    return _Claim(
        lease=got.lease,
        thread=got.thread,
        inbox_message_ids=tuple(inbox_message.id for inbox_message in members),
        requester=last_person(tx, members),
    )


def _task(tx: Transaction, caller: Caller, task_id: str) -> _Claim:
    got = authorize_task(tx, caller.agent, task_id, caller.lease_token)
    if got.thread is None:
        raise Conflict(
            "This task has no Slack thread, so an answer cannot be shown.",
            hint="Add the text to its result, or write to an agent with send-message.",
        )
    return _Claim(lease=got.lease, thread=got.thread, requester=got.task.requester)


def _in_the_way(tx: Transaction, lease: Lease) -> SwarmError:
    other = runs.in_hand(tx, lease.trigger_id)
    if other is None or other.lease_token != lease.token or is_closed(tx, other.id):
        return StillShown()
    return Conflict(f"A stream is already open under this lease: '{other.id}'.", hint="Continue it, or close it first.")


def _check_not_told_over(tx: Transaction, run: Run) -> None:
    """Raises Conflict if the answer was closed or stopped, Withdrawn if its messages were deleted."""
    if is_closed(tx, run.id):
        raise Conflict("This stream is closed.", hint="Post the rest with slack-reply.")
    if run.stop_requested_at is not None or RunOutcome.STOPPED in (run.outcome, run.status):
        by = f"by <@{run.stop_requested_by}>" if run.stop_requested_by else "in Slack"
        raise Conflict(f"This stream was stopped {by}.", hint="Stop working on it, and post nothing more.")
    if _is_withdrawn(tx, run):
        raise Withdrawn(hint="Do not reply; finish the lease.")


def _end(tx: Transaction, run_id: str) -> AgentEvent | RunStopped | None:
    run = runs.get(tx, run_id)
    assert run is not None  # runs are removed only long after their end
    lease = leases.peek(tx, run.lease_token)
    if run.stop_requested_at is not None:
        return RunStopped(by=run.stop_requested_by)
    if _is_withdrawn(tx, run) or (lease and lease.ended_as is LeaseEnd.CANCELLED):
        return RunStopped(by=None)
    return None if leases.holds(lease) else _lost(tx, run, lease)


def _lost(tx: Transaction, run: Run, lease: Lease | None) -> AgentEvent:
    """Returns the end of an open answer whose work was lost or settled in another way."""
    how = lease.ended_as if lease else None
    if how in _AGENTS_OWN_ENDS or (lease and is_settled_by_tools(tx, lease)):
        return Finished(elsewhere=True)
    return Broken(reason=_WHY_LOST.get(how, SILENT) if how else SILENT, comes_again=_comes_again(tx, run))


def _comes_again(tx: Transaction, run: Run) -> bool:
    """Whether the work is handed out again automatically, either now or after the sweep finds the expired lease."""
    task = tasks.get(tx, run.task_id) if run.task_id else None
    if task:
        has_more = task.status is TaskStatus.IN_PROGRESS and task.attempts + 1 < MAX_TASK_ATTEMPTS
        return has_more or task.status is TaskStatus.PENDING
    inbox_messages = [
        inbox_message
        for inbox_message_id in run.inbox_message_ids
        if (inbox_message := inbox.get(tx, inbox_message_id))
    ]
    return any(
        inbox_message.status is InboxStatus.UNREAD
        or (inbox_message.status is InboxStatus.CLAIMED and inbox_message.attempts + 1 < MAX_MESSAGE_ATTEMPTS)
        for inbox_message in inbox_messages
    )
