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
from swarm.domain.decision_rules import asked_policy, check_new, grant_counts
from swarm.domain.errors import Conflict
from swarm.domain.model.agents import Reach
from swarm.domain.model.deliveries import DeliveryKind
from swarm.domain.model.grants import AuditKind, Grant, GrantScope
from swarm.domain.model.inbox import InboxStatus, InboxStep, NoticeKind
from swarm.domain.model.requests import (
    MAX_OPEN_PER_WORK,
    Asker,
    EntryPoint,
    HumanDecision,
    HumanRequest,
    NewRequest,
    RequestAnswer,
    RequestStatus,
    RequestStep,
    ResumeStatus,
    ResumeStep,
    ToolRequest,
)
from swarm.domain.model.runs import RunStatus, RunStep
from swarm.domain.model.tasks import TaskStatus, TaskStep
from swarm.domain.model.threads import Standing, Thread
from swarm.domain.operating_policy import OperatingPolicy
from swarm.domain.request_texts import card_text, granted_text, outcome_text
from swarm.domain.tool_names import tool_key
from swarm.services.rules.fencing import STOPPED_BY
from swarm.services.rules.reply import people_of
from swarm.services.rules.silence import check_may_show
from swarm.services.rules.system_messages import show_anew, show_stopped
from swarm.store import agents, deliveries, grants, requests, task_queries, tasks
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, leases, notices, queues
from swarm.store.requests import Waiting
from swarm.store.runs import runs
from swarm.store.runs.runs import Run
from swarm.store.tasks import Task
from swarm.store.threads import people as known_people
from swarm.store.threads import threads

MAX_TOLD: Final = 20
"""The maximum number of people who get a card as a direct message."""

REMINDER_SECONDS: Final = 12 * 3600

UNAPPROVED_SECONDS: Final = 24 * 3600
"""For this long, who asked for a tool without getting approval is a requester of the next question about it."""

EDITED: Final = "the message that asked was edited"
"""Why a question is withdrawn after whose end its messages run again, with their new text."""

JOINED: Final = "the same was asked before for other work, and ended there: {outcome}. That allows nothing here"
"""Why a request has ended that had joined another one."""

_AGAIN: Final = {InboxStatus.RESPONDED: InboxStep.RERUN, InboxStatus.DEAD: InboxStep.RETRY}
_DECIDED: Final = "people have decided"
_COMES_AGAIN: Final = frozenset(
    {InboxStatus.CLAIMED, InboxStatus.UNREAD, TaskStatus.IN_PROGRESS, TaskStatus.PENDING, TaskStatus.UNASSIGNED}
)
"""The statuses of work that has not ended, so that its next run may still need the decision."""


def ask(tx: Transaction, new: NewRequest, waiting: Waiting) -> HumanRequest:
    """Asks people, unless the same was asked before: then the existing request is returned. Later work that asks what
    is open in its thread waits for the end of that request, without a card.

    Raises Invalid for a request that people could not answer, and Conflict for too many open requests of the work, and
    for an id that was used for another question.
    """
    before = requests.of_key(tx, new.key)
    if before and before.is_open and before.asker is Asker.LIVE and before.lease_token != waiting.lease_token:
        cancel(tx, before, "the call that waited for it has ended")
    elif before:
        if not _is_same_question(before, new):  # models reuse ids such as "1"
            raise Conflict(
                "The id of this question was used for another one, so nothing was asked.",
                hint="Give each question an id of its own.",
            )
        return (before.joins and before.is_open and requests.get(tx, before.joins)) or before
    check_new(new)
    open_before = _asked_before(tx, new, waiting)
    if open_before and open_before.work_id == waiting.work_id:
        if waiting.run_id is None:
            return open_before
        cancel(tx, open_before, "the run that asked has lost its work")
        open_before = None
    earlier = requests.of_works(tx, [waiting.work_id]).get(waiting.work_id, [])
    if sum(request.is_open for request in earlier) >= MAX_OPEN_PER_WORK:
        raise Conflict(f"This work has {MAX_OPEN_PER_WORK} open requests.", hint="Wait until people have decided.")
    for request in earlier:  # the run that asks has received these decisions
        if request.lease_token != waiting.lease_token and requests.resume(tx, ResumeStep.ACCEPT, request):
            grants.note(tx, AuditKind.RESUMED, "accepted", request)
    requesters = _requesters(tx, new, waiting)
    thread = threads.get(tx, waiting.thread_id) if waiting.thread_id else None
    by_strangers = bool(requesters) and strangers_of(tx, thread, requesters) == set(requesters)
    new = replace(new, policy=asked_policy(new.policy, by_strangers=by_strangers))
    joins = open_before.id if open_before else None
    request, is_new = requests.add(tx, new, replace(waiting, requesters=requesters, joins=joins))
    if open_before and is_new:
        grants.note(tx, AuditKind.ASKED, f"{request.title} (waits for request {open_before.id})", request)
        return request if waiting.asker is Asker.LIVE else open_before
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
    if run is None or not is_running or not leases.holds(lease, tx.now):
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
        requesters=(run.requester,) if run.requester else (),
        asker=asker,
    )


