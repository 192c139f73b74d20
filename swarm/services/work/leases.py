"""Renews, releases and finishes leases, and returns the work of lost leases.

A lease is in force until its row is ended, so a pause ends nothing by itself: a renewal that waited while the
coordinator, the agent or the database was away is accepted as long as the row is in force. Only the sweep ends leases
by time (`expire`), in a transaction that looks at the row again; nothing brings an ended row back. Time in which no
coordinator listened, and in which the program that has the work was suspended, is made up for.

Lost work is handed out again; after its last attempt it is set aside as a dead letter. The coordinator's own deaths are
no attempts: work that they interrupt comes back, later and later. A notice is dropped after five failed attempts, and
the coordinator then acts in place of the agent: it declines the offered task, cancels the returned task, or posts the
result of the finished task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from swarm.clock import SECOND
from swarm.domain.errors import Invalid, SwarmError, Unresolved
from swarm.domain.model.agents import Agent, Reach
from swarm.domain.model.inbox import InboxStatus, InboxStep, NoticeKind, NoticeStep
from swarm.domain.model.leases import (
    LEASE_SECONDS,
    MAX_MESSAGE_ATTEMPTS,
    MAX_TASK_ATTEMPTS,
    MOST_INTERRUPTIONS,
    MOST_PROLONGED,
    NOTICE_ATTEMPTS,
    FinishOutcome,
    LeaseEnd,
    LeaseKind,
    pause_after,
    pause_after_failure,
)
from swarm.domain.model.runs import SilentEnd
from swarm.domain.model.tasks import TaskStatus, TaskStep
from swarm.domain.model.threads import Thread
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.watchers import LeaseRefused
from swarm.services.speaking import signs
from swarm.services.speaking.escalations import escalate_dead_letter
from swarm.services.speaking.participants import listened_throughout, offline_since, silent_since
from swarm.services.speaking.silence import all_silent, stay_silent
from swarm.services.speaking.system_messages import show_all_answered, show_failed, show_stopped
from swarm.services.work import task_ends
from swarm.store import agent_messages, agents, history, tasks
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, leases, notices, queues
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.inbox.leases import Lease
from swarm.store.inbox.notices import Notice
from swarm.store.runs import run_events, runs
from swarm.store.tasks import Task
from swarm.store.threads import threads

_AWAY_SECONDS: Final = 5
_LONGEST_AWAY_SECONDS: Final = 60

SILENT: Final = "the agent fell silent"
INTERRUPTED: Final = "the coordinator was interrupted while the agent worked"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """The given tokens, divided into leases ended now and leases lost earlier."""

    ended: tuple[str, ...]
    lost: tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Renewed:
    """The new expiries by token, and the tokens of lost leases."""

    expiries: tuple[tuple[str, int], ...]
    lost: tuple[str, ...]


def renew(
    tx: Transaction, calls: Sequence[tuple[Agent, Sequence[str]]], seconds: float = LEASE_SECONDS
) -> list[Renewed]:
    """Extends the leases of agents, given by their tokens, by their full duration."""
    found = leases.locked(tx, [token for _, tokens in calls for token in tokens])
    held = [_in_force(tx, agent, tokens, found) for agent, tokens in calls]
    for (_, tokens), of_call in zip(calls, held, strict=True):
        _count_refused(tx, tokens, of_call)
    expires_at = leases.renew(tx, [token for of_call in held for token in of_call], seconds)
    return [
        Renewed(
            expiries=tuple((token, expires_at) for token in dict.fromkeys(tokens) if token in of_call),
            lost=tuple(token for token in dict.fromkeys(tokens) if token not in of_call),
        )
        for (_, tokens), of_call in zip(calls, held, strict=True)
    ]


def release(tx: Transaction, agent: Agent, tokens: Sequence[str], delay_seconds: float) -> Ended:
    """Gives work back: it is due again at once or after a delay, and the attempt is not counted."""
    held = _held(tx, agent, tokens)
    for lease in held.values():
        _give_back(tx, lease, delay_seconds)
    return _ended(tokens, held)


def give_back(tx: Transaction, tokens: Sequence[str]) -> None:
    """Undoes claims whose response reached no caller.

    The tokens are unknown to any caller, so no other call has used them.
    """
    for token in tokens:
        lease = leases.by_token(tx, token)
        if lease and leases.holds(lease):
            _give_back(tx, lease, 0)
            if lease.task_id:
                tasks.uncount_claim(tx, lease.task_id)
            for inbox_message in inbox.members(tx, token):
                inbox.uncount_claim(tx, inbox_message.id)


def wait_for_agent(tx: Transaction, lease: Lease, reason: str) -> None:
    """Gives back the work of a run that did not reach its agent, without an attempt: it is tried less and less often.

    What the agent has to do in the same thread waits with it, so that the order stays.
    """
    tries = max([message.claims for message in claimed_members(tx, lease)], default=1)
    seconds = min(tries * _AWAY_SECONDS, _LONGEST_AWAY_SECONDS)
    behind = inbox.unread_in_thread(tx, lease.agent_id, lease.thread_id) if lease.thread_id else []  # before the heads
    _give_back(tx, lease, seconds, reason)
    for message in behind:
        queues.delay(tx, message.id, message.agent_id, message.thread_id, seconds)


@dataclass(frozen=True, kw_only=True, slots=True)
class FinishCall:
    """One call that ends the work of an agent's leases."""

    agent: Agent
    tokens: tuple[str, ...]
    outcome: FinishOutcome
    reason: str
    operating_policy: OperatingPolicy


