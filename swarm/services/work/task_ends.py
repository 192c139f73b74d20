"""The end of a task, caused by its run, the sweep, a lead, an operator or a person in Slack.

One transaction changes the status, the lease, the owner of the thread, the notices, and the reactions and posts in the
thread. The task must be locked, and also the thread if there is one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from swarm.domain.model.inbox import InboxStatus, InboxStep, NoticeKind
from swarm.domain.model.leases import LeaseEnd
from swarm.domain.model.runs import RunStatus, SilentEnd
from swarm.domain.model.tasks import TaskStatus, TaskStep
from swarm.domain.model.threads import Thread
from swarm.domain.policy.operating import OperatingPolicy, Reactions
from swarm.services.speaking import signs
from swarm.services.speaking.escalations import escalate_dead_letter
from swarm.services.speaking.participants import read_roster
from swarm.services.speaking.silence import place_for, stay_silent
from swarm.services.speaking.system_messages import (
    close_progress,
    post_answer,
    post_message,
    react_failed,
    sentence,
    show_anew,
    show_answered,
    show_stopped,
)
from swarm.services.work.task_threads import hand_back
from swarm.store import agents, deliveries, task_queries, tasks
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, leases, notices
from swarm.store.runs import run_pages, runs
from swarm.store.tasks import Task
from swarm.store.threads import threads, transcript

FAILED_TEXT: Final = "The task “{title}” failed: {reason}"
SET_ASIDE_TEXT: Final = "I could not get the task “{title}” done: {reason} My operator can run it again."
CANCELLED_TEXT: Final = "The task “{title}” was cancelled {reason}"


def complete(tx: Transaction, task: Task, result: str, operating_policy: OperatingPolicy) -> None:
    """Completes a task with the result of its run. The run or the delegator replies to people."""
    if tasks.move(tx, TaskStep.COMPLETE, task, said=result):
        _after(tx, task, operating_policy, "its task is done")
        thread = _thread(tx, task)
        if thread:
            threads.answered(tx, thread.id)
            _react(tx, thread, task, operating_policy, show_answered)
            close_progress(tx, thread, task, "done")
        _report(tx, task, NoticeKind.TASK_FINISHED)


def fail(tx: Transaction, task: Task, error: str, *, told: bool, operating_policy: OperatingPolicy) -> None:
    """Fails a task on behalf of its run. ``told``: the agent has already replied about the failure in the thread."""
    if tasks.move(tx, TaskStep.FAIL, task, said=error):
        _failed(tx, task, error, None if told else FAILED_TEXT, operating_policy)


def break_off(tx: Transaction, task: Task, reason: str, operating_policy: OperatingPolicy) -> None:
    """Fails a task because a dependency will never be completed."""
    if tasks.move(tx, TaskStep.BREAK, task, said=reason):
        _failed(tx, task, reason, FAILED_TEXT, operating_policy)


def dead_letter(
    tx: Transaction, task: Task, reason: str, operating_policy: OperatingPolicy, *, told: bool = False
) -> None:
    """Dead-letters a task after its last attempt, until a redrive. ``told``: the reason has already been posted in the
    thread.
    """
    if tasks.move(tx, TaskStep.BURY, task, said=reason):
        _failed(tx, task, reason, None if told else SET_ASIDE_TEXT, operating_policy)
        if thread := _thread(tx, task):
            escalate_dead_letter(tx, thread, reason, operating_policy, task.agent_id)


def cancel(
    tx: Transaction,
    task: Task,
    reason: str,
    operating_policy: OperatingPolicy,
    *,
    by: str | None = None,
    person: str | None = None,
    told: bool = False,
) -> bool:
    """Cancels an unfinished task. Returns False if the task has ended. ``by`` is the acting agent, ``person`` the Slack
    user.

    ``reason`` continues the sentence after “was cancelled”. ``told``: the thread is told by the caller, or by the end
    of a run.
    """
    if not tasks.move(tx, TaskStep.CANCEL, task, reason=reason, actor=by):
        return False
    _end_run(tx, task, by, person or by, reason)
    _after(tx, task, operating_policy, "its task was cancelled")
    thread = _thread(tx, task)
    if thread:
        if not told:
            words = CANCELLED_TEXT.format(title=task.title, reason=sentence(reason))
            post_message(tx, thread, words, task_id=task.id, mentionable=frozenset({person} if person else ()))
        threads.answered(tx, thread.id)
        _react(tx, thread, task, operating_policy, show_stopped)
        close_progress(tx, thread, task, "cancelled")
        _stay_silent(tx, thread, SilentEnd.STOPPED, task, f"the task was cancelled {reason}")
    if task.created_by != by:
        _report(tx, task, NoticeKind.TASK_FINISHED, by=person or by)
    for part in task_queries.open_parts(tx, task.id):
        _cancel_part(tx, task, part, operating_policy)
    return True


def _cancel_part(tx: Transaction, task: Task, part: Task, operating_policy: OperatingPolicy) -> None:
    """Cancels a subtask of a cancelled task.

    Subtasks in other threads are left to the sweep, because of the lock order.
    """
    locked = tasks.locked(tx, part.id) if part.thread_id in (None, task.thread_id) else None
    if locked:
        cancel(tx, locked, f"with “{task.title}”, which it is a part of", operating_policy, told=True)


def unassign(tx: Transaction, task: Task, reason: str, operating_policy: OperatingPolicy) -> None:
    """Removes the worker of a task: the thread returns to the delegator, which is asked to assign the task again."""
    if tasks.move(tx, TaskStep.UNASSIGN, task, reason=reason):
        _end_run(tx, task, task.agent_id, None, reason)
        _after(tx, task, operating_policy, reason)
        lead = read_roster(tx, operating_policy).default_lead
        _report(tx, task, NoticeKind.TASK_RETURNED, reason, instead=lead.id if lead else None)


def decline(tx: Transaction, task: Task, reason: str) -> bool:
    """Declines an offer: its messages are unread again for the offering agent. Returns False if the offer has ended."""
    if not tasks.move(tx, TaskStep.DECLINE, task, said=reason):
        return False
    for inbox_message in inbox.of_task(tx, task.id, InboxStatus.DELEGATED):
        inbox.move(tx, InboxStep.DECLINE, inbox_message, reason=reason)
        if transcript.is_deleted(tx, inbox_message.team, inbox_message.channel, inbox_message.ts):
            inbox.withdraw_unread(tx, inbox_message.id, "deleted in Slack")
    _report(tx, task, NoticeKind.TASK_DECLINED, reason)
    return True


def _failed(tx: Transaction, task: Task, reason: str, words: str | None, operating_policy: OperatingPolicy) -> None:
    _after(tx, task, operating_policy, "its task has failed")
    thread = _thread(tx, task)
    if thread:
        if words:
            post_message(tx, thread, words.format(title=task.title, reason=sentence(reason)), task_id=task.id)
        threads.answered(tx, thread.id)
        _react(tx, thread, task, operating_policy, react_failed)
        close_progress(tx, thread, task, "failed")
        _stay_silent(tx, thread, SilentEnd.FAILED, task, reason)
    _report(tx, task, NoticeKind.TASK_FINISHED)


def _stay_silent(tx: Transaction, thread: Thread, end: SilentEnd, task: Task, reason: str) -> None:
    """Leaves a silent thread without an owner after the end of its task."""
    if thread.is_silent:
        stay_silent(tx, thread, end, task.agent_id, task.id, reason)


def _after(tx: Transaction, task: Task, operating_policy: OperatingPolicy, reason: str) -> None:
    """Gives the thread back, together with its unanswered messages."""
    thread = _thread(tx, task)
    if thread:
        hand_back(tx, thread, task, reason, operating_policy)


def _end_run(tx: Transaction, task: Task, by: str | None, actor: str | None, reason: str) -> None:
    """Ends the lease of a run that has lost its task, and notifies the run unless the run itself is acting."""
    if task.status is TaskStatus.IN_PROGRESS and task.lease_token:
        lease = leases.by_token(tx, task.lease_token)
        signs.end_all(tx, [lease] if lease else [], LeaseEnd.CANCELLED)
        for inbox_message in inbox.members(tx, task.lease_token):
            if inbox_message.status is InboxStatus.CLAIMED and inbox_message.lease_token == task.lease_token:
                inbox.move(tx, InboxStep.RELEASE, inbox_message)
    if task.agent_id and task.agent_id != by and task.status not in (TaskStatus.OFFERED, TaskStatus.BLOCKED):
        notices.add(
            tx,
            NoticeKind.TASK_CANCELLED,
            task.agent_id,
            thread_id=task.thread_id,
            task_id=task.id,
            actor=actor,
            text=reason,
        )


def _report(
    tx: Transaction,
    task: Task,
    kind: NoticeKind,
    text: str | None = None,
    *,
    instead: str | None = None,
    by: str | None = None,
) -> None:
    """Notifies the creator of the task, or the agent ``instead`` if an operator created the task.

    ``by`` is the acting agent or person; by default the task's own agent.
    """
    recipient = task.created_by or instead
    if recipient:
        notices.add(
            tx,
            kind,
            recipient,
            thread_id=task.thread_id,
            inbox_message_id=task.inbox_message_id,
            actor=by or task.agent_id,
            text=text,
            task_id=task.id,
        )


def tell_result(tx: Transaction, task_id: str) -> None:
    """Posts the result of a task on the coordinator's behalf if no agent has posted it."""
    found = tasks.get(tx, task_id)
    thread = threads.locked(tx, found.thread_id) if found and found.thread_id else None
    task = tasks.locked(tx, task_id)
    if task is None or thread is None or task.status is not TaskStatus.COMPLETED or not task.result:
        return
    if not (deliveries.posted_for_task(tx, task.id, task.ended_at or 0) or _was_streamed(tx, task.id)):
        assert task.agent_id is not None  # completed by it
        shown_in, end = place_for(tx, thread, task.result, is_silent=False, agent_id=task.agent_id, subject=task.id)
        if end is None:
            post_answer(
                tx,
                shown_in,
                task.result,
                agent_id=task.agent_id,
                agent_name=agents.names(tx)[task.agent_id],
                requester=task.requester,
                task_id=task.id,
            )


