"""Receipts: what was done once and must not be done again."""

from __future__ import annotations

from sqlalchemy import bindparam, delete, select, update

from swarm.store.bridge.statements import AT_MOST_N, Statement, every_column
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import receipts

_FIND = Statement(select(receipts.c.result).where(receipts.c.key == bindparam("key")))
_ADD = Statement(
    lambda insert: insert(receipts).values(every_column(receipts, created_at=bindparam("now"))).on_conflict_do_nothing()
)
_COMPLETE = Statement(update(receipts).where(receipts.c.key == bindparam("of_key")).values(result=bindparam("result")))
_FORGET = Statement(
    delete(receipts).where(
        receipts.c.key.in_(
            select(receipts.c.key)
            .where(receipts.c.created_at < bindparam("before"))
            .order_by(receipts.c.created_at)
            .limit(AT_MOST_N)
        )
    )
)


def result(tx: Transaction, key: str) -> str | None:
    """What was answered when this was done before, as JSON; None if it was not done, or has no result."""
    row = _FIND.first(tx, key=key)
    return row["result"] if row else None


def record(tx: Transaction, key: str) -> bool:
    """Note that this is done; False if it was done before. Whoever does it at the same moment is waited for."""
    return bool(_ADD.run(tx, key=key, result=None, now=tx.now))


def complete(tx: Transaction, key: str, result: str) -> None:
    """Write down what was answered."""
    _COMPLETE.run(tx, of_key=key, result=result)


def forget(tx: Transaction, before: int, limit: int) -> int:
    """Drop so many receipts older than ``before``; how many there were. Slack repeats nothing after an hour."""
    return _FORGET.run(tx, before=before, n=limit)