def finish(tx: Transaction, calls: Sequence[FinishCall]) -> list[Ended | SwarmError]:
    """Ends work. A call that finishes unanswered work as done is refused with Unresolved, without any change.

    The leases of all calls that return no work end together, after the others.
    """
    _lock_threads(tx, [token for call in calls if call.outcome is not FinishOutcome.DONE for token in call.tokens])
    found = leases.locked(tx, [token for call in calls for token in call.tokens])
    members = _members(tx, calls, found)
    settled: list[tuple[FinishCall, Lease]] = []
    results: list[Ended | SwarmError] = []
    for call in calls:
        held = _in_force(tx, call.agent, call.tokens, found)
        try:
            _check(tx, call, held.values(), members)
        except SwarmError as refusal:
            results.append(refusal)
            continue
        _count_refused(tx, call.tokens, held)
        results.append(_ended(call.tokens, held))
        for token, lease in held.items():
            del found[token]  # for a later call, the lease is lost
            if call.outcome is FinishOutcome.FAILED:
                reason = call.reason.strip() or "the agent reported a failure"
                _lose(tx, lease, LeaseEnd.FAILED, reason, call.operating_policy)
            else:
                settled.append((call, lease))
    _settle(tx, settled, members)
    return results


def _members(tx: Transaction, calls: Sequence[FinishCall], found: Mapping[str, Lease]) -> dict[str, list[InboxMessage]]:
    """Returns the messages under the leases of ``calls`` by token. Those that may change are locked, all before any
    queue head, in the general lock order.
    """
    done = {token for call in calls if call.outcome is FinishOutcome.DONE for token in call.tokens}
    work = [token for token, lease in found.items() if lease.kind is LeaseKind.WORK]
    changing = inbox.members_of(tx, [token for token in work if token not in done], lock=True)
    return changing | inbox.members_of(tx, [token for token in work if token in done])


def _settle(
    tx: Transaction, settled: Sequence[tuple[FinishCall, Lease]], members: Mapping[str, list[InboxMessage]]
) -> None:
    """Ends leases whose work is done or dismissed."""
    dismissed = {
        message.id: (message, call)
        for call, lease in settled
        if call.outcome is FinishOutcome.DISMISSED
        for message in _claimed(lease, members.get(lease.token, ()))
    }
    moved = inbox.move_all(tx, InboxStep.DISMISS, [(message, call.reason) for message, call in dismissed.values()])
    loud = [message for message in moved if not message.silent]
    show_all_answered(tx, [(message, dismissed[message.id][1].operating_policy.reactions) for message in loud])
    for message in {message.lease_token: message for message in moved if message.silent}.values():
        reason = f"dismissed: {dismissed[message.id][1].reason}"
        stay_silent(tx, _thread(tx, message), SilentEnd.DEFERRED, message.agent_id, message.id, reason)
    for _, lease in settled:
        if lease.kind is LeaseKind.NOTICE:
            notices.move(tx, NoticeStep.FINISH, lease.trigger_id)
            agent_messages.mark_notified_read(tx, lease.agent_id, lease.token)
    signs.end_all(tx, [lease for _, lease in settled], LeaseEnd.FINISHED)
    queues.announce(tx, [lane for _, lease in settled if (lane := _lane(lease))])


