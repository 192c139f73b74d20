"""Asks people, and lets the work go on after the decision.

Guarantee: a question with the same key is asked once, and the work is due again when none of its requests is open. A
grant decides at once, without a card.

Lock order: the thread, the lease, the task, the messages, the run, then the request.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from swarm.clock import SECOND, new_id
from swarm.domain.answers.events import Asked
from swarm.domain.answers.questions import request_of
from swarm.domain.errors import Conflict
from swarm.domain.model.agents import Reach
from swarm.domain.model.deliveries import DeliveryKind, Mark
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
from swarm.domain.policy.decision_rules import GroupMembers, asked_policy, eligible_people, grant_counts
from swarm.domain.policy.operating import OperatingPolicy
from swarm.domain.requests.texts import card_text, granted_text, outcome_text
from swarm.domain.tool_names import tool_key
from swarm.services.speaking.silence import check_may_show
from swarm.services.speaking.system_messages import show_anew
from swarm.services.work.fencing import STOPPED_BY
from swarm.services.work.reply import people_of
from swarm.store import agents, deliveries, erasure, grants, requests, task_queries, tasks
from swarm.store.bridge.transaction import Transaction
from swarm.store.inbox import inbox, leases, notices, queues
from swarm.store.inbox.inbox import InboxMessage
from swarm.store.reactions import react
from swarm.store.requests import Waiting
from swarm.store.runs import runs
from swarm.store.runs.runs import Run
from swarm.store.tasks import Task
from swarm.store.threads import people as known_people
from swarm.store.threads import threads

UNAPPROVED_SECONDS: Final = 24 * 3600
"""For this long, who asked for a tool without getting approval is a requester of the next question about it."""

EDITED: Final = "the message that asked was edited"
DELETED: Final = "the message was deleted"
"""Why a question is withdrawn after whose end its messages run again: with their new text, or without the deleted."""

JOINED: Final = "the same was asked before for other work, and ended there: {outcome}. That allows nothing here"
"""Why a request has ended that had joined another one."""

_AGAIN: Final = {
    InboxStatus.RESPONDED: InboxStep.RERUN,
    InboxStatus.DEAD: InboxStep.RETRY,
    InboxStatus.DELEGATED: InboxStep.DECLINE,
}
_DECIDED: Final = "people have decided"
_COMES_AGAIN: Final = frozenset(
    {InboxStatus.CLAIMED, InboxStatus.UNREAD, TaskStatus.IN_PROGRESS, TaskStatus.PENDING, TaskStatus.UNASSIGNED}
)
"""The statuses of work that has not ended, so that its next run may still need the decision."""


def ask(tx: Transaction, new: NewRequest, waiting: Waiting) -> HumanRequest:
    """Asks people, unless the same was asked before: then the existing request is returned. Later work that asks what
    is open in its thread waits for the end of that request, without a card.

    The caller has checked that people can answer (`check_new`). Raises Conflict for too many open requests of the
    work, and for an id that was used for another question.
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
    open_before = _asked_before(tx, new, waiting)
    if open_before and open_before.work_id == waiting.work_id:
        if waiting.run_id is None:
            return open_before
        cancel(tx, open_before, "the run that asked has lost its work")
        open_before = None
    earlier = requests.of_work(tx, waiting.work_id)
    if sum(request.is_open for request in earlier) >= MAX_OPEN_PER_WORK:
        raise Conflict(f"This work has {MAX_OPEN_PER_WORK} open requests.", hint="Wait until people have decided.")
    for request in earlier:  # the run that asks has received these decisions
        if request.lease_token != waiting.lease_token:
            received(tx, request)
    requesters = _requesters(tx, new, waiting)
    strangers = strangers_of(tx, waiting.thread_id, requesters)
    by_strangers = bool(requesters) and strangers == set(requesters)
    new = replace(new, policy=asked_policy(new.policy, by_strangers=by_strangers))
    joins = open_before.id if open_before else None
    request, is_new = requests.add(tx, new, replace(waiting, requesters=requesters, joins=joins))
    if not is_new:
        return request
    note = f" (waits for request {open_before.id})" if open_before else ""
    grants.note(tx, AuditKind.ASKED, request.title + note, request)
    if open_before:
        return request if waiting.asker is Asker.LIVE else open_before
    if grant := _grant_for(tx, request, by_members=not strangers):
        _approve_by(tx, request, grant)
        return requests.get(tx, request.id) or request
    card = {"idempotency_key": f"request:{request.id}", "request_id": request.id}
    deliver_text(tx, DeliveryKind.POST, request, card_text(request), [card])
    return request


