"""When coordinators have listened, and what a pause or a death of the coordinator does not count against."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0032"
down_revision = "0031"
branch_labels = None
depends_on = None

_COUNTS = (
    ("leases", "prolonged"),
    ("inbox_messages", "interruptions"),
    ("tasks", "interruptions"),
    ("notices", "interruptions"),
)


def upgrade() -> None:
    op.create_table(
        "listening",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("began_at", sa.BigInteger, nullable=False),
        sa.Column("until_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_listening")),
    )
    op.create_index("ix_listening_until", "listening", ["until_at"])
    called_at = sa.Column("called_at", sa.BigInteger, nullable=False, server_default=sa.text("0"))
    op.add_column("agent_instances", called_at)
    for table, name in _COUNTS:
        op.add_column(table, sa.Column(name, sa.Integer, nullable=False, server_default=sa.text("0")))


def downgrade() -> None:
    for table, name in reversed(_COUNTS):
        op.drop_column(table, name)
    op.drop_column("agent_instances", "called_at")
    op.drop_table("listening")
