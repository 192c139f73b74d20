"""Until when an agent takes no work, because a limit of its account is reached."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0034"
down_revision = "0033"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("agents", sa.Column("parked_until", sa.BigInteger))


def downgrade() -> None:
    op.drop_column("agents", "parked_until")
