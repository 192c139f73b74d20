"""A lease has a key for the program that does its work, in place of the agent's token. Its hash is stored."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0033"
down_revision = "0032"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("leases", sa.Column("key_hash", sa.Text))
    where = sa.text("key_hash IS NOT NULL")
    op.create_index("uq_leases_key", "leases", ["key_hash"], unique=True, sqlite_where=where, postgresql_where=where)


def downgrade() -> None:
    op.drop_index("uq_leases_key", "leases")
    op.drop_column("leases", "key_hash")
