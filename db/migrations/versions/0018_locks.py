"""One table for all locks: the elected role of a process and the conversations of built-in agents.

Every row keeps its holder and its expiry, and an elected role keeps its term, so the next holder gets a higher one. A
coordinator of an older version that still runs cannot renew and stops before its lease expires, which is when another
process may take the role.
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "locks",
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("holder", sa.Text),
        sa.Column("term", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("kind", "key", name=op.f("pk_locks")),
        sa.CheckConstraint("kind IN ('office', 'conversation')", name=op.f("ck_locks_kind")),
    )
    of_conversations = sa.text("kind = 'conversation'")
    op.create_index(
        "ix_locks_expires",
        "locks",
        ["expires_at"],
        sqlite_where=of_conversations,
        postgresql_where=of_conversations,
    )
    _exclude_others("elections", "conversation_locks")
    op.execute(
        "INSERT INTO locks (kind, key, holder, term, expires_at) "
        "SELECT 'office', role, holder, term, expires_at FROM elections"
    )
    connection = op.get_bind()
    held = connection.execute(sa.text("SELECT * FROM conversation_locks")).mappings().all()
    for row in held:
        key = json.dumps([row["client"], row["agent"], row["conversation"]], ensure_ascii=False, separators=(",", ":"))
        connection.execute(
            sa.text("INSERT INTO locks VALUES ('conversation', :key, :holder, 1, :expires_at)"),
            {"key": key, "holder": row["agui_run_id"], "expires_at": row["expires_at"]},
        )
    op.drop_table("elections")
    op.drop_table("conversation_locks")


def downgrade() -> None:
    op.create_table(
        "elections",
        sa.Column("role", sa.Text, nullable=False),
        sa.Column("holder", sa.Text),
        sa.Column("term", sa.BigInteger, nullable=False),
        sa.Column("since", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("role", name=op.f("pk_elections")),
    )
    op.create_table(
        "conversation_locks",
        sa.Column("client", sa.Text, nullable=False),
        sa.Column("agent", sa.Text, nullable=False),
        sa.Column("conversation", sa.Text, nullable=False),
        sa.Column("agui_run_id", sa.Text, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("client", "agent", "conversation", name=op.f("pk_conversation_locks")),
    )
    op.create_index("ix_conversation_locks_expires", "conversation_locks", ["expires_at"])
    _exclude_others("locks")
    op.execute(
        "INSERT INTO elections (role, holder, term, since, expires_at) "
        "SELECT key, holder, term, expires_at, expires_at FROM locks WHERE kind = 'office'"
    )
    connection = op.get_bind()
    held = sa.text("SELECT key, holder, expires_at FROM locks WHERE kind = 'conversation' AND holder IS NOT NULL")
    for row in connection.execute(held).mappings().all():
        client, agent, conversation = json.loads(row["key"])
        connection.execute(
            sa.text("INSERT INTO conversation_locks VALUES (:client, :agent, :conversation, :holder, :expires_at)"),
            {
                "client": client,
                "agent": agent,
                "conversation": conversation,
                "holder": row["holder"],
                "expires_at": row["expires_at"],
            },
        )
    op.drop_table("locks")


def _exclude_others(*tables: str) -> None:
    """Prevents a renewal between the copy and the drop. On SQLite the migration excludes all other connections."""
    if op.get_bind().dialect.name == "postgresql":
        op.execute(f"LOCK TABLE {', '.join(tables)} IN ACCESS EXCLUSIVE MODE")