def is_shown(tx: Transaction, task: Task) -> bool:
    """Whether a run of the task is showing its answer in messages of its own."""
    return any(run.ended_at is None and run_pages.of_run(tx, run.id) for run in runs.of_task(tx, task.id, 1))


def _was_streamed(tx: Transaction, task_id: str) -> bool:
    """Whether the last run of a task has shown its answer in messages of its own."""
    last = runs.of_task(tx, task_id, 1)
    return bool(last) and last[0].status is RunStatus.ANSWERED and bool(run_pages.of_run(tx, last[0].id))


def take_marks_back(tx: Transaction, task: Task, operating_policy: OperatingPolicy) -> None:
    """Removes the end marks of delegated messages whose task is handed out again."""
    if thread := _thread(tx, task):
        for inbox_message in inbox.of_task(tx, task.id, InboxStatus.DELEGATED):
            show_anew(tx, thread, inbox_message, operating_policy.reactions)


def _react(
    tx: Transaction,
    thread: Thread,
    task: Task,
    operating_policy: OperatingPolicy,
    show: Callable[[Transaction, Thread, str, Reactions], None],
) -> None:
    """Adds ✅, ❌ or 🛑 to the delegated messages."""
    for inbox_message in inbox.of_task(tx, task.id, InboxStatus.DELEGATED):
        show(tx, thread, inbox_message.ts, operating_policy.reactions)


def _thread(tx: Transaction, task: Task) -> Thread | None:
    return threads.get(tx, task.thread_id) if task.thread_id else None
