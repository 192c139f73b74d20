"""When the status line of a polling agent's work was last shown in a thread."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("threads", sa.Column("status_at", sa.BigInteger))
    shown = sa.text("status_at IS NOT NULL")
    op.create_index("ix_threads_status", "threads", ["status_at"], sqlite_where=shown, postgresql_where=shown)


def downgrade() -> None:
    op.drop_index("ix_threads_status", "threads")
    with op.batch_alter_table("threads") as batch:
        batch.drop_column("status_at")
