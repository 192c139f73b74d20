"""Feedback on every answer, with its reason, and the text before a message that is answered again.

Opinions stored so far keep their run, from which the other columns are filled in.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None

_OPINIONS = ("up", "down")
_REASONS = ("more_detail", "briefer", "wrong_answer", "other")


def upgrade() -> None:
    op.add_column("runs", sa.Column("trace_id", sa.Text))
    op.add_column("inbox_messages", sa.Column("instruction", sa.Text))
    op.add_column("tasks", sa.Column("instruction", sa.Text))
    op.rename_table("feedback", "feedback_before")
    if op.get_bind().dialect.name != "sqlite":  # names of constraints are unique in a PostgreSQL schema
        for name in ("pk_feedback", "uq_feedback_person", "fk_feedback_run_id"):
            op.execute(f"ALTER TABLE feedback_before RENAME CONSTRAINT {op.f(name)} TO {name}_before")
    _create()
    op.execute(
        "INSERT INTO feedback (id, answer_id, run_id, conversation_id, agent_id, thread_id, channel, message_ts, "
        "user_id, value, created_at) SELECT f.id, f.run_id, f.run_id, r.conversation_id, r.agent_id, r.thread_id, "
        "t.channel, coalesce((SELECT max(m.ts) FROM run_messages m WHERE m.run_id = r.id), t.thread_ts), f.user_id, "
        "f.value, f.created_at FROM feedback_before f JOIN runs r ON r.id = f.run_id JOIN threads t "
        "ON t.id = r.thread_id"
    )
    op.drop_table("feedback_before")


def downgrade() -> None:
    raise NotImplementedError("Older versions do not know answers without a run; restore a backup.")


def _create() -> None:
    op.create_table(
        "feedback",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("answer_id", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text),
        sa.Column("trace_id", sa.Text),
        sa.Column("conversation_id", sa.Text, nullable=False),
        sa.Column("agent_id", sa.Text, nullable=False),
        sa.Column("thread_id", sa.Text, nullable=False),
        sa.Column("channel", sa.Text, nullable=False),
        sa.Column("message_ts", sa.Text, nullable=False),
        sa.Column("user_id", sa.Text, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("reason", sa.Text),
        sa.Column("comment", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_feedback")),
        sa.UniqueConstraint("answer_id", "user_id", name=op.f("uq_feedback_person")),
        sa.ForeignKeyConstraint(["run_id"], ["runs.id"], name=op.f("fk_feedback_run_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("fk_feedback_agent_id")),
        sa.ForeignKeyConstraint(["thread_id"], ["threads.id"], name=op.f("fk_feedback_thread_id")),
        sa.CheckConstraint(_listed("value", _OPINIONS), name=op.f("ck_feedback_value")),
        sa.CheckConstraint(_listed("reason", _REASONS), name=op.f("ck_feedback_reason")),
        sa.CheckConstraint("reason IS NULL OR value = 'down'", name=op.f("ck_feedback_reason_of_down")),
        sa.CheckConstraint("comment IS NULL OR reason IS NOT NULL", name=op.f("ck_feedback_comment_on_reason")),
    )
    op.create_index("ix_feedback_created", "feedback", ["created_at", "id"])
    op.create_index("ix_feedback_thread", "feedback", ["thread_id"])
    op.create_index("ix_feedback_run", "feedback", ["run_id"])


def _listed(column: str, values: tuple[str, ...]) -> str:
    return f"{column} IN ({', '.join(repr(value) for value in values)})"
