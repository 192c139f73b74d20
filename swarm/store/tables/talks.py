"""Which conversations with built-in agents have a run at the moment."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, PrimaryKeyConstraint, Table, Text

from swarm.store.tables.schema import metadata

talks = Table(
    "talks",
    metadata,
    Column("client", Text, nullable=False),  # who leads the conversation: an agent's id, or "operator"
    Column("agent", Text, nullable=False),  # its name
    Column("conversation", Text, nullable=False),  # the client's name for it
    Column("run_id", Text, nullable=False),  # the run that has it
    Column("expires_at", BigInteger, nullable=False),  # when it is free again, unless the run goes on
    PrimaryKeyConstraint("client", "agent", "conversation"),
)
Index("ix_talks_expires", talks.c.expires_at)
