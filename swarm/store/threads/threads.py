"""Threads: their rows are locked first by everything that routes a message or changes an owner."""

from __future__ import annotations

from sqlalchemy import BigInteger, bindparam, case, exists, func, select, update

from swarm.clock import SECOND, new_id
from swarm.domain.model.inbox import Hold, InboxStatus
from swarm.domain.model.threads import Thread
from swarm.domain.model.transcript import CONTEXT_TRANSITIONS, ChannelType, ContextState, ContextStep
from swarm.store import history
from swarm.store.bridge.statements import AT_MOST_N, Statement, every_column, literally, may, row_mapper
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import inbox_messages, tasks, threads

CONTEXTS = "contexts"
"""The topic that wakes whoever reads threads from Slack."""

_thread = row_mapper(Thread)
_READ_GIVEN_UP_AFTER = 60 * SECOND
_SLOWEST = 60  # from this attempt on the pause until the next one grows no more

_place = (
    (threads.c.team == bindparam("team"))
    & (threads.c.channel == bindparam("channel"))
    & (threads.c.thread_ts == bindparam("thread_ts"))
)
_OPEN = Statement(
    lambda insert: (
        insert(threads)
        .values(
            every_column(
                threads,
                owner_id=None,
                epoch=0,
                context_failures=0,
                told_queued_at=None,
                active_at=bindparam("now"),
                created_at=bindparam("now"),
            )
        )
        .on_conflict_do_nothing()
    )
)
_AT = Statement(select(threads).where(_place))
_TO_BE_READ = Statement(
    select(threads.c.id).where(
        _place, threads.c.context != ContextState.COMPLETE.value, threads.c.context_due_at.is_not(None)
    )
)
_LOCK_PLACE = Statement(select(threads).where(_place).with_for_update(key_share=True))
_LOCK = Statement(select(threads).where(threads.c.id == bindparam("thread_id")).with_for_update(key_share=True))
_GET = Statement(select(threads).where(threads.c.id == bindparam("thread_id")))
_OWN = Statement(
    update(threads)
    .where(threads.c.id == bindparam("thread_id"))
    .values(owner_id=bindparam("new_owner_id"), epoch=threads.c.epoch + 1)
)
_ACTIVE = Statement(update(threads).where(threads.c.id == bindparam("thread_id")).values(active_at=bindparam("now")))
_TELL = Statement(
    update(threads)
    .where(threads.c.id == bindparam("thread_id"), threads.c.told_queued_at.is_(None))
    .values(told_queued_at=bindparam("now"))
)
_ANSWERED = Statement(
    update(threads)
    .where(threads.c.id == bindparam("thread_id"))
    .values(told_queued_at=None, active_at=bindparam("now"))
)
# A thread that somebody has locked is not idle; and who passes over what is locked needs no order.
_OWNED_IDLE = Statement(
    select(threads.c.id)
    .where(
        threads.c.owner_id.is_not(None),
        threads.c.active_at < bindparam("before"),
        # Whoever has asked people something there must still hear the answer, however late.
        ~exists().where(tasks.c.thread_id == threads.c.id, tasks.c.ended_at.is_(None)),
        ~exists().where(
            inbox_messages.c.thread_id == threads.c.id, inbox_messages.c.status == InboxStatus.WAITING.value
        ),
    )
    .limit(AT_MOST_N)
    .with_for_update(key_share=True, skip_locked=True)
)
_OWNED = Statement(
    select(func.count().label("n")).select_from(threads).where(threads.c.owner_id == bindparam("agent_id"))
)
_is_waited_for = exists().where(
    inbox_messages.c.thread_id == threads.c.id, inbox_messages.c.held_by == literally(Hold.CONTEXT)
)
_CONTEXTS_DUE = Statement(
    select(threads, _is_waited_for.label("is_waited_for"))
    .where(threads.c.context_due_at.is_not(None), threads.c.context_due_at <= bindparam("now"))
    .order_by(_is_waited_for.desc(), threads.c.context_due_at)
    .limit(AT_MOST_N)
    .with_for_update(key_share=True, skip_locked=True)
)