def ask_of_run(tx: Transaction, run: Run, asked: Sequence[Asked], operating_policy: OperatingPolicy) -> None:
    """Asks the questions of a run of the coordinator. A repeated call asks nothing twice."""
    thread = threads.get(tx, run.thread_id)
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
    """Asks a question of a run whose call of a tool waits for the answer. See `ask_live`.

    Raises Conflict also if nobody in its thread waits for it.
    """
    found = runs.get(tx, run_id)
    if found is None or found.thread_id is None or found.requester is None:
        raise Conflict("Nobody can be asked here, because the run does not answer a person in a thread.")
    return ask_live(tx, found, tool, replace(new, key=f"run:{run_id}:live:{new_id()}"), operating_policy)


def ask_live(
    tx: Transaction,
    found: Run,
    tool: str,
    new: NewRequest,
    operating_policy: OperatingPolicy,
    *,
    after_answer: bool = False,
) -> HumanRequest:
    """Asks a question of a run that waits for the answer. The operator's rules for the tool replace its policy.
    ``after_answer``: also while the work goes on after its answer has ended.

    Raises Conflict if the run is over, or if people cannot be asked.
    """
    thread = threads.locked(tx, found.thread_id) if found.thread_id else None
    check_may_show(thread, "people cannot be asked")
    lease = leases.by_token(tx, found.lease_token)
    run = runs.locked(tx, found.id)
    is_open = run is not None and run.stop_requested_at is None and (after_answer or run.status is RunStatus.RUNNING)
    if run is None or not is_open or not leases.holds(lease):
        raise Conflict("The run has ended, so nobody can be asked.")
    agent = agents.names(tx).get(run.agent_id, "")
    policy = operating_policy.decision_policy(agent, thread.channel if thread else None, tool, new.policy)
    return ask(tx, replace(new, policy=policy), waiting_of(run, Asker.LIVE))


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
    ids = (*waiting.inbox_message_ids, *leading_to(tx, waiting.task_id))
    messages = (inbox.get(tx, inbox_message_id) for inbox_message_id in ids)
    people = [*people_of(tx, filter(None, messages)), *waiting.requesters]
    tool = _tool_of(new)
    for earlier in requests.unapproved(tx, waiting, tx.now - UNAPPROVED_SECONDS * SECOND) if tool else ():
        counts = _tool_of(earlier) == tool and (not earlier.is_open or new.policy.not_requester)
        people += earlier.requesters if counts else ()
    return tuple(dict.fromkeys(people))


def leading_to(tx: Transaction, task_id: str | None) -> list[str]:
    """Returns the messages that led to a task, by their ids: it was made of them, or during their run, or a task above
    it was.
    """
    ids: list[str] = []
    task = tasks.get(tx, task_id) if task_id else None
    for above in [task, *task_queries.ancestors(tx, task.parent_id)] if task else ():
        ids += (above.inbox_message_id,) if above.inbox_message_id else _creating(tx, above)
        ids += [message.id for message in inbox.of_task(tx, above.id, InboxStatus.DELEGATED)]
    return ids


def _creating(tx: Transaction, task: Task) -> Sequence[str]:
    """Returns the messages of the work during which a task was created; a polling agent's while its lease is kept."""
    for run in runs.of_thread(tx, task.thread_id) if task.thread_id else ():
        ended_at = tx.now if run.ended_at is None else run.ended_at
        if run.agent_id == task.created_by and run.started_at <= task.created_at <= ended_at:
            return run.inbox_message_ids
    return inbox.held_at(tx, task.thread_id, task.created_by, task.created_at) if task.thread_id else ()


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


def strangers_of(tx: Transaction, thread_id: str | None, people: Collection[str]) -> frozenset[str]:
    """Returns the people who are not known to be members of the workspace of a thread."""
    thread = threads.get(tx, thread_id)
    found = {one: known_people.find(tx, thread.team, one) if thread else None for one in people}
    return frozenset(one for one, known in found.items() if known is None or known.standing is not Standing.MEMBER)


def eligible_now(tx: Transaction, request: HumanRequest, members: GroupMembers) -> frozenset[str] | None:
    """Returns everybody who may decide on a request; None if that is not a known set of people."""
    strangers = strangers_of(tx, request.thread_id, request.requesters)
    return eligible_people(request.policy, request.requesters, members, strangers)


