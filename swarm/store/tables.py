"""The tables. Moments are microseconds since 1970 UTC, documents are JSON text, identifiers are UUID version 7.

Values are guarded here (CHECK, unique and partial unique indexes); transitions are guarded by the ``WHERE`` of each
update. Both come from the enums of the domain.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
    func,
    text,
)

from swarm.domain.agents import Role
from swarm.domain.deliveries import DeliveryKind, DeliveryStatus
from swarm.domain.inbox import EntryStatus, Hold, MatchedBy
from swarm.domain.leases import LeaseEnd, LeaseKind
from swarm.domain.notices import NoticeKind, NoticeStatus
from swarm.domain.tasks import TaskHold, TaskStatus
from swarm.domain.transcript import AuthorKind, ChannelType, ContextState

metadata: Final = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "ck": "ck_%(table_name)s_%(constraint_name)s",
    }
)

# SQLite counts up only an INTEGER PRIMARY KEY.
_Serial = BigInteger().with_variant(Integer, "sqlite")


def _one_of(column: str, values: type[StrEnum]) -> CheckConstraint:
    listed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({listed})", name=column)


agents = Table(
    "agents",
    metadata,
    Column("id", Text, primary_key=True),
    Column("name", Text, nullable=False),
    Column("role", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("capabilities", Text, nullable=False),  # JSON list of strings
    Column("created_at", BigInteger, nullable=False),
    Column("last_seen_at", BigInteger),
    Column("revoked_at", BigInteger),
    _one_of("role", Role),
)
# A name may be used again once its bearer is gone.
Index(
    "uq_agents_name",
    agents.c.name,
    unique=True,
    sqlite_where=agents.c.revoked_at.is_(None),
    postgresql_where=agents.c.revoked_at.is_(None),
)

agent_tokens = Table(
    "agent_tokens",
    metadata,
    Column("token_hash", Text, primary_key=True),  # SHA-256, hex
    Column("agent_id", Text, ForeignKey("agents.id"), nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("revoked_at", BigInteger),
)
Index("ix_agent_tokens_agent", agent_tokens.c.agent_id)

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
    Column("created_at", BigInteger, nullable=False),
    UniqueConstraint("team", "channel", "thread_ts", name="uq_threads_place"),
    _one_of("context", ContextState),
    _one_of("channel_type", ChannelType),
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
    _one_of("author_kind", AuthorKind),
)
Index(
    "ix_thread_messages_thread",
    thread_messages.c.team,
    thread_messages.c.channel,
    thread_messages.c.thread_ts,
    thread_messages.c.ts,
)

tasks = Table(
    "tasks",
    metadata,
    Column("id", Text, primary_key=True),
    Column("thread_id", Text, ForeignKey("threads.id")),
    Column("lane_id", Text, nullable=False),  # what it queues up in: its thread; without one, the task itself
    Column("title", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("agent_id", Text, ForeignKey("agents.id")),  # null: not assigned
    Column("created_by", Text, ForeignKey("agents.id")),  # who hears of its end; null: an operator
    Column("requester", Text),  # the Slack user who asked for it
    Column("parent_id", Text, ForeignKey("tasks.id")),
    Column("depth", Integer, nullable=False),  # 1 without a parent
    Column("inbox_message_id", Text),  # the delegated message; no reference, for that one refers to its task
    Column("epoch", Integer),  # of its thread, since it was handed over with the task; null: it was not
    Column("attempts", Integer, nullable=False),  # leases that were lost
    Column("claims", Integer, nullable=False),  # leases ever taken
    Column("order_key", BigInteger, nullable=False),
    Column("held_by", Text),  # why it is not due yet
    Column("due_at", BigInteger),  # of a held task: when it becomes due
    Column("offer_ends_at", BigInteger),  # of an offered task: when it counts as declined
    Column("lease_token", Text),  # the last lease that was taken on it
    Column("progress", Text),
    Column("percent", Integer),
    Column("result", Text),
    Column("error", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("started_at", BigInteger),
    Column("ended_at", BigInteger),
    _one_of("status", TaskStatus),
    _one_of("held_by", TaskHold),
    CheckConstraint("priority BETWEEN 0 AND 100", name="priority"),
    CheckConstraint("percent BETWEEN 0 AND 100", name="percent"),
    CheckConstraint("lane_id = coalesce(thread_id, id)", name="lane"),
    CheckConstraint("(held_by IS NULL) = (due_at IS NULL)", name="held_until"),
    CheckConstraint("(status = 'offered') = (offer_ends_at IS NOT NULL)", name="offer_ends"),
    CheckConstraint(
        "status NOT IN ('offered', 'pending', 'in_progress', 'waiting') OR agent_id IS NOT NULL", name="somebody_has_it"
    ),
)
_open_task = tasks.c.ended_at.is_(None)
Index("ix_tasks_lane", tasks.c.agent_id, tasks.c.lane_id, sqlite_where=_open_task, postgresql_where=_open_task)
Index("ix_tasks_thread", tasks.c.thread_id)
Index("ix_tasks_status", tasks.c.status, tasks.c.id)
Index("ix_tasks_agent", tasks.c.agent_id, tasks.c.id)
Index("ix_tasks_created", tasks.c.created_by, tasks.c.id)
Index("ix_tasks_parent", tasks.c.parent_id)
Index("ix_tasks_creator", tasks.c.created_by, sqlite_where=_open_task, postgresql_where=_open_task)
_held_task = tasks.c.due_at.is_not(None)
Index("ix_tasks_held", tasks.c.due_at, sqlite_where=_held_task, postgresql_where=_held_task)
_offered = tasks.c.offer_ends_at.is_not(None)
Index("ix_tasks_offered", tasks.c.offer_ends_at, sqlite_where=_offered, postgresql_where=_offered)

task_dependencies = Table(
    "task_dependencies",
    metadata,
    Column("task_id", Text, ForeignKey("tasks.id"), nullable=False),
    Column("depends_on_id", Text, ForeignKey("tasks.id"), nullable=False),
    PrimaryKeyConstraint("task_id", "depends_on_id"),
    CheckConstraint("task_id <> depends_on_id", name="not_itself"),
)
Index("ix_task_dependencies_on", task_dependencies.c.depends_on_id)

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

inbox_messages = Table(
    "inbox_messages",
    metadata,
    Column("id", Text, primary_key=True),
    Column("thread_id", Text, ForeignKey("threads.id"), nullable=False),
    Column("agent_id", Text, ForeignKey("agents.id")),  # null: waits until a lead is registered
    Column("team", Text, nullable=False),
    Column("channel", Text, nullable=False),
    Column("ts", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("matched_by", Text, nullable=False),
    Column("reason", Text, nullable=False),  # why it was routed here
    Column("attempts", Integer, nullable=False),  # leases that were lost
    Column("claims", Integer, nullable=False),  # leases ever taken
    Column("order_key", BigInteger, nullable=False),
    Column("held_by", Text),  # why it is not due yet
    Column("due_at", BigInteger),  # of a held message: when it becomes due
    Column("lease_token", Text),  # the last lease that was taken on it
    Column("created_at", BigInteger, nullable=False),
    Column("resolved_at", BigInteger),
    Column("task_id", Text, ForeignKey("tasks.id")),  # what it was delegated as, or what it is a follow-up to
    _one_of("status", EntryStatus),
    _one_of("matched_by", MatchedBy),
    _one_of("held_by", Hold),
    CheckConstraint("(held_by IS NULL) = (due_at IS NULL)", name="held_until"),
)
Index(
    "uq_inbox_messages_message",
    inbox_messages.c.team,
    inbox_messages.c.channel,
    inbox_messages.c.ts,
    func.coalesce(inbox_messages.c.agent_id, text("''")),
    unique=True,
)
_unread = inbox_messages.c.status == text("'unread'")
Index(
    "ix_inbox_messages_unread",
    inbox_messages.c.agent_id,
    inbox_messages.c.thread_id,
    inbox_messages.c.ts,
    sqlite_where=_unread,
    postgresql_where=_unread,
)
_held = inbox_messages.c.due_at.is_not(None)
Index("ix_inbox_messages_held", inbox_messages.c.due_at, sqlite_where=_held, postgresql_where=_held)
Index("ix_inbox_messages_thread", inbox_messages.c.thread_id, inbox_messages.c.ts)
Index("ix_inbox_messages_task", inbox_messages.c.task_id)
_dead = inbox_messages.c.status == text("'dead'")
Index("ix_inbox_messages_dead", inbox_messages.c.id, sqlite_where=_dead, postgresql_where=_dead)

# The head of each lane of each agent's queue: a claim reads these few rows instead of the whole backlog.
inbox_heads = Table(
    "inbox_heads",
    metadata,
    Column("agent_id", Text, ForeignKey("agents.id"), nullable=False),
    Column("lane_id", Text, nullable=False),  # a thread, or a task without one
    Column("order_key", BigInteger, nullable=False),  # the lowest among the lane's due messages and tasks
    PrimaryKeyConstraint("agent_id", "lane_id"),
)
Index("ix_inbox_heads_order", inbox_heads.c.agent_id, inbox_heads.c.order_key)

leases = Table(
    "leases",
    metadata,
    Column("token", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("agent_id", Text, ForeignKey("agents.id"), nullable=False),
    Column("thread_id", Text, ForeignKey("threads.id")),
    Column("trigger_id", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("hold", Boolean, nullable=False),  # lasts until finish, also when everything is answered
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    Column("ended_as", Text),
    Column("task_id", Text, ForeignKey("tasks.id")),  # the task that it covers; else it covers messages
    _one_of("kind", LeaseKind),
    _one_of("ended_as", LeaseEnd),
    CheckConstraint("(ended_at IS NULL) = (ended_as IS NULL)", name="ended"),
    CheckConstraint("kind <> 'work' OR coalesce(thread_id, task_id) IS NOT NULL", name="work_is_about"),
)
_active = leases.c.ended_at.is_(None)
_active_work = _active & (leases.c.kind == text("'work'"))
# The lock that keeps two runs of one agent out of one thread.
Index(
    "uq_leases_thread_lock",
    leases.c.thread_id,
    leases.c.agent_id,
    unique=True,
    sqlite_where=_active_work,
    postgresql_where=_active_work,
)
Index("ix_leases_expiry", leases.c.expires_at, sqlite_where=_active, postgresql_where=_active)
Index(
    "ix_leases_ended",
    leases.c.ended_at,
    sqlite_where=leases.c.ended_at.is_not(None),
    postgresql_where=leases.c.ended_at.is_not(None),
)

lease_members = Table(
    "lease_members",
    metadata,
    Column("token", Text, ForeignKey("leases.token", ondelete="CASCADE"), nullable=False),
    Column("inbox_message_id", Text, ForeignKey("inbox_messages.id"), nullable=False),
    PrimaryKeyConstraint("token", "inbox_message_id"),
)
Index("ix_lease_members_message", lease_members.c.inbox_message_id)

# What agents say to each other: to one of them, or in a channel of their own.
agent_messages = Table(
    "agent_messages",
    metadata,
    Column("id", Text, primary_key=True),  # in the order of time
    Column("channel", Text),
    Column("recipient_id", Text, ForeignKey("agents.id")),
    Column("sender_id", Text, ForeignKey("agents.id"), nullable=False),
    Column("text", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    CheckConstraint("(channel IS NULL) <> (recipient_id IS NULL)", name="somewhere"),
)
Index("ix_agent_messages_channel", agent_messages.c.channel, agent_messages.c.id)
Index("ix_agent_messages_recipient", agent_messages.c.recipient_id, agent_messages.c.id)
Index("ix_agent_messages_sender", agent_messages.c.sender_id, agent_messages.c.id)

# Whom a message between agents is meant for: its recipient, or whom it mentions in a channel.
agent_message_addressees = Table(
    "agent_message_addressees",
    metadata,
    Column("message_id", Text, ForeignKey("agent_messages.id", ondelete="CASCADE"), nullable=False),
    Column("agent_id", Text, ForeignKey("agents.id"), nullable=False),
    Column("read_at", BigInteger),
    PrimaryKeyConstraint("message_id", "agent_id"),
)
_unread_message = agent_message_addressees.c.read_at.is_(None)
Index(
    "ix_agent_message_addressees_unread",
    agent_message_addressees.c.agent_id,
    sqlite_where=_unread_message,
    postgresql_where=_unread_message,
)

notices = Table(
    "notices",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("agent_id", Text, ForeignKey("agents.id"), nullable=False),
    Column("thread_id", Text, ForeignKey("threads.id")),
    Column("inbox_message_id", Text, ForeignKey("inbox_messages.id")),
    Column("actor", Text),  # who caused it: a Slack user's id, an agent's id
    Column("text", Text),  # what it says, where it says something
    Column("status", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("task_id", Text, ForeignKey("tasks.id")),
    Column("agent_message_id", Text, ForeignKey("agent_messages.id")),
    _one_of("kind", NoticeKind),
    _one_of("status", NoticeStatus),
)
_waiting = notices.c.status == text("'unread'")
Index(
    "ix_notices_unread",
    notices.c.agent_id,
    notices.c.created_at,
    notices.c.id,
    sqlite_where=_waiting,
    postgresql_where=_waiting,
)

_of_agent_message = notices.c.agent_message_id.is_not(None)
Index(
    "ix_notices_agent_message",
    notices.c.agent_message_id,
    sqlite_where=_of_agent_message,
    postgresql_where=_of_agent_message,
)

# What was done once and must not be done again: events without a timestamp of their own, and tool calls with results.
receipts = Table(
    "receipts",
    metadata,
    Column("key", Text, primary_key=True),
    Column("result", Text),  # JSON; of a tool call: what it answered
    Column("created_at", BigInteger, nullable=False),
)
Index("ix_receipts_created", receipts.c.created_at)

deliveries = Table(
    "deliveries",
    metadata,
    Column("seq", _Serial, primary_key=True, autoincrement=True),  # the order within a thread
    Column("id", Text, nullable=False, unique=True),
    Column("kind", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("thread_id", Text, ForeignKey("threads.id"), nullable=False),
    Column("agent_id", Text, ForeignKey("agents.id")),  # null: the coordinator itself speaks
    Column("inbox_message_id", Text, ForeignKey("inbox_messages.id")),
    Column("channel", Text, nullable=False),
    Column("thread_ts", Text),
    Column("target_ts", Text),
    Column("text", Text, nullable=False),
    Column("broadcast", Boolean, nullable=False),
    Column("once_key", Text, unique=True),  # an effect that happens at most once, whoever asks for it
    Column("attempts", Integer, nullable=False),
    Column("due_at", BigInteger),  # when to try next; while sending: when to doubt; null once it is over
    Column("expires_at", BigInteger),
    Column("sent_ts", Text),
    Column("error", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    Column("task_id", Text, ForeignKey("tasks.id")),  # what it says something of
    Column("updates_id", Text),  # of an update: the delivery whose message it changes
    Column("stops_task_id", Text),  # the task that its button stops
    _one_of("kind", DeliveryKind),
    _one_of("status", DeliveryStatus),
    CheckConstraint("(due_at IS NULL) = (status IN ('sent', 'failed', 'expired'))", name="due_until_over"),
    sqlite_autoincrement=True,
)
_open = deliveries.c.due_at.is_not(None)
Index("ix_deliveries_open", deliveries.c.thread_id, deliveries.c.seq, sqlite_where=_open, postgresql_where=_open)
Index("ix_deliveries_due", deliveries.c.due_at, sqlite_where=_open, postgresql_where=_open)
Index("ix_deliveries_message", deliveries.c.inbox_message_id)
Index("ix_deliveries_task", deliveries.c.task_id)

# Who may do what only one process may do: a lease on a role, with a term that grows with each change of holder.
elections = Table(
    "elections",
    metadata,
    Column("role", Text, primary_key=True),
    Column("holder", Text),  # null: given up
    Column("term", BigInteger, nullable=False),
    Column("since", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
)

history = Table(
    "history",
    metadata,
    Column("seq", _Serial, primary_key=True, autoincrement=True),
    Column("at", BigInteger, nullable=False),
    Column("subject", Text, nullable=False),  # the id of what changed; of a Slack message: CHANNEL:TS
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
    history.c.thread_id,  # or SQLite would rather use the index above, and read them all
    history.c.at,
    sqlite_where=_threadless,
    postgresql_where=_threadless,
)
