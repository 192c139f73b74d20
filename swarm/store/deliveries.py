"""Deliveries: stored with the change that causes them, and sent in order within each thread."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, TypedDict, Unpack

from pydantic import TypeAdapter
from sqlalchemy import ColumnElement, Integer, Text, bindparam, func, literal_column, or_, select, update

from swarm.clock import SECOND, new_id
from swarm.domain.answers.calls import AnswerTarget, Closing
from swarm.domain.model.deliveries import (
    DELIVERY_TRANSITIONS,
    EPHEMERAL_SECONDS,
    Delivery,
    DeliveryKind,
    DeliveryRow,
    DeliveryStatus,
    DeliveryStep,
)
from swarm.domain.model.threads import Thread
from swarm.domain.selections import Selection
from swarm.domain.watchers import DeliveryStepped
from swarm.store import history
from swarm.store.bridge.statements import (
    AT_MOST_N,
    PATTERN,
    Row,
    Statement,
    arrive,
    every_column,
    literally,
    may,
    row_mapper,
    selected,
)
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import agents
from swarm.store.tables.effects import deliveries

DELIVERIES: Final = "deliveries"
"""The topic that wakes the sender for posts and all other deliveries except reactions and their removals."""

REACTIONS: Final = "reactions"
"""The topic that wakes the sender for new reactions. They are too frequent to look for removals each time."""

REMOVALS: Final = "removals"
"""The topic that wakes the sender for removals of reactions."""

_d = deliveries.c
_ADD = Statement(
    lambda insert: (
        insert(deliveries)
        .values(
            every_column(
                deliveries,
                "seq",
                status=DeliveryStatus.QUEUED.value,
                attempts=0,
                mark=None,
                held_since=None,
                due_at=bindparam("now"),
                sent_ts=None,
                error=None,
                created_at=bindparam("now"),
                ended_at=None,
            )
        )
        .on_conflict_do_nothing()
    )
)
_author = select(agents.c.name).where(agents.c.id == _d.agent_id).scalar_subquery()
with_author = select(deliveries, _author.label("agent_name"))
earlier = deliveries.alias("earlier")


def is_first(*others: ColumnElement[bool]) -> ColumnElement[bool]:
    """Returns the condition that no earlier open delivery of the thread fulfils ``others``.

    For NOT EXISTS, PostgreSQL would read all open deliveries, because it expects many results. A subquery with LIMIT is
    evaluated row by row, until there are enough rows.
    """
    before = select(earlier.c.seq).where(
        earlier.c.thread_id == _d.thread_id, earlier.c.due_at.is_not(None), earlier.c.seq < _d.seq, *others
    )
    return before.order_by(earlier.c.seq).limit(literal_column("1")).scalar_subquery().is_(None)


is_reaction = _d.kind == literally(DeliveryKind.REACTION)
# Posts keep their order but do not wait for reactions, whose rate limits in Slack are low.
_POST_LANES = Statement(
    select(_d.thread_id)
    .where(~is_reaction, _d.due_at <= bindparam("now"), is_first(earlier.c.kind != literally(DeliveryKind.REACTION)))
    .order_by(_d.due_at, _d.seq)
    .limit(AT_MOST_N)
)
_FIRST_POST = Statement(
    with_author.where(_d.thread_id == bindparam("thread_id"), _d.due_at.is_not(None), ~is_reaction)
    .order_by(_d.seq)
    .limit(1)
)
_COUNT_OPEN = Statement(select(func.count().label("n")).select_from(deliveries).where(_d.due_at.is_not(None)))
_GET = Statement(with_author.where(_d.id == bindparam("id")))
_OF_MESSAGE = Statement(select(deliveries).where(_d.inbox_message_id == bindparam("inbox_message_id")).order_by(_d.seq))
_OF_TASK = Statement(select(deliveries).where(_d.task_id == bindparam("task_id")).order_by(_d.seq))
_BY_STATUS = Statement(
    select(deliveries).where(_d.status == bindparam("status")).order_by(_d.seq.desc()).limit(AT_MOST_N)
)
_MATCHING = Statement(
    select(_d.id)
    .where(*selected(deliveries, _d.error.like(PATTERN, escape="!"), agent=_author, channel=_d.channel))
    .order_by(_d.seq)
    .limit(AT_MOST_N)
)
_RECENT = Statement(select(deliveries).order_by(_d.seq.desc()).limit(AT_MOST_N))

_OF_REQUEST = Statement(
    select(deliveries)
    .where(
        _d.request_id == bindparam("request_id"), _d.kind == literally(DeliveryKind.POST), _d.request_id.is_not(None)
    )
    .order_by(_d.seq)
)
_BY_IDEMPOTENCY_KEY = Statement(select(deliveries).where(_d.idempotency_key == bindparam("idempotency_key")))
_RELEASE_KEY = Statement(update(deliveries).where(_d.id == bindparam("delivery_id")).values(idempotency_key=None))
# A delivery that was not sent yet gets the new text directly, instead of a second delivery.
_REWORD = Statement(
    update(deliveries)
    .where(
        or_(_d.id == bindparam("first_id"), _d.updates_id == bindparam("first_id")),
        _d.status == DeliveryStatus.QUEUED.value,
    )
    .values(text=bindparam("new_text"), stops_task_id=bindparam("new_stops_task_id"))
)
_AIM = Statement(
    update(deliveries)
    .where(_d.id == bindparam("delivery_id"))
    .values(
        target_ts=bindparam("new_target_ts"),
        channel=func.coalesce(bindparam("new_channel", type_=Text), _d.channel),
    )
)
_POSTED_FOR_TASK = Statement(
    select(_d.id)
    .where(
        _d.task_id == bindparam("task_id"),
        _d.kind == DeliveryKind.POST.value,
        _d.idempotency_key.is_(None),
        _d.created_at >= bindparam("since"),
    )
    .limit(1)
)
_LOOK_LATER = Statement(
    update(deliveries)
    .where(
        _d.id == bindparam("delivery_id"),
        _d.status == DeliveryStatus.UNKNOWN.value,
        _d.attempts == bindparam("seen_attempts"),
    )
    .values(due_at=bindparam("next_due_at"), attempts=_d.attempts + bindparam("counted", type_=Integer))
)
# What stands behind a held post waits for the same reason, so its patience does not begin anew.
_HOLD = Statement(
    update(deliveries)
    .where(
        or_(_d.id == bindparam("delivery_id"), ~is_reaction & (_d.thread_id == bindparam("of_thread", type_=Text))),
        _d.due_at.is_not(None),
        _d.held_since.is_(None),
    )
    .values(held_since=bindparam("now"))
)
# For those who look at a delivery that waits because Slack refuses every call.
_NOTE_HOLD = Statement(
    update(deliveries)
    .where(
        _d.due_at.is_not(None),
        _d.status == literally(DeliveryStatus.QUEUED),
        _d.error.is_distinct_from(bindparam("code", type_=Text)),
    )
    .values(error=bindparam("code", type_=Text))
)


def _move(step: DeliveryStep) -> Statement:
    """Returns the update for one step. ``due_at`` is the time of the next attempt or check, and null once the delivery
    is over.

    Only the current attempt may take a step, so that a late sender does not repeat the call. The exception is CONFIRM:
    a confirmation by Slack is true from any sender.

    ``attempts`` counts calls with an unknown outcome and failed lookups. A call that certainly was not made is
    subtracted again. No later attempt can be confused with it: an attempt not settled by its own sender was in doubt,
    and attempts in doubt are never subtracted.
    """
    transition = DELIVERY_TRANSITIONS[step]
    over = transition.target in (DeliveryStatus.SENT, DeliveryStatus.FAILED, DeliveryStatus.EXPIRED)
    values: dict[str, object] = dict(arrive(transition))
    values["due_at"] = None if over else bindparam("next_due_at")
    if over:
        values["ended_at"] = bindparam("now")
    if step is DeliveryStep.TAKE:
        values["attempts"] = _d.attempts + 1
    if step is DeliveryStep.REDRIVE:
        values |= {"attempts": 0, "expires_at": None, "ended_at": None, "held_since": None}
    if step is DeliveryStep.POSTPONE:
        values["attempts"] = _d.attempts - 1
    guard = may(_d.status, transition)
    if step is DeliveryStep.CONFIRM:
        values["sent_ts"] = bindparam("new_sent_ts")
        values["channel"] = func.coalesce(bindparam("new_channel", type_=Text), _d.channel)
    else:
        values["error"] = bindparam("new_error")
        guard &= _d.attempts == bindparam("seen_attempts")
    return Statement(update(deliveries).where(_d.id == bindparam("delivery_id"), guard).values(**values))


_MOVES = {step: _move(step) for step in DeliveryStep}


class DeliveryColumns(TypedDict, total=False):
    """The columns of a new delivery that may be omitted."""

    agent_id: str | None
    inbox_message_id: str | None
    target_ts: str | None
    broadcast: bool
    idempotency_key: str | None
    task_id: str | None
    updates_id: str | None
    stops_task_id: str | None
    stops_run_id: str | None
    person: str | None  # the only user who sees a post
    request_id: str | None  # the request that the message shows
    drops_request_id: str | None  # the request that the message's button drops
    removes: bool  # removes a reaction, or replaces the Retry button with the text of an update


_IN_THREAD: Final = frozenset({DeliveryKind.POST, DeliveryKind.TITLE, DeliveryKind.PROMPTS})
"""The kinds of deliveries whose call names the thread. The others name a message."""

_OMITTED: Final = dict.fromkeys(DeliveryColumns.__annotations__) | {"broadcast": False, "removes": False}


def add(
    tx: Transaction,
    kind: DeliveryKind,
    thread: Thread,
    *,
    text: str,
    closing: Closing | None = None,
    place: AnswerTarget | None = None,
    to: str | None = None,
    even_if_silent: bool = False,
    **columns: Unpack[DeliveryColumns],
) -> str | None:
    """Queues one Slack call in this transaction. Returns its id, or None if the ``idempotency_key`` already exists.

    A silent thread gets no delivery, except one that answers a person (``even_if_silent``).

    Only a post that one person sees expires; reactions, which `swarm.store.reactions` queues, do, too. ``closing`` is
    the part below a text and needs the ``place`` of the answer; an answer without a run is named after this delivery.
    ``to`` is a person, for a direct message, or another channel.
    """
    if thread.is_silent and not even_if_silent:
        return None
    delivery_id = new_id()
    if place and not place.run_id:
        place = replace(place, run_id=delivery_id)
    given: dict[str, object] = {**_OMITTED, **columns}
    added = _ADD.run(
        tx,
        id=delivery_id,
        kind=kind,
        thread_id=thread.id,
        channel=to or thread.channel,
        thread_ts=thread.thread_ts if kind in _IN_THREAD and to is None else None,
        text=text,
        closing=_below_text(closing, place),
        expires_at=tx.now + EPHEMERAL_SECONDS * SECOND if columns.get("person") else None,
        now=tx.now,
        **given,
    )
    tx.wake(topic(kind, removes=bool(given["removes"])))
    return delivery_id if added else None


def topic(kind: DeliveryKind, *, removes: bool) -> str:
    """Returns the topic that wakes the sender for a new delivery."""
    if kind is not DeliveryKind.REACTION:
        return DELIVERIES
    return REMOVALS if removes else REACTIONS


def change(
    tx: Transaction, thread: Thread, idempotency_key: str, text: str, *, stops_task_id: str | None, agent_id: str | None
) -> bool:
    """Queues a new text for the message posted under ``idempotency_key``. Returns False if there is no such message."""
    first = _BY_IDEMPOTENCY_KEY.first(tx, idempotency_key=idempotency_key)
    if first is None:
        return False
    if _REWORD.run(tx, first_id=first["id"], new_text=text, new_stops_task_id=stops_task_id):
        return True
    add(
        tx,
        DeliveryKind.UPDATE,
        thread,
        text=text,
        agent_id=agent_id,
        task_id=first["task_id"],
        updates_id=first["id"],
        stops_task_id=stops_task_id,
    )
    return True


def of_key(tx: Transaction, idempotency_key: str) -> Row | None:
    """Returns the delivery with this idempotency key."""
    return _BY_IDEMPOTENCY_KEY.first(tx, idempotency_key=idempotency_key)


def release_key(tx: Transaction, delivery_id: str) -> None:
    """Clears the idempotency key of a delivery, so that another delivery can use it."""
    _RELEASE_KEY.run(tx, delivery_id=delivery_id)


def is_wanted(tx: Transaction, idempotency_key: str) -> bool:
    """Returns whether a delivery with this key exists."""
    return of_key(tx, idempotency_key) is not None


def take_down(tx: Transaction, thread: Thread, idempotency_key: str) -> bool:
    """Queues the deletion of the message posted under the key. Returns False if there is none, or if it is already
    queued.
    """
    first = _BY_IDEMPOTENCY_KEY.first(tx, idempotency_key=idempotency_key)
    if first is None:
        return False
    queued = add(
        tx, DeliveryKind.DELETE, thread, text="", updates_id=first["id"], idempotency_key=f"{idempotency_key}:gone"
    )
    return queued is not None


def set_target(tx: Transaction, delivery_id: str, target_ts: str, channel: str | None = None) -> bool:
    """Stores the Slack message that a delivery changes or reacts to, and its channel if that is another."""
    return bool(_AIM.run(tx, delivery_id=delivery_id, new_target_ts=target_ts, new_channel=channel))


def posted_for_task(tx: Transaction, task_id: str, since: int) -> bool:
    """Returns whether a post about a task, other than its progress, was made since ``since``."""
    return _POSTED_FOR_TASK.first(tx, task_id=task_id, since=since) is not None


def lanes_due(tx: Transaction, limit: int) -> list[str]:
    """Returns threads whose next post is due, longest waiting first."""
    return [row["thread_id"] for row in _POST_LANES.all(tx, now=tx.now, n=limit)]


def due_in_lane(tx: Transaction, thread_id: str) -> Row | None:
    """Returns the next post of a thread (the oldest open one) if it is due."""
    row = _FIRST_POST.first(tx, thread_id=thread_id)
    return row if row and row["due_at"] <= tx.now else None


def move(
    tx: Transaction,
    step: DeliveryStep,
    row: Row,
    *,
    due_in_seconds: float = 0,
    error: str | None = None,
    sent_ts: str | None = None,
    channel: str | None = None,
) -> bool:
    """Takes a step of the state machine. Returns False if the delivery has changed since ``row`` was read.

    ``channel`` is where Slack has posted it, which for a direct message is known only then.
    """
    params: dict[str, object] = {"delivery_id": row["id"]}
    over = DELIVERY_TRANSITIONS[step].target in (DeliveryStatus.SENT, DeliveryStatus.FAILED, DeliveryStatus.EXPIRED)
    params |= {"now": tx.now} if over else {"next_due_at": tx.now + int(due_in_seconds * SECOND)}
    if step is DeliveryStep.CONFIRM:
        params |= {"new_sent_ts": sent_ts, "new_channel": channel}
    else:
        params |= {"new_error": error, "seen_attempts": row["attempts"]}
    moved = bool(_MOVES[step].run(tx, **params))
    if moved:
        age_us = tx.now - row["created_at"]
        tx.note(DeliveryStepped(kind=DeliveryKind(row["kind"]), step=step, age_us=age_us))
    if moved and over:
        history.record(
            tx, f"delivery.{step}", row["id"], thread_id=row["thread_id"], agent_id=row["agent_id"], reason=error
        )
    return moved


def postpone_look(tx: Transaction, row: Row, seconds: float, *, counts: bool = True) -> None:
    """Schedules the next lookup after a failed one, which usually counts as an attempt."""
    next_due_at = tx.now + int(seconds * SECOND)
    _LOOK_LATER.run(
        tx, delivery_id=row["id"], seen_attempts=row["attempts"], next_due_at=next_due_at, counted=int(counts)
    )


def hold(tx: Transaction, row: Row) -> None:
    """Records that a refusal makes a delivery wait, and with a post what stands behind it in its thread."""
    is_post = row["kind"] != DeliveryKind.REACTION
    _HOLD.run(tx, delivery_id=row["id"], of_thread=row["thread_id"] if is_post else None, now=tx.now)


def note_hold(tx: Transaction, code: str) -> None:
    """Records in all waiting deliveries why they wait."""
    _NOTE_HOLD.run(tx, code=code)


def count_open(tx: Transaction) -> int:
    """Returns the number of open deliveries."""
    row = _COUNT_OPEN.first(tx)
    return int(row["n"]) if row else 0


def get(tx: Transaction, delivery_id: str) -> Row | None:
    return _GET.first(tx, id=delivery_id)


def of_inbox_message(tx: Transaction, inbox_message_id: str) -> list[Row]:
    """Returns all deliveries that answer an inbox message, in order."""
    return _OF_MESSAGE.all(tx, inbox_message_id=inbox_message_id)


def of_task(tx: Transaction, task_id: str) -> list[Row]:
    """Returns all deliveries about a task, in order."""
    return _OF_TASK.all(tx, task_id=task_id)


def of_request(tx: Transaction, request_id: str) -> list[Row]:
    """Returns the posts that show a request, in order."""
    return _OF_REQUEST.all(tx, request_id=request_id)


def latest(tx: Transaction, status: DeliveryStatus | None, limit: int) -> list[DeliveryRow]:
    """Returns the newest deliveries, optionally with one status."""
    rows = _BY_STATUS.all(tx, status=status, n=limit) if status else _RECENT.all(tx, n=limit)
    return list(map(delivery_row, rows))


def matching(tx: Transaction, selection: Selection, limit: int) -> list[str]:
    """Returns the ids of the deliveries of a selection, oldest first. The reason is that of the last attempt."""
    found = _MATCHING.all(tx, **selection.params, n=limit)
    return [row["id"] for row in found]


def delivery(row: Row) -> Delivery:
    """Converts a row to a delivery for the sender."""
    below = below_of(row["closing"])
    shown = {"closing": below.closing, "place": below.place} if below else {"closing": None, "place": None}
    return _delivery({**row, **shown, "request": row.get("request"), "asked_in": row.get("asked_in")})


_delivery = row_mapper(Delivery, "answers_ts")
delivery_row = row_mapper(DeliveryRow)


@dataclass(frozen=True, kw_only=True, slots=True)
class Below:
    """The part of a message below its text (footer and buttons), and the answer it belongs to."""

    closing: Closing
    place: AnswerTarget


_CLOSING: Final = TypeAdapter(Closing)
_BELOW: Final = TypeAdapter(Below)


def closing_text(closing: Closing) -> str:
    """Serializes a closing for storage."""
    return _CLOSING.dump_json(closing).decode()


def closing_of(text: str | None) -> Closing | None:
    """Returns the stored closing, or None."""
    return _CLOSING.validate_json(text) if text else None


def _below_text(closing: Closing | None, place: AnswerTarget | None) -> str | None:
    """Returns the part below a delivery's text (footer and buttons) in its stored form; None if there is none."""
    if closing is None or place is None:
        return None
    return _BELOW.dump_json(Below(closing=closing, place=place)).decode()


def below_of(text: str | None) -> Below | None:
    """Returns the stored part below a delivery's text, or None."""
    return _BELOW.validate_json(text) if text else None
