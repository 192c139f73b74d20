"""Since when a delivery waits for somebody to mend what makes Slack refuse it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0035"
down_revision = "0034"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("deliveries", sa.Column("held_since", sa.BigInteger))


def downgrade() -> None:
    op.drop_column("deliveries", "held_since")
