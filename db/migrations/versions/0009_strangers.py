"""People and their message counts; messages are marked with their author's standing; posts for one person.

Times are microseconds since 1970 UTC; `swarm/store/tables` describes each column.
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Boolean, CheckConstraint, Column, PrimaryKeyConstraint, Text, false, text

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None

_STANDINGS = "('member', 'guest', 'external', 'unverified', 'not_allowed')"


def upgrade() -> None:
    # Written as text, since Alembic omits the CHECK of a column that it adds. The authors of existing messages have not
    # been verified.
    op.execute(
        "ALTER TABLE thread_messages ADD COLUMN standing TEXT DEFAULT 'unverified' NOT NULL "
        f"CONSTRAINT ck_thread_messages_standing CHECK (standing IN {_STANDINGS})"
    )
    op.execute("UPDATE thread_messages SET standing = 'member' WHERE author_kind = 'agent'")
    op.add_column("early_messages", Column("verify_at", BigInteger))
    is_unverified = text("verify_at IS NOT NULL")
    op.create_index(
        "ix_early_messages_verify",
        "early_messages",
        ["verify_at"],
        sqlite_where=is_unverified,
        postgresql_where=is_unverified,
    )
    op.create_table(
        "people",
        Column("team", Text, nullable=False),
        Column("user_id", Text, nullable=False),
        Column("standing", Text),
        Column("verified_at", BigInteger),
        Column("window_started_at", BigInteger),
        Column("window_count", BigInteger, nullable=False, server_default="0"),
        PrimaryKeyConstraint("team", "user_id", name=op.f("pk_people")),
        CheckConstraint(f"standing IN {_STANDINGS}", name=op.f("ck_people_standing")),
    )
    op.add_column("deliveries", Column("person", Text))
    op.add_column("tasks", Column("by_strangers", Boolean, nullable=False, server_default=false()))


def downgrade() -> None:
    raise NotImplementedError(
        "Older versions would show everyone posts that are meant for one person; restore a backup."
    )
