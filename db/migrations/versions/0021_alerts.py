"""Alerts: the text that agents get for them, and groups of repeated ones."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("inbox_messages", sa.Column("message", sa.Text))
    op.create_table(
        "alerts",
        sa.Column("team", sa.Text, nullable=False),
        sa.Column("channel", sa.Text, nullable=False),
        sa.Column("ts", sa.Text, nullable=False),
        sa.Column("first_ts", sa.Text, nullable=False),
        sa.Column("digest", sa.Text, nullable=False),
        sa.Column("posted_at", sa.BigInteger, nullable=False),
        sa.Column("last_at", sa.BigInteger, nullable=False),
        sa.Column("repeats", sa.Integer, nullable=False),
        sa.Column("shown_repeats", sa.Integer, nullable=False),
        sa.Column("shown_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("team", "channel", "ts", name=op.f("pk_alerts")),
    )
    _create_index("ix_alerts_group", ["team", "channel", "digest", "last_at"], "ts = first_ts")
    _create_index("ix_alerts_unshown", ["shown_at"], "repeats > shown_repeats")
    op.create_index("ix_alerts_posted", "alerts", ["posted_at"])


def downgrade() -> None:
    op.drop_table("alerts")
    op.drop_column("inbox_messages", "message")


def _create_index(name: str, columns: list[str], where: str) -> None:
    condition = sa.text(where)
    op.create_index(name, "alerts", columns, sqlite_where=condition, postgresql_where=condition)