def _grant_for(tx: Transaction, request: HumanRequest, *, by_members: bool) -> Grant | None:
    """Returns a grant that decides on a request, and counts its use. A grant enters no values."""
    if request.tool is None or any(field.required for field in request.fields):
        return None

    def fits(grant: Grant) -> bool:
        given = requests.get(tx, grant.request_id)
        are_members = by_members and not strangers_of(tx, request.thread_id, [grant.given_by])
        return grant_counts(grant, request, given.policy if given else None, by_members=are_members)

    return grants.use(tx, request.agent_id, request.tool.name, request.thread_id, fits)


def _approve_by(tx: Transaction, request: HumanRequest, grant: Grant) -> None:
    """Approves a request by a permission given in advance. People read whose it is, once per run and tool."""
    answer = RequestAnswer(person=grant.given_by, decision=HumanDecision.APPROVE, at=tx.now, door=EntryPoint.SLACK)
    requests.answer(tx, request.id, answer)
    requests.move(tx, RequestStep.APPROVE, request, f"by a grant of {grant.given_by}")
    where = "in this thread" if grant.scope is GrantScope.THREAD else "always"
    grants.note(tx, AuditKind.USED, f"grant {grant.id} ({where})", request, person=grant.given_by)
    key = f"granted:{request.run_id or request.lease_token}:{grant.tool}"
    deliver_text(tx, DeliveryKind.POST, request, granted_text(request, grant), [{"idempotency_key": key}])


def deliver_text(
    tx: Transaction, kind: DeliveryKind, request: HumanRequest, text: str, wanted: Iterable[Mapping[str, Any]]
) -> None:
    """Queues a text about a request, once for each of the deliveries, whose other columns are given."""
    thread = threads.get(tx, request.thread_id)
    for columns in wanted if thread else ():
        assert thread is not None
        deliveries.add(tx, kind, thread, text=text, agent_id=request.agent_id, **columns)


def refresh_cards(tx: Transaction, request_id: str) -> HumanRequest:
    """Brings every card of a request up to date, and returns the request as it is now. The sender draws each card from
    the request's row.
    """
    request = requests.get(tx, request_id)
    assert request is not None  # its work still needs it
    wanted = (
        {"updates_id": card["id"], "request_id": request_id, "to": card["channel"]}
        for card in deliveries.of_request(tx, request_id)
    )
    deliver_text(tx, DeliveryKind.UPDATE, request, card_text(request), wanted)
    return request


