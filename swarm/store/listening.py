"""When coordinators have listened to agents: one row for each time in which one process did without a break.

A silence counts against an agent only for the time in which it could have called. A break (the process was suspended,
or could not write to the database) begins a new row, see `Database.listens`.
"""

from __future__ import annotations

from sqlalchemy import bindparam, insert, select, update

from swarm.clock import new_id
from swarm.store.bridge.statements import AT_MOST_N, Statement, every_column
from swarm.store.bridge.transaction import Transaction
from swarm.store.retention import delete_oldest
from swarm.store.tables import listening

_MOST_SPANS = 1_000
"""More than a loop of crashes makes while an agent is not yet offline."""

_t = listening.c
_GO_ON = Statement(
    update(listening)
    .where(_t.id == bindparam("span_id"), _t.until_at >= bindparam("since"))
    .values(until_at=bindparam("now"))
)
_BEGIN = Statement(insert(listening).values(every_column(listening)))
_LATEST = Statement(select(_t.began_at, _t.until_at).order_by(_t.until_at.desc()).limit(AT_MOST_N))
_FORGET = delete_oldest(listening, _t.until_at, _t.until_at < bindparam("before"))


def record(tx: Transaction, span_id: str | None) -> str:
    """Records that this process listens, without a break since `Transaction.opened_at`. Returns the id of the span,
    which is the one of the previous call unless there was a break.
    """
    if span_id and _GO_ON.run(tx, span_id=span_id, since=tx.opened_at, now=tx.now):
        return span_id
    new = new_id()
    _BEGIN.run(tx, id=new, began_at=tx.opened_at, until_at=tx.now)
    return new


def latest(tx: Transaction) -> list[tuple[int, int]]:
    """Returns the latest spans of all processes, from and to."""
    return [(row["began_at"], row["until_at"]) for row in _LATEST.all(tx, n=_MOST_SPANS)]


def forget(tx: Transaction, before: int, limit: int) -> int:
    """Deletes up to ``limit`` spans that ended before ``before``. Returns the number deleted."""
    return _FORGET.run(tx, before=before, n=limit)
