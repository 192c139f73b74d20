"""Remarks about the swarm: feedback that is about no answer."""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import BigInteger, bindparam, insert, select

from swarm.clock import new_id
from swarm.store.bridge.statements import AT_MOST_N, Statement, every_column, row_mapper
from swarm.store.bridge.transaction import Transaction
from swarm.store.retention import delete_oldest
from swarm.store.tables.runs import remarks

_r = remarks.c
_ADD = Statement(insert(remarks).values(every_column(remarks)))
_LATEST = Statement(
    select(remarks)
    .where(_r.created_at >= bindparam("since", type_=BigInteger))
    .order_by(_r.created_at.desc(), _r.id.desc())
    .limit(AT_MOST_N)
)
_FORGET = delete_oldest(remarks, _r.created_at, _r.created_at < bindparam("before"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Remark:
    """What a person remarked about the swarm."""

    id: str
    channel: str  # the conversation in which the command was typed
    user_id: str
    text: str
    created_at: int  # microseconds since 1970 UTC


_remark = row_mapper(Remark)


def add(tx: Transaction, channel: str, user_id: str, text: str) -> None:
    """Stores a remark."""
    _ADD.run(tx, id=new_id(), channel=channel, user_id=user_id, text=text, created_at=tx.now)


def latest(tx: Transaction, since: int, limit: int) -> list[Remark]:
    """Returns the newest remarks made since then."""
    return [_remark(row) for row in _LATEST.all(tx, since=since, n=limit)]


def forget(tx: Transaction, before: int, limit: int) -> int:
    """Deletes up to ``limit`` remarks made before ``before``. Returns the number deleted."""
    return _FORGET.run(tx, before=before, n=limit)
