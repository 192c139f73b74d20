"""Which program serves an agent, and the logs of runs."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0027"
down_revision = "0026"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "agent_instances",
        sa.Column("agent_id", sa.Text, nullable=False),
        sa.Column("instance_id", sa.Text, nullable=False),
        sa.Column("began_at", sa.BigInteger, nullable=False),
        sa.Column("seen_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("agent_id", name=op.f("pk_agent_instances")),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("fk_agent_instances_agent_id")),
    )
    op.create_table(
        "run_log_pieces",
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("position", sa.BigInteger, nullable=False),
        sa.Column("number", sa.Integer, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("text", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("run_id", "position", name=op.f("pk_run_log_pieces")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_run_log_pieces_run_id"), ondelete="CASCADE"),
        sa.CheckConstraint("position >= 0 AND size > 0", name=op.f("ck_run_log_pieces_place")),
    )
    op.create_index("ix_run_log_pieces_created", "run_log_pieces", ["created_at"])


def downgrade() -> None:
    op.drop_table("run_log_pieces")
    op.drop_table("agent_instances")