def _to(step: ContextStep, **values: object) -> Statement:
    """The update of one step of the context's state machine."""
    transition = CONTEXT_TRANSITIONS[step]
    statement = update(threads).where(threads.c.id == bindparam("thread_id"), may(threads.c.context, transition))
    return Statement(statement.values(context=transition.target.value, **values))


_failures = threads.c.context_failures + 1
_CONTEXT_MOVES = {
    ContextStep.BEGIN: _to(ContextStep.BEGIN, context_due_at=bindparam("new_due_at")),
    ContextStep.LOAD: _to(ContextStep.LOAD, context_due_at=None, context_failures=0),
    ContextStep.GIVE_UP: _to(
        ContextStep.GIVE_UP,
        context_failures=_failures,
        context_due_at=bindparam("now", type_=BigInteger)
        + bindparam("delay_us", type_=BigInteger) * case((_failures >= _SLOWEST, _SLOWEST), else_=_failures),
    ),
    ContextStep.DOUBT: _to(
        ContextStep.DOUBT,
        context_due_at=case(
            (threads.c.context == literally(ContextState.LOADING), bindparam("now")), else_=threads.c.context_due_at
        ),
    ),
}
_LEAVE_ALONE = _to(ContextStep.GIVE_UP, context_failures=_failures, context_due_at=None)
_FORGET_UP_TO = Statement(
    update(threads).where(threads.c.id == bindparam("thread_id")).values(watermark_ts=bindparam("new_watermark_ts"))
)
_READ_AGAIN = Statement(
    update(threads)
    .where(
        threads.c.id == bindparam("thread_id"),
        threads.c.context != ContextState.COMPLETE.value,
        threads.c.context_due_at.is_(None),
    )
    .values(context_due_at=bindparam("now"), context_failures=0)
)


def opened(
    tx: Transaction,
    team: str,
    channel: str,
    thread_ts: str,
    channel_type: ChannelType,
    *,
    watermark_ts: str,
    known_whole: bool,
) -> tuple[Thread, bool]:
    """The thread at this place, locked, and whether it is new. A new one that is not ``known_whole`` is to be read.

    What was said in a new thread up to ``watermark_ts`` is context; what comes later concerns us.
    """
    is_new = _OPEN.run(
        tx,
        id=new_id(),
        team=team,
        channel=channel,
        thread_ts=thread_ts,
        channel_type=channel_type,
        context=ContextState.COMPLETE if known_whole else ContextState.UNKNOWN,
        context_due_at=None if known_whole else tx.now,
        watermark_ts=watermark_ts,
        now=tx.now,
    )
    thread = at(tx, team, channel, thread_ts)
    assert thread is not None  # inserted above, or there before
    return thread, bool(is_new)


def at(tx: Transaction, team: str, channel: str, thread_ts: str) -> Thread | None:
    """The thread at this place, locked; None if the swarm takes no part in it."""
    row = _LOCK_PLACE.first(tx, team=team, channel=channel, thread_ts=thread_ts)
    return _thread(row) if row else None


def find(tx: Transaction, team: str, channel: str, thread_ts: str) -> Thread | None:
    """The same, not locked."""
    row = _AT.first(tx, team=team, channel=channel, thread_ts=thread_ts)
    return _thread(row) if row else None


def is_to_be_read(tx: Transaction, team: str, channel: str, thread_ts: str) -> bool:
    """Whether the thread at this place is about to be read as a whole. One that was left alone is not."""
    return _TO_BE_READ.first(tx, team=team, channel=channel, thread_ts=thread_ts) is not None


def locked(tx: Transaction, thread_id: str) -> Thread:
    """A thread by id, locked until the transaction ends."""
    row = _LOCK.first(tx, thread_id=thread_id)
    assert row is not None  # threads that entries refer to are never removed
    return _thread(row)


def get(tx: Transaction, thread_id: str) -> Thread | None:
    """A thread by id, not locked."""
    row = _GET.first(tx, thread_id=thread_id)
    return _thread(row) if row else None


