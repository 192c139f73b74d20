"""Reactions among the deliveries: which one is sent next under a tight Slack rate limit, and which ones expire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import BigInteger, Text, and_, bindparam, exists, literal, or_, select, true, update

from swarm.clock import SECOND, new_id
from swarm.domain.model.deliveries import (
    DELIVERY_TRANSITIONS,
    END_MARK_SECONDS,
    EPHEMERAL_SECONDS,
    DeliveryKind,
    DeliveryStatus,
    DeliveryStep,
    Mark,
)
from swarm.domain.model.threads import AuthorKind, Thread
from swarm.domain.watchers import ReactionsExpired
from swarm.store import deliveries, tables
from swarm.store.bridge.statements import AT_MOST_N, Row, Statement, arrive, given, may
from swarm.store.bridge.transaction import Transaction
from swarm.store.deliveries import earlier, is_first, is_reaction, with_author

_EXPIRY_SECONDS: Final = {Mark.STORED: EPHEMERAL_SECONDS, Mark.END: END_MARK_SECONDS}

_d = tables.deliveries.c
_given_reactions = given(
    id=Text, thread_id=Text, channel=Text, target_ts=Text, text=Text, idempotency_key=Text
)  # fmt: skip
_now = bindparam("now", type_=BigInteger)
_columns = {
    **{column.name: column for column in _given_reactions.c},
    "kind": literal(DeliveryKind.REACTION.value),
    "status": literal(DeliveryStatus.QUEUED.value),
    "mark": bindparam("mark", type_=Text),
    "broadcast": literal(value=False),
    "removes": literal(value=False),
    "attempts": literal(0),
    "due_at": _now,
    "created_at": _now,
    "expires_at": bindparam("expires_at", type_=BigInteger),
}
_REACT = Statement(
    lambda insert: (
        insert(tables.deliveries)
        .from_select(list(_columns), select(*_columns.values()).where(true()))
        .on_conflict_do_nothing()
    )
)
_reactions = with_author.where(
    is_reaction,
    _d.removes == bindparam("removes"),
    _d.due_at <= bindparam("now"),
    or_(_d.expires_at.is_(None), _d.expires_at > bindparam("now")),
)
# A reaction waits for all earlier deliveries in its thread: ✅ follows the answer and 👀.
_DUE = Statement(_reactions.where(is_first()).order_by(_d.due_at, _d.seq).limit(AT_MOST_N))
_marks_end = exists().where(
    earlier.c.thread_id == _d.thread_id,
    earlier.c.due_at.is_not(None),
    earlier.c.target_ts == _d.target_ts,
    earlier.c.mark == Mark.END.value,
)
# Under a tight rate limit no reaction waits for an unsent 👀, and a message with an end mark gets no other reaction.
_urgent = (
    _reactions.where(
        _d.status == DeliveryStatus.QUEUED.value,
        is_first(
            or_(
                earlier.c.mark.is_(None),
                earlier.c.mark != Mark.STORED.value,
                earlier.c.status != DeliveryStatus.QUEUED.value,
            )
        ),
    )
    .order_by(_d.due_at, _d.seq)
    .limit(AT_MOST_N)
)
_m, _h = tables.thread_messages.c, tables.threads.c
_author_kind = (
    select(_m.author_kind)
    .join(tables.threads, _h.team == _m.team)
    .where(_h.id == _d.thread_id, _m.channel == _d.channel, _m.ts == _d.target_ts)
    .scalar_subquery()
)
_is_on_alert = _author_kind == AuthorKind.BOT.value
_MOST_URGENT = [
    Statement(_urgent.where(whose, which))
    for whose in (or_(_author_kind.is_(None), ~_is_on_alert), _is_on_alert)
    for which in (_d.mark == Mark.END.value, or_(_d.mark.is_(None), _d.mark != Mark.STORED.value, ~_marks_end))
]
_OVERTAKEN = Statement(
    update(tables.deliveries)
    .where(
        _d.thread_id == bindparam("of_thread"),
        _d.due_at.is_not(None),
        _d.target_ts == bindparam("of_ts"),
        _d.mark == Mark.STORED.value,
        _d.status == DeliveryStatus.QUEUED.value,
    )
    .values(
        **arrive(DELIVERY_TRANSITIONS[DeliveryStep.EXPIRE]),
        due_at=None,
        ended_at=bindparam("now"),
        error="its message has its end mark",
    )
)
_is_late = and_(
    _d.due_at <= bindparam("now"),
    _d.expires_at <= bindparam("now"),
    may(_d.status, DELIVERY_TRANSITIONS[DeliveryStep.EXPIRE]),
)
_ANY_LATE = Statement(select(_d.id).where(_is_late).limit(AT_MOST_N))
_EXPIRE_LATE = Statement(
    update(tables.deliveries)
    .where(_is_late)
    .values(
        **arrive(DELIVERY_TRANSITIONS[DeliveryStep.EXPIRE]), due_at=None, ended_at=bindparam("now"), error="it is late"
    )
)


_RENEW_ENDS = Statement(
    update(tables.deliveries)
    .where(
        _d.due_at.is_not(None),
        _d.mark == Mark.END.value,
        _d.expires_at < bindparam("until"),
        or_(bindparam("are_all") == literal(1), ~is_first(earlier.c.kind != DeliveryKind.REACTION.value)),
    )
    .values(expires_at=bindparam("until"))
)


class Reaction(NamedTuple):
    """A reaction on a message. Without an ``emoji``, it was disabled by the operator."""

    thread_id: str
    team: str
    channel: str
    ts: str
    emoji: str | None


def react(tx: Transaction, thread: Thread, ts: str, emoji: str | None, mark: Mark, *, lasting: bool = False) -> None:
    """Queues a reaction on a message, unless its thread is silent; see `react_all`."""
    if not thread.is_silent:
        react_all(tx, [Reaction(thread.id, thread.team, thread.channel, ts, emoji)], mark, lasting=lasting)


def react_all(tx: Transaction, wanted: Sequence[Reaction], mark: Mark, *, lasting: bool = False) -> None:
    """Queues reactions with the same meaning, each at most once. Disabled ones are left out.

    They expire after EPHEMERAL_SECONDS, or END_MARK_SECONDS for end marks, unless they are ``lasting``.
    """
    rows = [
        {
            "id": new_id(), "thread_id": one.thread_id, "channel": one.channel, "target_ts": one.ts, "text": one.emoji,
            "idempotency_key": _key(one.team, one.channel, one.ts, one.emoji),
        }
        for one in wanted if one.emoji
    ]  # fmt: skip
    if rows:
        expires_at = None if lasting else tx.now + _EXPIRY_SECONDS[mark] * SECOND
        _REACT.run(tx, given=rows, mark=mark, now=tx.now, expires_at=expires_at)
        tx.wake(deliveries.REACTIONS)


def reaction_of(tx: Transaction, thread: Thread, ts: str, emoji: str) -> Row | None:
    """Returns the delivery of Swarm's reaction on a message; None if there is none, or if it was taken back."""
    return deliveries.of_key(tx, _key(thread.team, thread.channel, ts, emoji))


