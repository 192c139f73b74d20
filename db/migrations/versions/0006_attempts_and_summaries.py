"""Sessions of built-in agents keep all attempts at a message; summaries of sessions are separate runs.

Times are microseconds since 1970 UTC; `swarm/store/tables` describes each column.
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import BigInteger, Column

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("session_messages", Column("replaced_at", BigInteger))
    # Written as text, since Alembic omits the CHECK of a column that it adds. All existing runs are answers.
    op.execute(
        "ALTER TABLE model_runs ADD COLUMN purpose TEXT DEFAULT 'answer' NOT NULL "
        "CONSTRAINT ck_model_runs_purpose CHECK (purpose IN ('answer', 'summary'))"
    )


def downgrade() -> None:
    raise NotImplementedError("Older versions would show replaced attempts; restore a backup.")
