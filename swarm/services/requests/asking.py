"""Asks people, and lets the work go on after the decision.

Guarantee: a question with the same key is asked once, and the work is due again when none of its requests is open. A
grant decides at once, without a card.

Lock order: the thread, the lease, the task, the messages, the run, then the request.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from swarm.clock import SECOND, new_id
from swarm.domain.answers.events import Asked
from swarm.domain.answers.questions import request_of
from swarm.domain.decision_rules import check_new
from swarm.domain.errors import Conflict
from swarm.domain.model.agents import Reach
from swarm.domain.model.deliveries import DeliveryKind
from swarm.domain.model.grants import AuditKind, Grant, GrantScope
from swarm.domain.model.inbox import InboxStatus, InboxStep, NoticeKind
from swarm.domain.model.requests import (
    BY_REQUESTER,
    MAX_OPEN_PER_WORK,
    OPERATOR,
    Asker,
    EntryPoint,
    HumanDecision,
    HumanRequest,
    NewRequest,
    RequestAnswer,
    RequestStep,
    ResumeStatus,
    ResumeStep,
)
from swarm.domain.model.runs import RunStatus, RunStep
from swarm.domain.model.tasks import TaskStatus, TaskStep
from swarm.domain.model.threads import Thread
from swarm.domain.operating_policy import OperatingPolicy
from swarm.domain.request_texts import card_text, outcome_text
from swarm.services.rules.fencing import STOPPED_BY
from swarm.services.rules.silence import check_may_show
from swarm.services.rules.system_messages import show_answered, show_stopped
from swarm.store import agents, deliveries, grants, requests, tasks
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, leases, notices
from swarm.store.requests import Waiting
from swarm.store.runs import runs
from swarm.store.runs.runs import Run
from swarm.store.threads import threads

MAX_TOLD: Final = 20
"""The maximum number of people who get a card as a direct message."""

REMINDER_SECONDS: Final = 12 * 3600

_DECIDED: Final = "people have decided"
_COMES_AGAIN: Final = frozenset(
    {InboxStatus.CLAIMED, InboxStatus.UNREAD, TaskStatus.IN_PROGRESS, TaskStatus.PENDING, TaskStatus.UNASSIGNED}
)
"""The statuses of work that has not ended, so that its next run may still need the decision."""


def ask(tx: Transaction, new: NewRequest, waiting: Waiting) -> HumanRequest:
    """Asks people, unless the same was asked before: then the existing request is returned.

    Raises Invalid for a request that people could not answer, and Conflict for too many open requests of the work.
    """
    before = requests.of_key(tx, new.key)
    if before and before.is_open and before.asker is Asker.LIVE and before.lease_token != waiting.lease_token:
        cancel(tx, before, "the call that waited for it has ended")
    elif before:
        return before
    check_new(new)
    earlier = requests.of_works(tx, [waiting.work_id]).get(waiting.work_id, [])
    if sum(request.is_open for request in earlier) >= MAX_OPEN_PER_WORK:
        raise Conflict(f"This work has {MAX_OPEN_PER_WORK} open requests.", hint="Wait until people have decided.")
    for request in earlier:  # the run that asks has received these decisions
        if request.lease_token != waiting.lease_token and requests.resume(tx, ResumeStep.ACCEPT, request):
            grants.note(tx, AuditKind.RESUMED, "accepted", request)
    request, is_new = requests.add(tx, new, waiting)
    if is_new:
        grants.note(tx, AuditKind.ASKED, request.title, request)
        grant = _grant_for(tx, request)
        if grant:
            _approve_by(tx, request, grant)
        else:
            _post_card(tx, request)
    return requests.get(tx, request.id) or request


def ask_of_run(tx: Transaction, run: Run, asked: Sequence[Asked], operating_policy: OperatingPolicy) -> None:
    """Asks the questions of a run of the coordinator. A repeated call asks nothing twice."""
    thread = threads.get(tx, run.thread_id) if run.thread_id else None
    agent = agents.names(tx).get(run.agent_id, "")
    waiting = waiting_of(run, Asker.DURABLE)
    heard = [message.id for message in inbox.members(tx, run.lease_token)]  # also what a task's run has read meanwhile
    waiting = replace(waiting, inbox_message_ids=tuple(dict.fromkeys((*waiting.inbox_message_ids, *heard))))
    for question in asked:
        tool = question.tool.name if question.tool else None
        policy = operating_policy.decision_policy(agent, thread.channel if thread else None, tool)
        ask(tx, request_of(question, f"run:{run.id}:{question.id}", policy), waiting)


def ask_during_run(
    tx: Transaction, run_id: str, tool: str, new: NewRequest, operating_policy: OperatingPolicy
) -> HumanRequest:
    """Asks a question of a run whose call of a tool waits for the answer. The operator's rules replace its policy.

    Raises Conflict if the run is over, or if nobody in its thread waits for it.
    """
    found = runs.get(tx, run_id)
    if found is None or found.thread_id is None or found.requester is None:
        raise Conflict("Nobody can be asked here, because the run does not answer a person in a thread.")
    thread = threads.locked(tx, found.thread_id)
    check_may_show(thread, "people cannot be asked")
    lease = leases.by_token(tx, found.lease_token)
    run = runs.locked(tx, run_id)
    is_running = run is not None and run.status is RunStatus.RUNNING and run.stop_requested_at is None
    if run is None or not is_running or not leases.holds(lease):
        raise Conflict("The run has ended, so nobody can be asked.")
    agent = agents.names(tx).get(run.agent_id, "")
    policy = operating_policy.decision_policy(agent, thread.channel, tool, new.policy)
    key = f"run:{run.id}:live:{new_id()}"
    return ask(tx, replace(new, key=key, policy=policy), waiting_of(run, Asker.LIVE))


def waiting_of(run: Run, asker: Asker) -> Waiting:
    """Returns the work of a run as that which waits for a decision."""
    work_ids = (run.task_id,) if run.task_id else run.inbox_message_ids
    return Waiting(
        agent_id=run.agent_id,
        thread_id=run.thread_id,
        work_id=work_ids[0] if work_ids and work_ids[0] else run.trigger_id,
        lease_token=run.lease_token,
        inbox_message_ids=run.inbox_message_ids,
        task_id=run.task_id,
        run_id=run.id,
        requester=run.requester,
        asker=asker,
    )


def _grant_for(tx: Transaction, request: HumanRequest) -> Grant | None:
    """Returns a grant that decides on a request, and counts its use.

    A grant enters no values, and counts under another policy only if the operator gave it or the requester may decide:
    people cannot allow in one place what only others may allow in another.
    """

    def fits(grant: Grant) -> bool:
        if grant.given_by == OPERATOR or request.policy == BY_REQUESTER:
            return True
        given = requests.get(tx, grant.request_id)
        return given is not None and given.policy == request.policy

    if request.tool is None or any(field.required for field in request.fields):
        return None
    return grants.use(tx, request.agent_id, request.tool.name, request.thread_id, fits)


def _approve_by(tx: Transaction, request: HumanRequest, grant: Grant) -> None:
    """Approves a request by a permission given in advance."""
    answer = RequestAnswer(person=grant.given_by, decision=HumanDecision.APPROVE, at=tx.now, door=EntryPoint.SLACK)
    requests.answer(tx, request.id, answer)
    requests.move(tx, RequestStep.APPROVE, request, f"by a grant of {grant.given_by}")
    where = "in this thread" if grant.scope is GrantScope.THREAD else "always"
    grants.note(tx, AuditKind.USED, f"grant {grant.id} ({where})", request, person=grant.given_by)


def _post_card(tx: Transaction, request: HumanRequest) -> None:
    thread = threads.get(tx, request.thread_id) if request.thread_id else None
    if thread:
        deliveries.add(
            tx,
            DeliveryKind.POST,
            thread,
            text=card_text(request),
            idempotency_key=f"request:{request.id}",
            agent_id=request.agent_id,
            request_id=request.id,
        )


def tell_people(tx: Transaction, request_id: str, people: Collection[str]) -> None:
    """Sends the card to people as a direct message, and later reminds those who have not decided, once."""
    request = requests.locked(tx, request_id)
    thread = threads.get(tx, request.thread_id) if request and request.thread_id else None
    if request is None or not request.is_open:
        return
    was_told = any(card["thread_ts"] is None for card in deliveries.of_request(tx, request_id))
    again_at = None if was_told else _reminder_at(tx.now, request.expires_at)
    if not requests.told(tx, request, again_at) or thread is None:
        return
    decided = {answer.person for answer in request.answers}
    for person in sorted(set(people) - decided)[:MAX_TOLD]:
        deliveries.add(
            tx,
            DeliveryKind.POST,
            thread,
            text=f"⏰ {card_text(request)}" if was_told else card_text(request),
            idempotency_key=f"request-{'reminder' if was_told else 'direct'}:{request.id}:{person}",
            agent_id=request.agent_id,
            request_id=request.id,
            to=person,
        )


def _reminder_at(now: int, expires_at: int | None) -> int:
    """Returns the time of the only reminder: after half of the time, at the latest after half a day."""
    half = REMINDER_SECONDS * SECOND if expires_at is None else (expires_at - now) // 2
    return now + min(half, REMINDER_SECONDS * SECOND)


def refresh_cards(tx: Transaction, request: HumanRequest) -> None:
    """Brings every card of a request up to date. The sender draws each from the request's row."""
    thread = threads.get(tx, request.thread_id) if request.thread_id else None
    for card in deliveries.of_request(tx, request.id) if thread else ():
        assert thread is not None
        deliveries.add(
            tx,
            DeliveryKind.UPDATE,
            thread,
            text=card_text(request),
            agent_id=request.agent_id,
            updates_id=card["id"],
            request_id=request.id,
            to=card["channel"],
        )


