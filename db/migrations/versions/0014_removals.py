"""Deliveries that remove something: the end mark of a message that is run again, or the Retry button."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy import Boolean, Column

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("deliveries", Column("removes", Boolean, nullable=False, server_default=sa.false()))


def downgrade() -> None:
    raise NotImplementedError("Older versions would add the reactions that should be removed; restore a backup.")
