"""Conversations in Slack, and what was said in them."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)

from swarm.domain.transcript import AuthorKind, ChannelType, ContextState
from swarm.store.tables.schema import metadata, one_of

threads = Table(
    "threads",
    metadata,
    Column("id", Text, primary_key=True),
    Column("team", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("thread_ts", Text, nullable=False),
    Column("channel_type", Text, nullable=False),
    Column("owner_id", Text, ForeignKey("agents.id")),
    Column("epoch", Integer, nullable=False),  # counts the changes of owner
    Column("context", Text, nullable=False),
    Column("context_due_at", BigInteger),  # when its history is to be read; of a read that runs: when to give it up
    Column("context_failures", Integer, nullable=False),
    Column("told_queued_at", BigInteger),  # when the thread was told that nobody is there; null once answered
    Column("active_at", BigInteger, nullable=False),  # the last message or answer
    # What was said later than this and was not routed was missed.
    Column("watermark_ts", Text, nullable=False, server_default=""),
    Column("created_at", BigInteger, nullable=False),
    UniqueConstraint("team", "channel", "thread_ts", name="uq_threads_place"),
    one_of("context", ContextState),
    one_of("channel_type", ChannelType),
)
Index("ix_threads_owner", threads.c.owner_id)
Index(
    "ix_threads_context_due",
    threads.c.context_due_at,
    sqlite_where=threads.c.context_due_at.is_not(None),
    postgresql_where=threads.c.context_due_at.is_not(None),
)

thread_messages = Table(
    "thread_messages",
    metadata,
    Column("team", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("ts", Text, nullable=False),
    Column("thread_ts", Text, nullable=False),
    Column("author_id", Text, nullable=False),
    Column("author_name", Text),  # null: not looked up yet
    Column("author_kind", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("files", Text, nullable=False),  # JSON list
    Column("edited_ts", Text),
    Column("deleted_at", BigInteger),
    Column("stored_at", BigInteger, nullable=False),
    Column("routed_at", BigInteger),  # null: only read from history so far
    PrimaryKeyConstraint("team", "channel", "ts"),
    one_of("author_kind", AuthorKind),
)
Index(
    "ix_thread_messages_thread",
    thread_messages.c.team,
    thread_messages.c.channel,
    thread_messages.c.thread_ts,
    thread_messages.c.ts,
)

# How far the events of a workspace are known to have come. One row stands for all conversations (`ALL`); the others are
# those that were read after a gap.
watermarks = Table(
    "watermarks",
    metadata,
    Column("team", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("ts", Text, nullable=False),  # everything up to here was taken in
    # Of the row for all: from here on something may have been missed, and is to be read; how often that was found.
    Column("gap_since", Text),
    Column("gaps", Integer, nullable=False, server_default="0"),
    PrimaryKeyConstraint("team", "channel"),
)

# Replies that came before anybody knew of their thread: its first message may have been overtaken. Kept for a while.
early_messages = Table(
    "early_messages",
    metadata,
    Column("team", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("thread_ts", Text, nullable=False),
    Column("ts", Text, nullable=False),
    Column("message", Text, nullable=False),  # JSON
    Column("stored_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("team", "channel", "thread_ts", "ts"),
)
Index("ix_early_messages_stored", early_messages.c.stored_at)