def ended(tx: Transaction, request_id: str) -> HumanRequest:
    """Tells everybody that a request has ended: its cards, its asker, and its work, which may go on."""
    request = requests.get(tx, request_id)
    assert request is not None  # it has just ended
    refresh_cards(tx, request)
    for other in requests.of_run(tx, request.run_id) if request.run_id else ():
        if other.is_open:  # its card says how many have been answered
            refresh_cards(tx, other)
    agent = agents.by_id(tx, request.agent_id)
    if agent and agent.reach is Reach.POLLING:
        notices.add(
            tx,
            NoticeKind.HUMAN_INPUT,
            request.agent_id,
            thread_id=request.thread_id,
            inbox_message_id=None if request.task_id else request.work_id,
            task_id=request.task_id,
            actor=request.deciding.person if request.deciding else None,
            text=outcome_text(request),
            request_id=request.id,
        )
    release(tx, request, _DECIDED)
    return request


def release(tx: Transaction, request: HumanRequest, reason: str) -> None:
    """Makes the work of a request due again if none of its requests is open. The thread and the task are locked."""
    found = requests.of_works(tx, [request.work_id]).get(request.work_id, [])
    if any(one.is_open for one in found):
        return
    task = tasks.locked(tx, request.task_id) if request.task_id else None
    if task and task.status is TaskStatus.WAITING:
        tasks.move(tx, TaskStep.ANSWER, task, reason=reason)
    for inbox_message_id in sorted({id for one in (request, *found) for id in one.inbox_message_ids}):
        inbox_message = inbox.locked(tx, inbox_message_id)
        if inbox_message and inbox_message.status is InboxStatus.WAITING:
            inbox.move(tx, InboxStep.ANSWER, inbox_message, reason=reason)
    if request.run_id:
        runs.end(tx, request.run_id, RunStep.RESUME)