def ended(tx: Transaction, request_id: str) -> HumanRequest:
    """Tells everybody that a request has ended: its cards, its asker, and its work, which may go on."""
    request = refresh_cards(tx, request_id)
    for other in requests.of_run(tx, request.run_id) if request.run_id else ():
        if other.is_open:  # its card says how many have been answered
            refresh_cards(tx, other.id)
    agent = agents.by_id(tx, request.agent_id)
    if agent and agent.reach is Reach.POLLING:
        notices.add(
            tx,
            NoticeKind.HUMAN_INPUT,
            request.agent_id,
            thread_id=request.thread_id,
            inbox_message_id=request.work_id if request.inbox_message_ids and not request.task_id else None,
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
    found = requests.of_work(tx, request.work_id)
    if any(one.is_open for one in found):
        return
    task = tasks.locked(tx, request.task_id) if request.task_id else None
    if task and task.status is TaskStatus.WAITING:
        tasks.move(tx, TaskStep.ANSWER, task, reason=reason)
    for inbox_message in _waiting_messages(tx, [request, *found]):
        inbox.move(tx, InboxStep.ANSWER, inbox_message, reason=reason)
    if request.run_id:
        runs.end(tx, request.run_id, RunStep.RESUME)
    refresh_lane(tx, request)


def _waiting_messages(tx: Transaction, found: Iterable[HumanRequest]) -> list[InboxMessage]:
    """Returns the messages that wait for these requests, locked in the order of their ids."""
    ids = sorted({inbox_message_id for request in found for inbox_message_id in request.inbox_message_ids})
    messages = (inbox.locked(tx, inbox_message_id) for inbox_message_id in ids)
    return [one for one in messages if one and one.status is InboxStatus.WAITING]


def _end_joined(tx: Transaction, request: HumanRequest) -> None:
    """Ends what has joined a request that has ended: its work is told the outcome, which allows nothing there."""
    now = requests.get(tx, request.id)
    if now is None or now.is_open:
        return
    for one in requests.joined(tx, request.id):
        if cancel(tx, one, JOINED.format(outcome=outcome_text(now))):
            erasure.free_key(tx, one.id)  # its work may ask anew
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
        erasure.free_key(tx, request.id)
    if request.run_id and not any(one.is_open for one in requests.of_run(tx, request.run_id)):
        runs.end(tx, request.run_id, RunStep.SUPERSEDE)
    refresh_cards(tx, request.id)
    return True


def why_over(tx: Transaction, request: HumanRequest, otherwise: str) -> str:
    """Returns why the work of a request has ended, as far as its rows say; otherwise ``otherwise``."""
    run = runs.get(tx, request.run_id) if request.run_id else None
    message = None if request.task_id else inbox.get(tx, request.work_id)
    if message and message.status is InboxStatus.WITHDRAWN:
        return DELETED
    if run and run.status is RunStatus.STOPPED and run.stop_requested_by:
        return STOPPED_BY.format(person=run.stop_requested_by)
    return otherwise


def dismiss(tx: Transaction, thread: Thread, cancelled: Sequence[HumanRequest], reason: str, emoji: str | None) -> None:
    """Ends the messages that wait for requests that were cancelled. The thread is locked."""
    for inbox_message in _waiting_messages(tx, cancelled):
        inbox.move(tx, InboxStep.DISMISS, inbox_message, reason=reason)
        react(tx, thread, inbox_message.ts, emoji, Mark.END)
    for request in cancelled:
        refresh_lane(tx, request)


def note_all_accepted(tx: Transaction, work_id: str, operating_policy: OperatingPolicy) -> None:
    """Records whether the asker has received the decisions on its work, and which work is due then: after a question
    that an edit has withdrawn, the new text runs.
    """
    found = requests.of_work(tx, work_id)
    new = [one for one in found if _note_accepted(tx, one)]
    for request in new:
        gets_text_itself = request.run_id is None and request.task_id is None  # a polling agent, with the decision
        if request.status is RequestStatus.CANCELLED and not gets_text_itself:
            _run_anew(tx, request, operating_policy)
    if new or any(request.is_open for request in found):
        refresh_lane(tx, found[-1])


def _run_anew(tx: Transaction, request: HumanRequest, operating_policy: OperatingPolicy) -> None:
    """Runs the messages of a withdrawn question again, as they are now, unless they were stopped meanwhile."""
    task = tasks.get(tx, request.task_id) if request.task_id else None
    if request.reason not in (EDITED, DELETED) or (task and task.status is TaskStatus.CANCELLED):
        return
    led = leading_to(tx, request.task_id) if request.reason == EDITED else ()  # what was delegated is not withdrawn
    for inbox_message_id in sorted({*request.inbox_message_ids, *led}):
        inbox_message = inbox.locked(tx, inbox_message_id)
        step = _AGAIN.get(inbox_message.status) if inbox_message else None
        if inbox_message and step and request.thread_id and inbox.move(tx, step, inbox_message, reason=request.reason):
            show_anew(tx, threads.locked(tx, request.thread_id), inbox_message, operating_policy.reactions)


def refresh_lane(tx: Transaction, request: HumanRequest) -> None:
    """Makes due what the question of a run has held, or holds it."""
    if request.thread_id and request.run_id:
        queues.refresh(tx, request.agent_id, request.thread_id)
        tx.wake(request.agent_id)  # for its notices


def _note_accepted(tx: Transaction, request: HumanRequest) -> bool:
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
    is_new = request.resume is ResumeStatus.SENT and received(tx, request, has_failed=has_failed)
    if is_new and has_failed:
        refresh_cards(tx, request.id)
    return is_new


def received(tx: Transaction, request: HumanRequest, *, has_failed: bool = False) -> bool:
    """Records that the asker has received a decision that was handed out, or has failed with it. Returns False if it
    was not handed out, or if that has been recorded before.
    """
    if not requests.resume(tx, ResumeStep.FAIL if has_failed else ResumeStep.ACCEPT, request):
        return False
    if not has_failed:
        erasure.forget_values(tx, request.id, request.secrets)
    grants.note(tx, AuditKind.RESUMED, "failed" if has_failed else "accepted", request)
    return True
