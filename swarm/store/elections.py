"""Elections: which process does what only one should do.

An office is one row: who holds it, until when, and the number of the term, which grows with every change. The
database's clock decides when another may take it. Until one has, the term is its holder's, who may prolong it late: a
clock that was set forth by a little ends nobody's work. Once one has, the old term never comes back to life.
"""

from __future__ import annotations

from dataclasses import dataclass

from sqlalchemy import Boolean, Executable, bindparam, or_, select, update
from sqlalchemy.dialects import postgresql

from swarm.clock import SECOND
from swarm.store.bridge.statements import Statement, every_column
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables import elections

ELECTIONS = "elections"
"""The topic that tells those who stand for an office that one was given up."""

_e = elections.c


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidacy:
    """What came of a candidacy."""

    term: int | None  # ours; None while somebody else holds the office
    wait_seconds: float  # until the other's lease runs out


def _take(insert: postgresql.Insert) -> Executable:
    """Of candidates that come at once the second waits for the first's row, and then finds that its lease holds."""
    free = or_(
        _e.holder.is_(None),
        _e.holder == bindparam("holder"),  # we have stopped by our own clock, and stand anew
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
    """Take an office that is free, or ``at_once`` one whose holder is known to be gone."""
    won = _TAKE.first(tx, role=role, holder=holder, now=tx.now, new_expires_at=_in(tx, lease_seconds), at_once=at_once)
    if won:
        return Candidacy(term=won["term"], wait_seconds=0)
    row = _GET.first(tx, role=role)
    return Candidacy(term=None, wait_seconds=max(0, row["expires_at"] - tx.now) / SECOND if row else 0)


def renew(tx: Transaction, role: str, holder: str, term: int, lease_seconds: float) -> bool:
    """Prolong a term, even one that has run out; False if the office was taken or given up since."""
    expires_at = _in(tx, lease_seconds)
    return bool(_RENEW.run(tx, of_role=role, of_holder=holder, of_term=term, new_expires_at=expires_at))


def resign(tx: Transaction, role: str, holder: str) -> bool:
    """Give an office up before its time, and call those who wait for it; False if it was not ours any more."""
    resigned = bool(_RESIGN.run(tx, of_role=role, of_holder=holder, now=tx.now))
    if resigned:
        tx.wake(ELECTIONS)
    return resigned


def holder_of(tx: Transaction, role: str) -> str | None:
    """Who holds an office now; None if nobody does."""
    row = _GET.first(tx, role=role)
    return row["holder"] if row and row["expires_at"] > tx.now else None


def _in(tx: Transaction, seconds: float) -> int:
    return tx.now + int(seconds * SECOND)
