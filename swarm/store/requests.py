"""Requests to people: their rows, their answers, and the steps of their two state machines."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson
from pydantic import TypeAdapter
from sqlalchemy import BigInteger, ColumnElement, Text, bindparam, delete, exists, func, insert, or_, select, update

from swarm.clock import SECOND, new_id
from swarm.domain.model.deliveries import DeliveryKind
from swarm.domain.model.inbox import UNDER_WAY
from swarm.domain.model.requests import (
    REQUEST_TRANSITIONS,
    RESUME_TRANSITIONS,
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
)
from swarm.domain.model.runs import RunStatus
from swarm.store import history
from swarm.store.bridge.statements import (
    AT_MOST_N,
    Row,
    Statement,
    arrive,
    every_column,
    given,
    literally,
    may,
    row_mapper,
)
from swarm.store.bridge.transaction import Transaction
from swarm.store.retention import delete_oldest
from swarm.store.tables import agents
from swarm.store.tables.effects import deliveries
from swarm.store.tables.requests import request_answers, request_drafts, requests
from swarm.store.tables.runs import runs
from swarm.store.tables.work import inbox_messages, leases, tasks

Due = Literal["expired", "without_work", "sent", "to_tell"]
"""Why something is to be done about a request."""

DECISIONS: Final = "decisions"
"""The topic that wakes callers who wait for a decision."""

_r, _a, _dr = requests.c, request_answers.c, request_drafts.c
_QUESTION: Final = TypeAdapter(NewRequest)
_agent = select(agents.c.name).where(agents.c.id == _r.agent_id).scalar_subquery()
_other = requests.alias("other")
_of_same_run = (  # those that the run ends with; a live asker asks one question after another
    select(func.count())
    .select_from(_other)
    .where(_other.c.run_id == _r.run_id, _other.c.asker == literally(Asker.DURABLE), _r.asker == _other.c.asker)
)
_all = select(
    requests,
    _agent.label("agent"),
    _of_same_run.scalar_subquery().label("run_total"),
    _of_same_run.where(_other.c.ended_at.is_not(None)).scalar_subquery().label("run_ended"),
)
_is_open = _r.status == literally(RequestStatus.OPEN)

_ADD = Statement(
    lambda insert: (
        insert(requests)
        .values(
            every_column(
                requests,
                status=RequestStatus.OPEN.value,
                resume=ResumeStatus.NONE.value,
                created_at=bindparam("now"),
                ended_at=None,
                reason=None,
            )
        )
        .on_conflict_do_nothing()
    )
)
_GET = Statement(_all.where(_r.id == bindparam("id")))
_OF_KEY = Statement(_all.where(_r.key == bindparam("key")))
_LOCK = Statement(select(_r.id).where(_r.id == bindparam("id")).with_for_update(key_share=True))
_OF_RUN = Statement(_all.where(_r.run_id == bindparam("run_id")).order_by(_r.id))
_given_works = given(work_id=Text)
_OF_WORKS = Statement(_all.join(_given_works, _given_works.c.work_id == _r.work_id).order_by(_r.id))
_OPEN_IN_THREAD = Statement(_all.where(_r.thread_id == bindparam("thread_id"), _is_open).order_by(_r.id))
_JOINED = Statement(_all.where(_r.joins == bindparam("id"), _r.joins.is_not(None), _is_open).order_by(_r.id))
_joined_is_over = _r.joins.is_not(None) & ~exists().where(
    _other.c.id == _r.joins, _other.c.status == literally(RequestStatus.OPEN)
)
_UNAPPROVED = Statement(
    _all.where(
        _r.agent_id == bindparam("agent_id"),
        _r.thread_id == bindparam("thread_id", type_=Text),
        _is_open
        | (_r.ended_at >= bindparam("since"))
        & _r.status.in_(
            [literally(status) for status in (RequestStatus.REJECTED, RequestStatus.EXPIRED, RequestStatus.CANCELLED)]
        ),
    ).order_by(_r.id)
)
_given_threads = given(thread_id=Text)
_THREADS_WITH_OPEN = Statement(
    select(_r.thread_id).distinct().join(_given_threads, _given_threads.c.thread_id == _r.thread_id).where(_is_open)
)
_card = deliveries.c
_cards = exists().where(_card.request_id == _r.id, _card.kind == literally(DeliveryKind.POST))
# The time counts from when the card is shown, so it does not run out while Slack does not accept the card.
_is_seen = _cards.where(_card.sent_ts.is_not(None))
_is_unseen = _cards.where(_card.due_at.is_not(None), _card.error.is_not(None)) & ~_is_seen
_is_expired = _is_open & (_r.expires_at <= bindparam("now")) & ~_is_unseen
_BEGIN_TO_EXPIRE = Statement(
    update(requests)
    .where(
        _r.id == bindparam("request_id"),
        _r.expires_at.is_not(None),
        ~_is_seen,
    )
    .values(expires_at=bindparam("new_expires_at", type_=BigInteger))
)
_is_sent = _r.resume == literally(ResumeStatus.SENT)
_is_to_tell = _r.tell_at <= bindparam("now")
_TOLD = Statement(
    update(requests)
    .where(_r.id == bindparam("request_id"), _r.tell_at <= bindparam("now"))
    .values(tell_at=bindparam("again_at", type_=BigInteger))
)
_stopped_run = exists().where(
    runs.c.id == _r.run_id, runs.c.ended_at.is_not(None), runs.c.status != literally(RunStatus.ANSWERED)
)
_task_is_over = exists().where(tasks.c.id == _r.task_id, tasks.c.ended_at.is_not(None))
_message_is_over = exists().where(
    inbox_messages.c.id == _r.work_id,
    inbox_messages.c.status.not_in([literally(status) for status in sorted(UNDER_WAY)]),
)
_lease_is_over = (_r.asker == literally(Asker.LIVE)) & ~exists().where(
    leases.c.token == _r.lease_token, leases.c.ended_at.is_(None)
)
_is_without_work = _is_open & or_(
    _joined_is_over, _stopped_run, _task_is_over, _r.task_id.is_(None) & _message_is_over, _lease_is_over
)
_when_due: Final[dict[Due, ColumnElement[bool]]] = {
    "expired": _is_expired, "without_work": _is_without_work, "sent": _is_sent, "to_tell": _is_to_tell,
}  # fmt: skip
_DUE: Final = {
    what: Statement(_all.where(is_due, _r.id > bindparam("after")).order_by(_r.id).limit(AT_MOST_N))
    for what, is_due in _when_due.items()
}
_IS_ANY_DUE = Statement(
    select(or_(*(exists(select(_r.id).where(is_due)) for is_due in _when_due.values())).label("is_due"))
)
_IS_WITHOUT_WORK = Statement(select(_r.id).where(_r.id == bindparam("id"), _is_without_work))
_BY_STATUS = Statement(
    _all.where(_r.status == bindparam("status"), _r.joins.is_(None)).order_by(_r.id.desc()).limit(AT_MOST_N)
)
_RECENT = Statement(_all.where(_r.joins.is_(None)).order_by(_r.id.desc()).limit(AT_MOST_N))
_MOVES = {
    step: Statement(
        update(requests)
        .where(_r.id == bindparam("request_id"), may(_r.status, transition))
        .values(**arrive(transition), ended_at=bindparam("now"), reason=bindparam("new_reason"), tell_at=None)
    )
    for step, transition in REQUEST_TRANSITIONS.items()
}
_REMARK = Statement(
    update(requests).where(_r.id == bindparam("request_id"), _is_open).values(reason=bindparam("new_reason"))
)
_RESUMES = {
    step: Statement(
        update(requests)
        .where(_r.id == bindparam("request_id"), may(_r.resume, transition), ~_is_open)
        .values(resume=transition.target.value)
    )
    for step, transition in RESUME_TRANSITIONS.items()
}
_ANSWER = Statement(
    lambda insert: insert(request_answers).values(every_column(request_answers)).on_conflict_do_nothing()
)
_given_ids = given(id=Text)
_ANSWERS = Statement(
    select(request_answers).join(_given_ids, _given_ids.c.id == _a.request_id).order_by(_a.request_id, _a.at, _a.person)
)
_is_own_draft = (_dr.request_id == bindparam("request_id")) & (_dr.person == bindparam("person"))
_DRAFT = Statement(select(_dr.payload).where(_is_own_draft))
_DROP_DRAFT = Statement(delete(request_drafts).where(_is_own_draft))
_DROP_DRAFTS = Statement(delete(request_drafts).where(_dr.request_id == bindparam("request_id")))
_KEEP_DRAFT = Statement(insert(request_drafts).values(every_column(request_drafts)))
_is_needed = or_(
    exists().where(
        inbox_messages.c.id == _r.work_id,
        inbox_messages.c.status.in_([literally(status) for status in sorted(UNDER_WAY)]),
    ),
    exists().where(tasks.c.id == _r.task_id, tasks.c.ended_at.is_(None)),
)
_FORGET = delete_oldest(requests, _r.ended_at, _r.ended_at < bindparam("before"), ~_is_needed)


@dataclass(frozen=True, kw_only=True, slots=True)
class Waiting:
    """The work that waits for a decision, and who asks."""

    agent_id: str
    thread_id: str | None
    work_id: str
    lease_token: str
    inbox_message_ids: tuple[str, ...] = ()
    task_id: str | None = None
    run_id: str | None = None
    requesters: tuple[str, ...] = ()  # Slack user ids
    joins: str | None = None  # the open request whose end it waits for
    asker: Asker = Asker.DURABLE


def add(tx: Transaction, new: NewRequest, waiting: Waiting) -> tuple[HumanRequest, bool]:
    """Stores a request. Returns it, or the one with the same key, and whether it is new."""
    added = _ADD.run(
        tx,
        id=new_id(),
        key=new.key,
        **{name: getattr(waiting, name) for name in _OF_WAITING},
        inbox_message_ids=orjson.dumps(waiting.inbox_message_ids).decode(),
        asker=waiting.asker.value,
        requesters=orjson.dumps(waiting.requesters).decode(),
        tool=new.tool.name if new.tool else None,
        digest=new.tool.digest if new.tool else None,
        agent_request_id=new.agent_request_id,
        payload=_QUESTION.dump_json(new).decode(),
        expires_at=None if waiting.joins or new.expires_seconds is None else tx.now + int(new.expires_seconds * SECOND),
        tell_at=tx.now if new.policy.direct_message and not waiting.joins else None,
        now=tx.now,
    )
    row = _OF_KEY.first(tx, key=new.key)
    assert row is not None  # just stored, or stored before
    request = _with_answers(tx, [row])[0]
    if added:
        _record(tx, "request.ask", request)
    return request, bool(added)


def begin_to_expire(tx: Transaction, request_id: str) -> None:
    """Counts the time of a request from now on, unless one of its cards was shown before."""
    row = _GET.first(tx, id=request_id)
    seconds = _QUESTION.validate_json(row["payload"]).expires_seconds if row else None
    if seconds is not None:
        _BEGIN_TO_EXPIRE.run(tx, request_id=request_id, new_expires_at=tx.now + int(seconds * SECOND))


def get(tx: Transaction, request_id: str) -> HumanRequest | None:
    return _one(tx, _GET.first(tx, id=request_id))


def of_key(tx: Transaction, key: str) -> HumanRequest | None:
    """Returns the request with this key."""
    return _one(tx, _OF_KEY.first(tx, key=key))


def locked(tx: Transaction, request_id: str) -> HumanRequest | None:
    """Returns a request, locked until the transaction ends."""
    return get(tx, request_id) if _LOCK.first(tx, id=request_id) else None


def of_run(tx: Transaction, run_id: str) -> list[HumanRequest]:
    """Returns the requests of a run, in order."""
    return _with_answers(tx, _OF_RUN.all(tx, run_id=run_id))


def of_works(tx: Transaction, work_ids: Collection[str]) -> dict[str, list[HumanRequest]]:
    """Returns the requests of pieces of work, in order, by the id of the inbox message or task."""
    found: dict[str, list[HumanRequest]] = {}
    rows = _OF_WORKS.all(tx, given=[{"work_id": work_id} for work_id in sorted(set(work_ids))]) if work_ids else []
    for request in _with_answers(tx, rows):
        found.setdefault(request.work_id, []).append(request)
    return found


def of_work(tx: Transaction, work_id: str) -> list[HumanRequest]:
    """Returns the requests of one piece of work, in order."""
    return of_works(tx, [work_id]).get(work_id, [])


def undelivered(tx: Transaction, work_ids: Collection[str]) -> dict[str, list[HumanRequest]]:
    """Like `of_works`, only with the ended requests whose decision the asker has not accepted yet.

    A call that waited in a run of the coordinator has ended with its run, so nobody continues with its decision.
    """
    return {
        work_id: due for work_id, found in of_works(tx, work_ids).items() if (due := [*filter(_is_undelivered, found)])
    }


def _is_undelivered(request: HumanRequest) -> bool:
    is_of_call = request.asker is Asker.LIVE and request.run_id is not None
    return not request.is_open and not is_of_call and request.resume is not ResumeStatus.ACCEPTED


def is_any_sent(tx: Transaction, work_id: str) -> bool:
    """Returns whether a decision was handed out with a piece of work and not accepted yet."""
    return any(one.resume is ResumeStatus.SENT for one in of_work(tx, work_id))


def unapproved(tx: Transaction, waiting: Waiting, since: int) -> list[HumanRequest]:
    """Returns the agent's requests in the thread of a piece of work that are open, or ended since a time without an
    approval.
    """
    rows = _UNAPPROVED.all(tx, agent_id=waiting.agent_id, thread_id=waiting.thread_id, since=since)
    return _with_answers(tx, rows)


def open_in_thread(tx: Transaction, thread_id: str, *, with_joined: bool = False) -> list[HumanRequest]:
    """Returns the open requests of a thread, in order; those that have joined another one only if they are wanted."""
    found = _with_answers(tx, _OPEN_IN_THREAD.all(tx, thread_id=thread_id))
    return [request for request in found if with_joined or request.joins is None]


def joined(tx: Transaction, request_id: str) -> list[HumanRequest]:
    """Returns the open requests of other work that wait for the end of a request."""
    return _with_answers(tx, _JOINED.all(tx, id=request_id))


def threads_with_open(tx: Transaction, thread_ids: Collection[str]) -> set[str]:
    """Returns those of the threads that have open requests."""
    rows = [{"thread_id": thread_id} for thread_id in sorted(thread_ids)]
    return {row["thread_id"] for row in _THREADS_WITH_OPEN.all(tx, given=rows)} if rows else set()


def is_any_due(tx: Transaction) -> bool:
    """Returns whether `due` would find a request."""
    row = _IS_ANY_DUE.first(tx, now=tx.now)
    return bool(row and row["is_due"])


def due(tx: Transaction, what: Due, limit: int, after: str = "") -> list[HumanRequest]:
    """Returns requests with ids after ``after``, in order: open ones whose time is over (expired), whose work or
    waiting call has ended in another way, or of which somebody is to be told now; and those whose decision was handed
    out and not accepted yet (sent).
    """
    now = {"now": tx.now} if what in ("expired", "to_tell") else {}
    return _with_answers(tx, _DUE[what].all(tx, **now, after=after, n=limit))


def told(tx: Transaction, request: HumanRequest, again_at: int | None) -> bool:
    """Records that who may decide was told, and when to remind them. Returns False if that has been done already."""
    return bool(_TOLD.run(tx, request_id=request.id, now=tx.now, again_at=again_at))


def is_without_work(tx: Transaction, request_id: str) -> bool:
    """Returns whether the work of an open request, or its waiting call, has ended."""
    return _IS_WITHOUT_WORK.first(tx, id=request_id) is not None


def latest(tx: Transaction, status: RequestStatus | None, limit: int) -> list[HumanRequest]:
    """Returns the newest requests, optionally with one status."""
    return _with_answers(tx, _BY_STATUS.all(tx, status=status, n=limit) if status else _RECENT.all(tx, n=limit))


def move(tx: Transaction, step: RequestStep, request: HumanRequest, reason: str | None = None) -> bool:
    """Takes a step of the state machine. Returns False if the request is not open any more."""
    if not _MOVES[step].run(tx, request_id=request.id, now=tx.now, new_reason=reason):
        return False
    _DROP_DRAFTS.run(tx, request_id=request.id)
    _record(tx, f"request.{step}", request, reason)
    tx.wake(DECISIONS)
    return True


def remark(tx: Transaction, request: HumanRequest, text: str) -> bool:
    """Stores a remark for the cards of an open request. Returns False if it has ended."""
    return bool(_REMARK.run(tx, request_id=request.id, new_reason=text))


def resume(tx: Transaction, step: ResumeStep, request: HumanRequest) -> bool:
    """Takes a step of the decision's way back. Returns False if its status does not allow it."""
    if not _RESUMES[step].run(tx, request_id=request.id):
        return False
    if request.resume is not RESUME_TRANSITIONS[step].target:
        _record(tx, f"request.{step}", request)
    return True


