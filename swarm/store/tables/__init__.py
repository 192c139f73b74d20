"""The tables of the database.

Times are microseconds since 1970 UTC, documents are JSON text, and identifiers are UUID version 7. Values are guarded
here (CHECK, unique and partial unique indexes); transitions are guarded by the ``WHERE`` of each update. Both are
derived from the enums of the domain.
"""

from swarm.store.tables.agents import (
    agent_instances,
    agent_message_addressees,
    agent_messages,
    agent_tokens,
    agents,
    listening,
)
from swarm.store.tables.documents import document_pieces, documents, is_described
from swarm.store.tables.effects import deliveries, history, idempotency_keys, locks, webhooks
from swarm.store.tables.requests import audit, escalations, grants, request_answers, request_drafts, requests
from swarm.store.tables.runs import feedback, remarks, run_events, run_log_pieces, run_messages, runs
from swarm.store.tables.schema import metadata
from swarm.store.tables.sessions import budget_raises, model_usage, session_messages, sessions
from swarm.store.tables.threads import (
    alerts,
    early_messages,
    forgotten,
    people,
    thread_messages,
    threads,
    watermarks,
)
from swarm.store.tables.work import (
    inbox_messages,
    lease_members,
    leases,
    notices,
    queue_heads,
    task_dependencies,
    tasks,
)

__all__ = [
    "agent_instances",
    "agent_message_addressees",
    "agent_messages",
    "agent_tokens",
    "agents",
    "alerts",
    "audit",
    "budget_raises",
    "deliveries",
    "document_pieces",
    "documents",
    "early_messages",
    "escalations",
    "feedback",
    "forgotten",
    "grants",
    "history",
    "idempotency_keys",
    "inbox_messages",
    "is_described",
    "lease_members",
    "leases",
    "listening",
    "locks",
    "metadata",
    "model_usage",
    "notices",
    "people",
    "queue_heads",
    "remarks",
    "request_answers",
    "request_drafts",
    "requests",
    "run_events",
    "run_log_pieces",
    "run_messages",
    "runs",
    "session_messages",
    "sessions",
    "task_dependencies",
    "tasks",
    "thread_messages",
    "threads",
    "watermarks",
    "webhooks",
]
