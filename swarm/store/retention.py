"""What is no longer kept of threads in which nothing happens any more: what was said, and how it came about.

The thread itself stays, and its inbox messages and what was posted for them stay, without the words. If somebody speaks
there again, it is read from Slack anew.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import bindparam, delete, exists, or_, select, tuple_, update

from swarm.domain.model.inbox import INBOX_TRANSITIONS, InboxStep
from swarm.domain.model.threads import Thread
from swarm.store.bridge.statements import AT_MOST_N, Statement, literally
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import deliveries, history, inbox_messages, tasks, thread_messages, threads

# A message from which a step leads on may be read again; a dead one is, when an operator hands it out again. People may
# retry a turn only while it is kept, and no turn is kept longer than its thread.
_OPEN: Final = {
    source
    for step, transition in INBOX_TRANSITIONS.items()
    if step is not InboxStep.RETRY
    for source in transition.sources
}

_t = threads.c
_m = thread_messages.c
_is_idle = (_t.active_at < bindparam("before")) & ~exists().where(
    inbox_messages.c.thread_id == _t.id, inbox_messages.c.status.in_([literally(status) for status in sorted(_OPEN)])
)
_has_something = or_(
    exists().where(_m.team == _t.team, _m.channel == _t.channel, _m.thread_ts == _t.thread_ts),
    exists().where(history.c.thread_id == _t.id),
)
_WALK = Statement(
    select(_t.id, (_is_idle & _has_something).label("forgettable"))
    .where(_t.id > bindparam("after"))
    .order_by(_t.id)
    .limit(AT_MOST_N)
)
_IDLE = Statement(select(_t.id).where(_t.id == bindparam("thread_id"), _is_idle))
_FORGET_SAID = Statement(
    delete(thread_messages).where(
        tuple_(_m.team, _m.channel, _m.ts).in_(
            select(_m.team, _m.channel, _m.ts)
            .where(
                _m.team == bindparam("of_team"),
                _m.channel == bindparam("in_channel"),
                _m.thread_ts == bindparam("in_thread"),
            )
            .order_by(_m.ts)
            .limit(AT_MOST_N)
        )
    )
)
_FORGET_HISTORY = Statement(
    delete(history).where(
        history.c.seq.in_(
            select(history.c.seq)
            .where(history.c.thread_id == bindparam("of_thread"))
            .order_by(history.c.seq)
            .limit(AT_MOST_N)
        )
    )
)
# By message and by task, since these are indexed; what is posted without either is the coordinator's own words.
_FORGET_ANSWERS = [
    Statement(
        update(deliveries)
        .where(
            deliveries.c.seq.in_(
                select(deliveries.c.seq)
                .where(
                    about.in_(select(concerned.c.id).where(concerned.c.thread_id == bindparam("of_thread"))),
                    deliveries.c.due_at.is_(None),
                    deliveries.c.text != "",
                )
                .limit(AT_MOST_N)
            )
        )
        .values(text="", closing=None)
    )
    for about, concerned in ((deliveries.c.inbox_message_id, inbox_messages), (deliveries.c.task_id, tasks))
]


def walk(tx: Transaction, after: str, limit: int, before: int) -> list[tuple[str, bool]]:
    """The threads behind ``after`` by their ids, and of each whether it is idle since ``before`` with something kept.

    In steps along the primary key: so a look costs the same however many threads there are, and needs no index.
    """
    return [(row["id"], bool(row["forgettable"])) for row in _WALK.all(tx, after=after, n=limit, before=before)]


def is_idle(tx: Transaction, thread_id: str, before: int) -> bool:
    """Whether nothing happened in a thread since ``before``, and nothing is open. The thread must be locked."""
    return _IDLE.first(tx, thread_id=thread_id, before=before) is not None


def forget_said(tx: Transaction, thread: Thread, limit: int) -> int:
    """Drop so many messages of a thread, oldest first; how many there were."""
    return _FORGET_SAID.run(tx, of_team=thread.team, in_channel=thread.channel, in_thread=thread.thread_ts, n=limit)


def forget_answers(tx: Transaction, thread_id: str, limit: int) -> int:
    """Blank so many of the answers posted to a thread, for its messages and as many for its tasks; the larger count."""
    return max(statement.run(tx, of_thread=thread_id, n=limit) for statement in _FORGET_ANSWERS)


def forget_history(tx: Transaction, thread_id: str, limit: int) -> int:
    """Drop so many lines of a thread's timeline, oldest first; how many there were."""
    return _FORGET_HISTORY.run(tx, of_thread=thread_id, n=limit)
