"""The history: every state change with its reason. It is append-only, and deleted after a retention time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from sqlalchemy import BigInteger, Text, bindparam, delete, func, insert, or_, select

from swarm.domain.watchers import Changed
from swarm.store.bridge.statements import AT_MOST_N, Row, Statement, given
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables.effects import history

SET_ASIDE: Final = "route.set_aside"
"""The change recorded for a missed message that cannot be processed."""

_given_changes = given(change=Text, subject=Text, thread_id=Text, agent_id=Text, reason=Text)
_RECORD = Statement(
    insert(history).from_select(
        ["at", *(column.name for column in _given_changes.c)],
        select(bindparam("now", type_=BigInteger), *_given_changes.c),
    )
)
_OF_THREAD = Statement(
    select(history).where(history.c.thread_id == bindparam("thread_id")).order_by(history.c.seq).limit(AT_MOST_N)
)
_FORGET_UNCONCERNED = Statement(
    delete(history).where(
        history.c.seq.in_(
            select(history.c.seq)
            .where(
                history.c.thread_id.is_(None),
                history.c.at < bindparam("before"),
                or_(history.c.change.like("route.%"), history.c.change.like("notice.%")),
            )
            .order_by(history.c.at)
            .limit(AT_MOST_N)
        )
    )
)
_OF_SUBJECT = Statement(select(history).where(history.c.subject == bindparam("subject")).order_by(history.c.seq))


_LATEST = Statement(select(func.max(history.c.seq).label("seq")))


class HistoryChange(NamedTuple):
    """One entry: for example ``inbox.claim`` for an inbox message, in the history of its thread."""

    change: str
    subject: str
    thread_id: str | None = None
    agent_id: str | None = None
    reason: str | None = None


def record(
    tx: Transaction,
    change: str,
    subject: str,
    *,
    thread_id: str | None = None,
    agent_id: str | None = None,
    reason: str | None = None,
) -> None:
    """Appends one change to the history of its thread."""
    record_all(tx, [HistoryChange(change, subject, thread_id, agent_id, reason)])


def record_all(tx: Transaction, changes: Sequence[HistoryChange]) -> None:
    """Appends changes in order."""
    for change in changes:
        tx.note(
            Changed(change=change.change, subject=change.subject, thread_id=change.thread_id, agent_id=change.agent_id)
        )
    if changes:
        _RECORD.run(tx, given=[change._asdict() for change in changes], now=tx.now)


def latest(tx: Transaction) -> int:
    """Returns the number of the last change; 0 without any. An equal number means that nothing has changed since."""
    row = _LATEST.first(tx)
    return (row["seq"] if row else None) or 0


def of_thread(tx: Transaction, thread_id: str, limit: int = 500) -> list[Row]:
    """Returns the history of a thread, oldest first."""
    return _OF_THREAD.all(tx, thread_id=thread_id, n=limit)


def of_subject(tx: Transaction, subject: str) -> list[Row]:
    """Returns the history of one subject, oldest first."""
    return _OF_SUBJECT.all(tx, subject=subject)


def was_routed(tx: Transaction, channel: str, ts: str) -> bool:
    """Returns whether a message has a routing decision."""
    return any(str(row["change"]).startswith("route.") for row in of_subject(tx, f"{channel}:{ts}"))


def was_set_aside(tx: Transaction, channel: str, ts: str) -> bool:
    """Returns whether a missed message could not be processed."""
    return any(row["change"] == SET_ASIDE for row in of_subject(tx, f"{channel}:{ts}"))


def forget_unconcerned(tx: Transaction, before: int, limit: int) -> int:
    """Deletes up to ``limit`` entries without a thread that are older than ``before``. Returns the number deleted.

    These entries belong to notices, and to messages that no agent received.
    """
    return _FORGET_UNCONCERNED.run(tx, before=before, n=limit)
