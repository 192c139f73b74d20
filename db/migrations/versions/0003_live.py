"""Live answers: runs of streaming agents with their messages, their questions, and people's feedback.

Times are microseconds since 1970 UTC, documents are JSON text; `swarm/store/tables` describes each column.
"""

from __future__ import annotations

from collections.abc import Iterable

from alembic import op
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Integer,
    PrimaryKeyConstraint,
    Text,
    UniqueConstraint,
    text,
)

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

REACHES = "reach IN ('polling', 'agui', 'builtin')"
TURN_STATUSES = ("running", "closing", "waiting", "answered", "failed", "stopped", "superseded", "abandoned")
TURN_EVENTS = ("opened", "said", "task", "doing", "closed")
INTERRUPT_STATUSES = ("open", "resolved", "dismissed", "expired", "superseded")


def upgrade() -> None:
    _add_reach()
    _create_turns()
    _create_turn_messages()
    _create_turn_events()
    _create_interrupts()
    _create_feedback()
    op.add_column("deliveries", Column("stops_turn_id", Text))
    op.add_column("deliveries", Column("closing", Text))


def downgrade() -> None:
    raise NotImplementedError("Current answers cannot be converted to the older schema; restore a backup.")


def _create_turns() -> None:
    op.create_table(
        "turns",
        Column("id", Text, nullable=False),
        Column("agent_id", Text, nullable=False),
        Column("thread_id", Text),
        Column("lease_token", Text, nullable=False),
        Column("trigger_id", Text, nullable=False),
        Column("entry_ids", Text, nullable=False),
        Column("task_id", Text),
        Column("conversation_id", Text, nullable=False),
        Column("run_id", Text, nullable=False),
        Column("requester", Text),
        Column("status", Text, nullable=False),
        Column("attempt", Integer, nullable=False),
        Column("stop_requested_at", BigInteger),
        Column("stop_requested_by", Text),
        Column("outcome", Text),
        Column("outcome_note", Text),
        Column("final_text", Text),
        Column("final_closing", Text),
        Column("retried_at", BigInteger),
        Column("retried_by", Text),
        Column("started_at", BigInteger, nullable=False),
        Column("ended_at", BigInteger),
        PrimaryKeyConstraint("id", name=op.f("pk_turns")),
        ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("fk_turns_agent_id")),
        ForeignKeyConstraint(["thread_id"], ["threads.id"], name=op.f("fk_turns_thread_id")),
        ForeignKeyConstraint(["task_id"], ["tasks.id"], name=op.f("fk_turns_task_id")),
        CheckConstraint(_listed("status", TURN_STATUSES), name=op.f("ck_turns_status")),
        CheckConstraint(
            _listed("outcome", ("answered", "failed", "stopped", "waiting")), name=op.f("ck_turns_outcome")
        ),
        CheckConstraint(
            "(ended_at IS NULL) = (status IN ('running', 'closing', 'waiting'))", name=op.f("ck_turns_ended")
        ),
        CheckConstraint("status <> 'closing' OR outcome IS NOT NULL", name=op.f("ck_turns_closing_is_known")),
    )
    unfinished = "status IN ('closing', 'running')"
    _create_partial_index("uq_turns_trigger", ["trigger_id"], unfinished, unique=True)
    _create_partial_index("uq_turns_lease", ["lease_token"], unfinished, unique=True)
    _create_partial_index("ix_turns_open", ["id"], "ended_at IS NULL")
    op.create_index("ix_turns_thread", "turns", ["thread_id", "id"])
    op.create_index("ix_turns_task", "turns", ["task_id"])
    _create_partial_index("ix_turns_ended", ["ended_at"], "ended_at IS NOT NULL")


def _create_turn_messages() -> None:
    op.create_table(
        "turn_messages",
        Column("turn_id", Text, nullable=False),
        Column("page", Integer, nullable=False),
        Column("kind", Text, nullable=False),
        Column("ts", Text),
        Column("phase", Text, nullable=False),
        Column("began_at", BigInteger, nullable=False),
        Column("text", Text),
        PrimaryKeyConstraint("turn_id", "page", name=op.f("pk_turn_messages")),
        _of_turn("turn_messages"),
        CheckConstraint(_listed("kind", ("stream", "post")), name=op.f("ck_turn_messages_kind")),
        CheckConstraint(_listed("phase", ("opening", "open", "closed")), name=op.f("ck_turn_messages_phase")),
        CheckConstraint("page >= 1", name=op.f("ck_turn_messages_page")),
        CheckConstraint("phase <> 'open' OR ts IS NOT NULL", name=op.f("ck_turn_messages_open_is_known")),
    )


