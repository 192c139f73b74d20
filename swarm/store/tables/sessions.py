"""Sessions of built-in agents, and the usage of models."""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Index,
    Integer,
    PrimaryKeyConstraint,
    Table,
    Text,
    text,
)

from swarm.domain.model.budgets import BudgetScope, BudgetUnit
from swarm.domain.model.language_models import Door, UsageOutcome, UsagePurpose
from swarm.domain.model.sessions import MessageRole
from swarm.store.tables.schema import metadata, one_of

sessions = Table(
    "sessions",
    metadata,
    Column("agent", Text, nullable=False),  # the agent's id; no foreign key, because agents are deleted separately
    Column("id", Text, nullable=False),
    Column("metadata", Text, nullable=False),  # JSON object
    Column("edition", Integer, nullable=False),  # increases when current messages are replaced or summarised
    Column("summary", Text),  # replaces the older messages
    Column("summarised_to", BigInteger, nullable=False),  # the position of the last message in the summary; 0: none
    Column("summarised_at", BigInteger),
    Column("created_at", BigInteger, nullable=False),
    Column("updated_at", BigInteger, nullable=False),  # time of the last message
    PrimaryKeyConstraint("agent", "id"),
    CheckConstraint(
        "(summary IS NULL) = (summarised_to = 0) AND (summary IS NULL) = (summarised_at IS NULL)", name="summarised"
    ),
)
Index("ix_sessions_updated", sessions.c.updated_at)

session_messages = Table(
    "session_messages",
    metadata,
    Column("agent", Text, nullable=False),
    Column("session_id", Text, nullable=False),
    Column("position", BigInteger, nullable=False),  # 1 is the first
    Column("role", Text, nullable=False),
    Column("content", Text, nullable=False),  # JSON: all other parts of the message
    Column("agui_run_id", Text),  # the message's run; null: added individually
    Column("created_at", BigInteger, nullable=False),
    Column("replaced_at", BigInteger),  # when another attempt replaced the message; null: part of the conversation
    Column("source", Text),  # the inbox message or task with this text; null: not from Slack, or written by the agent
    PrimaryKeyConstraint("agent", "session_id", "position"),
    ForeignKeyConstraint(["agent", "session_id"], ["sessions.agent", "sessions.id"], ondelete="CASCADE"),
    one_of("role", MessageRole),
    CheckConstraint("position >= 1", name="position"),
)
_has_source = session_messages.c.source.is_not(None)
Index(
    "ix_session_messages_source",
    session_messages.c.source,
    sqlite_where=_has_source,
    postgresql_where=_has_source,
)

model_usage = Table(
    "model_usage",
    metadata,
    Column("id", Text, primary_key=True),
    Column("agent", Text, nullable=False),  # the agent's name
    Column("door", Text, nullable=False),
    Column("session_id", Text, nullable=False),  # not a foreign key, because sessions are deleted separately
    Column("run_id", Text, nullable=False),  # empty if not in Slack
    Column("requester", Text, nullable=False),
    Column("model", Text, nullable=False),
    Column("outcome", Text, nullable=False),
    Column("note", Text, nullable=False),
    Column("requests", BigInteger, nullable=False),
    Column("input_tokens", BigInteger, nullable=False),
    Column("output_tokens", BigInteger, nullable=False),
    Column("cache_read_tokens", BigInteger, nullable=False),
    Column("cache_write_tokens", BigInteger, nullable=False),
    Column("tool_calls", BigInteger, nullable=False),
    Column("cost_microdollars", BigInteger),  # null if unknown
    Column("started_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger, nullable=False),
    Column("purpose", Text, one_of("purpose", UsagePurpose), nullable=False, server_default="answer"),
    Column("thread_id", Text),  # not a foreign key, because usage is kept after its thread
    one_of("door", Door),
    one_of("outcome", UsageOutcome),
)
Index("ix_model_usage_ended", model_usage.c.ended_at, model_usage.c.id)
Index("ix_model_usage_agent", model_usage.c.agent, model_usage.c.ended_at, model_usage.c.id)
_has_thread = model_usage.c.thread_id.is_not(None)
Index("ix_model_usage_thread", model_usage.c.thread_id, sqlite_where=_has_thread, postgresql_where=_has_thread)
_has_run = model_usage.c.run_id != text("''")
Index("ix_model_usage_run", model_usage.c.run_id, sqlite_where=_has_run, postgresql_where=_has_run)

budget_raises = Table(  # what people have approved above the operator's budgets
    "budget_raises",
    metadata,
    Column("scope", Text, nullable=False),
    Column("unit", Text, nullable=False),
    Column("subject", Text, nullable=False),  # the run's or thread's id, the day, or the agent's name and the day
    Column("new_limit", BigInteger, nullable=False),  # in tokens or in millionths of a dollar
    Column("request_id", Text, nullable=False),  # whose approval counts; not a foreign key, since it is deleted earlier
    Column("raised_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("scope", "unit", "subject"),
    one_of("scope", BudgetScope),
    one_of("unit", BudgetUnit),
)
Index("ix_budget_raises_raised", budget_raises.c.raised_at)