def answer(tx: Transaction, request_id: str, answered: RequestAnswer) -> bool:
    """Stores a person's decision. Returns False if this person has decided before."""
    payload = {"values": answered.values, "arguments": answered.arguments}
    return bool(
        _ANSWER.run(
            tx,
            request_id=request_id,
            person=answered.person,
            decision=answered.decision.value,
            door=answered.door.value,
            payload=orjson.dumps(payload, default=dict).decode(),
            at=answered.at,
        )
    )


def draft(tx: Transaction, request_id: str, person: str) -> dict[str, Any]:
    """Returns what a person has entered on earlier pages of a form."""
    row = _DRAFT.first(tx, request_id=request_id, person=person)
    return dict(orjson.loads(row["payload"])) if row else {}


def keep_draft(tx: Transaction, request_id: str, person: str, values: Mapping[str, Any]) -> None:
    """Stores what a person has entered so far, while the request is open."""
    request = locked(tx, request_id)
    _DROP_DRAFT.run(tx, request_id=request_id, person=person)
    if request and request.is_open:
        _KEEP_DRAFT.run(tx, request_id=request_id, person=person, payload=orjson.dumps(dict(values)).decode())


def forget(tx: Transaction, before: int, limit: int) -> int:
    """Deletes up to ``limit`` requests that ended before ``before``, except those of work that still needs them.

    Returns the number deleted.
    """
    return _FORGET.run(tx, before=before, n=limit)


