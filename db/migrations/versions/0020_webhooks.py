"""Webhooks: calls of other services, stored with their cause and repeated until the service accepts them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "webhooks",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("target", sa.Text, nullable=False),
        sa.Column("body", sa.Text, nullable=False),
        sa.Column("idempotency_key", sa.Text, nullable=False),
        sa.Column("thread_id", sa.Text),
        sa.Column("person", sa.Text),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("due_at", sa.BigInteger),
        sa.Column("error", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("ended_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_webhooks")),
        sa.UniqueConstraint("idempotency_key", name=op.f("uq_webhooks_idempotency_key")),
        sa.ForeignKeyConstraint(["thread_id"], ["threads.id"], name=op.f("fk_webhooks_thread_id")),
        sa.CheckConstraint("kind IN ('langfuse', 'caipe', 'feedback', 'escalation')", name=op.f("ck_webhooks_kind")),
        sa.CheckConstraint("status IN ('open', 'sent', 'failed')", name=op.f("ck_webhooks_status")),
        sa.CheckConstraint(
            "(due_at IS NULL) = (status IN ('sent', 'failed'))", name=op.f("ck_webhooks_due_until_over")
        ),
    )
    is_open, is_ended = sa.text("due_at IS NOT NULL"), sa.text("ended_at IS NOT NULL")
    op.create_index("ix_webhooks_due", "webhooks", ["due_at"], sqlite_where=is_open, postgresql_where=is_open)
    op.create_index("ix_webhooks_thread", "webhooks", ["thread_id"])
    op.create_index("ix_webhooks_ended", "webhooks", ["ended_at"], sqlite_where=is_ended, postgresql_where=is_ended)


def downgrade() -> None:
    op.drop_table("webhooks")
