"""Silent threads and messages: nobody has asked, so nothing is shown before an answer that the agent is sure of."""

from __future__ import annotations

from alembic import op
from sqlalchemy import Boolean, Column, false

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    # Written as text, since Alembic omits the CHECK of a column that it adds.
    op.execute(
        "ALTER TABLE threads ADD COLUMN silence TEXT "
        "CONSTRAINT ck_threads_silence CHECK (silence IN ('silent', 'asked'))"
    )
    op.add_column("inbox_messages", Column("silent", Boolean, nullable=False, server_default=false()))


def downgrade() -> None:
    raise NotImplementedError("Older versions would show the work of silent threads; restore a backup.")
