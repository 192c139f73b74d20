"""Locks: named rights that one holder has at a time, such as an elected role or a conversation with an agent.

A lock is one row: its kind and key, its holder, its expiry, and the number of its term, which increases with every
change of holder. The database's clock determines when another holder may take the lock. Until another holder does, the
term belongs to its holder, which may renew it late, so setting the clock forward slightly interrupts no work. After
that, the old term cannot be renewed.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Boolean, Executable, bindparam, or_, select, update
from sqlalchemy.dialects import postgresql

from swarm.clock import SECOND
from swarm.domain.model.leases import LockKind
from swarm.store.bridge.statements import Statement, every_column, literally
from swarm.store.bridge.transaction import Transaction
from swarm.store.retention import delete_oldest
from swarm.store.tables import locks

_t = locks.c


@dataclass(frozen=True, kw_only=True, slots=True)
class LockGrant:
    """The result of an attempt to take a lock."""

    term: int | None  # the new term; None while another holder has the lock
    wait_seconds: float  # until the other holder's lease expires


def _take(insert: postgresql.Insert) -> Executable:
    """If two processes compete, the second waits for the first one's row and then finds its lease in force."""
    free = or_(
        _t.holder.is_(None),
        _t.holder == bindparam("holder"),  # it gave up by its own clock and takes the lock again
        _t.expires_at <= bindparam("now"),
        bindparam("at_once", type_=Boolean),
    )
    taken = {name: insert.excluded[name] for name in ("holder", "expires_at")}
    return insert.on_conflict_do_update(
        index_elements=["kind", "key"], set_={**taken, "term": _t.term + 1}, where=free
    ).returning(_t.term)


_TAKE = Statement(
    lambda insert: _take(insert(locks).values(every_column(locks, term=1, expires_at=bindparam("new_expires_at"))))
)
_lock = (_t.kind == bindparam("of_kind")) & (_t.key == bindparam("of_key"))
_ours = _lock & (_t.holder == bindparam("of_holder"))
_RENEW = Statement(
    update(locks).where(_ours, _t.term == bindparam("of_term")).values(expires_at=bindparam("new_expires_at"))
)
_RELEASE = Statement(update(locks).where(_ours).values(holder=None, expires_at=bindparam("now")))
_GET = Statement(select(locks).where(_lock))
_FORGET = delete_oldest(
    locks, _t.expires_at, _t.kind == literally(LockKind.CONVERSATION), _t.expires_at < bindparam("before")
)


def topic(kind: LockKind) -> str:
    """Returns the topic that wakes those who wait for a lock of this kind to be released."""
    return f"locks:{kind}"


def take(
    tx: Transaction, kind: LockKind, key: str, holder: str, lease_seconds: float, *, at_once: bool = False
) -> LockGrant:
    """Takes a free lock or, with ``at_once``, a lock whose holder is known to be gone."""
    expires_at = _in(tx, lease_seconds)
    won = _TAKE.first(tx, kind=kind, key=key, holder=holder, now=tx.now, new_expires_at=expires_at, at_once=at_once)
    if won:
        return LockGrant(term=won["term"], wait_seconds=0)
    row = _GET.first(tx, of_kind=kind, of_key=key)
    return LockGrant(term=None, wait_seconds=max(0, row["expires_at"] - tx.now) / SECOND if row else 0)


def renew(tx: Transaction, kind: LockKind, key: str, holder: str, term: int, lease_seconds: float) -> bool:
    """Extends a term, even an expired one. Returns False if the lock was taken or released in the meantime."""
    expires_at = _in(tx, lease_seconds)
    ours = {"of_kind": kind, "of_key": key, "of_holder": holder, "of_term": term}
    return bool(_RENEW.run(tx, **ours, new_expires_at=expires_at))


def release(tx: Transaction, kind: LockKind, key: str, holder: str) -> bool:
    """Gives up a lock early and wakes the waiting processes. Returns False if another holder had it."""
    released = bool(_RELEASE.run(tx, of_kind=kind, of_key=key, of_holder=holder, now=tx.now))
    if released:
        tx.wake(topic(kind))
    return released


def holder_of(tx: Transaction, kind: LockKind, key: str) -> str | None:
    """Returns the current holder of a lock; None if there is none."""
    row = _GET.first(tx, of_kind=kind, of_key=key)
    return row["holder"] if row and row["expires_at"] > tx.now else None


def forget_conversations(tx: Transaction, before: int, limit: int) -> int:
    """Deletes up to ``limit`` locks of conversations that expired before ``before``. Returns the number deleted."""
    return _FORGET.run(tx, before=before, n=limit)


def _in(tx: Transaction, seconds: float) -> int:
    return tx.now + int(seconds * SECOND)