def lose(
    tx: Transaction, token: str, how: LeaseEnd, reason: str, policy: OperatingPolicy, *, interrupted: bool = False
) -> None:
    """Ends a lease whose run failed or stopped renewing: the work is due again with one more attempt counted,
    or dead. ``interrupted``: the coordinator has died, which is counted apart from attempts.
    """
    _lock_threads(tx, [token])
    lease = leases.by_token(tx, token)
    if lease:
        _lose(tx, lease, how, reason, policy, interrupted=interrupted)


def expire(tx: Transaction, token: str, operating_policy: OperatingPolicy) -> None:
    """Ends a lease that was not renewed in time, unless it has been renewed in the meantime, or its agent may have been
    unable to renew: it is then prolonged, at most `MOST_PROLONGED` times.

    Leases of runs in the coordinator are left to `run_ends.break_off`, together with the run.
    """
    _lock_threads(tx, [token])
    lease = leases.by_token(tx, token)
    run = runs.of_lease(tx, token)
    if run and run_events.last(tx, run.id) is None:
        return
    if lease is None or lease.expires_at > tx.now:
        return
    agent = agents.by_id(tx, lease.agent_id)
    if agent and agent.reach is not Reach.POLLING:
        _lose(tx, lease, LeaseEnd.EXPIRED, INTERRUPTED, operating_policy, interrupted=True)
    elif lease.prolonged < MOST_PROLONGED and _may_be_alive(tx, lease, agent, operating_policy):
        leases.prolong(tx, token, operating_policy.lease_seconds)
    elif _was_heard(tx, lease, operating_policy):
        _lose(tx, lease, LeaseEnd.EXPIRED, SILENT, operating_policy)
    else:
        _lose(tx, lease, LeaseEnd.EXPIRED, INTERRUPTED, operating_policy, interrupted=True)


def _was_heard(tx: Transaction, lease: Lease, operating_policy: OperatingPolicy) -> bool:
    """Whether its agent must have heard of a lease: some process has listened without a break until the first renewal
    was due. Otherwise the poll that was to bring the work may have ended with the process that had granted it.
    """
    third_us = int(operating_policy.lease_seconds * SECOND / 3)
    return listened_throughout(tx, operating_policy, lease.created_at, lease.created_at + third_us)


def _may_be_alive(tx: Transaction, lease: Lease, agent: Agent | None, operating_policy: OperatingPolicy) -> bool:
    """Whether a polling agent may still be at work, though it has not renewed.

    Either it could not: in the last third of the lease, the time between two renewals, there was a time in which no
    coordinator listened (none was running, all were suspended, or the database was away). Or the program that took the
    work makes no calls at all and serves its agent still: a suspended program goes on where it was, and nobody else
    would get the work. The second is known only of programs with an instance id; one that has begun since then, or
    calls without renewing, does not have the work.
    """
    third_us = int(operating_policy.lease_seconds * SECOND / 3)
    since = lease.expires_at - third_us
    if silent_since(tx, operating_policy, tx.now - since) < since:
        return True
    instance = agents.serving(tx, lease.agent_id)
    if agent is None or instance is None or not agent.online(offline_since(tx, operating_policy)):
        return False
    has_taken = instance.began_at <= lease.created_at <= instance.seen_at + 2 * third_us
    return has_taken and instance.called_at <= tx.now - 2 * third_us


def _lose(
    tx: Transaction, lease: Lease, how: LeaseEnd, reason: str, policy: OperatingPolicy, *, interrupted: bool = False
) -> None:
    if not signs.end_all(tx, [lease], how):
        return
    if lease.kind is LeaseKind.NOTICE:
        _lose_notice(tx, lease, reason, policy, interrupted)
        return
    if lease.task_id:
        _lose_task(tx, lease, lease.task_id, how, reason, policy, interrupted)
    for inbox_message in _to_return(tx, lease):
        if most := most_losses(inbox_message, interrupted=interrupted):
            dead_letter(tx, inbox_message, reason, f"{reason}, {most} times", policy)
        elif inbox.move(tx, InboxStep.LOSE, inbox_message, reason=reason):
            if interrupted:
                leases.was_interrupted(tx, "inbox_messages", inbox_message.id)
            if pause := _pause(inbox_message, how, interrupted=interrupted):
                queues.delay(tx, inbox_message.id, inbox_message.agent_id, inbox_message.thread_id, pause)
    _unlock(tx, lease)


