"""The team: tasks and their dependencies, messages between agents, elections, and queues and leases of tasks.

Times are microseconds since 1970 UTC; `swarm/store/tables` describes each column.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from alembic import op
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Integer,
    PrimaryKeyConstraint,
    Text,
    text,
)

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

NOTICES_BEFORE = ("message_changed", "message_deleted")
NOTICES_SINCE = (
    "task_follow_up",
    "task_offered",
    "task_declined",
    "task_finished",
    "task_cancelled",
    "task_returned",
    "agent_message",
)
TASK_STATUSES = (
    "offered", "blocked", "unassigned", "pending", "in_progress", "waiting",
    "completed", "failed", "declined", "cancelled", "dead",
)  # fmt: skip
ENDS_BEFORE = ("resolved", "finished", "failed", "released", "expired", "revoked")
WORK_BEFORE = "kind <> 'work' OR thread_id IS NOT NULL"
WORK_SINCE = "kind <> 'work' OR coalesce(thread_id, task_id) IS NOT NULL"


def upgrade() -> None:
    _create_tasks()
    _create_task_dependencies()
    _create_agent_messages()
    _create_elections()
    _create_early_messages()
    _replace_inbox_heads()
    _change("inbox_messages", refer={"task_id": "tasks"})
    _change(
        "leases",
        refer={"task_id": "tasks"},
        drop={"ck_leases_work_has_thread": WORK_BEFORE, "ck_leases_ended_as": _listed("ended_as", ENDS_BEFORE)},
        add={
            "ck_leases_work_is_about": WORK_SINCE,
            "ck_leases_ended_as": _listed("ended_as", (*ENDS_BEFORE, "cancelled")),
        },
    )
    _change(
        "notices",
        refer={"task_id": "tasks", "agent_message_id": "agent_messages"},
        drop={"ck_notices_kind": _listed("kind", NOTICES_BEFORE)},
        add={"ck_notices_kind": _listed("kind", (*NOTICES_BEFORE, *NOTICES_SINCE))},
    )
    _change("deliveries", refer={"task_id": "tasks"}, columns=("updates_id", "stops_task_id"))
    op.create_index("ix_inbox_messages_task", "inbox_messages", ["task_id"])
    _create_partial_index("ix_inbox_messages_dead", ["id"], "status = 'dead'", table="inbox_messages")
    op.create_index("ix_deliveries_task", "deliveries", ["task_id"])
    _create_partial_index(
        "ix_notices_agent_message", ["agent_message_id"], "agent_message_id IS NOT NULL", table="notices"
    )


def downgrade() -> None:
    raise NotImplementedError("Current work cannot be converted to the older schema; restore a backup instead.")


def _create_tasks() -> None:
    op.create_table(
        "tasks",
        Column("id", Text, nullable=False),
        Column("thread_id", Text),
        Column("lane_id", Text, nullable=False),
        Column("title", Text, nullable=False),
        Column("description", Text, nullable=False),
        Column("status", Text, nullable=False),
        Column("priority", Integer, nullable=False),
        Column("agent_id", Text),
        Column("created_by", Text),
        Column("requester", Text),
        Column("parent_id", Text),
        Column("depth", Integer, nullable=False),
        Column("inbox_message_id", Text),
        Column("epoch", Integer),
        Column("attempts", Integer, nullable=False),
        Column("claims", Integer, nullable=False),
        Column("order_key", BigInteger, nullable=False),
        Column("held_by", Text),
        Column("due_at", BigInteger),
        Column("offer_ends_at", BigInteger),
        Column("lease_token", Text),
        Column("progress", Text),
        Column("percent", Integer),
        Column("result", Text),
        Column("error", Text),
        Column("created_at", BigInteger, nullable=False),
        Column("started_at", BigInteger),
        Column("ended_at", BigInteger),
        PrimaryKeyConstraint("id", name=op.f("pk_tasks")),
        ForeignKeyConstraint(["thread_id"], ["threads.id"], name=op.f("fk_tasks_thread_id")),
        ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("fk_tasks_agent_id")),
        ForeignKeyConstraint(["created_by"], ["agents.id"], name=op.f("fk_tasks_created_by")),
        ForeignKeyConstraint(["parent_id"], ["tasks.id"], name=op.f("fk_tasks_parent_id")),
        CheckConstraint(_listed("status", TASK_STATUSES), name=op.f("ck_tasks_status")),
        CheckConstraint(_listed("held_by", ("delay",)), name=op.f("ck_tasks_held_by")),
        CheckConstraint("priority BETWEEN 0 AND 100", name=op.f("ck_tasks_priority")),
        CheckConstraint("percent BETWEEN 0 AND 100", name=op.f("ck_tasks_percent")),
        CheckConstraint("lane_id = coalesce(thread_id, id)", name=op.f("ck_tasks_lane")),
        CheckConstraint("(held_by IS NULL) = (due_at IS NULL)", name=op.f("ck_tasks_held_until")),
        CheckConstraint("(status = 'offered') = (offer_ends_at IS NOT NULL)", name=op.f("ck_tasks_offer_ends")),
        CheckConstraint(
            "status NOT IN ('offered', 'pending', 'in_progress', 'waiting') OR agent_id IS NOT NULL",
            name=op.f("ck_tasks_somebody_has_it"),
        ),
    )
    _create_partial_index("ix_tasks_lane", ["agent_id", "lane_id"], "ended_at IS NULL")
    op.create_index("ix_tasks_thread", "tasks", ["thread_id"])
    op.create_index("ix_tasks_status", "tasks", ["status", "id"])
    op.create_index("ix_tasks_agent", "tasks", ["agent_id", "id"])
    op.create_index("ix_tasks_created", "tasks", ["created_by", "id"])
    op.create_index("ix_tasks_parent", "tasks", ["parent_id"])
    _create_partial_index("ix_tasks_creator", ["created_by"], "ended_at IS NULL")
    _create_partial_index("ix_tasks_held", ["due_at"], "due_at IS NOT NULL")
    _create_partial_index("ix_tasks_offered", ["offer_ends_at"], "offer_ends_at IS NOT NULL")


def _create_task_dependencies() -> None:
    op.create_table(
        "task_dependencies",
        Column("task_id", Text, nullable=False),
        Column("depends_on_id", Text, nullable=False),
        PrimaryKeyConstraint("task_id", "depends_on_id", name=op.f("pk_task_dependencies")),
        ForeignKeyConstraint(["task_id"], ["tasks.id"], name=op.f("fk_task_dependencies_task_id")),
        ForeignKeyConstraint(["depends_on_id"], ["tasks.id"], name=op.f("fk_task_dependencies_depends_on_id")),
        CheckConstraint("task_id <> depends_on_id", name=op.f("ck_task_dependencies_not_itself")),
    )
    op.create_index("ix_task_dependencies_on", "task_dependencies", ["depends_on_id"])


def _create_agent_messages() -> None:
    op.create_table(
        "agent_messages",
        Column("id", Text, nullable=False),
        Column("channel", Text),
        Column("recipient_id", Text),
        Column("sender_id", Text, nullable=False),
        Column("text", Text, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        PrimaryKeyConstraint("id", name=op.f("pk_agent_messages")),
        ForeignKeyConstraint(["recipient_id"], ["agents.id"], name=op.f("fk_agent_messages_recipient_id")),
        ForeignKeyConstraint(["sender_id"], ["agents.id"], name=op.f("fk_agent_messages_sender_id")),
        CheckConstraint("(channel IS NULL) <> (recipient_id IS NULL)", name=op.f("ck_agent_messages_somewhere")),
    )
    op.create_index("ix_agent_messages_channel", "agent_messages", ["channel", "id"])
    op.create_index("ix_agent_messages_recipient", "agent_messages", ["recipient_id", "id"])
    op.create_index("ix_agent_messages_sender", "agent_messages", ["sender_id", "id"])
    op.create_table(
        "agent_message_addressees",
        Column("message_id", Text, nullable=False),
        Column("agent_id", Text, nullable=False),
        Column("read_at", BigInteger),
        PrimaryKeyConstraint("message_id", "agent_id", name=op.f("pk_agent_message_addressees")),
        ForeignKeyConstraint(
            ["message_id"],
            ["agent_messages.id"],
            name=op.f("fk_agent_message_addressees_message_id"),
            ondelete="CASCADE",
        ),
        ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("fk_agent_message_addressees_agent_id")),
    )
    _create_partial_index(
        "ix_agent_message_addressees_unread", ["agent_id"], "read_at IS NULL", table="agent_message_addressees"
    )


def _create_elections() -> None:
    op.create_table(
        "elections",
        Column("role", Text, nullable=False),
        Column("holder", Text),
        Column("term", BigInteger, nullable=False),
        Column("since", BigInteger, nullable=False),
        Column("expires_at", BigInteger, nullable=False),
        PrimaryKeyConstraint("role", name=op.f("pk_elections")),
    )


def _create_early_messages() -> None:
    op.create_table(
        "early_messages",
        Column("team", Text, nullable=False),
        Column("channel", Text, nullable=False),
        Column("thread_ts", Text, nullable=False),
        Column("ts", Text, nullable=False),
        Column("message", Text, nullable=False),
        Column("stored_at", BigInteger, nullable=False),
        PrimaryKeyConstraint("team", "channel", "thread_ts", "ts", name=op.f("pk_early_messages")),
    )
    op.create_index("ix_early_messages_stored", "early_messages", ["stored_at"])


def _replace_inbox_heads() -> None:
    """Replaces the table of heads. Heads can be derived from the messages, so the table is recreated instead of
    changed."""
    op.drop_table("inbox_heads")
    op.create_table(
        "inbox_heads",
        Column("agent_id", Text, nullable=False),
        Column("lane_id", Text, nullable=False),
        Column("order_key", BigInteger, nullable=False),
        PrimaryKeyConstraint("agent_id", "lane_id", name=op.f("pk_inbox_heads")),
        ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("fk_inbox_heads_agent_id")),
    )
    op.create_index("ix_inbox_heads_order", "inbox_heads", ["agent_id", "order_key"])
    op.execute(
        "INSERT INTO inbox_heads (agent_id, lane_id, order_key) "
        "SELECT agent_id, thread_id, min(order_key) FROM inbox_messages "
        "WHERE status = 'unread' AND held_by IS NULL AND agent_id IS NOT NULL GROUP BY agent_id, thread_id"
    )


def _create_partial_index(name: str, columns: list[str], where: str, *, table: str = "tasks") -> None:
    op.create_index(name, table, columns, sqlite_where=text(where), postgresql_where=text(where))


def _listed(column: str, values: Iterable[str]) -> str:
    return f"{column} IN ({', '.join(repr(value) for value in values)})"


def _change(
    table: str,
    *,
    refer: Mapping[str, str],
    columns: Iterable[str] = (),
    drop: Mapping[str, str] | None = None,
    add: Mapping[str, str] | None = None,
) -> None:
    """Adds columns, and replaces CHECKs by name. ``refer`` has the columns that refer to the ids of a table."""
    if op.get_bind().dialect.name == "sqlite":
        _rebuild(table, refer, columns, drop or {}, add or {})
        return
    for column in (*refer, *columns):
        op.add_column(table, Column(column, Text))
    for column, target in refer.items():
        op.create_foreign_key(op.f(f"fk_{table}_{column}"), table, target, [column], ["id"])
    for name in drop or {}:
        op.drop_constraint(op.f(name), table)
    for name, condition in (add or {}).items():
        op.create_check_constraint(op.f(name), table, text(condition))


def _rebuild(
    table: str, refer: Mapping[str, str], columns: Iterable[str], drop: Mapping[str, str], add: Mapping[str, str]
) -> None:
    """Replaces a table, which is how SQLite changes one. The new definition is derived from the table's own text, since
    Alembic's batches lose CHECKs and indexes."""
    connection = op.get_bind()
    schema = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND tbl_name = '{}' AND type = '{}'"
    (definition,) = connection.exec_driver_sql(schema.format(table, "table")).scalars()
    indexes = list(connection.exec_driver_sql(schema.format(table, "index")).scalars())
    names = [row[1] for row in connection.exec_driver_sql(f"PRAGMA table_info({table})")]

    for name, condition in drop.items():
        definition = _without(definition, f"CONSTRAINT {name} CHECK ({condition})")
    head, first, constraints = definition.rpartition(")")[0].partition("CONSTRAINT")
    new_columns = "".join(f"{column} TEXT, " for column in (*refer, *columns))
    new_constraints = [
        *(f"CONSTRAINT {name} CHECK ({condition})" for name, condition in add.items()),
        *(f"CONSTRAINT fk_{table}_{column} FOREIGN KEY({column}) REFERENCES {to} (id)" for column, to in refer.items()),
    ]
    body = f"{head}{new_columns}{', '.join([f'{first}{constraints}', *new_constraints])})"
    connection.exec_driver_sql(body.replace(f"CREATE TABLE {table}", f"CREATE TABLE {table}_new", 1))
    kept = ", ".join(names)
    connection.exec_driver_sql(f"INSERT INTO {table}_new ({kept}) SELECT {kept} FROM {table}")  # noqa: S608 - our names
    connection.exec_driver_sql(f"DROP TABLE {table}")
    connection.exec_driver_sql(f"ALTER TABLE {table}_new RENAME TO {table}")
    for index in indexes:
        connection.exec_driver_sql(index)


def _without(definition: str, constraint: str) -> str:
    start = definition.index(constraint)
    end = definition.find("CONSTRAINT", start + len(constraint))
    if end < 0:
        return definition[:start].rstrip().rstrip(",") + ")"
    return definition[:start] + definition[end:]