def release_run(tx: Transaction, run: Run) -> None:
    """Makes the work of a waiting run due again if all its requests have ended already."""
    found = requests.of_run(tx, run.id)
    if found and not any(request.is_open for request in found):
        release(tx, found[-1], _DECIDED)


def lock_work(tx: Transaction, request_id: str) -> HumanRequest | None:
    """Locks the thread and the task of a request, then the request, and returns it."""
    found = requests.get(tx, request_id)
    if found is None:
        return None
    if found.thread_id:
        threads.locked(tx, found.thread_id)
    if found.task_id:
        tasks.locked(tx, found.task_id)
    return requests.locked(tx, request_id)


def cancel(tx: Transaction, request: HumanRequest, reason: str, person: str | None = None) -> bool:
    """Withdraws an open request. Its work stays as it is. Returns False if the request has ended."""
    if not requests.move(tx, RequestStep.CANCEL, request, reason):
        return False
    grants.note(tx, AuditKind.CANCELLED, reason, request, person=person)
    if request.asker is Asker.LIVE:  # who gets the work later asks anew
        requests.free_key(tx, request)
    if request.run_id and not any(one.is_open for one in requests.of_run(tx, request.run_id)):
        runs.end(tx, request.run_id, RunStep.SUPERSEDE)
    now = requests.get(tx, request.id)
    assert now is not None  # just changed
    refresh_cards(tx, now)
    return True