def take_back(tx: Transaction, thread: Thread, ts: str, emoji: str, reason: str) -> None:
    """Reverts a reaction on a message if it was queued; the reaction can then be queued again.

    A reaction that was not sent yet expires. Otherwise its removal is queued.
    """
    row = reaction_of(tx, thread, ts, emoji)
    if row is None:
        return
    deliveries.release_key(tx, row["id"])
    is_open = row["status"] == DeliveryStatus.QUEUED
    if row["attempts"] == 0 and (not is_open or deliveries.move(tx, DeliveryStep.EXPIRE, row, error=reason)):
        return
    deliveries.add(tx, DeliveryKind.REACTION, thread, text=emoji, target_ts=ts, removes=True)


def due(tx: Transaction, limit: int) -> list[Row]:
    """Returns due reactions, longest waiting first."""
    return _DUE.all(tx, now=tx.now, n=limit, removes=False)


def removals(tx: Transaction, limit: int) -> list[Row]:
    """Returns due removals of reactions, longest waiting first."""
    return _DUE.all(tx, now=tx.now, n=limit, removes=True)


def most_urgent(tx: Transaction, limit: int) -> list[Row]:
    """Returns the reactions that go first under a tight rate limit, oldest first: end marks of people's messages, or if
    none is due, the others of people's messages; only then those of bots' messages in the same order.

    A message with a waiting end mark gets only that mark.
    """
    found = (statement.all(tx, now=tx.now, n=limit, removes=False) for statement in _MOST_URGENT)
    return next(filter(None, found), [])


def overtaken(tx: Transaction, row: Row) -> None:
    """Expires the waiting "stored" mark of a message whose end mark ``row`` is sent."""
    if row["mark"] == Mark.END:
        count = _OVERTAKEN.run(tx, of_thread=row["thread_id"], of_ts=row["target_ts"], now=tx.now)
        if count:
            tx.note(ReactionsExpired(count=count))


def is_any_late(tx: Transaction) -> bool:
    """Whether `expire_late` would expire a reaction."""
    return _ANY_LATE.first(tx, now=tx.now, n=1) is not None


def expire_late(tx: Transaction) -> int:
    """Expires all late reactions, including doubtful ones. Returns their number. Records no history."""
    count = _EXPIRE_LATE.run(tx, now=tx.now)
    if count:
        tx.note(ReactionsExpired(count=count))
    return count


def renew_ends(tx: Transaction, *, are_all: bool) -> None:
    """Lets waiting end marks expire later: all, or only those of threads in which a post waits before them."""
    _RENEW_ENDS.run(tx, are_all=int(are_all), until=tx.now + END_MARK_SECONDS * SECOND)


def _key(team: str, channel: str, ts: str, emoji: str) -> str:
    """Returns the idempotency key of Swarm's reaction on a message."""
    return f"reaction:{team}:{channel}:{ts}:{emoji}"