def _pause(work: InboxMessage | Task, how: LeaseEnd, *, interrupted: bool) -> int:
    """Returns the seconds for which lost work waits. A lease that was not renewed has taken its time already."""
    if interrupted:
        return pause_after(work.interruptions + 1)
    return pause_after_failure(work.attempts + 1) if how is LeaseEnd.FAILED else 0


def most_losses(work: InboxMessage | Task | Notice, *, interrupted: bool) -> int | None:
    """Returns how often a lease of this work may be lost, if one more loss is the last one."""
    if interrupted:
        return MOST_INTERRUPTIONS if work.interruptions + 1 >= MOST_INTERRUPTIONS else None
    most = {Task: MAX_TASK_ATTEMPTS, Notice: NOTICE_ATTEMPTS}.get(type(work), MAX_MESSAGE_ATTEMPTS)
    return most if work.attempts + 1 >= most else None


def _lose_notice(
    tx: Transaction, lease: Lease, reason: str, operating_policy: OperatingPolicy, interrupted: bool
) -> None:
    """Returns the notice of a lost lease for another attempt, or drops it and records this."""
    notice = notices.get(tx, lease.trigger_id)
    if notice is None:
        return
    if not most_losses(notice, interrupted=interrupted):
        if notices.move(tx, NoticeStep.LOSE, notice.id):
            tx.wake(lease.agent_id)
            if interrupted:
                leases.was_interrupted(tx, "notices", notice.id)
    elif notices.move(tx, NoticeStep.DROP, notice.id):
        history.record(tx, "notice.drop", notice.id, thread_id=lease.thread_id, agent_id=lease.agent_id, reason=reason)
        _settle_unheard(tx, notice, operating_policy)


def end_notice(
    tx: Transaction, lease: Lease, operating_policy: OperatingPolicy, *, is_heard: bool, is_read: bool = True
) -> None:
    """Ends the notice of a run of the coordinator. What the run has left undone, the coordinator does in its place.

    ``is_heard``: the run has acted on the notice. Without ``is_read``, an agent's message stays unread.
    """
    notice = notices.get(tx, lease.trigger_id)
    if not leases.end(tx, lease.token, LeaseEnd.FINISHED) or notice is None:
        return
    notices.move(tx, NoticeStep.FINISH, notice.id)
    if is_read:
        agent_messages.mark_notified_read(tx, lease.agent_id, lease.token)
    if not is_heard or notice.kind is NoticeKind.TASK_RETURNED:
        _settle_unheard(tx, notice, operating_policy)


def _settle_unheard(tx: Transaction, notice: Notice, operating_policy: OperatingPolicy) -> None:
    """Acts in place of an agent that did not handle its notice, so that people do not wait forever."""
    task = tasks.locked(tx, notice.task_id) if notice.task_id else None
    if task is None:
        return
    if notice.kind is NoticeKind.TASK_OFFERED:
        task_ends.decline(tx, task, "the offer was not answered")
    elif notice.kind is NoticeKind.TASK_RETURNED and task.status is TaskStatus.UNASSIGNED:
        task_ends.cancel(tx, task, "because its worker is gone and nobody took it over", operating_policy)
    elif notice.kind is NoticeKind.TASK_FINISHED:
        task_ends.tell_result(tx, task.id)


def _lose_task(
    tx: Transaction,
    lease: Lease,
    task_id: str,
    how: LeaseEnd,
    reason: str,
    operating_policy: OperatingPolicy,
    interrupted: bool,
) -> None:
    task = tasks.locked(tx, task_id)
    if task is None or not _runs(task, lease):
        return
    if most := most_losses(task, interrupted=interrupted):
        task_ends.dead_letter(tx, task, f"{reason}, {most} times", operating_policy)
    elif tasks.move(tx, TaskStep.LOSE, task, reason=reason):
        if interrupted:
            leases.was_interrupted(tx, "tasks", task.id)
        if pause := _pause(task, how, interrupted=interrupted):
            tasks.delay(tx, task, pause)


