"""Tables and columns use the terms of `docs/glossary.md`: runs, conversation locks, queue heads, model usage.

Only names change. On PostgreSQL each renamed table is locked until the end of the transaction, for milliseconds. On
SQLite no row is copied, and renamed indexes are recreated. The stored blocks below texts name their run as well:
deliveries are read once, and those with blocks are rewritten. Coordinators of an older version do not know these names
and must be stopped first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from alembic import op
from sqlalchemy import Connection, text

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None

TABLES = {
    "turns": "runs",
    "turn_messages": "run_messages",
    "turn_events": "run_events",
    "talks": "conversation_locks",
    "receipts": "idempotency_keys",
    "inbox_heads": "queue_heads",
    "model_runs": "model_usage",
}
# Other tables refer to a run by `run_id`; the AG-UI id, which had that name, becomes `agui_run_id`.
COLUMNS = (
    ("turns", "run_id", "agui_run_id"),
    ("turns", "entry_ids", "inbox_message_ids"),
    ("talks", "run_id", "agui_run_id"),
    ("session_messages", "run", "agui_run_id"),
    ("turn_messages", "turn_id", "run_id"),
    ("turn_events", "turn_id", "run_id"),
    ("interrupts", "turn_id", "run_id"),
    ("feedback", "turn_id", "run_id"),
    ("model_runs", "turn_id", "run_id"),
    ("deliveries", "stops_turn_id", "stops_run_id"),
    ("deliveries", "once_key", "idempotency_key"),
    ("tasks", "held_by", "delay_reason"),
    ("inbox_messages", "held_by", "delay_reason"),
    ("threads", "told_queued_at", "queued_notice_at"),
)
# The parts of constraint and index names that change, and complete names.
PARTS = {
    **TABLES,
    "turn_id": "run_id",
    "run_id": "agui_run_id",
    "entry_ids": "inbox_message_ids",  # since version 18 PostgreSQL names NOT NULL as well
    "once_key": "idempotency_key",
    "held_by": "delay_reason",
    "held_until": "delay_ends",
    "ix_interrupts_turn": "ix_interrupts_run",
    "ix_tasks_held": "ix_tasks_delayed",
    "ix_inbox_messages_held": "ix_inbox_messages_delayed",
}
# The key in the JSON of `deliveries.closing`; within a text its quotes would be escaped.
KEYS = ('"turn_id":', '"run_id":')


def upgrade() -> None:
    _rename_key(*KEYS)
    for table, old, new in COLUMNS:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {old} TO {new}")
    for old, new in TABLES.items():
        op.execute(f"ALTER TABLE {old} RENAME TO {new}")
    _rename_parts({TABLES.get(table, table) for table, _, _ in COLUMNS} | set(TABLES.values()), PARTS)


def downgrade() -> None:
    _rename_key(*reversed(KEYS))
    for old, new in TABLES.items():
        op.execute(f"ALTER TABLE {new} RENAME TO {old}")
    for table, old, new in COLUMNS:
        op.execute(f"ALTER TABLE {table} RENAME COLUMN {new} TO {old}")
    _rename_parts({table for table, _, _ in COLUMNS} | set(TABLES), {new: old for old, new in PARTS.items()})


def _rename_key(old: str, new: str) -> None:
    change = "UPDATE deliveries SET closing = replace(closing, :old, :new) WHERE closing LIKE :part"
    op.get_bind().execute(text(change), {"old": old, "new": new, "part": f"%{old}%"})


def _rename_parts(tables: set[str], parts: Mapping[str, str]) -> None:
    """Renames the constraints and indexes of these tables."""
    longest_first = "|".join(sorted(parts, key=len, reverse=True))
    pattern = re.compile(f"(?<![a-z])(?:{longest_first})(?![a-z])")
    connection = op.get_bind()
    rename = _on_sqlite if connection.dialect.name == "sqlite" else _on_postgresql
    rename(connection, tables, lambda name: pattern.sub(lambda found: parts[found.group()], name))


def _on_postgresql(connection: Connection, tables: set[str], renamed: Callable[[str], str]) -> None:
    constraints = text(
        "SELECT relname, conname FROM pg_constraint JOIN pg_class ON pg_class.oid = conrelid "
        "WHERE connamespace = current_schema()::regnamespace AND relname = ANY (:tables)"
    )
    indexes = text("SELECT indexname FROM pg_indexes WHERE schemaname = current_schema() AND tablename = ANY (:tables)")
    found = connection.execute(constraints, {"tables": list(tables)}).all()
    others = set(connection.execute(indexes, {"tables": list(tables)}).scalars()) - {name for _, name in found}
    for table, name in found:
        if renamed(name) != name:  # the index of a key is renamed with the key
            op.execute(f"ALTER TABLE {table} RENAME CONSTRAINT {name} TO {renamed(name)}")
    for name in others:
        if renamed(name) != name:
            op.execute(f"ALTER INDEX {name} RENAME TO {renamed(name)}")


def _on_sqlite(connection: Connection, tables: set[str], renamed: Callable[[str], str]) -> None:
    """Renames constraints on SQLite, which has no statement for this. According to its documentation, editing the text
    of the schema is safe for changes that do not affect stored rows.

    SQLite in defensive mode, as on macOS, refuses the edit. The constraints then keep their old names, which are never
    read.
    """
    schema = "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL"
    entries = [entry for entry in connection.exec_driver_sql(schema).all() if entry.tbl_name in tables]
    for kind, name, _, definition in entries:
        if kind == "index" and renamed(name) != name:
            connection.exec_driver_sql(f"DROP INDEX {name}")
            connection.exec_driver_sql(definition.replace(name, renamed(name), 1))
    version = connection.exec_driver_sql("PRAGMA schema_version").scalar_one()
    connection.exec_driver_sql("PRAGMA writable_schema = ON")
    if connection.exec_driver_sql("PRAGMA writable_schema").scalar_one():
        for kind, name, _, definition in entries:
            if kind == "table":
                changed = re.sub(r"(?<=CONSTRAINT )\w+", lambda found: renamed(found.group()), definition)
                connection.execute(
                    text("UPDATE sqlite_schema SET sql = :sql WHERE type = 'table' AND name = :name"),
                    {"sql": changed, "name": name},
                )
        # A new version makes every connection read the schema again.
        connection.exec_driver_sql(f"PRAGMA schema_version = {version + 1}")
    connection.exec_driver_sql("PRAGMA writable_schema = OFF")
