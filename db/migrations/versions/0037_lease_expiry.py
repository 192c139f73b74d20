"""The index of expiring leases serves only searches by expiry: others would read all active leases with it."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0037"
down_revision = "0034"
branch_labels = None
depends_on = None

_NAME = "ix_leases_expiry"


def upgrade() -> None:
    _make("ended_at IS NULL AND expires_at IS NOT NULL")


def downgrade() -> None:
    _make("ended_at IS NULL")


def _make(where: str) -> None:
    op.drop_index(_NAME, table_name="leases")
    op.create_index(_NAME, "leases", ["expires_at"], sqlite_where=sa.text(where), postgresql_where=sa.text(where))