def _create_turn_events() -> None:
    op.create_table(
        "turn_events",
        Column("turn_id", Text, nullable=False),
        Column("seq", Integer, nullable=False),
        Column("kind", Text, nullable=False),
        Column("payload", Text, nullable=False),
        Column("characters", Integer, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        PrimaryKeyConstraint("turn_id", "seq", name=op.f("pk_turn_events")),
        _of_turn("turn_events"),
        CheckConstraint(_listed("kind", TURN_EVENTS), name=op.f("ck_turn_events_kind")),
        CheckConstraint("(seq = 1) = (kind = 'opened')", name=op.f("ck_turn_events_opened_first")),
    )


def _create_interrupts() -> None:
    op.create_table(
        "interrupts",
        Column("id", Text, nullable=False),
        Column("turn_id", Text, nullable=False),
        Column("agent_interrupt_id", Text, nullable=False),
        Column("prompt", Text, nullable=False),
        Column("payload", Text, nullable=False),
        Column("status", Text, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        Column("ended_at", BigInteger),
        PrimaryKeyConstraint("id", name=op.f("pk_interrupts")),
        _of_turn("interrupts"),
        CheckConstraint(_listed("status", INTERRUPT_STATUSES), name=op.f("ck_interrupts_status")),
        CheckConstraint("(ended_at IS NULL) = (status = 'open')", name=op.f("ck_interrupts_ended")),
    )
    op.create_index("ix_interrupts_turn", "interrupts", ["turn_id", "id"])


def _create_feedback() -> None:
    op.create_table(
        "feedback",
        Column("id", Text, nullable=False),
        Column("turn_id", Text, nullable=False),
        Column("user_id", Text, nullable=False),
        Column("value", Text, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        PrimaryKeyConstraint("id", name=op.f("pk_feedback")),
        UniqueConstraint("turn_id", "user_id", name=op.f("uq_feedback_person")),
        _of_turn("feedback"),
        CheckConstraint(_listed("value", ("up", "down")), name=op.f("ck_feedback_value")),
    )


def _of_turn(table: str) -> ForeignKeyConstraint:
    return ForeignKeyConstraint(["turn_id"], ["turns.id"], name=op.f(f"fk_{table}_turn_id"), ondelete="CASCADE")


def _add_reach() -> None:
    """Adds the column ``reach``. All existing agents poll."""
    if op.get_bind().dialect.name == "sqlite":
        _rebuild_agents()
        return
    op.add_column("agents", Column("reach", Text, nullable=False, server_default="polling"))
    op.create_check_constraint(op.f("ck_agents_reach"), "agents", text(REACHES))


def _rebuild_agents() -> None:
    """Replaces the table, which is how SQLite adds a CHECK. The new definition is derived from the table's own text,
    since Alembic's batches lose CHECKs."""
    connection = op.get_bind()
    schema = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND tbl_name = 'agents' AND type = '{}'"
    (definition,) = connection.exec_driver_sql(schema.format("table")).scalars()
    indexes = list(connection.exec_driver_sql(schema.format("index")).scalars())
    kept = ", ".join(row[1] for row in connection.exec_driver_sql("PRAGMA table_info(agents)"))

    columns, first, constraints = definition.rpartition(")")[0].partition("CONSTRAINT")
    reach = "reach TEXT DEFAULT 'polling' NOT NULL, "
    check = f"CONSTRAINT ck_agents_reach CHECK ({REACHES})"
    body = f"{columns}{reach}{first}{constraints}, {check})"
    connection.exec_driver_sql(body.replace("CREATE TABLE agents", "CREATE TABLE agents_new", 1))
    connection.exec_driver_sql(f"INSERT INTO agents_new ({kept}) SELECT {kept} FROM agents")  # noqa: S608 - our names
    connection.exec_driver_sql("DROP TABLE agents")
    connection.exec_driver_sql("ALTER TABLE agents_new RENAME TO agents")
    for index in indexes:
        connection.exec_driver_sql(index)


def _create_partial_index(name: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    op.create_index(name, "turns", columns, unique=unique, sqlite_where=text(where), postgresql_where=text(where))


def _listed(column: str, values: Iterable[str]) -> str:
    return f"{column} IN ({', '.join(repr(value) for value in values)})"