def dead_letter(
    tx: Transaction, inbox_message: InboxMessage, error: str, reason: str, operating_policy: OperatingPolicy
) -> None:
    """Dead-letters a message and posts its last error in its thread, unless the message is silent."""
    if not inbox.move(tx, InboxStep.BURY, inbox_message, reason=reason):
        return
    thread = _thread(tx, inbox_message)
    if inbox_message.silent:
        stay_silent(tx, thread, SilentEnd.FAILED, inbox_message.agent_id, inbox_message.id, reason)
    else:
        show_failed(tx, thread, inbox_message, error, operating_policy.reactions)
        escalate_dead_letter(tx, thread, reason, operating_policy, inbox_message.agent_id)


def stop(tx: Transaction, thread: Thread, tokens: Iterable[str], reason: str, operating_policy: OperatingPolicy) -> int:
    """Ends leases at a person's request: their messages need no answer any more. The thread must be locked.

    Returns the number of leases whose end people may see. Work for which nobody has asked ends without a mark.
    """
    shown = 0
    found = leases.locked(tx, tokens)
    for token, members in sorted(inbox.members_of(tx, sorted(found), lock=True).items()):
        claimed = _claimed(found[token], members)
        if not claimed or not signs.end_all(tx, [found[token]], LeaseEnd.CANCELLED):
            continue
        for inbox_message in claimed:
            inbox.move(tx, InboxStep.DISMISS, inbox_message, reason=reason)
            if not inbox_message.silent:
                show_stopped(tx, thread, inbox_message.ts, operating_policy.reactions)
        if all_silent(claimed):
            stay_silent(tx, thread, SilentEnd.STOPPED, claimed[0].agent_id, claimed[0].id, reason)
        else:
            shown += 1
        _unlock(tx, found[token])
    return shown


def end_if_resolved(tx: Transaction, lease: Lease, *, even_if_held: bool = False) -> None:
    """Ends a lease after a tool has resolved the last of its work, unless the poll asked to hold the lease."""
    if (lease.hold and not even_if_held) or lease.ended_as is not None or lease.kind is LeaseKind.NOTICE:
        return
    task_runs = lease.task_id is not None and _still_runs(tx, lease, lease.task_id)
    if not task_runs and not claimed_members(tx, lease):
        signs.end_all(tx, [lease], LeaseEnd.RESOLVED)
        _unlock(tx, lease)


def claimed_members(tx: Transaction, lease: Lease) -> list[InboxMessage]:
    """Returns the messages of a lease that still need an answer."""
    return _claimed(lease, inbox.members(tx, lease.token))


def _to_return(tx: Transaction, lease: Lease) -> list[InboxMessage]:
    """Returns the messages of a lease that still need an answer, all locked before any queue head, in the general lock
    order.
    """
    return _claimed(lease, inbox.members_of(tx, [lease.token], lock=True).get(lease.token, ()))


def _claimed(lease: Lease, inbox_messages: Iterable[InboxMessage]) -> list[InboxMessage]:
    return [
        inbox_message
        for inbox_message in inbox_messages
        if inbox_message.status is InboxStatus.CLAIMED and inbox_message.lease_token == lease.token
    ]


def _give_back(tx: Transaction, lease: Lease, delay_seconds: float, reason: str | None = None) -> None:
    signs.end_all(tx, [lease], LeaseEnd.RELEASED)
    if lease.kind is LeaseKind.NOTICE:
        notices.move(tx, NoticeStep.RELEASE, lease.trigger_id)
        tx.wake(lease.agent_id)
        return
    task = tasks.locked(tx, lease.task_id) if lease.task_id else None
    if task and _runs(task, lease) and tasks.move(tx, TaskStep.RELEASE, task, reason=reason) and delay_seconds > 0:
        tasks.delay(tx, task, delay_seconds)
    for inbox_message in _to_return(tx, lease):
        inbox.move(tx, InboxStep.RELEASE, inbox_message, reason=reason)
        if delay_seconds > 0:
            queues.delay(tx, inbox_message.id, inbox_message.agent_id, inbox_message.thread_id, delay_seconds)
    _unlock(tx, lease)


