"""What people have approved above the operator's budgets: the limit in force of a run, a thread, an agent or a day."""

from __future__ import annotations

from sqlalchemy import Executable, bindparam, select

from swarm.domain.model.budgets import BudgetRaise, BudgetScope, BudgetUnit
from swarm.store.bridge.statements import InsertFactory, Statement, every_column
from swarm.store.bridge.transaction import Transaction
from swarm.store.retention import delete_oldest
from swarm.store.tables.sessions import budget_raises

_b = budget_raises.c
_is_it = (_b.scope == bindparam("scope"), _b.unit == bindparam("unit"), _b.subject == bindparam("subject"))
_GET = Statement(select(_b.new_limit).where(*_is_it))


def _raised(insert: InsertFactory) -> Executable:
    added = insert(budget_raises).values(every_column(budget_raises))
    changed = {name: added.excluded[name] for name in ("new_limit", "request_id", "raised_at")}
    return added.on_conflict_do_update(
        index_elements=["scope", "unit", "subject"], set_=changed, where=added.excluded.new_limit > _b.new_limit
    )


_RAISE = Statement(_raised)
_FORGET = delete_oldest(budget_raises, _b.raised_at, _b.raised_at < bindparam("before"))


def approved_limit(tx: Transaction, scope: BudgetScope, unit: BudgetUnit, subject: str) -> int | None:
    """Returns the limit that people have approved, in tokens or in millionths of a dollar; None: the operator's."""
    row = _GET.first(tx, scope=scope.value, unit=unit.value, subject=subject)
    return row["new_limit"] if row else None


def add(tx: Transaction, wanted: BudgetRaise, request_id: str) -> bool:
    """Stores an approved limit. Returns False if the limit in force is as high already."""
    return bool(
        _RAISE.run(
            tx,
            scope=wanted.scope.value,
            unit=wanted.unit.value,
            subject=wanted.subject,
            new_limit=wanted.limit,
            request_id=request_id,
            raised_at=tx.now,
        )
    )


def forget(tx: Transaction, before: int, limit: int) -> int:
    """Deletes up to ``limit`` approvals from before ``before``. Returns the number deleted."""
    return _FORGET.run(tx, before=before, n=limit)
