"""Idempotency keys, deliveries, webhooks, locks and the history."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    false,
    text,
)

from swarm.domain.model.deliveries import DeliveryKind, DeliveryStatus, Mark
from swarm.domain.model.leases import LockKind
from swarm.domain.model.webhooks import WebhookKind, WebhookStatus
from swarm.store.tables.schema import Serial, metadata, one_of

# Idempotency keys of events that have no timestamp, and of tool calls with results.
idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("key", Text, primary_key=True),
    Column("result", Text),  # JSON; for a tool call, its answer
    Column("created_at", BigInteger, nullable=False),
)
Index("ix_idempotency_keys_created", idempotency_keys.c.created_at)

deliveries = Table(
    "deliveries",
    metadata,
    Column("seq", Serial, primary_key=True, autoincrement=True),  # the order within a thread
    Column("id", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("thread_id", Text, ForeignKey("threads.id"), nullable=False),
    Column("agent_id", Text, ForeignKey("agents.id")),  # null: posted by the coordinator itself
    Column("inbox_message_id", Text, ForeignKey("inbox_messages.id")),
    Column("channel", Text, nullable=False),
    Column("thread_ts", Text),
    Column("target_ts", Text),
    Column("text", Text, nullable=False),
    Column("broadcast", Boolean, nullable=False),
    Column("idempotency_key", Text, unique=True),  # identifies the effect
    Column("attempts", Integer, nullable=False),
    Column("due_at", BigInteger),  # time of the next attempt; while sending, time of the first doubt; null once over
    Column("expires_at", BigInteger),
    Column("sent_ts", Text),
    Column("error", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    Column("task_id", Text, ForeignKey("tasks.id")),  # the task that the delivery is about
    Column("updates_id", Text),  # for an update: the delivery whose message is changed
    Column("stops_task_id", Text),  # the task that the message's button stops
    Column("stops_run_id", Text),  # the run that the message's button stops
    Column("closing", Text),  # JSON: the part below the text, and the answer it belongs to
    Column("person", Text),  # for a post: the only user who sees it; null: visible in the channel
    Column("mark", Text, one_of("mark", Mark)),  # for a reaction: its meaning
    # a reaction is removed, or an update replaces the Retry button with its text
    Column("removes", Boolean, nullable=False, server_default=false()),
    Column("request_id", Text),  # the request that the message shows
    Column("drops_request_id", Text),  # the request that the message's button drops
    Column("held_since", BigInteger),  # since when a refusal that may end makes it wait
    one_of("kind", DeliveryKind),
    one_of("status", DeliveryStatus),
    CheckConstraint("(due_at IS NULL) = (status IN ('sent', 'failed', 'expired'))", name="due_until_over"),
    sqlite_autoincrement=True,
)
_open = deliveries.c.due_at.is_not(None)
Index("ix_deliveries_open", deliveries.c.thread_id, deliveries.c.seq, sqlite_where=_open, postgresql_where=_open)
_open_post = _open & (deliveries.c.kind != text("'reaction'"))
Index(
    "ix_deliveries_posts",
    deliveries.c.thread_id,
    deliveries.c.seq,
    sqlite_where=_open_post,
    postgresql_where=_open_post,
)
Index(
    "ix_deliveries_due_posts",
    deliveries.c.due_at,
    deliveries.c.seq,
    sqlite_where=_open_post,
    postgresql_where=_open_post,
)
_open_reaction = _open & (deliveries.c.kind == text("'reaction'"))
Index(
    "ix_deliveries_due_reactions",
    deliveries.c.removes,
    deliveries.c.due_at,
    deliveries.c.seq,
    deliveries.c.mark,
    sqlite_where=_open_reaction,
    postgresql_where=_open_reaction,
)
_expires = _open & deliveries.c.expires_at.is_not(None)
Index("ix_deliveries_expiry", deliveries.c.expires_at, sqlite_where=_expires, postgresql_where=_expires)
Index("ix_deliveries_message", deliveries.c.inbox_message_id)
Index("ix_deliveries_task", deliveries.c.task_id)
_of_request = deliveries.c.request_id.is_not(None)
Index("ix_deliveries_request", deliveries.c.request_id, sqlite_where=_of_request, postgresql_where=_of_request)

webhooks = Table(
    "webhooks",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("target", Text, nullable=False),  # the channel's id for an escalation; otherwise empty
    Column("body", Text, nullable=False),  # JSON; empty once the call is over
    Column("idempotency_key", Text, nullable=False, unique=True),
    Column("thread_id", Text, ForeignKey("threads.id")),
    Column("person", Text),  # the user id of the person whose words the body contains
    Column("status", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due_at", BigInteger),  # time of the next attempt; null once over
    Column("error", Text),  # of the last attempt
    Column("created_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    one_of("kind", WebhookKind),
    one_of("status", WebhookStatus),
    CheckConstraint("(due_at IS NULL) = (status IN ('sent', 'failed'))", name="due_until_over"),
)
_open_webhook = webhooks.c.due_at.is_not(None)
Index("ix_webhooks_due", webhooks.c.due_at, sqlite_where=_open_webhook, postgresql_where=_open_webhook)
Index("ix_webhooks_thread", webhooks.c.thread_id)
_ended_webhook = webhooks.c.ended_at.is_not(None)
Index("ix_webhooks_ended", webhooks.c.ended_at, sqlite_where=_ended_webhook, postgresql_where=_ended_webhook)

locks = Table(
    "locks",
    metadata,
    Column("kind", Text, nullable=False),
    Column("key", Text, nullable=False),  # the name of an office, or a conversation as a JSON array
    Column("holder", Text),  # null: released
    Column("term", BigInteger, nullable=False),  # increases with each change of holder
    Column("expires_at", BigInteger, nullable=False),  # when the lock expires without renewal
    PrimaryKeyConstraint("kind", "key"),
    one_of("kind", LockKind),
)
_of_conversation = locks.c.kind == text(f"'{LockKind.CONVERSATION}'")
Index("ix_locks_expires", locks.c.expires_at, sqlite_where=_of_conversation, postgresql_where=_of_conversation)

history = Table(
    "history",
    metadata,
    Column("seq", Serial, primary_key=True, autoincrement=True),
    Column("at", BigInteger, nullable=False),
    Column("subject", Text, nullable=False),  # the id of the changed entity; for a Slack message: CHANNEL:TS
    Column("thread_id", Text),
    Column("change", Text, nullable=False),  # for example "inbox.claim"
    Column("agent_id", Text),
    Column("reason", Text),
    sqlite_autoincrement=True,
)
Index("ix_history_subject", history.c.subject, history.c.seq)
Index("ix_history_thread", history.c.thread_id, history.c.seq)
_threadless = history.c.thread_id.is_(None)
Index(
    "ix_history_threadless",
    history.c.thread_id,  # otherwise SQLite would use the index above and read all rows
    history.c.at,
    sqlite_where=_threadless,
    postgresql_where=_threadless,
)
