"""Reactions among the deliveries: which is next when Slack's calls for them are few, and which is given up."""

from __future__ import annotations

from sqlalchemy import bindparam, case, exists, or_, update

from swarm.domain.metric_events import ReactionsExpired
from swarm.domain.model.deliveries import DELIVERY_TRANSITIONS, DeliveryKind, DeliveryStatus, DeliveryStep, Mark
from swarm.domain.model.threads import Thread
from swarm.store import deliveries, tables
from swarm.store.bridge.statements import AT_MOST_N, Row, Statement, arrive, may
from swarm.store.bridge.transaction import Transaction
from swarm.store.deliveries import earlier, waits_before, with_author

_d = tables.deliveries.c
_reactions = with_author.where(
    _d.kind == DeliveryKind.REACTION.value,
    _d.removes == bindparam("removes"),
    _d.due_at <= bindparam("now"),
    or_(_d.expires_at.is_(None), _d.expires_at > bindparam("now")),
)
# A reaction waits for everything before it in its thread: ✅ comes after the answer, and after 👀.
_DUE = Statement(_reactions.where(~waits_before).order_by(_d.due_at, _d.seq).limit(AT_MOST_N))
_marks_end = exists().where(
    earlier.c.thread_id == _d.thread_id,
    earlier.c.due_at.is_not(None),
    earlier.c.target_ts == _d.target_ts,
    earlier.c.mark == Mark.END.value,
)
# When calls are scarce no reaction waits for a 👀 that has not begun, and none is sent whose message has an end mark.
_MOST_URGENT = Statement(
    _reactions.where(
        _d.status == DeliveryStatus.QUEUED.value,
        ~waits_before.where(
            or_(
                earlier.c.mark.is_(None),
                earlier.c.mark != Mark.STORED.value,
                earlier.c.status != DeliveryStatus.QUEUED.value,
            )
        ),
        or_(_d.mark.is_(None), _d.mark != Mark.STORED.value, ~_marks_end),
    )
    .order_by(case((_d.mark == Mark.END.value, 0), else_=1), _d.due_at, _d.seq)
    .limit(AT_MOST_N)
)
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
_EXPIRE_LATE = Statement(
    update(tables.deliveries)
    .where(
        _d.due_at <= bindparam("now"),
        _d.expires_at <= bindparam("now"),
        may(_d.status, DELIVERY_TRANSITIONS[DeliveryStep.EXPIRE]),
    )
    .values(
        **arrive(DELIVERY_TRANSITIONS[DeliveryStep.EXPIRE]), due_at=None, ended_at=bindparam("now"), error="it is late"
    )
)


def react(tx: Transaction, thread: Thread, ts: str, emoji: str | None, mark: Mark, *, lasting: bool = False) -> None:
    """Want a reaction on a message, at most once; none where the operator has switched it off."""
    if emoji:
        deliveries.add(
            tx,
            DeliveryKind.REACTION,
            thread,
            text=emoji,
            target_ts=ts,
            once_key=_key(thread, ts, emoji),
            mark=mark,
            lasting=lasting,
        )


def take_back(tx: Transaction, thread: Thread, ts: str, emoji: str, reason: str) -> None:
    """Want a reaction gone that was wanted on a message, if it was; after that it may be wanted anew.

    One that has not left is given up. One that Slack may have is removed, once nothing of it is under way.
    """
    row = deliveries.of_key(tx, _key(thread, ts, emoji))
    if row is None:
        return
    deliveries.release_key(tx, row["id"])
    is_open = row["status"] == DeliveryStatus.QUEUED
    if row["attempts"] == 0 and (not is_open or deliveries.move(tx, DeliveryStep.EXPIRE, row, error=reason)):
        return
    deliveries.add(tx, DeliveryKind.REACTION, thread, text=emoji, target_ts=ts, removes=True)


def due(tx: Transaction, limit: int) -> list[Row]:
    """Reactions whose turn it is, those that have waited longest first."""
    return _DUE.all(tx, now=tx.now, n=limit, removes=False)


def removals(tx: Transaction, limit: int) -> list[Row]:
    """The same of reactions that are to be taken away."""
    return _DUE.all(tx, now=tx.now, n=limit, removes=True)


def most_urgent(tx: Transaction, limit: int) -> list[Row]:
    """Reactions in the order in which a scarce call is spent on them: end marks, then the others, the oldest first.

    None of a message whose end mark waits as well, unless it is that end mark.
    """
    return _MOST_URGENT.all(tx, now=tx.now, n=limit, removes=False)


def overtaken(tx: Transaction, row: Row) -> None:
    """The end mark ``row`` is sent: what would only show that its message was stored is given up."""
    if row["mark"] == Mark.END:
        count = _OVERTAKEN.run(tx, of_thread=row["thread_id"], of_ts=row["target_ts"], now=tx.now)
        if count:
            tx.note(ReactionsExpired(count=count))


def expire_late(tx: Transaction) -> int:
    """Give up everything that waits and is late, also what is in doubt; how many. The timelines are spared this."""
    count = _EXPIRE_LATE.run(tx, now=tx.now)
    if count:
        tx.note(ReactionsExpired(count=count))
    return count


def _key(thread: Thread, ts: str, emoji: str) -> str:
    """What makes a reaction of ours on a message one."""
    return f"reaction:{thread.team}:{thread.channel}:{ts}:{emoji}"
