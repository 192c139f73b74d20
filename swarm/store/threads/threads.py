"""Threads. Every change that routes a message or changes an owner locks the thread's row first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from sqlalchemy import BigInteger, Integer, Text, bindparam, case, exists, func, literal_column, or_, select, update

from swarm.clock import SECOND, new_id
from swarm.domain.model.inbox import InboxDelay, InboxStatus
from swarm.domain.model.runs import RunStatus
from swarm.domain.model.tasks import TaskStatus
from swarm.domain.model.threads import CONTEXT_TRANSITIONS, ChannelType, ContextState, ContextStep, Silence, Thread
from swarm.store import history
from swarm.store.bridge.statements import AT_MOST_N, Statement, given, insert_given, literally, may, row_mapper
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import runs, threads
from swarm.store.tables.work import inbox_messages, tasks

CONTEXTS = "contexts"
"""The topic that wakes the process that reads threads from Slack."""

Place = tuple[str, str]
"""The place of a thread in its workspace: the channel and the timestamp of its first message."""

_thread = row_mapper(Thread)
_READ_GIVEN_UP_AFTER = 60 * SECOND
_SLOWEST = 60  # from this attempt on, the delay stays constant

_place = (
    (threads.c.team == bindparam("team"))
    & (threads.c.channel == bindparam("channel"))
    & (threads.c.thread_ts == bindparam("thread_ts"))
)
_given_new = given(
    id=Text,
    team=Text,
    channel=Text,
    thread_ts=Text,
    channel_type=Text,
    context=Text,
    context_due_at=BigInteger,
    watermark_ts=Text,
    silence=Text,
)
_now = bindparam("now", type_=BigInteger)
_none = literal_column("0", Integer)
_OPEN = Statement(
    lambda insert: (
        insert_given(insert(threads), _given_new, epoch=_none, context_failures=_none, active_at=_now, created_at=_now)
        .on_conflict_do_nothing()
        .returning(*threads.c)
    )
)
_AT = Statement(select(threads).where(_place))
_TO_BE_READ = Statement(
    select(threads.c.id).where(
        _place, threads.c.context != ContextState.COMPLETE.value, threads.c.context_due_at.is_not(None)
    )
)
_given_places = given(team=Text, channel=Text, thread_ts=Text)
# In the order of the ids, as everywhere, so that two sets cannot deadlock.
_LOCK_PLACES = Statement(
    select(threads)
    .join(
        _given_places,
        (threads.c.team == _given_places.c.team)
        & (threads.c.channel == _given_places.c.channel)
        & (threads.c.thread_ts == _given_places.c.thread_ts),
    )
    .order_by(threads.c.id)
    .with_for_update(of=threads, key_share=True)
)
_LOCK = Statement(select(threads).where(threads.c.id == bindparam("thread_id")).with_for_update(key_share=True))
_given_ids = given(id=Text)
_GET = Statement(select(threads).join(_given_ids, threads.c.id == _given_ids.c.id))
_given_owners = given(id=Text, owner_id=Text)
_OWN = Statement(
    update(threads)
    .where(threads.c.id == _given_owners.c.id)
    .values(owner_id=_given_owners.c.owner_id, epoch=threads.c.epoch + 1)
)
_ASK = Statement(
    update(threads)
    .where(threads.c.id == _given_ids.c.id, threads.c.silence == literally(Silence.SILENT))
    .values(silence=literally(Silence.ASKED))
)
_BREAK_SILENCE = Statement(update(threads).where(threads.c.id == bindparam("thread_id")).values(silence=None))
_ANY = Statement(select(threads.c.id).limit(literal_column("1")))
_ACTIVE = Statement(update(threads).where(threads.c.id == _given_ids.c.id).values(active_at=bindparam("now")))
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
_first = literal_column("1", Integer)
# Nothing begins to wait in a locked thread. A subquery with LIMIT is evaluated row by row.
_AWAITING_ANSWER = Statement(
    select(_given_ids.c.id)
    .where(
        or_(
            *(
                select(table.c.id)
                .where(table.c.thread_id == _given_ids.c.id, table.c.status == literally(waiting))
                .limit(_first)
                .scalar_subquery()
                .is_not(None)
                for table, waiting in (
                    (tasks, TaskStatus.WAITING),
                    (inbox_messages, InboxStatus.WAITING),
                    (runs, RunStatus.WAITING),
                )
            )
        )
    )
    .order_by(_given_ids.c.id)
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
        threads.c.id == _given_ids.c.id,
        threads.c.context != ContextState.COMPLETE.value,
        threads.c.context_due_at.is_(None),
    )
    .values(context_due_at=bindparam("now"), context_failures=0)
)


@dataclass(frozen=True, kw_only=True, slots=True)
class NewThread:
    """A thread to open, which must be read unless it is ``known_whole``.

    Its messages up to ``watermark_ts`` are context; later messages are routed.
    """

    channel: str
    thread_ts: str
    channel_type: ChannelType
    watermark_ts: str
    known_whole: bool
    silence: Silence | None = None


def open_all(tx: Transaction, team: str, wanted: Iterable[NewThread]) -> dict[Place, Thread]:
    """Opens threads. Returns the new ones by place, locked; a place that already had a thread is missing."""
    rows = [
        {
            "id": new_id(),
            "team": team,
            "channel": new.channel,
            "thread_ts": new.thread_ts,
            "channel_type": new.channel_type,
            "context": ContextState.COMPLETE if new.known_whole else ContextState.UNKNOWN,
            "context_due_at": None if new.known_whole else tx.now,
            "watermark_ts": new.watermark_ts,
            "silence": new.silence,
        }
        for new in wanted
    ]
    return _by_place(_thread(row) for row in _OPEN.all(tx, given=rows, now=tx.now)) if rows else {}


def all_at(tx: Transaction, team: str, places: Iterable[Place]) -> dict[Place, Thread]:
    """Returns the threads at these places, locked. In a thread that is missing, no agent takes part."""
    rows = [{"team": team, "channel": channel, "thread_ts": thread_ts} for channel, thread_ts in set(places)]
    return _by_place(_thread(row) for row in _LOCK_PLACES.all(tx, given=rows)) if rows else {}


def is_there_any(tx: Transaction) -> bool:
    """Returns whether the database has any thread, which a new one has not."""
    return _ANY.first(tx) is not None


def at(tx: Transaction, team: str, channel: str, thread_ts: str) -> Thread | None:
    """Returns the thread at this place, locked; None if no agent takes part in it."""
    return all_at(tx, team, [(channel, thread_ts)]).get((channel, thread_ts))


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


def get(tx: Transaction, thread_id: str | None) -> Thread | None:
    """Returns a thread without locking it; None for no id."""
    return get_all(tx, [thread_id]).get(thread_id) if thread_id else None


def get_all(tx: Transaction, thread_ids: Iterable[str]) -> dict[str, Thread]:
    """Returns threads by id without locking them."""
    rows = _ids(thread_ids)
    return {row["id"]: _thread(row) for row in _GET.all(tx, given=rows)} if rows else {}


def hand_over(tx: Transaction, thread: Thread, owner_id: str | None, reason: str, *, anew: bool = False) -> int:
    """Makes an agent the owner, or removes the owner. Returns the new epoch. The thread must be locked.

    If the owner stays the same, the epoch increases only with ``anew``, that is, if the ownership begins again with
    another task.
    """
    if thread.owner_id == owner_id and not anew:
        return thread.epoch
    own_all(tx, [(thread.id, owner_id, reason)])
    return thread.epoch + 1


def own_all(tx: Transaction, owners: Sequence[tuple[str, str | None, str]]) -> None:
    """Begins an ownership in each of the threads, given by id with the owner and the reason. They must be locked."""
    if owners:
        _OWN.run(tx, given=[{"id": thread_id, "owner_id": owner_id} for thread_id, owner_id, _ in owners])
    changes = (
        history.HistoryChange("thread.owner", thread_id, thread_id, owner_id, reason)
        for thread_id, owner_id, reason in owners
    )
    history.record_all(tx, list(changes))


def ask(tx: Transaction, thread_ids: Collection[str]) -> None:
    """Records that somebody has asked in silent threads, whose further work is shown. The threads must be locked."""
    if thread_ids:
        _ASK.run(tx, given=_ids(thread_ids))


def break_silence(tx: Transaction, thread_id: str) -> None:
    """Makes a thread an ordinary one, because an answer is shown. The thread must be locked."""
    _BREAK_SILENCE.run(tx, thread_id=thread_id)


def touch(tx: Transaction, thread_ids: Collection[str]) -> None:
    """Records activity in threads."""
    if thread_ids:
        _ACTIVE.run(tx, given=_ids(thread_ids), now=tx.now)


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
    own_all(tx, [(row["id"], None, "nothing was said for a long time") for row in rows])
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


def want_whole(tx: Transaction, thread_ids: Collection[str]) -> None:
    """Schedules reads of incompletely known threads, even after a refusal by Slack."""
    if thread_ids:
        _READ_AGAIN.run(tx, given=_ids(thread_ids), now=tx.now)
        tx.wake(CONTEXTS)


def awaiting_answer(tx: Transaction, thread_ids: Collection[str]) -> list[str]:
    """Returns those of the locked threads in which a task, a message or a run waits for people's answers, in order."""
    return [row["id"] for row in _AWAITING_ANSWER.all(tx, given=_ids(thread_ids))] if thread_ids else []


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


def _ids(thread_ids: Iterable[str]) -> list[dict[str, object]]:
    return [{"id": thread_id} for thread_id in thread_ids]


def _by_place(found: Iterable[Thread]) -> dict[Place, Thread]:
    return {(thread.channel, thread.thread_ts): thread for thread in found}
