"""Conversations in Slack: threads, their messages, gaps in the events, and people."""

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
    text,
)

from swarm.domain.model.threads import AuthorKind, ChannelType, ContextState, Silence, Standing
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
    Column("epoch", Integer, nullable=False),  # number of owner changes
    Column("context", Text, nullable=False),
    Column("context_due_at", BigInteger),  # when its history is read next; during a read, its deadline
    Column("context_failures", Integer, nullable=False),
    Column("queued_notice_at", BigInteger),  # when people were told that no agent is online; null once answered
    Column("active_at", BigInteger, nullable=False),  # time of the last message or answer
    # Later messages that were not routed were missed.
    Column("watermark_ts", Text, nullable=False, server_default=""),
    Column("created_at", BigInteger, nullable=False),
    Column("silence", Text, one_of("silence", Silence)),  # null: an ordinary thread
    # When the status line of a polling agent's work was last shown; 0: cleared while people are asked; null: cleared.
    Column("status_at", BigInteger),
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
_has_status = threads.c.status_at.is_not(None)
Index("ix_threads_status", threads.c.status_at, sqlite_where=_has_status, postgresql_where=_has_status)

thread_messages = Table(
    "thread_messages",
    metadata,
    Column("team", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("ts", Text, nullable=False),
    Column("thread_ts", Text, nullable=False),
    Column("author_id", Text, nullable=False),
    Column("author_name", Text),  # null if not looked up yet
    Column("author_kind", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("files", Text, nullable=False),  # JSON list
    Column("edited_ts", Text),
    Column("deleted_at", BigInteger),
    Column("stored_at", BigInteger, nullable=False),
    Column("routed_at", BigInteger),  # null if only read from history so far
    Column(  # standing of the author when the message was stored
        "standing", Text, one_of("standing", Standing), nullable=False, server_default=Standing.UNVERIFIED.value
    ),
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
_deleted = thread_messages.c.deleted_at.is_not(None)
Index("ix_thread_messages_deleted", thread_messages.c.deleted_at, sqlite_where=_deleted, postgresql_where=_deleted)

# Erased people: their earlier messages are not stored again when Slack's history is read.
forgotten = Table(
    "forgotten",
    metadata,
    Column("person", Text, primary_key=True),  # a digest of the team and the user id
    Column("forgotten_at", BigInteger, nullable=False),
)

# The point up to which the events of a workspace are complete. One row covers all conversations (`ALL`); the others are
# conversations read after a gap.
watermarks = Table(
    "watermarks",
    metadata,
    Column("team", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("ts", Text, nullable=False),  # everything up to this timestamp was processed
    # For the row `ALL`: the beginning of the open gap, and the number of gaps so far.
    Column("gap_since", Text),
    Column("gaps", Integer, nullable=False, server_default="0"),
    PrimaryKeyConstraint("team", "channel"),
)

# Messages that cannot be routed yet. Replies to unknown threads, whose first message may arrive later, are kept for
# some time; messages of unverified authors are kept until their verification.
early_messages = Table(
    "early_messages",
    metadata,
    Column("team", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("thread_ts", Text, nullable=False),
    Column("ts", Text, nullable=False),
    Column("message", Text, nullable=False),  # JSON
    Column("stored_at", BigInteger, nullable=False),
    Column("verify_at", BigInteger),  # time of the next verification; null: waits for its thread
    PrimaryKeyConstraint("team", "channel", "thread_ts", "ts"),
)
Index("ix_early_messages_stored", early_messages.c.stored_at)
_unverified = early_messages.c.verify_at.is_not(None)
Index(
    "ix_early_messages_verify",
    early_messages.c.verify_at,
    sqlite_where=_unverified,
    postgresql_where=_unverified,
)

# People who write to the swarm in Slack: their standing, and the number of their recent messages.
people = Table(
    "people",
    metadata,
    Column("team", Text, nullable=False),  # our own team
    Column("user_id", Text, nullable=False),
    Column("standing", Text),  # null if Slack was not asked
    Column("verified_at", BigInteger),
    Column("window_started_at", BigInteger),  # start of the minute in which their messages are counted
    Column("window_count", BigInteger, nullable=False, server_default="0"),
    PrimaryKeyConstraint("team", "user_id"),
    one_of("standing", Standing),
)

# Alerts of bots: the first one of a group, which an agent gets, and its repeats, which nobody gets.
alerts = Table(
    "alerts",
    metadata,
    Column("team", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("ts", Text, nullable=False),
    Column("first_ts", Text, nullable=False),  # the alert that it repeats; its own for the first one
    Column("digest", Text, nullable=False),  # the fingerprint; of a first alert whose group has ended: empty
    Column("posted_at", BigInteger, nullable=False),
    # The rest is for the first one only.
    Column("last_at", BigInteger, nullable=False),  # when it was last repeated; 0: ended by an earlier version
    Column("repeats", Integer, nullable=False),
    Column("shown_repeats", Integer, nullable=False),  # the number that its thread shows
    Column("shown_at", BigInteger),  # when the thread was last updated
    PrimaryKeyConstraint("team", "channel", "ts"),
)
_first = text("ts = first_ts")
Index(
    "ix_alerts_group",
    alerts.c.team,
    alerts.c.channel,
    alerts.c.digest,
    alerts.c.last_at,
    sqlite_where=_first,
    postgresql_where=_first,
)
_unshown = text("repeats > shown_repeats")
Index("ix_alerts_unshown", alerts.c.shown_at, sqlite_where=_unshown, postgresql_where=_unshown)
Index("ix_alerts_posted", alerts.c.posted_at)