def _asked_before(tx: Transaction, new: NewRequest, waiting: Waiting) -> HumanRequest | None:
    """Returns the open request with the same question that an earlier run of the agent has asked in the thread."""
    for request in requests.open_in_thread(tx, waiting.thread_id) if waiting.thread_id else ():
        is_other_run = request.agent_id == waiting.agent_id and request.lease_token != waiting.lease_token
        # The title too, because models give other questions the same id.
        name = (request.agent_request_id, request.title)
        is_named = bool(new.agent_request_id) and name == (new.agent_request_id, new.title)
        is_same = _call(request.tool) == _call(new.tool) and (is_named or new.tool is not None)
        if is_other_run and is_same and request.asker is Asker.DURABLE:
            return request
    return None


def _requesters(tx: Transaction, new: NewRequest, waiting: Waiting) -> tuple[str, ...]:
    """Returns everybody whose messages the work answers, or who lately asked for the same tool without approval.

    Under four eyes also who waits for an approval of the same tool: other arguments must not make them a second pair.
    """
    messages = [inbox.get(tx, inbox_message_id) for inbox_message_id in waiting.inbox_message_ids]
    task = tasks.get(tx, waiting.task_id) if waiting.task_id else None
    for above in [task, *task_queries.ancestors(tx, task.parent_id)] if task else ():
        began = (above.inbox_message_id,) if above.inbox_message_id else _creating(tx, above)
        messages += [inbox.get(tx, inbox_message_id) for inbox_message_id in began]
        messages += inbox.of_task(tx, above.id, InboxStatus.DELEGATED)
    people = [*people_of(tx, filter(None, messages)), *waiting.requesters]
    tool = _tool_of(new)
    earlier = requests.unapproved(tx, waiting, tx.now - UNAPPROVED_SECONDS * SECOND) if tool else []
    earlier = [one for one in earlier if not one.is_open or new.policy.not_requester]
    people += [one for request in earlier if _tool_of(request) == tool for one in request.requesters]
    return tuple(dict.fromkeys(people))


def _creating(tx: Transaction, task: Task) -> tuple[str, ...]:
    """Returns the messages of the run that created a task, if a run of the coordinator did."""
    for run in runs.of_thread(tx, task.thread_id) if task.thread_id else ():
        ended_at = tx.now if run.ended_at is None else run.ended_at
        if run.agent_id == task.created_by and run.started_at <= task.created_at <= ended_at:
            return run.inbox_message_ids
    return ()


def _is_same_question(before: HumanRequest, new: NewRequest) -> bool:
    """Whether a question is the one that was asked before: the same call, or without a call the same words."""
    if before.tool or new.tool:
        return _call(before.tool) == _call(new.tool)
    return (before.title, before.prompt, before.fields) == (new.title, new.prompt, new.fields)


def _tool_of(question: HumanRequest | NewRequest) -> str | None:
    """Returns the tool of a question, also of one that a server has asked during a call."""
    name = question.tool.name if question.tool else question.raw.get("tool")
    return tool_key(name) if isinstance(name, str) else None


def _call(tool: ToolRequest | None) -> str | None:
    """Returns what identifies a call, however its tool is spelt."""
    return replace(tool, name=tool_key(tool.name)).digest if tool else None


def strangers_among(tx: Transaction, request: HumanRequest) -> frozenset[str]:
    """Returns the requesters who are not known to be members of the workspace."""
    thread = threads.get(tx, request.thread_id) if request.thread_id else None
    return strangers_of(tx, thread, request.requesters)


def strangers_of(tx: Transaction, thread: Thread | None, people: Collection[str]) -> frozenset[str]:
    """Returns the people who are not known to be members of the workspace."""
    found = {one: known_people.find(tx, thread.team, one) if thread else None for one in people}
    return frozenset(one for one, known in found.items() if known is None or known.standing is not Standing.MEMBER)


def _grant_for(tx: Transaction, request: HumanRequest) -> Grant | None:
    """Returns a grant that decides on a request, and counts its use. A grant enters no values."""
    if request.tool is None or any(field.required for field in request.fields):
        return None
    by_members = not strangers_among(tx, request)

    def fits(grant: Grant) -> bool:
        given = requests.get(tx, grant.request_id)
        return grant_counts(grant, request, given.policy if given else None, by_members=by_members)

    return grants.use(tx, request.agent_id, request.tool.name, request.thread_id, fits)


