"""Deliveries also give titles to threads of direct messages, and suggest prompts there."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0025"
down_revision = "0024"
branch_labels = None
depends_on = None

_BEFORE = ("post", "update", "delete", "reaction")


def upgrade() -> None:
    connection = op.get_bind()
    before, since = _listed(_BEFORE), _listed((*_BEFORE, "title", "prompts"))
    if connection.dialect.name != "sqlite":
        op.drop_constraint(op.f("ck_deliveries_kind"), "deliveries")
        op.create_check_constraint(op.f("ck_deliveries_kind"), "deliveries", sa.text(since))
        return
    # SQLite can only replace the table. Its definition is changed as text, because Alembic would lose CHECKs.
    schema = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND tbl_name = 'deliveries' AND type = '{}'"
    (definition,) = connection.exec_driver_sql(schema.format("table")).scalars()
    indexes = list(connection.exec_driver_sql(schema.format("index")).scalars())
    names = ", ".join(row[1] for row in connection.exec_driver_sql("PRAGMA table_info(deliveries)"))
    assert before in definition
    _, _, body = definition.replace(before, since).partition("(")
    connection.exec_driver_sql(f"CREATE TABLE deliveries_new ({body}")
    connection.exec_driver_sql(f"INSERT INTO deliveries_new ({names}) SELECT {names} FROM deliveries")  # noqa: S608 - our names
    connection.exec_driver_sql("DROP TABLE deliveries")
    connection.exec_driver_sql("ALTER TABLE deliveries_new RENAME TO deliveries")
    for index in indexes:
        connection.exec_driver_sql(index)


def downgrade() -> None:
    raise NotImplementedError("Older versions do not know titles and prompts; restore a backup.")


def _listed(values: tuple[str, ...]) -> str:
    return f"kind IN ({', '.join(repr(value) for value in values)})"
