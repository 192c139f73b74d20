"""Settles the work of a run that ends: its messages, its task, and the marks that people see.

The caller holds the locks on the thread and the lease, and has made sure that the run still has its work.
"""

from __future__ import annotations

from typing import Final, assert_never

from swarm.domain.answers.events import Answered, AnswerOutcome, NeedsInput, RunFailed, RunStopped, Withheld
from swarm.domain.answers.showing import AnswerShown
from swarm.domain.model.inbox import InboxStep
from swarm.domain.model.leases import LeaseKind
from swarm.domain.model.runs import RunOutcome, SilentEnd
from swarm.domain.model.tasks import TaskStatus, TaskStep
from swarm.domain.model.threads import Thread
from swarm.domain.policy.operating import OperatingPolicy
from swarm.services.speaking.escalations import escalate_dead_letter
from swarm.services.speaking.silence import end_humility, stay_silent
from swarm.services.speaking.system_messages import react_failed, show_answered, show_stopped
from swarm.services.work import task_ends
from swarm.services.work.fencing import STOPPED_BY
from swarm.services.work.leases import claimed_members, end_if_resolved, end_notice
from swarm.store import tasks
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox
from swarm.store.inbox.leases import Lease
from swarm.store.runs.runs import Run
from swarm.store.tasks import Task
from swarm.store.threads import threads

_END_MARKS: Final = {
    InboxStep.RESPOND: show_answered,
    InboxStep.BURY: react_failed,
    InboxStep.DISMISS: show_stopped,  # a run dismisses a message only after a person's Stop
}
_ENTRY_STEPS: Final = {
    RunOutcome.ANSWERED: InboxStep.RESPOND,
    RunOutcome.FAILED: InboxStep.BURY,
    RunOutcome.STOPPED: InboxStep.DISMISS,
    RunOutcome.WAITING: InboxStep.ASK,
}


def outcome_of(outcome: AnswerOutcome) -> tuple[RunOutcome, str | None]:
    """Returns the outcome in its stored form, and the reason for a failure."""
    match outcome:
        case Answered():
            return RunOutcome.ANSWERED, None
        case RunFailed(reason=reason):
            return RunOutcome.FAILED, reason
        case RunStopped(by=by):
            return RunOutcome.STOPPED, STOPPED_BY.format(person=by) if by else "stopped"
        case NeedsInput():
            return RunOutcome.WAITING, None
        case Withheld(reason=reason):
            return RunOutcome.ANSWERED, reason
        case _:
            assert_never(outcome)


def settle_work(
    tx: Transaction,
    run: Run,
    lease: Lease,
    thread: Thread | None,
    ending: AnswerShown,
    operating_policy: OperatingPolicy,
    *,
    silent: bool,
) -> None:
    """Settles the work of the run as answered, waiting, dead, or dismissed; if it is ``silent``, without a mark."""
    task = tasks.locked(tx, run.task_id) if run.task_id else None
    if task and task.status is TaskStatus.IN_PROGRESS:
        _settle_task(tx, task, ending, operating_policy)
    if thread:
        known, reason = outcome_of(ending.outcome)
        step = InboxStep.DISMISS if isinstance(ending.outcome, Withheld) else _ENTRY_STEPS[known]
        for inbox_message in claimed_members(tx, lease):
            if inbox.move(tx, step, inbox_message, reason=reason) and not silent and (show := _END_MARKS.get(step)):
                show(tx, thread, inbox_message.ts, operating_policy.reactions)
        threads.answered(tx, thread.id)
        if silent:
            _stay_silent(tx, run, thread, ending.outcome, reason or "")
        elif known is RunOutcome.ANSWERED:
            end_humility(tx, thread)
        elif known is RunOutcome.FAILED and task is None and lease.kind is LeaseKind.WORK:  # a task escalates itself
            escalate_dead_letter(tx, thread, reason or "", operating_policy, run.agent_id)
    if lease.kind is LeaseKind.NOTICE:
        end_notice(tx, lease, operating_policy, is_heard=not isinstance(ending.outcome, RunFailed | RunStopped))
    else:
        end_if_resolved(tx, lease, even_if_held=run.trace_id is not None)


def _stay_silent(tx: Transaction, run: Run, thread: Thread, outcome: AnswerOutcome, reason: str) -> None:
    if isinstance(outcome, Withheld):
        stay_silent(tx, thread, outcome.end, run.agent_id, run.trigger_id, reason)
    elif run.task_id is None:  # the end of a task has been recorded with the task
        end = SilentEnd.FAILED if isinstance(outcome, RunFailed) else SilentEnd.STOPPED
        stay_silent(tx, thread, end, run.agent_id, run.trigger_id, reason)


def _settle_task(tx: Transaction, task: Task, ending: AnswerShown, operating_policy: OperatingPolicy) -> None:
    match ending.outcome:
        case RunFailed(reason=reason):
            task_ends.dead_letter(tx, task, reason, operating_policy, told=True)
        case RunStopped(by=by):
            task_ends.cancel(tx, task, f"by <@{by}>" if by else "by a person", operating_policy, person=by)
        case NeedsInput():
            tasks.move(tx, TaskStep.ASK, task)
        case Withheld(reason=reason):
            task_ends.complete(tx, task, f"{reason}\n\n{ending.text}".strip(), operating_policy)
        case _:
            task_ends.complete(tx, task, ending.text.strip() or "done", operating_policy)
