"""Requests to people, their answers, grants, the audit, and escalations."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKey,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)

from swarm.domain.model.grants import AuditKind, GrantCovers, GrantScope
from swarm.domain.model.requests import Asker, EntryPoint, HumanDecision, RequestStatus, ResumeStatus
from swarm.domain.policy.escalations import EscalationDoor, OnCall
from swarm.store.tables.schema import Serial, metadata, one_of

requests = Table(
    "requests",
    metadata,
    Column("id", Text, primary_key=True),
    Column("key", Text, nullable=False, unique=True),  # identifies the question, so that nothing is asked twice
    Column("agent_id", Text, ForeignKey("agents.id"), nullable=False),
    Column("thread_id", Text, ForeignKey("threads.id")),  # null for a task without a thread
    Column("run_id", Text),  # the run that asked; not a foreign key, because runs are forgotten earlier
    Column("work_id", Text, nullable=False),  # the first inbox message, or the task, that waits
    Column("task_id", Text, ForeignKey("tasks.id")),
    Column("inbox_message_ids", Text, nullable=False),  # JSON list: all messages that wait
    Column("lease_token", Text, nullable=False),  # of the run that asked
    Column("asker", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("resume", Text, nullable=False),
    Column("requesters", Text, nullable=False, server_default="[]"),  # JSON list of Slack user ids
    Column("tool", Text),  # the name of the tool that waits for approval
    Column("digest", Text),  # of its name and arguments
    Column("agent_request_id", Text, nullable=False),  # the asker's own id, used to resume
    Column("payload", Text, nullable=False),  # JSON: the question
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("ended_at", BigInteger),
    Column("reason", Text),  # why it was cancelled
    Column("joins", Text),  # the open request with the same question, whose end this one waits for
    Column("tell_at", BigInteger),  # when to tell, or later to remind, who may decide; null: never (again)
    one_of("asker", Asker),
    one_of("status", RequestStatus),
    one_of("resume", ResumeStatus),
    CheckConstraint("(ended_at IS NULL) = (status = 'open')", name="ended"),
    CheckConstraint("status <> 'open' OR resume = 'none'", name="decided_before_resumed"),
    CheckConstraint("status = 'open' OR tell_at IS NULL", name="told_while_open"),
)
_is_open = requests.c.status == text("'open'")
_is_sent = requests.c.resume == text("'sent'")
Index("ix_requests_work", requests.c.work_id, requests.c.id)
Index("ix_requests_run", requests.c.run_id, requests.c.id)
Index("ix_requests_open", requests.c.id, sqlite_where=_is_open, postgresql_where=_is_open)
Index("ix_requests_thread", requests.c.thread_id, sqlite_where=_is_open, postgresql_where=_is_open)
Index("ix_requests_expiry", requests.c.expires_at, sqlite_where=_is_open, postgresql_where=_is_open)
_is_undelivered = text("asker = 'durable' AND run_id IS NOT NULL AND resume IN ('none', 'sent')")
Index("ix_requests_holding", requests.c.thread_id, sqlite_where=_is_undelivered, postgresql_where=_is_undelivered)
Index("ix_requests_sent", requests.c.id, sqlite_where=_is_sent, postgresql_where=_is_sent)
_joins = requests.c.joins.is_not(None)
Index("ix_requests_joins", requests.c.joins, sqlite_where=_joins, postgresql_where=_joins)
_is_to_tell = requests.c.tell_at.is_not(None)
Index("ix_requests_tell", requests.c.tell_at, sqlite_where=_is_to_tell, postgresql_where=_is_to_tell)
_ended = requests.c.ended_at.is_not(None)
Index("ix_requests_ended", requests.c.ended_at, sqlite_where=_ended, postgresql_where=_ended)

request_answers = Table(
    "request_answers",
    metadata,
    Column("request_id", Text, ForeignKey("requests.id", ondelete="CASCADE"), nullable=False),
    Column("person", Text, nullable=False),  # a Slack user id, or "operator"
    Column("decision", Text, nullable=False),
    Column("door", Text, nullable=False),
    Column("payload", Text, nullable=False),  # JSON: the values, and the changed arguments
    Column("at", BigInteger, nullable=False),
    PrimaryKeyConstraint("request_id", "person"),
    one_of("decision", HumanDecision),
    one_of("door", EntryPoint),
)

request_drafts = Table(  # what a person has entered on earlier pages of a form
    "request_drafts",
    metadata,
    Column("request_id", Text, ForeignKey("requests.id", ondelete="CASCADE"), nullable=False),
    Column("person", Text, nullable=False),
    Column("payload", Text, nullable=False),  # JSON: the values by field
    PrimaryKeyConstraint("request_id", "person"),
)

grants = Table(
    "grants",
    metadata,
    Column("id", Text, primary_key=True),
    Column("agent_id", Text, ForeignKey("agents.id"), nullable=False),
    Column("tool", Text, nullable=False),
    Column("scope", Text, nullable=False),
    Column("covers", Text, one_of("covers", GrantCovers), nullable=False, server_default=GrantCovers.GIVER.value),
    Column("thread_id", Text, ForeignKey("threads.id")),
    Column("request_id", Text, nullable=False),  # the request whose decision gave it
    Column("given_by", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("revoked_at", BigInteger),
    Column("uses", Integer, nullable=False),
    one_of("scope", GrantScope),
    CheckConstraint("(scope = 'thread') = (thread_id IS NOT NULL)", name="thread"),
)
Index("ix_grants_agent", grants.c.agent_id, grants.c.tool)

audit = Table(
    "audit",
    metadata,
    Column("seq", Serial, primary_key=True, autoincrement=True),
    Column("at", BigInteger, nullable=False),
    Column("kind", Text, nullable=False),
    Column("request_id", Text),  # not a foreign key, because lines are kept longer
    Column("person", Text),
    Column("agent_id", Text),
    Column("tool", Text),
    Column("digest", Text),
    Column("outcome", Text, nullable=False),
    one_of("kind", AuditKind),
    sqlite_autoincrement=True,
)
Index("ix_audit_at", audit.c.at)

escalations = Table(
    "escalations",
    metadata,
    Column("id", Text, primary_key=True),
    Column("thread_id", Text, ForeignKey("threads.id"), nullable=False, unique=True),  # once per thread
    Column("door", Text, nullable=False),
    Column("person", Text),  # a Slack user id
    Column("agent_id", Text, ForeignKey("agents.id")),
    Column("reason", Text, nullable=False),
    Column("emoji", Text),  # the name of the reaction on the thread's first message
    Column("created_at", BigInteger, nullable=False),
    Column("on_call", Text),  # null: no agent was asked who is on call
    Column("on_call_task_id", Text, ForeignKey("tasks.id")),  # the question
    Column("on_call_team", Text, nullable=False),
    Column("on_call_person", Text),  # a Slack user id
    Column("on_call_note", Text),  # why nobody was found
    Column("on_call_ends_at", BigInteger),  # when the time to answer ends
    one_of("door", EscalationDoor),
    one_of("on_call", OnCall),
    CheckConstraint("on_call <> 'asked' OR on_call_ends_at IS NOT NULL", name="on_call_ends_at"),
)
_is_asked = escalations.c.on_call == text("'asked'")
Index("ix_escalations_asked", escalations.c.id, sqlite_where=_is_asked, postgresql_where=_is_asked)
Index("ix_escalations_task", escalations.c.on_call_task_id)
