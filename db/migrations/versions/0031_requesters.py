"""Requests know everybody who asked, hold their threads, and can be dropped; grants know whose work they cover."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0031"
down_revision = "0030"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("requests", sa.Column("requesters", sa.Text, nullable=False, server_default="[]"))
    op.execute("""UPDATE requests SET requesters = '["' || requester || '"]' WHERE requester <> ''""")
    op.drop_column("requests", "requester")
    holding = sa.text("asker = 'durable' AND run_id IS NOT NULL AND resume IN ('none', 'sent')")
    op.create_index("ix_requests_holding", "requests", ["thread_id"], sqlite_where=holding, postgresql_where=holding)
    op.add_column("requests", sa.Column("joins", sa.Text))
    joins = sa.text("joins IS NOT NULL")
    op.create_index("ix_requests_joins", "requests", ["joins"], sqlite_where=joins, postgresql_where=joins)
    op.add_column("deliveries", sa.Column("drops_request_id", sa.Text))
    # Written as text, since Alembic omits the CHECK of a column that it adds.
    op.execute(
        "ALTER TABLE grants ADD COLUMN covers TEXT DEFAULT 'giver' NOT NULL "
        "CONSTRAINT ck_grants_covers CHECK (covers IN ('giver', 'everybody'))"
    )
    op.execute("UPDATE grants SET covers = 'everybody' WHERE given_by = 'operator'")


def downgrade() -> None:
    raise NotImplementedError("Older versions know one requester; restore a backup.")