def hand_over(tx: Transaction, thread: Thread, owner_id: str | None, reason: str, *, anew: bool = False) -> int:
    """Make an agent the owner, or nobody, with a new epoch, which is returned. The thread must be locked.

    Where the owner stays the same, the epoch grows only if the ownership begins ``anew``, with another task.
    """
    if thread.owner_id == owner_id and not anew:
        return thread.epoch
    _OWN.run(tx, thread_id=thread.id, new_owner_id=owner_id)
    history.record(tx, "thread.owner", thread.id, thread_id=thread.id, agent_id=owner_id, reason=reason)
    return thread.epoch + 1


def active(tx: Transaction, thread_id: str) -> None:
    """Note that something was said."""
    _ACTIVE.run(tx, thread_id=thread_id, now=tx.now)


def tell_queued(tx: Transaction, thread_id: str) -> bool:
    """Whether the thread is still to be told that nobody is there; True only once until it has been answered."""
    return bool(_TELL.run(tx, thread_id=thread_id, now=tx.now))


def answered(tx: Transaction, thread_id: str) -> None:
    """Note an answer: from now on the thread may be told again that nobody is there."""
    _ANSWERED.run(tx, thread_id=thread_id, now=tx.now)


def count_owned(tx: Transaction, agent_id: str) -> int:
    """How many threads an agent owns."""
    row = _OWNED.first(tx, agent_id=agent_id)
    return int(row["n"]) if row else 0


def disown_idle(tx: Transaction, before: int, limit: int) -> int:
    """End the ownership of so many threads in which nothing was said since ``before``; how many there were."""
    rows = _OWNED_IDLE.all(tx, before=before, n=limit)
    for row in rows:
        _OWN.run(tx, thread_id=row["id"], new_owner_id=None)
        history.record(tx, "thread.owner", row["id"], thread_id=row["id"], reason="nothing was said for a long time")
    return len(rows)


def begin_reads(tx: Transaction, limit: int) -> list[Thread]:
    """Take threads whose history is to be read; a read that does not come back is given up after a minute.

    After a gap many are due, more than Slack lets us read in a minute. Those for which a message waits come first; the
    others are taken one at a time, so that a message which comes next finds no queue before it.
    """
    rows = _CONTEXTS_DUE.all(tx, now=tx.now, n=limit)
    due = [_thread(row) for row in rows if row["is_waited_for"]] or [_thread(row) for row in rows[:1]]
    for thread in due:
        _CONTEXT_MOVES[ContextStep.BEGIN].run(tx, thread_id=thread.id, new_due_at=tx.now + _READ_GIVEN_UP_AFTER)
    return due


def want_whole(tx: Transaction, thread: Thread) -> None:
    """See to it that somebody reads a thread that is not known as a whole, also if Slack has refused that before."""
    _READ_AGAIN.run(tx, thread_id=thread.id, now=tx.now)
    tx.wake(CONTEXTS)


def read_whole(tx: Transaction, thread_id: str) -> bool:
    """Note that the thread is known as a whole. False if it was doubted during the read, and is to be read again."""
    return bool(_CONTEXT_MOVES[ContextStep.LOAD].run(tx, thread_id=thread_id))


def read_failed(tx: Transaction, thread_id: str, retry_in_seconds: float) -> None:
    """Note that the thread could not be read; it is tried again, after a longer pause each time."""
    delay_us = int(retry_in_seconds * SECOND)
    _CONTEXT_MOVES[ContextStep.GIVE_UP].run(tx, thread_id=thread_id, now=tx.now, delay_us=delay_us)


def read_refused(tx: Transaction, thread_id: str) -> None:
    """Note that Slack does not let us read the thread: it is left alone until something new is said in it.

    Or until the next gap: Slack may let us by then, and something may have been missed.
    """
    _LEAVE_ALONE.run(tx, thread_id=thread_id)


def doubt(tx: Transaction, thread_id: str) -> None:
    """Note that a thread is no longer known as a whole; it is read again when something new is said in it.

    Or when something may have been missed in it, which is a gap. A read under way counts for nothing: it may be older.
    """
    _CONTEXT_MOVES[ContextStep.DOUBT].run(tx, thread_id=thread_id, now=tx.now)


def forget_up_to(tx: Transaction, thread_id: str, ts: str) -> None:
    """What was said up to then is context at most, also where it is read from Slack once more."""
    _FORGET_UP_TO.run(tx, thread_id=thread_id, new_watermark_ts=ts)
