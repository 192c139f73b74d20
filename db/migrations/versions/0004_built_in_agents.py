"""Built-in agents: their sessions, and the usage of their runs.

Times are microseconds since 1970 UTC, documents are JSON text; `swarm/store/tables` describes each column.
"""

from __future__ import annotations

from collections.abc import Iterable

from alembic import op
from sqlalchemy import BigInteger, CheckConstraint, Column, ForeignKeyConstraint, Integer, PrimaryKeyConstraint, Text

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

ROLES = ("user", "assistant", "system", "tool_use", "tool_result")


def upgrade() -> None:
    _create_sessions()
    _create_session_messages()
    _create_model_runs()


def downgrade() -> None:
    raise NotImplementedError("Agents' sessions cannot be converted to the older schema; restore a backup.")


def _create_sessions() -> None:
    op.create_table(
        "sessions",
        Column("agent", Text, nullable=False),
        Column("id", Text, nullable=False),
        Column("metadata", Text, nullable=False),
        Column("edition", Integer, nullable=False),
        Column("summary", Text),
        Column("summarised_to", BigInteger, nullable=False),
        Column("summarised_at", BigInteger),
        Column("created_at", BigInteger, nullable=False),
        Column("updated_at", BigInteger, nullable=False),
        PrimaryKeyConstraint("agent", "id", name=op.f("pk_sessions")),
        CheckConstraint(
            "(summary IS NULL) = (summarised_to = 0) AND (summary IS NULL) = (summarised_at IS NULL)",
            name=op.f("ck_sessions_summarised"),
        ),
    )
    op.create_index("ix_sessions_updated", "sessions", ["updated_at"])


def _create_session_messages() -> None:
    op.create_table(
        "session_messages",
        Column("agent", Text, nullable=False),
        Column("session_id", Text, nullable=False),
        Column("position", BigInteger, nullable=False),
        Column("role", Text, nullable=False),
        Column("content", Text, nullable=False),
        Column("run", Text),
        Column("created_at", BigInteger, nullable=False),
        PrimaryKeyConstraint("agent", "session_id", "position", name=op.f("pk_session_messages")),
        ForeignKeyConstraint(
            ["agent", "session_id"],
            ["sessions.agent", "sessions.id"],
            name=op.f("fk_session_messages_agent"),
            ondelete="CASCADE",
        ),
        CheckConstraint(_listed("role", ROLES), name=op.f("ck_session_messages_role")),
        CheckConstraint("position >= 1", name=op.f("ck_session_messages_position")),
    )


def _create_model_runs() -> None:
    op.create_table(
        "model_runs",
        Column("id", Text, nullable=False),
        Column("agent", Text, nullable=False),
        Column("door", Text, nullable=False),
        Column("session_id", Text, nullable=False),
        Column("turn_id", Text, nullable=False),
        Column("requester", Text, nullable=False),
        Column("model", Text, nullable=False),
        Column("outcome", Text, nullable=False),
        Column("note", Text, nullable=False),
        Column("requests", BigInteger, nullable=False),
        Column("input_tokens", BigInteger, nullable=False),
        Column("output_tokens", BigInteger, nullable=False),
        Column("cache_read_tokens", BigInteger, nullable=False),
        Column("cache_write_tokens", BigInteger, nullable=False),
        Column("tool_calls", BigInteger, nullable=False),
        Column("cost_microdollars", BigInteger),
        Column("started_at", BigInteger, nullable=False),
        Column("ended_at", BigInteger, nullable=False),
        PrimaryKeyConstraint("id", name=op.f("pk_model_runs")),
        CheckConstraint(_listed("door", ("slack", "agui", "cli")), name=op.f("ck_model_runs_door")),
        CheckConstraint(
            _listed("outcome", ("answered", "failed", "stopped", "limited")), name=op.f("ck_model_runs_outcome")
        ),
    )
    op.create_index("ix_model_runs_ended", "model_runs", ["ended_at", "id"])
    op.create_index("ix_model_runs_agent", "model_runs", ["agent", "ended_at", "id"])


def _listed(column: str, values: Iterable[str]) -> str:
    return f"{column} IN ({', '.join(repr(value) for value in values)})"
