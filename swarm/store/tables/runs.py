"""Runs of agents that stream their answers: messages, events and feedback."""

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
    UniqueConstraint,
)

from swarm.domain.answers.events import PieceKind
from swarm.domain.model.feedback import Opinion, Reason
from swarm.domain.model.runs import PageKind, PagePhase, RunOutcome, RunStatus
from swarm.store.tables.schema import metadata, one_of

runs = Table(
    "runs",
    metadata,
    Column("id", Text, primary_key=True),
    Column("agent_id", Text, ForeignKey("agents.id"), nullable=False),
    Column("thread_id", Text, ForeignKey("threads.id")),  # null for a task without a thread
    Column("lease_token", Text, nullable=False),  # not a foreign key, because leases are deleted earlier
    Column("trigger_id", Text, nullable=False),  # the first inbox message, the task or the notice
    Column("inbox_message_ids", Text, nullable=False),  # JSON list: the answered inbox messages
    Column("task_id", Text, ForeignKey("tasks.id")),  # the task that the run works on
    Column("conversation_id", Text, nullable=False),
    Column("agui_run_id", Text, nullable=False),
    Column("trace_id", Text),  # the id that the agent's service got; null for a polling agent, and for old runs
    Column("requester", Text),  # a Slack user id
    Column("status", Text, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("stop_requested_at", BigInteger),
    Column("stop_requested_by", Text),  # a Slack user id
    Column("outcome", Text),  # end of the run; null while running
    Column("outcome_note", Text),  # the reason for a failure
    Column("final_text", Text),  # the complete text of the last message
    Column("final_closing", Text),  # JSON: the part below the text
    Column("retried_at", BigInteger),
    Column("retried_by", Text),  # a Slack user id
    Column("started_at", BigInteger, nullable=False),
    Column("ended_at", BigInteger),
    one_of("status", RunStatus),
    one_of("outcome", RunOutcome),
    CheckConstraint("(ended_at IS NULL) = (status IN ('running', 'closing', 'waiting'))", name="ended"),
    CheckConstraint("status <> 'closing' OR outcome IS NOT NULL", name="closing_is_known"),
)
_unfinished = runs.c.status.in_(("closing", "running"))  # in the same order as in the statements; SQLite requires this
# These locks prevent two processes from running the same trigger.
for _index, _column in (("uq_runs_trigger", runs.c.trigger_id), ("uq_runs_lease", runs.c.lease_token)):
    Index(_index, _column, unique=True, sqlite_where=_unfinished, postgresql_where=_unfinished)
_open_run = runs.c.ended_at.is_(None)
Index("ix_runs_open", runs.c.id, sqlite_where=_open_run, postgresql_where=_open_run)
Index("ix_runs_thread", runs.c.thread_id, runs.c.id)
Index("ix_runs_task", runs.c.task_id)
_ended_run = runs.c.ended_at.is_not(None)
Index("ix_runs_ended", runs.c.ended_at, sqlite_where=_ended_run, postgresql_where=_ended_run)

run_messages = Table(
    "run_messages",
    metadata,
    Column("run_id", Text, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    Column("page", Integer, nullable=False),  # 1 is the first
    Column("kind", Text, nullable=False),
    Column("ts", Text),  # null if unknown
    Column("phase", Text, nullable=False),
    Column("began_at", BigInteger, nullable=False),
    Column("text", Text),  # the complete text, once the message is being closed
    PrimaryKeyConstraint("run_id", "page"),
    one_of("kind", PageKind),
    one_of("phase", PagePhase),
    CheckConstraint("page >= 1", name="page"),
    CheckConstraint("phase <> 'open' OR ts IS NOT NULL", name="open_is_known"),
)
_open_message = run_messages.c.phase != "closed"
Index("ix_run_messages_open", run_messages.c.run_id, sqlite_where=_open_message, postgresql_where=_open_message)

run_events = Table(
    "run_events",
    metadata,
    Column("run_id", Text, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    Column("seq", Integer, nullable=False),  # 1 is the start
    Column("kind", Text, nullable=False),
    Column("payload", Text, nullable=False),  # JSON: the event
    Column("characters", Integer, nullable=False),  # of all text so far
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("run_id", "seq"),
    one_of("kind", PieceKind),
    CheckConstraint("(seq = 1) = (kind = 'opened')", name="opened_first"),
)

# What a polling agent's program has written, as its runner reported it. The places count the bytes that were sent.
run_log_pieces = Table(
    "run_log_pieces",
    metadata,
    Column("run_id", Text, ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    Column("position", BigInteger, nullable=False),  # bytes before this piece
    Column("number", Integer, nullable=False),  # 1 is the first
    Column("size", Integer, nullable=False),  # bytes; the stored text may have another length
    Column("text", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("run_id", "position"),
    CheckConstraint("position >= 0 AND size > 0", name="place"),
)
Index("ix_run_log_pieces_created", run_log_pieces.c.created_at)

feedback = Table(
    "feedback",
    metadata,
    Column("id", Text, primary_key=True),  # unchanged by a new opinion
    Column("answer_id", Text, nullable=False),  # the run, or the last post of an answer without a run
    Column("run_id", Text, ForeignKey("runs.id", ondelete="CASCADE")),
    Column("trace_id", Text),
    Column("conversation_id", Text, nullable=False),
    Column("agent_id", Text, ForeignKey("agents.id"), nullable=False),
    Column("thread_id", Text, ForeignKey("threads.id"), nullable=False),
    Column("channel", Text, nullable=False),
    Column("message_ts", Text, nullable=False),  # the message with the buttons
    Column("user_id", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("reason", Text),
    Column("comment", Text),
    Column("created_at", BigInteger, nullable=False),  # of the latest opinion
    UniqueConstraint("answer_id", "user_id", name="uq_feedback_person"),
    one_of("value", Opinion),
    one_of("reason", Reason),
    CheckConstraint("reason IS NULL OR value = 'down'", name="reason_of_down"),
    CheckConstraint("comment IS NULL OR reason IS NOT NULL", name="comment_on_reason"),
)
Index("ix_feedback_created", feedback.c.created_at, feedback.c.id)
Index("ix_feedback_thread", feedback.c.thread_id)
Index("ix_feedback_run", feedback.c.run_id)

remarks = Table(
    "remarks",
    metadata,
    Column("id", Text, primary_key=True),
    Column("channel", Text, nullable=False),
    Column("user_id", Text, nullable=False),
    Column("text", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)
Index("ix_remarks_created", remarks.c.created_at, remarks.c.id)
