"""Reactions record whether they show that a message was stored or how it ended; end marks are sent first."""

from __future__ import annotations

from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Written as text, since Alembic omits the CHECK of a column that it adds.
    op.execute(
        "ALTER TABLE deliveries ADD COLUMN mark TEXT CONSTRAINT ck_deliveries_mark CHECK (mark IN ('stored', 'end'))"
    )


def downgrade() -> None:
    raise NotImplementedError("Older versions do not know the meaning of reactions; restore a backup.")
