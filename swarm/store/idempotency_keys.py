"""Idempotency keys: identify events and calls that must be processed only once, and store their results."""

from __future__ import annotations

from sqlalchemy import bindparam, select, update

from swarm.store.bridge.statements import Statement, every_column
from swarm.store.bridge.transaction import Transaction
from swarm.store.retention import delete_oldest
from swarm.store.tables.effects import idempotency_keys

_FIND = Statement(select(idempotency_keys.c.result).where(idempotency_keys.c.key == bindparam("key")))
_ADD = Statement(
    lambda insert: (
        insert(idempotency_keys)
        .values(every_column(idempotency_keys, created_at=bindparam("now")))
        .on_conflict_do_nothing()
    )
)
_COMPLETE = Statement(
    update(idempotency_keys).where(idempotency_keys.c.key == bindparam("of_key")).values(result=bindparam("result"))
)
_created = idempotency_keys.c.created_at
_FORGET = delete_oldest(idempotency_keys, _created, _created < bindparam("before"))


def result(tx: Transaction, key: str) -> str | None:
    """Returns the stored result of a key as JSON; None if the key is unknown or has no result."""
    row = _FIND.first(tx, key=key)
    return row["result"] if row else None


def record(tx: Transaction, key: str) -> bool:
    """Records a key. Returns False if the key already exists.

    A concurrent insert of the same key blocks until the other transaction ends.
    """
    return bool(_ADD.run(tx, key=key, result=None, now=tx.now))


def complete(tx: Transaction, key: str, result: str) -> None:
    """Stores the result of a key."""
    _COMPLETE.run(tx, of_key=key, result=result)


def forget(tx: Transaction, before: int, limit: int) -> int:
    """Deletes up to ``limit`` keys older than ``before``. Returns the number deleted. Slack repeats nothing after an
    hour.
    """
    return _FORGET.run(tx, before=before, n=limit)
