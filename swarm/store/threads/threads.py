"""Threads. Every change that routes a message or changes an owner locks the thread's row first."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import BigInteger, Text, bindparam, case, exists, func, select, update

from swarm.clock import SECOND, new_id
from swarm.domain.model.inbox import InboxDelay, InboxStatus
from swarm.domain.model.threads import CONTEXT_TRANSITIONS, ChannelType, ContextState, ContextStep, Thread
from swarm.store import history
from swarm.store.bridge.statements import AT_MOST_N, Statement, every_column, given, literally, may, row_mapper
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import threads
from swarm.store.tables.work import inbox_messages, tasks

CONTEXTS = "contexts"
"""The topic that wakes the process that reads threads from Slack."""

_thread = row_mapper(Thread)
_READ_GIVEN_UP_AFTER = 60 * SECOND
_SLOWEST = 60  # from this attempt on, the delay stays constant

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
                queued_notice_at=None,
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
_given_ids = given(id=Text)
_GET = Statement(select(threads).join(_given_ids, threads.c.id == _given_ids.c.id))
_OWN = Statement(
    update(threads)
    .where(threads.c.id == bindparam("thread_id"))
    .values(owner_id=bindparam("new_owner_id"), epoch=threads.c.epoch + 1)
)
_ACTIVE = Statement(update(threads).where(threads.c.id == bindparam("thread_id")).values(active_at=bindparam("now")))
_TELL = Statement(
    update(threads)
    .where(threads.c.id == bindparam("thread_id"), threads.c.queued_notice_at.is_(None))
    .values(queued_notice_at=bindparam("now"))
)
_ANSWERED = Statement(
    update(threads)
    .where(threads.c.id == bindparam("thread_id"))
    .values(queued_notice_at=None, active_at=bindparam("now"))
)
# A locked thread is not idle. Because locked rows are skipped, no lock order is needed.
_OWNED_IDLE = Statement(
    select(threads.c.id)
    .where(
        threads.c.owner_id.is_not(None),
        threads.c.active_at < bindparam("before"),
        # An agent with an open question must receive the answer, however late.
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
    inbox_messages.c.thread_id == threads.c.id, inbox_messages.c.delay_reason == literally(InboxDelay.CONTEXT)
)
_CONTEXTS_DUE = Statement(
    select(threads, _is_waited_for.label("is_waited_for"))
    .where(threads.c.context_due_at.is_not(None), threads.c.context_due_at <= bindparam("now"))
    .order_by(_is_waited_for.desc(), threads.c.context_due_at)
    .limit(AT_MOST_N)
    .with_for_update(key_share=True, skip_locked=True)
)


def _to(step: ContextStep, **values: object) -> Statement:
    """Returns the update for one step of the context's state machine."""
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
    """Returns the thread at this place, locked, and whether it is new. A new thread must be read unless
    ``known_whole``.

    Messages of a new thread up to ``watermark_ts`` are context; later messages are routed.
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
    assert thread is not None  # inserted above, or existed before
    return thread, bool(is_new)


def at(tx: Transaction, team: str, channel: str, thread_ts: str) -> Thread | None:
    """Returns the thread at this place, locked; None if no agent takes part in it."""
    row = _LOCK_PLACE.first(tx, team=team, channel=channel, thread_ts=thread_ts)
    return _thread(row) if row else None


def find(tx: Transaction, team: str, channel: str, thread_ts: str) -> Thread | None:
    """Like `at`, but without a lock."""
    row = _AT.first(tx, team=team, channel=channel, thread_ts=thread_ts)
    return _thread(row) if row else None


def is_to_be_read(tx: Transaction, team: str, channel: str, thread_ts: str) -> bool:
    """Returns whether the thread at this place is scheduled to be read completely. A refused thread is not
    scheduled.
    """
    return _TO_BE_READ.first(tx, team=team, channel=channel, thread_ts=thread_ts) is not None


def locked(tx: Transaction, thread_id: str) -> Thread:
    """Returns a thread, locked until the transaction ends."""
    row = _LOCK.first(tx, thread_id=thread_id)
    assert row is not None  # threads referenced by inbox_messages are never deleted
    return _thread(row)


def get(tx: Transaction, thread_id: str) -> Thread | None:
    """Returns a thread without locking it."""
    return get_all(tx, [thread_id]).get(thread_id)


def get_all(tx: Transaction, thread_ids: Iterable[str]) -> dict[str, Thread]:
    """Returns threads by id without locking them."""
    rows = [{"id": thread_id} for thread_id in thread_ids]
    return {row["id"]: _thread(row) for row in _GET.all(tx, given=rows)} if rows else {}


def hand_over(tx: Transaction, thread: Thread, owner_id: str | None, reason: str, *, anew: bool = False) -> int:
    """Makes an agent the owner, or removes the owner. Returns the new epoch. The thread must be locked.

    If the owner stays the same, the epoch increases only with ``anew``, that is, if the ownership begins again with
    another task.
    """
    if thread.owner_id == owner_id and not anew:
        return thread.epoch
    _OWN.run(tx, thread_id=thread.id, new_owner_id=owner_id)
    history.record(tx, "thread.owner", thread.id, thread_id=thread.id, agent_id=owner_id, reason=reason)
    return thread.epoch + 1


def touch(tx: Transaction, thread_id: str) -> None:
    """Records activity in a thread."""
    _ACTIVE.run(tx, thread_id=thread_id, now=tx.now)


def tell_queued(tx: Transaction, thread_id: str) -> bool:
    """Returns whether to post in the thread that no agent is online: True only for the first call until the next
    answer.
    """
    return bool(_TELL.run(tx, thread_id=thread_id, now=tx.now))


def answered(tx: Transaction, thread_id: str) -> None:
    """Records an answer. After that, the thread may get another notice that no agent is online."""
    _ANSWERED.run(tx, thread_id=thread_id, now=tx.now)


def count_owned(tx: Transaction, agent_id: str) -> int:
    """Returns the number of threads owned by an agent."""
    row = _OWNED.first(tx, agent_id=agent_id)
    return int(row["n"]) if row else 0


def disown_idle(tx: Transaction, before: int, limit: int) -> int:
    """Removes the owner of up to ``limit`` threads without activity since ``before``. Returns the number of threads."""
    rows = _OWNED_IDLE.all(tx, before=before, n=limit)
    for row in rows:
        _OWN.run(tx, thread_id=row["id"], new_owner_id=None)
        history.record(tx, "thread.owner", row["id"], thread_id=row["id"], reason="nothing was said for a long time")
    return len(rows)


def begin_reads(tx: Transaction, limit: int) -> list[Thread]:
    """Takes threads whose history is due to be read. A read without a result is repeated after a minute.

    After a gap, more threads are due than Slack's rate limit allows in a minute. Threads with waiting messages come
    first; the others are taken one at a time, so that a new message does not have to wait.
    """
    rows = _CONTEXTS_DUE.all(tx, now=tx.now, n=limit)
    due = [_thread(row) for row in rows if row["is_waited_for"]] or [_thread(row) for row in rows[:1]]
    for thread in due:
        _CONTEXT_MOVES[ContextStep.BEGIN].run(tx, thread_id=thread.id, new_due_at=tx.now + _READ_GIVEN_UP_AFTER)
    return due


def want_whole(tx: Transaction, thread: Thread) -> None:
    """Schedules a read of an incompletely known thread, even after a refusal by Slack."""
    _READ_AGAIN.run(tx, thread_id=thread.id, now=tx.now)
    tx.wake(CONTEXTS)


def read_whole(tx: Transaction, thread_id: str) -> bool:
    """Marks the thread as completely known. Returns False if it was marked incomplete during the read and must be read
    again.
    """
    return bool(_CONTEXT_MOVES[ContextStep.LOAD].run(tx, thread_id=thread_id))


def read_failed(tx: Transaction, thread_id: str, retry_in_seconds: float) -> None:
    """Records a failed read. The next read follows after an increasing delay."""
    delay_us = int(retry_in_seconds * SECOND)
    _CONTEXT_MOVES[ContextStep.GIVE_UP].run(tx, thread_id=thread_id, now=tx.now, delay_us=delay_us)


def read_refused(tx: Transaction, thread_id: str) -> None:
    """Records that Slack refuses the read.

    The thread is not read again until it has a new message or until the next gap: Slack may allow the read by then, and
    messages may have been missed.
    """
    _LEAVE_ALONE.run(tx, thread_id=thread_id)


def doubt(tx: Transaction, thread_id: str) -> None:
    """Marks a thread as incompletely known. It is read again with its next message or after a gap.

    The result of a read in progress is discarded, because it may be older.
    """
    _CONTEXT_MOVES[ContextStep.DOUBT].run(tx, thread_id=thread_id, now=tx.now)


def forget_up_to(tx: Transaction, thread_id: str, ts: str) -> None:
    """Makes all messages up to ``ts`` context only, even if they are read from Slack again."""
    _FORGET_UP_TO.run(tx, thread_id=thread_id, new_watermark_ts=ts)
