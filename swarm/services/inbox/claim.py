"""Claims lease due work to the calls of agents. This note is the whole rule; `queues` and `leases` have the statements.

Who claims: polls (`polls`), renewals and finishes that ask for the next work (`work`), and transactions that make work
due while polls wait. Concurrent calls form a set, which is served by the same statements on both engines.

What is eligible, for a call that is admitted (`claim_calls`: a valid token, one program for each agent):
- an unread notice of the agent. One that starts a run waits while the lane is held. Some calls take only notices;
- the head of a lane: a thread with the agent's messages and tasks, or a task without a thread. A message must be
  unread, a task pending, and neither delayed. A lane in which the agent has an active work lease is left out. A lane
  is held while a run of the coordinator asks people; then only the work that asked is due.

Order: the lowest order key first, which is the time of creation less six seconds for each point of priority (messages
and notices: 50). A head has the lowest key of its lane. Within a lane, the task or the messages with the lower key are
leased, never both. Up to 20 messages go together, by Slack's timestamp; one with a setback goes alone, and those that
waited for one decision go with each other only.

Steps, in one transaction:
1. Choose: lock the first notices and heads of each agent, one more than its calls take. The first call of an agent gets
   the first of them; an agent with work left is woken.
2. Plan: lock the first due task and the due messages of each chosen lane. Outdated notices are dropped.
3. Grant: insert the leases, then put the work under them, on condition that it is still unread or pending. A lease that
   got no work is deleted. The decisions of people that the work has not received yet are added, once.
4. Refresh: drop the heads of lanes that were exhausted, and compute the others anew.

What is locked: on PostgreSQL every row of steps 1 and 2, and rows that others have locked are skipped, not waited for:
writers lock thread, lease, task, messages and head in this order, and a claim begins with heads. On SQLite, one
transaction writes at a time. A claim inside a transaction that holds locks does not wait for a token either (``wait``).

What a lease is: a row with a new token, the attempt's number, and an end by the database's clock. Renewals move the
end; only the sweep ends a lease by time, and its work becomes due again (`swarm.services.work.leases`).

What makes it safe:
- twice at once: the lock of the head, and the condition on the status in the update that claims;
- two runs of an agent in a thread: the partial unique index ``uq_leases_thread_lock`` on active work leases;
- a late run: statements that end or renew a lease match its token and an active row (`swarm.services.work.fencing`);
- lost work: each writer of due work refreshes the head in its own transaction, and the sweep repairs missing heads;
- lost answers: if the caller has left or the commit is uncertain, the claim is given back, or its lease expires.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from operator import itemgetter
from typing import Final

from swarm.clock import SECOND
from swarm.domain.errors import Conflict
from swarm.domain.model.inbox import BUNDLE_LIMIT, InboxStatus, NoticeKind, NoticeStep, bundle, order_key
from swarm.domain.model.leases import LeaseKind, new_token
from swarm.domain.model.requests import HumanRequest, ResumeStatus, ResumeStep
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.requests.texts import seen_by
from swarm.services.inbox.claim_calls import ClaimCall, admit
from swarm.services.inbox.triggers import ClaimContents, Claimed, read_whole
from swarm.services.requests.asking import refresh_cards
from swarm.services.work.task_threads import follow_up
from swarm.store import requests, tasks
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, leases, notices, queues
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.inbox.leases import Lease
from swarm.store.inbox.notices import Notice
from swarm.store.inbox.queues import QueueHead
from swarm.store.tasks import Task

LONG_THREAD: Final = 200
"""A thread with more messages than this is read after the commit of the claim."""

_NEWS_WHILE: Final = {
    NoticeKind.TASK_FOLLOW_UP: TaskStatus.IN_PROGRESS,
    NoticeKind.TASK_OFFERED: TaskStatus.OFFERED,
    NoticeKind.TASK_RETURNED: TaskStatus.UNASSIGNED,
}
"""The task status in which a notice of this kind is still relevant."""


def claim(tx: Transaction, calls: Sequence[ClaimCall], *, wait: bool = True) -> list[list[ClaimContents] | Conflict]:
    """Leases due triggers in order, each under its own lease, and reads their contents in the same transaction, because
    a second transaction would cost as much again.

    A call whose token has ended gets nothing, and a call of a second instance of its agent gets the Conflict (`admit`).
    Of several calls of one agent, the first gets the first triggers. Without ``wait``, a call also gets nothing while
    its token is being rotated, because a transaction that already holds locks must not wait for the rotation.
    """
    admitted = admit(tx, calls, wait=wait)
    claimed = iter(lease_due(tx, [call for call, answer in zip(calls, admitted, strict=True) if answer is True]))
    leased = [next(claimed) if answer is True else answer or [] for answer in admitted]
    found = [one for of_call in leased if not isinstance(of_call, Conflict) for one in of_call]
    contents = iter(read_whole(tx, found, LONG_THREAD))
    return [of_call if isinstance(of_call, Conflict) else [next(contents) for _ in of_call] for of_call in leased]


def lease_due(tx: Transaction, calls: Sequence[ClaimCall]) -> list[list[Claimed]]:
    """Leases due triggers to calls that are admitted, without reading their contents."""
    chosen = _choose(tx, calls)
    lanes = [what.lane for due in chosen for what in due if isinstance(what, QueueHead)]
    messages, first_tasks = inbox.due_of_lanes(tx, lanes), tasks.first_due(tx, lanes)
    decided = _decided(tx, messages.values(), first_tasks.values())
    planned: list[list[Claimed]] = []
    for call, due in zip(calls, chosen, strict=True):
        plans = (
            _plan_notice(tx, call, what)
            if isinstance(what, Notice)
            else _plan_lane(tx, call, what.lane_id, messages.get(what.lane, []), first_tasks.get(what.lane), decided)
            for what in due
        )
        planned.append([plan for plan in plans if plan])
    granted = _grant(tx, [plan for plans in planned for plan in plans], decided)
    _refresh_heads(tx, lanes, granted.values(), messages, first_tasks)
    claimed = [[granted[plan.lease.token] for plan in plans if plan.lease.token in granted] for plans in planned]
    for call, due, got in zip(calls, chosen, claimed, strict=True):
        if len(got) < len(due):  # the rest was outdated, or another run holds its thread
            tx.wake(call.agent_id)
    for one in granted.values():
        tx.note(one.told(tx.now))
    return claimed


def _choose(tx: Transaction, calls: Sequence[ClaimCall]) -> list[list[Notice | QueueHead]]:
    """Returns the first due notices and queue heads for each call, locked."""
    room = Counter[str]()
    for call in calls:
        room[call.agent_id] += call.limit
    due: dict[str, list[tuple[int, Notice | QueueHead]]] = {agent_id: [] for agent_id in room}
    wanted = sorted(agent_id for agent_id, limit in room.items() if limit)
    most = max(room.values(), default=0) + 1  # shows whether anything is left
    for notice in notices.unread(tx, wanted, most):
        due[notice.agent_id].append((order_key(notice.created_at), notice))
    working = {call.agent_id for call in calls if not call.only_notices}
    for head in queues.next_heads(tx, [agent_id for agent_id in wanted if agent_id in working], most):
        due[head.agent_id].append((head.order_key, head))
    for found in due.values():
        found.sort(key=itemgetter(0))
    chosen = [_share(due[call.agent_id], call) for call in calls]
    for agent_id, left in due.items():
        if left:  # for the next poll; other processes have skipped it, because it is locked until the commit
            tx.wake(agent_id)
    return chosen


def _share(due: list[tuple[int, Notice | QueueHead]], call: ClaimCall) -> list[Notice | QueueHead]:
    """Takes a call's share out of the due work of its agent, and returns the share."""
    fitting = [pair for pair in due if isinstance(pair[1], Notice) or not call.only_notices][: call.limit]
    for pair in fitting:
        due.remove(pair)
    return [what for _, what in fitting]


