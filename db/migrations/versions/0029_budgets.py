"""Usage of polling agents beside that of built-in agents, and what people have approved above the budgets."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
branch_labels = None
depends_on = None

_BEFORE = {"door": ("slack", "agui", "cli"), "outcome": ("answered", "failed", "stopped", "limited")}
_ADDED = {"door": "polling", "outcome": "reported"}


def upgrade() -> None:
    _widen()
    op.add_column("model_usage", sa.Column("thread_id", sa.Text))
    op.execute(
        "UPDATE model_usage SET thread_id = (SELECT runs.thread_id FROM runs WHERE runs.id = model_usage.run_id) "
        "WHERE run_id <> ''"
    )
    for name, column, where in (
        ("ix_model_usage_thread", "thread_id", sa.text("thread_id IS NOT NULL")),
        ("ix_model_usage_run", "run_id", sa.text("run_id != ''")),
    ):
        op.create_index(name, "model_usage", [column], sqlite_where=where, postgresql_where=where)
    op.create_table(
        "budget_raises",
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("unit", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("new_limit", sa.BigInteger, nullable=False),
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("raised_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("scope", "unit", "subject", name=op.f("pk_budget_raises")),
        sa.CheckConstraint("scope IN ('run', 'thread', 'agent', 'day')", name=op.f("ck_budget_raises_scope")),
        sa.CheckConstraint("unit IN ('tokens', 'dollars')", name=op.f("ck_budget_raises_unit")),
    )
    op.create_index("ix_budget_raises_raised", "budget_raises", ["raised_at"])


def downgrade() -> None:
    raise NotImplementedError("Older versions do not know the usage of polling agents; restore a backup.")


def _widen() -> None:
    """Lets the usage be that of a polling agent."""
    connection = op.get_bind()
    if connection.dialect.name != "sqlite":
        for column, before in _BEFORE.items():
            name = op.f(f"ck_model_usage_{column}")
            op.drop_constraint(name, "model_usage")
            op.create_check_constraint(name, "model_usage", sa.text(_listed(column, (*before, _ADDED[column]))))
        return
    # SQLite can only replace the table. Its definition is changed as text, because Alembic would lose CHECKs.
    schema = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND tbl_name = 'model_usage' AND type = '{}'"
    (definition,) = connection.exec_driver_sql(schema.format("table")).scalars()
    indexes = list(connection.exec_driver_sql(schema.format("index")).scalars())
    names = ", ".join(row[1] for row in connection.exec_driver_sql("PRAGMA table_info(model_usage)"))
    for column, before in _BEFORE.items():
        assert _listed(column, before) in definition
        definition = definition.replace(_listed(column, before), _listed(column, (*before, _ADDED[column])))
    _, _, body = definition.partition("(")
    connection.exec_driver_sql(f"CREATE TABLE model_usage_new ({body}")
    connection.exec_driver_sql(f"INSERT INTO model_usage_new ({names}) SELECT {names} FROM model_usage")  # noqa: S608 - our names
    connection.exec_driver_sql("DROP TABLE model_usage")
    connection.exec_driver_sql("ALTER TABLE model_usage_new RENAME TO model_usage")
    for index in indexes:
        connection.exec_driver_sql(index)


def _listed(column: str, values: tuple[str, ...]) -> str:
    return f"{column} IN ({', '.join(repr(value) for value in values)})"
