"""Escalations: who has asked for a human in a thread, and who is on call."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "escalations",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("thread_id", sa.Text, nullable=False),
        sa.Column("door", sa.Text, nullable=False),
        sa.Column("person", sa.Text),
        sa.Column("agent_id", sa.Text),
        sa.Column("reason", sa.Text, nullable=False),
        sa.Column("emoji", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("on_call", sa.Text),
        sa.Column("on_call_task_id", sa.Text),
        sa.Column("on_call_team", sa.Text, nullable=False),
        sa.Column("on_call_person", sa.Text),
        sa.Column("on_call_note", sa.Text),
        sa.Column("on_call_ends_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_escalations")),
        sa.UniqueConstraint("thread_id", name=op.f("uq_escalations_thread_id")),
        sa.ForeignKeyConstraint(["thread_id"], ["threads.id"], name=op.f("fk_escalations_thread_id")),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("fk_escalations_agent_id")),
        sa.ForeignKeyConstraint(["on_call_task_id"], ["tasks.id"], name=op.f("fk_escalations_on_call_task_id")),
        sa.CheckConstraint("door IN ('button', 'tool', 'dead_letter')", name=op.f("ck_escalations_door")),
        sa.CheckConstraint("on_call IN ('asked', 'found', 'not_found')", name=op.f("ck_escalations_on_call")),
        sa.CheckConstraint(
            "on_call <> 'asked' OR on_call_ends_at IS NOT NULL", name=op.f("ck_escalations_on_call_ends_at")
        ),
    )
    asked = sa.text("on_call = 'asked'")
    op.create_index("ix_escalations_asked", "escalations", ["id"], sqlite_where=asked, postgresql_where=asked)
    op.create_index("ix_escalations_task", "escalations", ["on_call_task_id"])


def downgrade() -> None:
    op.drop_table("escalations")
