"""Conversations with built-in agents have one run at a time across all coordinator processes.

Times are microseconds since 1970 UTC; `swarm/store/tables` describes each column.
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column, PrimaryKeyConstraint, Text

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "talks",
        Column("client", Text, nullable=False),
        Column("agent", Text, nullable=False),
        Column("conversation", Text, nullable=False),
        Column("run_id", Text, nullable=False),
        Column("expires_at", BigInteger, nullable=False),
        PrimaryKeyConstraint("client", "agent", "conversation", name=op.f("pk_talks")),
    )
    op.create_index("ix_talks_expires", "talks", ["expires_at"])


def downgrade() -> None:
    op.drop_table("talks")
