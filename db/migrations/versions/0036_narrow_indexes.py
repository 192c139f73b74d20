"""The indexes of expiring leases and of open tasks by creator serve only searches by their column: with statistics that
are out of date, other searches would read all active leases or open tasks with them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0036"
down_revision = "0035"
branch_labels = None
depends_on = None

_INDEXES = (("ix_leases_expiry", "leases", "expires_at"), ("ix_tasks_creator", "tasks", "created_by"))


def upgrade() -> None:
    for name, table, column in _INDEXES:
        _make(name, table, column, f"ended_at IS NULL AND {column} IS NOT NULL")


def downgrade() -> None:
    for name, table, column in _INDEXES:
        _make(name, table, column, "ended_at IS NULL")


def _make(name: str, table: str, column: str, where: str) -> None:
    op.drop_index(name, table_name=table)
    op.create_index(name, table, [column], sqlite_where=sa.text(where), postgresql_where=sa.text(where))
