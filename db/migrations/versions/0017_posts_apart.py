"""Indexes that find due posts, due reactions and late reactions without reading the others."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None

_INDEXES = {
    "ix_deliveries_posts": (["thread_id", "seq"], "due_at IS NOT NULL AND kind != 'reaction'"),
    "ix_deliveries_due_posts": (["due_at", "seq"], "due_at IS NOT NULL AND kind != 'reaction'"),
    "ix_deliveries_due_reactions": (
        ["removes", "due_at", "seq", "mark"],
        "due_at IS NOT NULL AND kind = 'reaction'",
    ),
    "ix_deliveries_expiry": (["expires_at"], "due_at IS NOT NULL AND expires_at IS NOT NULL"),
}


def upgrade() -> None:
    for name, (columns, where) in _INDEXES.items():
        _create(name, columns, where)
    op.drop_index("ix_deliveries_due", table_name="deliveries")


def downgrade() -> None:
    _create("ix_deliveries_due", ["due_at"], "due_at IS NOT NULL")
    for name in _INDEXES:
        op.drop_index(name, table_name="deliveries")


def _create(name: str, columns: list[str], where: str) -> None:
    op.create_index(name, "deliveries", columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))
