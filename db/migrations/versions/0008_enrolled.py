"""Agents record whether an enrolment key registered them; ended tokens are indexed by their end.

It is not known how existing workers were registered, so they count as enrolled.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy import Boolean, Column

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("agents", Column("enrolled", Boolean, nullable=False, server_default=sa.false()))
    op.execute(sa.text("UPDATE agents SET enrolled = true WHERE role = 'worker' AND reach = 'polling'"))
    has_ended = sa.text("revoked_at IS NOT NULL")
    op.create_index(
        "ix_agent_tokens_revoked",
        "agent_tokens",
        ["revoked_at"],
        sqlite_where=has_ended,
        postgresql_where=has_ended,
    )


def downgrade() -> None:
    op.drop_index("ix_agent_tokens_revoked", table_name="agent_tokens")
    op.drop_column("agents", "enrolled")
