"""Elections determine which process does the work that only one process may do.

An elected role is one row: its holder, its expiry, and the number of its term, which increases with every change of
holder. The database's clock determines when another process may take the role. Until another process does, the term
belongs to its holder, which may renew it late, so setting the clock forward slightly interrupts no work. After that,
the old term cannot be renewed.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Boolean, Executable, bindparam, or_, select, update
from sqlalchemy.dialects import postgresql

from swarm.clock import SECOND
from swarm.store.bridge.statements import Statement, every_column
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables.effects import elections

ELECTIONS = "elections"
"""The topic that wakes candidates when a role is resigned."""

_e = elections.c


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidacy:
    """The result of a candidacy."""

    term: int | None  # the term that this process won; None while another process holds the role
    wait_seconds: float  # until the other lease expires


def _take(insert: postgresql.Insert) -> Executable:
    """If two candidates compete, the second waits for the first one's row and then finds its lease in force."""
    free = or_(
        _e.holder.is_(None),
        _e.holder == bindparam("holder"),  # this process gave up by its own clock and is a candidate again
        _e.expires_at <= bindparam("now"),
        bindparam("at_once", type_=Boolean),
    )
    taken = {name: insert.excluded[name] for name in ("holder", "since", "expires_at")}
    return insert.on_conflict_do_update(
        index_elements=["role"], set_={**taken, "term": _e.term + 1}, where=free
    ).returning(_e.term)


_TAKE = Statement(
    lambda insert: _take(
        insert(elections).values(
            every_column(elections, term=1, since=bindparam("now"), expires_at=bindparam("new_expires_at"))
        )
    )
)
_ours = (_e.role == bindparam("of_role")) & (_e.holder == bindparam("of_holder"))
_RENEW = Statement(
    update(elections).where(_ours, _e.term == bindparam("of_term")).values(expires_at=bindparam("new_expires_at"))
)
_RESIGN = Statement(update(elections).where(_ours).values(holder=None, expires_at=bindparam("now")))
_GET = Statement(select(elections).where(_e.role == bindparam("role")))


def stand(tx: Transaction, role: str, holder: str, lease_seconds: float, *, at_once: bool = False) -> Candidacy:
    """Takes a free role or, with ``at_once``, a role whose holder is known to be gone."""
    won = _TAKE.first(tx, role=role, holder=holder, now=tx.now, new_expires_at=_in(tx, lease_seconds), at_once=at_once)
    if won:
        return Candidacy(term=won["term"], wait_seconds=0)
    row = _GET.first(tx, role=role)
    return Candidacy(term=None, wait_seconds=max(0, row["expires_at"] - tx.now) / SECOND if row else 0)


def renew(tx: Transaction, role: str, holder: str, term: int, lease_seconds: float) -> bool:
    """Extends a term, even an expired one. Returns False if the role was taken or resigned in the meantime."""
    expires_at = _in(tx, lease_seconds)
    return bool(_RENEW.run(tx, of_role=role, of_holder=holder, of_term=term, new_expires_at=expires_at))


def resign(tx: Transaction, role: str, holder: str) -> bool:
    """Gives up a role early and wakes the waiting processes. Returns False if another process held it."""
    resigned = bool(_RESIGN.run(tx, of_role=role, of_holder=holder, now=tx.now))
    if resigned:
        tx.wake(ELECTIONS)
    return resigned


def holder_of(tx: Transaction, role: str) -> str | None:
    """Returns the current holder of a role; None if there is none."""
    row = _GET.first(tx, role=role)
    return row["holder"] if row and row["expires_at"] > tx.now else None


def _in(tx: Transaction, seconds: float) -> int:
    return tx.now + int(seconds * SECOND)