def stop_waiting(
    tx: Transaction, thread: Thread, person: str, operating_policy: OperatingPolicy, *, own_only: bool = False
) -> int:
    """Withdraws what people are asked in a thread, and stops the work that waits for it. The thread is locked.

    Returns the number of requests. Tasks are cancelled by the caller. ``own_only`` leaves other people's work alone.
    """
    found = requests.open_in_thread(tx, thread.id)
    if own_only:
        found = [request for request in found if request.requester == person]
    reason = STOPPED_BY.format(person=person)
    waiting = {request.run_id for request in found if request.run_id and request.asker is Asker.DURABLE}
    for run_id in sorted(waiting):  # the run of a live asker is still running, and its own Stop ends it
        runs.end(tx, run_id, RunStep.STOP, reason)
    for request in found:
        cancel(tx, request, reason, person)
    for inbox_message_id in sorted({one for request in found for one in request.inbox_message_ids}):
        inbox_message = inbox.locked(tx, inbox_message_id)
        if inbox_message and inbox_message.status is InboxStatus.WAITING:
            inbox.move(tx, InboxStep.DISMISS, inbox_message, reason=reason)
            show_stopped(tx, thread, inbox_message.ts, operating_policy.reactions)
    return len(found)


def supersede(tx: Transaction, thread_id: str, agent_id: str, operating_policy: OperatingPolicy) -> None:
    """Withdraws what an agent asks in a thread, because its next run there answers a newer message instead.

    Built-in agents cannot go on with a question after that: a model's conversation has one end.
    """
    thread = threads.locked(tx, thread_id)
    for request in requests.open_in_thread(tx, thread_id):
        if request.agent_id != agent_id or request.task_id:
            continue
        cancel(tx, request, "people wrote something else")
        for inbox_message_id in sorted(request.inbox_message_ids):
            inbox_message = inbox.locked(tx, inbox_message_id)
            if inbox_message and inbox_message.status is InboxStatus.WAITING:
                inbox.move(tx, InboxStep.DISMISS, inbox_message, reason="a newer message is answered instead")
                show_answered(tx, thread, inbox_message.ts, operating_policy.reactions)


def note_accepted(tx: Transaction, request: HumanRequest) -> None:
    """Records whether the asker has received a decision, by what became of its work."""
    task = tasks.get(tx, request.task_id) if request.task_id else None
    inbox_message = None if request.task_id else inbox.get(tx, request.work_id)
    status = task.status if task else inbox_message.status if inbox_message else None
    if status in _COMES_AGAIN:
        return
    has_failed = status in (InboxStatus.DEAD, TaskStatus.DEAD, TaskStatus.FAILED)
    step = ResumeStep.FAIL if has_failed else ResumeStep.ACCEPT
    if request.resume is ResumeStatus.SENT and requests.resume(tx, step, request):
        grants.note(tx, AuditKind.RESUMED, "failed" if has_failed else "accepted", request)
        if has_failed:
            now = requests.get(tx, request.id)
            assert now is not None  # just changed
            refresh_cards(tx, now)