def _plan_notice(tx: Transaction, call: ClaimCall, notice: Notice) -> Claimed | None:
    """Returns the claim of a notice, which needs no lock of its thread. An outdated notice is dropped."""
    if not notices.move(tx, NoticeStep.CLAIM, notice.id):
        return None
    if _is_over(tx, notice):
        notices.move(tx, NoticeStep.FINISH, notice.id)
        return None
    lease = _lease(tx, call, LeaseKind.NOTICE, notice.thread_id, notice)
    return Claimed(lease=lease, notice=notice)


def _is_over(tx: Transaction, notice: Notice) -> bool:
    """Whether a notice is outdated.

    A follow-up is outdated once it has been answered, or once its task no longer runs, because it then arrives as a
    message. An offer is outdated once it has ended, and a returned task once it has been assigned.
    """
    wanted = _NEWS_WHILE.get(notice.kind)
    task = tasks.get(tx, notice.task_id) if notice.task_id and wanted else None
    if wanted and (task is None or task.status is not wanted):
        return True
    if notice.kind is not NoticeKind.TASK_FOLLOW_UP or notice.inbox_message_id is None:
        return False
    inbox_message = inbox.get(tx, notice.inbox_message_id)
    return (
        inbox_message is None
        or inbox_message.agent_id != notice.agent_id
        or inbox_message.status is not InboxStatus.UNREAD
    )


def _plan_lane(
    tx: Transaction,
    call: ClaimCall,
    lane_id: str,
    due: list[InboxMessage],
    task: Task | None,
    decided: Mapping[str, list[HumanRequest]],
) -> Claimed | None:
    """Returns a claim of the first work in a lane: a task, or the due messages. Returns None if nothing is due.

    The queue head is locked, so no other poll claims from this lane.
    """
    if task and not (due and order_key(due[0].created_at) < task.order_key):
        lease = _lease(tx, call, LeaseKind.WORK, task.thread_id, task, task.id)
        return Claimed(lease=lease, task=task)
    if not due:
        return None
    wanted = _together(due, decided)
    lease = _lease(tx, call, LeaseKind.WORK, lane_id, wanted[0])
    return Claimed(lease=lease, inbox_messages=tuple(wanted))


