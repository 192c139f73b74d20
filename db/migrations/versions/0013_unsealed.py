"""An index for messages of answers that are not closed, which would otherwise be searched for among all messages."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None

_OPEN = sa.text("phase != 'closed'")


def upgrade() -> None:
    op.create_index("ix_turn_messages_open", "turn_messages", ["turn_id"], sqlite_where=_OPEN, postgresql_where=_OPEN)


def downgrade() -> None:
    op.drop_index("ix_turn_messages_open", table_name="turn_messages")