def _approve_by(tx: Transaction, request: HumanRequest, grant: Grant) -> None:
    """Approves a request by a permission given in advance. People read whose it is, once per run and tool."""
    answer = RequestAnswer(person=grant.given_by, decision=HumanDecision.APPROVE, at=tx.now, door=EntryPoint.SLACK)
    requests.answer(tx, request.id, answer)
    requests.move(tx, RequestStep.APPROVE, request, f"by a grant of {grant.given_by}")
    where = "in this thread" if grant.scope is GrantScope.THREAD else "always"
    grants.note(tx, AuditKind.USED, f"grant {grant.id} ({where})", request, person=grant.given_by)
    thread = threads.get(tx, request.thread_id) if request.thread_id else None
    if thread:
        deliveries.add(
            tx,
            DeliveryKind.POST,
            thread,
            text=granted_text(request, grant),
            idempotency_key=f"granted:{request.run_id or request.lease_token}:{grant.tool}",
            agent_id=request.agent_id,
        )


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
    _end_joined(tx, request)
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
    refresh_lane(tx, request)


def _end_joined(tx: Transaction, request: HumanRequest) -> None:
    """Ends what has joined a request that has ended: its work is told the outcome, which allows nothing there."""
    now = requests.get(tx, request.id)
    for one in requests.joined(tx, request.id) if now and not now.is_open else ():
        assert now is not None
        if cancel(tx, one, JOINED.format(outcome=outcome_text(now))):
            requests.free_key(tx, one)  # its work may ask anew
            release(tx, one, _DECIDED)


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


def why_over(tx: Transaction, request: HumanRequest, otherwise: str) -> str:
    """Returns why the work of a request has ended, as far as its rows say; otherwise ``otherwise``."""
    run = runs.get(tx, request.run_id) if request.run_id else None
    message = None if request.task_id else inbox.get(tx, request.work_id)
    if message and message.status is InboxStatus.WITHDRAWN:
        return "the message was deleted"
    if run and run.status is RunStatus.STOPPED and run.stop_requested_by:
        return STOPPED_BY.format(person=run.stop_requested_by)
    return otherwise


def stop_waiting(
    tx: Transaction, thread: Thread, person: str, operating_policy: OperatingPolicy, *, own_only: bool = False
) -> int:
    """Withdraws what people are asked in a thread, and stops the work that waits for it. The thread is locked.

    Returns the number of requests. Tasks are cancelled by the caller. ``own_only`` leaves other people's work alone.
    """
    found = requests.open_in_thread(tx, thread.id, with_joined=True)
    if own_only:
        found = [request for request in found if person in request.requesters]
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
    for request in found:
        refresh_lane(tx, request)
    return len(found)


def note_all_accepted(tx: Transaction, run: Run, operating_policy: OperatingPolicy) -> None:
    """Records at the end of a run whether it has received the decisions on its work, and which work is due then."""
    work_id = run.task_id or run.trigger_id
    found = requests.of_works(tx, [work_id]).get(work_id, [])
    accepted = [request for request in found if note_accepted(tx, request)]
    for request in accepted:
        if request.status is RequestStatus.CANCELLED and request.reason == EDITED:
            _run_edited(tx, request, operating_policy)
    if found:
        refresh_lane(tx, found[-1])


def _run_edited(tx: Transaction, request: HumanRequest, operating_policy: OperatingPolicy) -> None:
    """Runs the messages of a withdrawn question again, with their new text, unless they were stopped meanwhile."""
    for inbox_message_id in sorted(request.inbox_message_ids):
        inbox_message = inbox.locked(tx, inbox_message_id)
        step = _AGAIN.get(inbox_message.status) if inbox_message else None
        if inbox_message and step and request.thread_id and inbox.move(tx, step, inbox_message, reason=EDITED):
            show_anew(tx, threads.locked(tx, request.thread_id), inbox_message, operating_policy.reactions)


def refresh_lane(tx: Transaction, request: HumanRequest) -> None:
    """Makes due what the question of a run has held, or holds it."""
    if request.thread_id and request.run_id:
        queues.refresh(tx, request.agent_id, request.thread_id)
        tx.wake(request.agent_id)  # for its notices


def note_accepted(tx: Transaction, request: HumanRequest) -> bool:
    """Records whether the asker has received a decision, by what became of its work. Returns whether that is known now
    for the first time.
    """
    task = tasks.get(tx, request.task_id) if request.task_id else None
    inbox_message = None if request.task_id else inbox.get(tx, request.work_id)
    status = task.status if task else inbox_message.status if inbox_message else None
    if status in _COMES_AGAIN:
        return False
    # A call that waited has received its decision, whatever becomes of its work.
    has_failed = request.asker is Asker.DURABLE and status in (InboxStatus.DEAD, TaskStatus.DEAD, TaskStatus.FAILED)
    step = ResumeStep.FAIL if has_failed else ResumeStep.ACCEPT
    is_new = request.resume is ResumeStatus.SENT and requests.resume(tx, step, request)
    if is_new:
        grants.note(tx, AuditKind.RESUMED, "failed" if has_failed else "accepted", request)
        if has_failed:
            now = requests.get(tx, request.id)
            assert now is not None  # just changed
            refresh_cards(tx, now)
    return is_new
