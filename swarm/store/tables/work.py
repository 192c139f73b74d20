"""Work: tasks and inbox messages, their queues, leases and notices."""

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
    func,
    text,
)

from swarm.domain.model.inbox import InboxDelay, InboxStatus, MatchedBy, NoticeKind, NoticeStatus
from swarm.domain.model.leases import LeaseEnd, LeaseKind
from swarm.domain.model.tasks import TaskDelay, TaskStatus
from swarm.store.tables.schema import metadata, one_of

tasks = Table(
    "tasks",
    metadata,
    Column("id", Text, primary_key=True),
    Column("thread_id", Text, ForeignKey("threads.id")),
    Column("lane_id", Text, nullable=False),  # its lane: the thread, or the task itself if it has no thread
    Column("title", Text, nullable=False),
    Column("description", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("agent_id", Text, ForeignKey("agents.id")),  # null: not assigned
    Column("created_by", Text, ForeignKey("agents.id")),  # receives a notice when the task ends; null: an operator
    Column("requester", Text),  # a Slack user id
    Column("parent_id", Text, ForeignKey("tasks.id")),
    Column("depth", Integer, nullable=False),  # 1 if the task has no parent
    Column("inbox_message_id", Text),  # the delegated message; no foreign key: the message refers to its task
    Column("epoch", Integer),  # epoch of the thread since it was handed over with the task; null: not handed over
    Column("attempts", Integer, nullable=False),  # number of lost leases
    Column("claims", Integer, nullable=False),  # number of leases so far
    Column("order_key", BigInteger, nullable=False),
    Column("delay_reason", Text),  # the reason for a delay
    Column("due_at", BigInteger),  # for a held task: when the delay ends
    Column("offer_ends_at", BigInteger),  # for an offered task: its deadline, after which it counts as declined
    Column("lease_token", Text),  # its last lease
    Column("progress", Text),
    Column("percent", Integer),
    Column("result", Text),
    Column("error", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("started_at", BigInteger),
    Column("ended_at", BigInteger),
    Column(
        "by_strangers", Boolean, nullable=False, server_default=false()
    ),  # requested by strangers, alone or with members
    Column("instruction", Text),  # the text before the task for its agent, after a person's Retry
    Column("interruptions", Integer, nullable=False, server_default=text("0")),  # deaths of the coordinator
    one_of("status", TaskStatus),
    one_of("delay_reason", TaskDelay),
    CheckConstraint("priority BETWEEN 0 AND 100", name="priority"),
    CheckConstraint("percent BETWEEN 0 AND 100", name="percent"),
    CheckConstraint("lane_id = coalesce(thread_id, id)", name="lane"),
    CheckConstraint("(delay_reason IS NULL) = (due_at IS NULL)", name="delay_ends"),
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
# Both engines prove `IS NOT NULL` by a comparison. Only searches by creator may use this index: statistics that are out
# of date would make a look at all open tasks seem cheaper than the search for one.
_created = _open_task & tasks.c.created_by.is_not(None)
Index("ix_tasks_creator", tasks.c.created_by, sqlite_where=_created, postgresql_where=_created)
_delayed_task = tasks.c.due_at.is_not(None)
Index("ix_tasks_delayed", tasks.c.due_at, sqlite_where=_delayed_task, postgresql_where=_delayed_task)
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
    Column("reason", Text, nullable=False),  # why the message was routed to the agent
    Column("attempts", Integer, nullable=False),  # number of lost leases
    Column("claims", Integer, nullable=False),  # number of leases so far
    Column("order_key", BigInteger, nullable=False),
    Column("delay_reason", Text),  # the reason for a delay
    Column("due_at", BigInteger),  # for a delayed message: when the delay ends
    Column("lease_token", Text),  # its last lease
    Column("created_at", BigInteger, nullable=False),
    Column("resolved_at", BigInteger),
    Column("task_id", Text, ForeignKey("tasks.id")),  # the task that the message was delegated as or follows up
    Column("message", Text),  # the text for the agent, if it is not the text in Slack: an alert in its template
    Column("silent", Boolean, nullable=False, server_default=false()),  # nobody has asked: see ChannelPolicy.overthink
    Column("instruction", Text),  # the text before the message for its agent, after a person asked for another answer
    Column("interruptions", Integer, nullable=False, server_default=text("0")),  # deaths of the coordinator
    one_of("status", InboxStatus),
    one_of("matched_by", MatchedBy),
    one_of("delay_reason", InboxDelay),
    CheckConstraint("(delay_reason IS NULL) = (due_at IS NULL)", name="delay_ends"),
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
_delayed = inbox_messages.c.due_at.is_not(None)
Index("ix_inbox_messages_delayed", inbox_messages.c.due_at, sqlite_where=_delayed, postgresql_where=_delayed)
Index("ix_inbox_messages_thread", inbox_messages.c.thread_id, inbox_messages.c.ts)
Index("ix_inbox_messages_task", inbox_messages.c.task_id)
_dead = inbox_messages.c.status == text("'dead'")
Index("ix_inbox_messages_dead", inbox_messages.c.id, sqlite_where=_dead, postgresql_where=_dead)

# The head of each lane of each agent's queue. A claim reads these few rows instead of the complete backlog.
queue_heads = Table(
    "queue_heads",
    metadata,
    Column("agent_id", Text, ForeignKey("agents.id"), nullable=False),
    Column("lane_id", Text, nullable=False),  # a thread, or a task without a thread
    Column("order_key", BigInteger, nullable=False),  # the lowest key among the lane's due messages and tasks
    PrimaryKeyConstraint("agent_id", "lane_id"),
)
Index("ix_queue_heads_order", queue_heads.c.agent_id, queue_heads.c.order_key)

leases = Table(
    "leases",
    metadata,
    Column("token", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("agent_id", Text, ForeignKey("agents.id"), nullable=False),
    Column("thread_id", Text, ForeignKey("threads.id")),
    Column("trigger_id", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("hold", Boolean, nullable=False),  # lasts until the agent calls finish, even if everything is answered
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    Column("ended_as", Text),
    Column("task_id", Text, ForeignKey("tasks.id")),  # the task under the lease; otherwise the lease covers messages
    Column("prolonged", Integer, nullable=False, server_default=text("0")),  # times since its last renewal
    Column("key_hash", Text),  # of the key for the program that does the work; null: granted before there were keys
    one_of("kind", LeaseKind),
    one_of("ended_as", LeaseEnd),
    CheckConstraint("(ended_at IS NULL) = (ended_as IS NULL)", name="ended"),
    CheckConstraint("kind <> 'work' OR coalesce(thread_id, task_id) IS NOT NULL", name="work_is_about"),
)
_active = leases.c.ended_at.is_(None)
_active_work = _active & (leases.c.kind == text("'work'"))
# This lock prevents two runs of one agent in one thread.
Index(
    "uq_leases_thread_lock",
    leases.c.thread_id,
    leases.c.agent_id,
    unique=True,
    sqlite_where=_active_work,
    postgresql_where=_active_work,
)
_has_key = leases.c.key_hash.is_not(None)
Index("uq_leases_key", leases.c.key_hash, unique=True, sqlite_where=_has_key, postgresql_where=_has_key)
# For searches by expiry only, as with `ix_tasks_creator`.
_expiring = _active & leases.c.expires_at.is_not(None)
Index("ix_leases_expiry", leases.c.expires_at, sqlite_where=_expiring, postgresql_where=_expiring)
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

notices = Table(
    "notices",
    metadata,
    Column("id", Text, primary_key=True),
    Column("kind", Text, nullable=False),
    Column("agent_id", Text, ForeignKey("agents.id"), nullable=False),
    Column("thread_id", Text, ForeignKey("threads.id")),
    Column("inbox_message_id", Text, ForeignKey("inbox_messages.id")),
    Column("actor", Text),  # who caused the notice: a Slack user id or an agent id
    Column("text", Text),  # the text of the notice, if any
    Column("status", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("task_id", Text, ForeignKey("tasks.id")),
    Column("agent_message_id", Text, ForeignKey("agent_messages.id")),
    Column("request_id", Text),  # the request whose decision the notice reports
    Column("interruptions", Integer, nullable=False, server_default=text("0")),  # deaths of the coordinator
    one_of("kind", NoticeKind),
    one_of("status", NoticeStatus),
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

_worded = notices.c.text.is_not(None)
Index("ix_notices_worded", notices.c.thread_id, sqlite_where=_worded, postgresql_where=_worded)
_of_agent_message = notices.c.agent_message_id.is_not(None)
Index(
    "ix_notices_agent_message",
    notices.c.agent_message_id,
    sqlite_where=_of_agent_message,
    postgresql_where=_of_agent_message,
)