def _together(due: Sequence[InboxMessage], decided: Mapping[str, list[HumanRequest]]) -> Sequence[InboxMessage]:
    """Returns the messages for one run. Messages that waited for a decision are handed out together, also after a lost
    lease, and not mixed with others, because their run continues an earlier one, which does not take new messages.
    """
    if due[0].id in decided:
        asked = {id for request in decided[due[0].id] for id in request.inbox_message_ids}
        return [message for message in due if message.id in asked or message is due[0]]
    fresh = due[: bundle([message.setbacks for message in due])]
    return list(takewhile(lambda message: message.id not in decided, fresh))


def _decided(
    tx: Transaction, messages: Iterable[Sequence[InboxMessage]], first_tasks: Iterable[Task]
) -> dict[str, list[HumanRequest]]:
    """Returns the decisions that due work has not received yet. Work that was never claimed has asked nothing."""
    ids = {message.id for due in messages for message in due if message.claims}
    ids |= {task.id for task in first_tasks if task.claims}
    return requests.undelivered(tx, ids) if ids else {}


def _lease(
    tx: Transaction,
    call: ClaimCall,
    kind: LeaseKind,
    thread_id: str | None,
    work: InboxMessage | Task | Notice,
    task_id: str | None = None,
) -> Lease:
    return Lease(
        token=new_token(),
        kind=kind,
        agent_id=call.agent_id,
        thread_id=thread_id,
        trigger_id=work.id,
        attempt=work.attempts + work.interruptions + 1,
        hold=call.hold and kind is LeaseKind.WORK,
        expires_at=tx.now + int(call.lease_seconds * SECOND),
        ended_as=None,
        task_id=task_id,
    )


def _grant(
    tx: Transaction, planned: Sequence[Claimed], decided: Mapping[str, list[HumanRequest]]
) -> dict[str, Claimed]:
    """Stores the leases and puts the work under them. Returns the claims that got their work, by token.

    The leases are stored first, because their partial unique index is the lock of a thread. A lease that got no work is
    removed again.
    """
    held = {lease.token for lease in leases.grant(tx, [plan.keyed for plan in planned])}
    plans = {plan.lease.token: plan for plan in planned if plan.lease.token in held}
    messages: dict[str, list[InboxMessage]] = {}
    for message in inbox.claim(
        tx, [(message, token) for token, plan in plans.items() for message in plan.inbox_messages]
    ):
        messages.setdefault(message.lease_token or "", []).append(message)
    granted: dict[str, Claimed] = {}
    for token, plan in plans.items():
        task = tasks.claim(tx, plan.task, token) if plan.task else None
        if plan.notice or task or token in messages:
            granted[token] = replace(plan, task=task, inbox_messages=tuple(messages.get(token, ())))
    _with_decisions(tx, granted, decided)
    leases.take_back(tx, held - granted.keys())
    leases.join(tx, [(token, message.id) for token, members in messages.items() for message in members])
    for claimed in granted.values():
        if claimed.task:  # unread messages do not wait for the end of a task, because its agent gets them as notices
            for inbox_message in inbox.unread_of_lane(tx, claimed.lease.agent_id, claimed.task.lane_id):
                follow_up(tx, claimed.task, inbox_message)
    return granted


def _with_decisions(tx: Transaction, granted: dict[str, Claimed], decided: Mapping[str, list[HumanRequest]]) -> None:
    """Adds the decisions of people that the work has not received yet, and records that they are handed out."""
    for token, claimed in granted.items():
        due = decided.get(claimed.lease.trigger_id, []) if claimed.notice is None else []
        for request in due:
            if requests.resume(tx, ResumeStep.SEND, request) and request.resume is ResumeStatus.FAILED:
                refresh_cards(tx, request.id)  # they do not say any more that the agent failed
        if claimed.notice and claimed.notice.request_id:
            told = requests.get(tx, claimed.notice.request_id)
            due = [told] if told else []
        if due:
            seen = (seen_by(claimed.lease.agent_id, request) for request in due)
            granted[token] = replace(claimed, requests=tuple(seen))


def _refresh_heads(
    tx: Transaction,
    lanes: Sequence[queues.Lane],
    granted: Iterable[Claimed],
    due: Mapping[queues.Lane, list[InboxMessage]],
    first_tasks: Mapping[queues.Lane, Task],
) -> None:
    """Drops the queue heads of lanes from which everything due was claimed, and recomputes the others."""
    exhausted = {
        lane
        for claimed in granted
        if claimed.inbox_messages
        and (lane := (claimed.lease.agent_id, claimed.inbox_messages[0].thread_id)) not in first_tasks
        and len(claimed.inbox_messages) == len(due[lane]) < BUNDLE_LIMIT
    }
    queues.exhausted(tx, exhausted)
    queues.refresh_all(tx, [lane for lane in lanes if lane not in exhausted])
