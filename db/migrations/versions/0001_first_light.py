"""First light: agents, threads and their transcripts, inbox, leases, notices, deliveries, history.

Times are microseconds since 1970 UTC, documents are JSON text; `swarm/store/tables` describes each column.
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Integer,
    PrimaryKeyConstraint,
    Text,
    TextClause,
    UniqueConstraint,
    text,
)

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

TABLES = (
    "agents",
    "agent_tokens",
    "threads",
    "thread_messages",
    "inbox_messages",
    "inbox_heads",
    "leases",
    "lease_members",
    "notices",
    "receipts",
    "deliveries",
    "history",
)
"""The tables, ordered so that referenced tables come first."""

SERIAL = BigInteger().with_variant(Integer, "sqlite")  # SQLite generates ids only for an INTEGER PRIMARY KEY


def upgrade() -> None:
    _create_agents()
    _create_agent_tokens()
    _create_threads()
    _create_thread_messages()
    _create_inbox_messages()
    _create_inbox_heads()
    _create_leases()
    _create_lease_members()
    _create_notices()
    _create_receipts()
    _create_deliveries()
    _create_history()


def downgrade() -> None:
    for table in reversed(TABLES):
        op.drop_table(table)


def _where(condition: str) -> dict[str, TextClause]:
    """The condition of a partial index, for both engines."""
    return {"sqlite_where": text(condition), "postgresql_where": text(condition)}


def _one_of(table: str, column: str, *values: str) -> CheckConstraint:
    listed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({listed})", name=op.f(f"ck_{table}_{column}"))


def _create_agents() -> None:
    op.create_table(
        "agents",
        Column("id", Text, primary_key=True),
        Column("name", Text, nullable=False),
        Column("role", Text, nullable=False),
        Column("description", Text, nullable=False),
        Column("capabilities", Text, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        Column("last_seen_at", BigInteger),
        Column("revoked_at", BigInteger),
        _one_of("agents", "role", "lead", "worker"),
    )
    op.create_index("uq_agents_name", "agents", ["name"], unique=True, **_where("revoked_at IS NULL"))


def _create_agent_tokens() -> None:
    op.create_table(
        "agent_tokens",
        Column("token_hash", Text, primary_key=True),
        Column("agent_id", Text, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        Column("revoked_at", BigInteger),
        ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("fk_agent_tokens_agent_id")),
    )
    op.create_index("ix_agent_tokens_agent", "agent_tokens", ["agent_id"])


def _create_threads() -> None:
    op.create_table(
        "threads",
        Column("id", Text, primary_key=True),
        Column("team", Text, nullable=False),
        Column("channel", Text, nullable=False),
        Column("thread_ts", Text, nullable=False),
        Column("channel_type", Text, nullable=False),
        Column("owner_id", Text),
        Column("epoch", Integer, nullable=False),
        Column("context", Text, nullable=False),
        Column("context_due_at", BigInteger),
        Column("context_failures", Integer, nullable=False),
        Column("told_queued_at", BigInteger),
        Column("active_at", BigInteger, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        _one_of("threads", "channel_type", "channel", "dm", "group"),
        _one_of("threads", "context", "unknown", "loading", "complete", "stale"),
        ForeignKeyConstraint(["owner_id"], ["agents.id"], name=op.f("fk_threads_owner_id")),
        UniqueConstraint("team", "channel", "thread_ts", name=op.f("uq_threads_place")),
    )
    op.create_index("ix_threads_context_due", "threads", ["context_due_at"], **_where("context_due_at IS NOT NULL"))
    op.create_index("ix_threads_owner", "threads", ["owner_id"])


def _create_thread_messages() -> None:
    op.create_table(
        "thread_messages",
        Column("team", Text, nullable=False),
        Column("channel", Text, nullable=False),
        Column("ts", Text, nullable=False),
        Column("thread_ts", Text, nullable=False),
        Column("author_id", Text, nullable=False),
        Column("author_name", Text),
        Column("author_kind", Text, nullable=False),
        Column("text", Text, nullable=False),
        Column("files", Text, nullable=False),
        Column("edited_ts", Text),
        Column("deleted_at", BigInteger),
        Column("stored_at", BigInteger, nullable=False),
        Column("routed_at", BigInteger),
        PrimaryKeyConstraint("team", "channel", "ts", name=op.f("pk_thread_messages")),
        _one_of("thread_messages", "author_kind", "user", "agent", "bot"),
    )
    op.create_index("ix_thread_messages_thread", "thread_messages", ["team", "channel", "thread_ts", "ts"])


def _create_inbox_messages() -> None:
    op.create_table(
        "inbox_messages",
        Column("id", Text, primary_key=True),
        Column("thread_id", Text, nullable=False),
        Column("agent_id", Text),
        Column("team", Text, nullable=False),
        Column("channel", Text, nullable=False),
        Column("ts", Text, nullable=False),
        Column("status", Text, nullable=False),
        Column("matched_by", Text, nullable=False),
        Column("reason", Text, nullable=False),
        Column("attempts", Integer, nullable=False),
        Column("claims", Integer, nullable=False),
        Column("order_key", BigInteger, nullable=False),
        Column("held_by", Text),
        Column("due_at", BigInteger),
        Column("lease_token", Text),
        Column("created_at", BigInteger, nullable=False),
        Column("resolved_at", BigInteger),
        _one_of("inbox_messages", "held_by", "context", "delay"),
        CheckConstraint("(held_by IS NULL) = (due_at IS NULL)", name=op.f("ck_inbox_messages_held_until")),
        _one_of(
            "inbox_messages",
            "matched_by",
            "mention",
            "direct_message",
            "address",
            "broadcast",
            "thread_owner",
            "thread_owner_offline",
            "channel_agent",
            "alert",
            "readdressed",
        ),
        _one_of(
            "inbox_messages",
            "status",
            "unread",
            "claimed",
            "waiting",
            "responded",
            "delegated",
            "dismissed",
            "withdrawn",
            "dead",
        ),
        ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("fk_inbox_messages_agent_id")),
        ForeignKeyConstraint(["thread_id"], ["threads.id"], name=op.f("fk_inbox_messages_thread_id")),
    )
    op.create_index("ix_inbox_messages_held", "inbox_messages", ["due_at"], **_where("due_at IS NOT NULL"))
    op.create_index("ix_inbox_messages_thread", "inbox_messages", ["thread_id", "ts"])
    op.create_index(
        "ix_inbox_messages_unread", "inbox_messages", ["agent_id", "thread_id", "ts"], **_where("status = 'unread'")
    )
    op.create_index(
        "uq_inbox_messages_message",
        "inbox_messages",
        ["team", "channel", "ts", text("coalesce(agent_id, '')")],
        unique=True,
    )


def _create_inbox_heads() -> None:
    op.create_table(
        "inbox_heads",
        Column("agent_id", Text, nullable=False),
        Column("thread_id", Text, nullable=False),
        Column("order_key", BigInteger, nullable=False),
        PrimaryKeyConstraint("agent_id", "thread_id", name=op.f("pk_inbox_heads")),
        ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("fk_inbox_heads_agent_id")),
        ForeignKeyConstraint(["thread_id"], ["threads.id"], name=op.f("fk_inbox_heads_thread_id")),
    )
    op.create_index("ix_inbox_heads_order", "inbox_heads", ["agent_id", "order_key"])


def _create_leases() -> None:
    op.create_table(
        "leases",
        Column("token", Text, primary_key=True),
        Column("kind", Text, nullable=False),
        Column("agent_id", Text, nullable=False),
        Column("thread_id", Text),
        Column("trigger_id", Text, nullable=False),
        Column("attempt", Integer, nullable=False),
        Column("hold", Boolean, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        Column("expires_at", BigInteger, nullable=False),
        Column("ended_at", BigInteger),
        Column("ended_as", Text),
        CheckConstraint("(ended_at IS NULL) = (ended_as IS NULL)", name=op.f("ck_leases_ended")),
        _one_of("leases", "ended_as", "resolved", "finished", "failed", "released", "expired", "revoked"),
        _one_of("leases", "kind", "work", "notice"),
        CheckConstraint("kind <> 'work' OR thread_id IS NOT NULL", name=op.f("ck_leases_work_has_thread")),
        ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("fk_leases_agent_id")),
        ForeignKeyConstraint(["thread_id"], ["threads.id"], name=op.f("fk_leases_thread_id")),
    )
    op.create_index("ix_leases_ended", "leases", ["ended_at"], **_where("ended_at IS NOT NULL"))
    op.create_index("ix_leases_expiry", "leases", ["expires_at"], **_where("ended_at IS NULL"))
    op.create_index(
        "uq_leases_thread_lock",
        "leases",
        ["thread_id", "agent_id"],
        unique=True,
        **_where("ended_at IS NULL AND kind = 'work'"),
    )


def _create_lease_members() -> None:
    op.create_table(
        "lease_members",
        Column("token", Text, nullable=False),
        Column("inbox_message_id", Text, nullable=False),
        PrimaryKeyConstraint("token", "inbox_message_id", name=op.f("pk_lease_members")),
        ForeignKeyConstraint(
            ["inbox_message_id"], ["inbox_messages.id"], name=op.f("fk_lease_members_inbox_message_id")
        ),
        ForeignKeyConstraint(["token"], ["leases.token"], name=op.f("fk_lease_members_token"), ondelete="CASCADE"),
    )
    op.create_index("ix_lease_members_message", "lease_members", ["inbox_message_id"])


def _create_notices() -> None:
    op.create_table(
        "notices",
        Column("id", Text, primary_key=True),
        Column("kind", Text, nullable=False),
        Column("agent_id", Text, nullable=False),
        Column("thread_id", Text),
        Column("inbox_message_id", Text),
        Column("actor", Text),
        Column("text", Text),
        Column("status", Text, nullable=False),
        Column("attempts", Integer, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        _one_of("notices", "kind", "message_changed", "message_deleted"),
        _one_of("notices", "status", "unread", "claimed", "done", "dropped"),
        ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("fk_notices_agent_id")),
        ForeignKeyConstraint(["inbox_message_id"], ["inbox_messages.id"], name=op.f("fk_notices_inbox_message_id")),
        ForeignKeyConstraint(["thread_id"], ["threads.id"], name=op.f("fk_notices_thread_id")),
    )
    op.create_index("ix_notices_unread", "notices", ["agent_id", "created_at", "id"], **_where("status = 'unread'"))


def _create_receipts() -> None:
    op.create_table(
        "receipts",
        Column("key", Text, primary_key=True),
        Column("result", Text),
        Column("created_at", BigInteger, nullable=False),
    )
    op.create_index("ix_receipts_created", "receipts", ["created_at"])


def _create_deliveries() -> None:
    op.create_table(
        "deliveries",
        Column("seq", SERIAL, primary_key=True, autoincrement=True),
        Column("id", Text, nullable=False),
        Column("kind", Text, nullable=False),
        Column("status", Text, nullable=False),
        Column("thread_id", Text, nullable=False),
        Column("agent_id", Text),
        Column("inbox_message_id", Text),
        Column("channel", Text, nullable=False),
        Column("thread_ts", Text),
        Column("target_ts", Text),
        Column("text", Text, nullable=False),
        Column("broadcast", Boolean, nullable=False),
        Column("once_key", Text),
        Column("attempts", Integer, nullable=False),
        Column("due_at", BigInteger),
        Column("expires_at", BigInteger),
        Column("sent_ts", Text),
        Column("error", Text),
        Column("created_at", BigInteger, nullable=False),
        Column("ended_at", BigInteger),
        CheckConstraint(
            "(due_at IS NULL) = (status IN ('sent', 'failed', 'expired'))", name=op.f("ck_deliveries_due_until_over")
        ),
        _one_of("deliveries", "kind", "post", "update", "delete", "reaction"),
        _one_of("deliveries", "status", "queued", "sending", "unknown", "sent", "failed", "expired"),
        ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("fk_deliveries_agent_id")),
        ForeignKeyConstraint(["inbox_message_id"], ["inbox_messages.id"], name=op.f("fk_deliveries_inbox_message_id")),
        ForeignKeyConstraint(["thread_id"], ["threads.id"], name=op.f("fk_deliveries_thread_id")),
        UniqueConstraint("id", name=op.f("uq_deliveries_id")),
        UniqueConstraint("once_key", name=op.f("uq_deliveries_once_key")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_deliveries_due", "deliveries", ["due_at"], **_where("due_at IS NOT NULL"))
    op.create_index("ix_deliveries_message", "deliveries", ["inbox_message_id"])
    op.create_index("ix_deliveries_open", "deliveries", ["thread_id", "seq"], **_where("due_at IS NOT NULL"))


def _create_history() -> None:
    op.create_table(
        "history",
        Column("seq", SERIAL, primary_key=True, autoincrement=True),
        Column("at", BigInteger, nullable=False),
        Column("subject", Text, nullable=False),
        Column("thread_id", Text),
        Column("change", Text, nullable=False),
        Column("agent_id", Text),
        Column("reason", Text),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_history_subject", "history", ["subject", "seq"])
    op.create_index("ix_history_thread", "history", ["thread_id", "seq"])
    op.create_index("ix_history_threadless", "history", ["thread_id", "at"], **_where("thread_id IS NULL"))
