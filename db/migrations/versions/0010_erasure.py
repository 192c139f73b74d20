"""Messages deleted in Slack can be found in sessions; forgotten people stay forgotten.

Times are microseconds since 1970 UTC; `swarm/store/tables` describes each column.
"""

from __future__ import annotations

import json
from itertools import groupby

from alembic import op
from sqlalchemy import BigInteger, Column, Connection, PrimaryKeyConstraint, Text, text

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "forgotten",
        Column("person", Text, nullable=False),
        Column("forgotten_at", BigInteger, nullable=False),
        PrimaryKeyConstraint("person", name=op.f("pk_forgotten")),
    )
    op.add_column("session_messages", Column("source", Text))
    _name_sources(op.get_bind())
    for name, table, column, where in (
        ("ix_session_messages_source", "session_messages", "source", "source IS NOT NULL"),
        ("ix_thread_messages_deleted", "thread_messages", "deleted_at", "deleted_at IS NOT NULL"),
        ("ix_notices_worded", "notices", "thread_id", "text IS NOT NULL"),
    ):
        op.create_index(name, table, [column], sqlite_where=text(where), postgresql_where=text(where))


def _name_sources(connection: Connection) -> None:
    """Records the sources of each run: the messages that it answered in order, followed by the task that it worked
    on."""
    turns = connection.execute(text("SELECT run_id, entry_ids, task_id FROM turns"))
    answered = {run: [task] if task else json.loads(entries) for run, entries, task in turns}
    asked = connection.execute(
        text(
            "SELECT run, agent, session_id, position FROM session_messages "
            "WHERE role = 'user' AND run IS NOT NULL ORDER BY run, position"
        )
    ).all()
    named = [
        {"source": source, "agent": agent, "session": session, "at": position}
        for run, rows in groupby(asked, key=lambda row: row[0])
        for source, (_, agent, session, position) in zip(answered.get(run, ())[::-1], list(rows)[::-1], strict=False)
    ]
    if named:
        connection.execute(
            text(
                "UPDATE session_messages SET source = :source "
                "WHERE agent = :agent AND session_id = :session AND position = :at"
            ),
            named,
        )


def downgrade() -> None:
    raise NotImplementedError("Older versions would store erased data again; restore a backup.")
