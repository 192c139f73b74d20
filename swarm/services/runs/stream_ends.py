"""What becomes of the work when a polling agent closes its answer, and of the turn when the answer has been shown.

The work is the agent's own, so it is settled by what the agent says: by closing, in one transaction, as a reply does
it. Showing the end changes nothing about it any more. Only a person's Stop settles work that is not closed; what else
ends an answer leaves the work to its lease.
"""

from __future__ import annotations

from dataclasses import dataclass

from swarm.domain.answers.outcomes import AnswerOutcome, RunStopped
from swarm.domain.answers.pieces import Closed
from swarm.domain.errors import Conflict, Invalid
from swarm.domain.model.inbox import InboxStatus, InboxStep
from swarm.domain.model.runs import RunStatus
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.model.threads import Thread
from swarm.domain.operating_policy import OperatingPolicy
from swarm.services.rules import task_ends
from swarm.services.rules.leases import claimed_members, could_not_renew, end_if_resolved
from swarm.services.rules.system_messages import react_failed, show_answered
from swarm.store import tasks
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, leases
from swarm.store.inbox.leases import Lease
from swarm.store.runs import run_events
from swarm.store.runs.runs import Run
from swarm.store.threads import threads


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamClosing:
    """What an agent says when it closes an answer."""

    text: str = ""  # the last of it
    result: str | None = None  # of the task
    failed: str | None = None  # why it is not whole, a clause for people


def settle(
    tx: Transaction, turn: Run, lease: Lease, thread: Thread, said: StreamClosing, conduct: OperatingPolicy
) -> tuple[str, ...]:
    """Settle the work of an answer that is closed; the ids of the messages that are settled. The lease is locked."""
    settled: list[str] = []
    if turn.task_id is not None:
        _settle_task(tx, turn.task_id, said, conduct)
    elif said.result is not None:
        raise Invalid("Only a task has a result.", fields={"result": "leave it out: what you say is the answer"})
    else:
        settled = _settle_messages(tx, lease, said)
    threads.answered(tx, thread.id)
    end_if_resolved(tx, lease)
    return tuple(settled)


def is_polling(tx: Transaction, turn: Run) -> bool:
    """Whether a turn is the answer of a polling agent."""
    return run_events.last(tx, turn.id) is not None


def goes_on(tx: Transaction, turn: Run, conduct: OperatingPolicy) -> bool:
    """Whether an answer of which nobody shows more at the moment is still to be shown: its every word is stored.

    False for one that people want stopped, and for one whose run has lost its lease: the work comes again. A lease that
    could not be renewed is about to be prolonged.
    """
    last = run_events.last(tx, turn.id)
    if last is None or turn.status is not RunStatus.RUNNING or turn.stop_requested_at is not None:
        return False
    lease = leases.peek(tx, turn.lease_token)
    return isinstance(last.piece, Closed) or has_lease(tx, lease, conduct)


def has_lease(tx: Transaction, lease: Lease | None, conduct: OperatingPolicy) -> bool:
    """Whether a polling agent's lease holds, or is about to be prolonged by the sweep."""
    return leases.holds(lease, tx.now) or bool(lease and not lease.ended_as and could_not_renew(tx, lease, conduct))


def is_ours_to_settle(tx: Transaction, turn: Run, outcome: AnswerOutcome) -> bool:
    """Whether the end of a turn settles its work."""
    last = run_events.last(tx, turn.id)
    if last is None:
        return True
    return isinstance(outcome, RunStopped) and not isinstance(last.piece, Closed)


def show_settled(tx: Transaction, turn: Run, thread: Thread, conduct: OperatingPolicy) -> None:
    """✅ or ❌ on the messages that were settled when the agent closed its answer."""
    last = run_events.last(tx, turn.id)
    for entry_id in last.piece.settled if last and isinstance(last.piece, Closed) else ():
        entry = inbox.get(tx, entry_id)
        if entry and entry.status is InboxStatus.RESPONDED:
            show_answered(tx, thread, entry.ts, conduct.reactions)
        elif entry and entry.status is InboxStatus.DEAD:
            react_failed(tx, thread, entry.ts, conduct.reactions)


def _settle_task(tx: Transaction, task_id: str, said: StreamClosing, conduct: OperatingPolicy) -> None:
    """With neither a result nor a failure the agent has only said something: the task goes on."""
    task = tasks.locked(tx, task_id)
    if task is None or (said.result is None and said.failed is None):
        return
    if task.status is not TaskStatus.IN_PROGRESS:
        raise Conflict(f"This task is {task.status}, so it cannot be ended.", hint="Stop working on it.")
    if said.result is not None:
        task_ends.complete(tx, task, said.result, conduct)
    else:
        task_ends.dead_letter(tx, task, said.failed or "", conduct, told=True)


def _settle_messages(tx: Transaction, lease: Lease, said: StreamClosing) -> list[str]:
    """Everything that came under the lease and waits for an answer."""
    step = InboxStep.RESPOND if said.failed is None else InboxStep.BURY
    waiting = claimed_members(tx, lease)
    return [entry.id for entry in waiting if inbox.move(tx, step, entry, reason=said.failed)]