def _check(tx: Transaction, call: FinishCall, held: Iterable[Lease], members: Mapping[str, list[InboxMessage]]) -> None:
    """Raises Unresolved for open work. A task is ended only by its own tools; messages may be dismissed."""
    outcome, working = call.outcome, list(held)
    if outcome is FinishOutcome.DISMISSED and not call.reason.strip():
        raise Invalid(
            "Say why these messages need no answer.", fields={"reason": "a sentence, since the outcome is dismissed"}
        )
    if outcome is FinishOutcome.FAILED:
        return
    left = [task.id for task in (_returned(tx, lease) for lease in working) if task]
    if left:
        raise Unresolved(
            f"These tasks have no worker: {', '.join(left)}.",
            hint="Assign them to another worker with assign-task, or end them with cancel-task; then finish.",
        )
    running = [lease.task_id for lease in working if lease.task_id and _still_runs(tx, lease, lease.task_id)]
    if running:
        raise Unresolved(
            f"These tasks have no result yet: {', '.join(running)}.",
            hint="End them with task-complete or task-fail, or finish with outcome 'failed'.",
        )
    if outcome is FinishOutcome.DISMISSED:
        return
    open_ids = [
        inbox_message.id for lease in working for inbox_message in _claimed(lease, members.get(lease.token, ()))
    ]
    if open_ids:
        raise Unresolved(
            f"These inbox messages have no answer yet: {', '.join(open_ids)}.",
            hint="Answer with slack-reply, or finish with outcome 'dismissed' and a reason, or with 'failed'.",
        )


def _returned(tx: Transaction, lease: Lease) -> Task | None:
    """Returns the unassigned task of a TASK_RETURNED notice, which would be lost if the agent did nothing."""
    notice = notices.get(tx, lease.trigger_id) if lease.kind is LeaseKind.NOTICE else None
    if notice is None or notice.kind is not NoticeKind.TASK_RETURNED or notice.task_id is None:
        return None
    task = tasks.get(tx, notice.task_id)
    return task if task and task.status is TaskStatus.UNASSIGNED else None


def _still_runs(tx: Transaction, lease: Lease, task_id: str) -> bool:
    task = tasks.get(tx, task_id)
    return task is not None and _runs(task, lease)


def _runs(task: Task, lease: Lease) -> bool:
    """Whether the run of this lease holds a task."""
    return task.status is TaskStatus.IN_PROGRESS and task.lease_token == lease.token


def _lock_threads(tx: Transaction, tokens: Iterable[str]) -> None:
    """Locks the threads of leases before the leases, for callers that may change more than the lease."""
    found = (leases.peek(tx, token) for token in set(tokens))
    for thread_id in sorted({lease.thread_id for lease in found if lease and lease.thread_id}):
        threads.locked(tx, thread_id)


def _held(tx: Transaction, agent: Agent, tokens: Sequence[str]) -> dict[str, Lease]:
    """Returns the valid leases of an agent among ``tokens``, locked in a fixed order so that two callers cannot
    deadlock.
    """
    held = _in_force(tx, agent, tokens, leases.locked(tx, tokens))
    _count_refused(tx, tokens, held)
    return held


def _in_force(tx: Transaction, agent: Agent, tokens: Sequence[str], found: Mapping[str, Lease]) -> dict[str, Lease]:
    return {
        token: lease
        for token in dict.fromkeys(tokens)
        if (lease := found.get(token)) and lease.agent_id == agent.id and leases.holds(lease)
    }


def _count_refused(tx: Transaction, tokens: Sequence[str], held: Mapping[str, Lease]) -> None:
    """Reports the lost leases of a call, but not of a call without any change, which its caller repeats."""
    for _ in set(tokens) - held.keys():
        tx.note(LeaseRefused())


def _thread(tx: Transaction, inbox_message: InboxMessage) -> Thread:
    """Returns the thread of a message without locking it: the lease is already locked, and threads are locked before
    leases.
    """
    thread = threads.get(tx, inbox_message.thread_id)
    assert thread is not None  # threads of inbox messages are never removed
    return thread


def _unlock(tx: Transaction, lease: Lease) -> None:
    """Wakes the agent if more work is due in the released lane."""
    lane = _lane(lease)
    if lane:
        queues.announce(tx, [lane])


def _lane(lease: Lease) -> queues.Lane | None:
    lane_id = lease.thread_id or lease.task_id
    return (lease.agent_id, lane_id) if lane_id else None


def _ended(tokens: Sequence[str], held: dict[str, Lease]) -> Ended:
    return Ended(
        ended=tuple(token for token in dict.fromkeys(tokens) if token in held),
        lost=tuple(token for token in dict.fromkeys(tokens) if token not in held),
    )