def _record(tx: Transaction, change: str, request: HumanRequest, reason: str | None = None) -> None:
    history.record(
        tx, change, request.id, thread_id=request.thread_id, agent_id=request.agent_id, reason=reason or request.title
    )


def _one(tx: Transaction, row: Row | None) -> HumanRequest | None:
    return _with_answers(tx, [row])[0] if row else None


def _with_answers(tx: Transaction, rows: Sequence[Row]) -> list[HumanRequest]:
    answers: dict[str, list[RequestAnswer]] = {}
    for row in _ANSWERS.all(tx, given=[{"id": row["id"]} for row in rows]) if rows else ():
        answers.setdefault(row["request_id"], []).append(_answer_of(row))
    return [_request({**row, "answers": tuple(answers.get(row["id"], ()))}) for row in rows]


def _answer_of(row: Row) -> RequestAnswer:
    payload = orjson.loads(row["payload"])
    return RequestAnswer(
        person=row["person"],
        decision=HumanDecision(row["decision"]),
        at=row["at"],
        door=EntryPoint(row["door"]),
        values=payload["values"],
        arguments=payload["arguments"],
    )


_OF_WAITING: Final = ("agent_id", "thread_id", "run_id", "work_id", "task_id", "lease_token", "joins")
_IN_PAYLOAD: Final = ("title", "prompt", "fields", "decisions", "tool", "policy", "raw", "budget")
_mapped = row_mapper(HumanRequest)


def _request(row: Row) -> HumanRequest:
    question = _QUESTION.validate_json(row["payload"])
    lists = {name: tuple(filter(None, orjson.loads(row[name]))) for name in ("inbox_message_ids", "requesters")}
    return _mapped({**row, **lists, **{name: getattr(question, name) for name in _IN_PAYLOAD}})
