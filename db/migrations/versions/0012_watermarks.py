"""Watermarks record the time up to which events are known to have arrived. Later messages that were not routed are read
from Slack after a gap.

All messages that are already stored in threads have been processed, so they are below the watermarks.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy import Column, Integer, PrimaryKeyConstraint, Text

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_NEWEST = """
UPDATE threads SET watermark_ts = COALESCE(
    (SELECT MAX(m.ts) FROM thread_messages AS m
     WHERE m.team = threads.team AND m.channel = threads.channel AND m.thread_ts = threads.thread_ts),
    thread_ts
)
"""


def upgrade() -> None:
    op.add_column("threads", Column("watermark_ts", Text, nullable=False, server_default=""))
    op.execute(sa.text(_NEWEST))
    op.create_table(
        "watermarks",
        Column("team", Text, nullable=False),
        Column("channel", Text, nullable=False),
        Column("ts", Text, nullable=False),
        Column("gap_since", Text),
        Column("gaps", Integer, nullable=False, server_default="0"),
        PrimaryKeyConstraint("team", "channel", name=op.f("pk_watermarks")),
    )


def downgrade() -> None:
    op.drop_table("watermarks")
    op.drop_column("threads", "watermark_ts")
