"""Requests to people replace interrupts: with their answers, grants, and an audit.

Interrupts that still wait become requests with a card in Slack, so that questions asked before the update can be
answered. Their time to answer begins anew.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from typing import Any
from uuid import uuid4

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None

_NOTICES_BEFORE = (
    "message_changed", "message_deleted", "task_follow_up", "task_offered", "task_declined", "task_finished",
    "task_cancelled", "task_returned", "agent_message",
)  # fmt: skip
_DAY_US = 24 * 3600 * 1_000_000


def upgrade() -> None:
    _create_requests()
    _create_answers()
    _create_grants()
    op.add_column("deliveries", sa.Column("request_id", sa.Text))
    _create_index("ix_deliveries_request", "deliveries", ["request_id"], "request_id IS NOT NULL")
    _extend_notices(op.get_bind())
    _convert(op.get_bind())
    op.drop_table("interrupts")


def downgrade() -> None:
    raise NotImplementedError("Older versions do not know requests to people; restore a backup.")


def _extend_notices(connection: sa.Connection) -> None:
    """Adds the kind of notice that reports a decision, and the column of its request."""
    before, since = _listed("kind", _NOTICES_BEFORE), _listed("kind", (*_NOTICES_BEFORE, "human_input"))
    if connection.dialect.name != "sqlite":
        op.add_column("notices", sa.Column("request_id", sa.Text))
        op.drop_constraint(op.f("ck_notices_kind"), "notices")
        op.create_check_constraint(op.f("ck_notices_kind"), "notices", sa.text(since))
        return
    # SQLite can only replace the table. Its definition is changed as text, because Alembic would lose CHECKs.
    schema = "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND tbl_name = 'notices' AND type = '{}'"
    (definition,) = connection.exec_driver_sql(schema.format("table")).scalars()
    indexes = list(connection.exec_driver_sql(schema.format("index")).scalars())
    names = ", ".join(row[1] for row in connection.exec_driver_sql("PRAGMA table_info(notices)"))
    assert before in definition
    definition = definition.replace(before, since).replace("CONSTRAINT", "request_id TEXT, CONSTRAINT", 1)
    _, _, body = definition.partition("(")
    connection.exec_driver_sql(f"CREATE TABLE notices_new ({body}")
    connection.exec_driver_sql(f"INSERT INTO notices_new ({names}) SELECT {names} FROM notices")  # noqa: S608 - our names
    connection.exec_driver_sql("DROP TABLE notices")
    connection.exec_driver_sql("ALTER TABLE notices_new RENAME TO notices")
    for index in indexes:
        connection.exec_driver_sql(index)


def _create_requests() -> None:
    op.create_table(
        "requests",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("key", sa.Text, nullable=False),
        sa.Column("agent_id", sa.Text, nullable=False),
        sa.Column("thread_id", sa.Text),
        sa.Column("run_id", sa.Text),
        sa.Column("work_id", sa.Text, nullable=False),
        sa.Column("task_id", sa.Text),
        sa.Column("inbox_message_ids", sa.Text, nullable=False),
        sa.Column("lease_token", sa.Text, nullable=False),
        sa.Column("asker", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("resume", sa.Text, nullable=False),
        sa.Column("requester", sa.Text),
        sa.Column("tool", sa.Text),
        sa.Column("digest", sa.Text),
        sa.Column("agent_request_id", sa.Text, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("reason", sa.Text),
        sa.Column("tell_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_requests")),
        sa.UniqueConstraint("key", name=op.f("uq_requests_key")),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("fk_requests_agent_id")),
        sa.ForeignKeyConstraint(["thread_id"], ["threads.id"], name=op.f("fk_requests_thread_id")),
        sa.ForeignKeyConstraint(["task_id"], ["tasks.id"], name=op.f("fk_requests_task_id")),
        sa.CheckConstraint(_listed("asker", ("durable", "live")), name=op.f("ck_requests_asker")),
        sa.CheckConstraint(
            _listed("status", ("open", "approved", "rejected", "answered", "expired", "cancelled")),
            name=op.f("ck_requests_status"),
        ),
        sa.CheckConstraint(_listed("resume", ("none", "sent", "accepted", "failed")), name=op.f("ck_requests_resume")),
        sa.CheckConstraint("(ended_at IS NULL) = (status = 'open')", name=op.f("ck_requests_ended")),
        sa.CheckConstraint("status <> 'open' OR resume = 'none'", name=op.f("ck_requests_decided_before_resumed")),
        sa.CheckConstraint("status = 'open' OR tell_at IS NULL", name=op.f("ck_requests_told_while_open")),
    )
    op.create_index("ix_requests_work", "requests", ["work_id", "id"])
    op.create_index("ix_requests_run", "requests", ["run_id", "id"])
    _create_index("ix_requests_open", "requests", ["id"], "status = 'open'")
    _create_index("ix_requests_thread", "requests", ["thread_id"], "status = 'open'")
    _create_index("ix_requests_expiry", "requests", ["expires_at"], "status = 'open'")
    _create_index("ix_requests_sent", "requests", ["id"], "resume = 'sent'")
    _create_index("ix_requests_tell", "requests", ["tell_at"], "tell_at IS NOT NULL")
    _create_index("ix_requests_ended", "requests", ["ended_at"], "ended_at IS NOT NULL")


def _create_answers() -> None:
    decisions = ("approve", "reject", "edit", "approve_thread", "approve_always", "answer")
    op.create_table(
        "request_answers",
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("person", sa.Text, nullable=False),
        sa.Column("decision", sa.Text, nullable=False),
        sa.Column("door", sa.Text, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("request_id", "person", name=op.f("pk_request_answers")),
        _of_request("request_answers"),
        sa.CheckConstraint(_listed("decision", decisions), name=op.f("ck_request_answers_decision")),
        sa.CheckConstraint(_listed("door", ("slack", "http", "cli", "page")), name=op.f("ck_request_answers_door")),
    )
    op.create_table(
        "request_drafts",
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("person", sa.Text, nullable=False),
        sa.Column("payload", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("request_id", "person", name=op.f("pk_request_drafts")),
        _of_request("request_drafts"),
    )


def _create_grants() -> None:
    op.create_table(
        "grants",
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("agent_id", sa.Text, nullable=False),
        sa.Column("tool", sa.Text, nullable=False),
        sa.Column("scope", sa.Text, nullable=False),
        sa.Column("thread_id", sa.Text),
        sa.Column("request_id", sa.Text, nullable=False),
        sa.Column("given_by", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("revoked_at", sa.BigInteger),
        sa.Column("uses", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_grants")),
        sa.ForeignKeyConstraint(["agent_id"], ["agents.id"], name=op.f("fk_grants_agent_id")),
        sa.ForeignKeyConstraint(["thread_id"], ["threads.id"], name=op.f("fk_grants_thread_id")),
        sa.CheckConstraint(_listed("scope", ("thread", "always")), name=op.f("ck_grants_scope")),
        sa.CheckConstraint("(scope = 'thread') = (thread_id IS NOT NULL)", name=op.f("ck_grants_thread")),
    )
    op.create_index("ix_grants_agent", "grants", ["agent_id", "tool"])
    kinds = ("asked", "refused", "decided", "expired", "cancelled", "resumed", "granted", "revoked", "used")
    op.create_table(
        "audit",
        sa.Column("seq", sa.BigInteger().with_variant(sa.Integer, "sqlite"), nullable=False, autoincrement=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("request_id", sa.Text),
        sa.Column("person", sa.Text),
        sa.Column("agent_id", sa.Text),
        sa.Column("tool", sa.Text),
        sa.Column("digest", sa.Text),
        sa.Column("outcome", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_audit")),
        sa.CheckConstraint(_listed("kind", kinds), name=op.f("ck_audit_kind")),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_audit_at", "audit", ["at"])


def _convert(connection: sa.Connection) -> None:
    """Makes requests of the interrupts that wait, and queues their cards."""
    waiting = connection.execute(
        sa.text(
            "SELECT i.id, i.agent_interrupt_id, i.payload, r.id AS run_id, r.agent_id, r.thread_id, r.task_id, "
            "r.inbox_message_ids, r.trigger_id, r.lease_token, r.requester, t.channel, t.thread_ts "
            "FROM interrupts i JOIN runs r ON r.id = i.run_id LEFT JOIN threads t ON t.id = r.thread_id "
            "WHERE i.status = 'open' AND (r.status = 'waiting' OR (r.status = 'closing' AND r.outcome = 'waiting')) "
            "ORDER BY i.id"
        )
    )
    now = int(time.time() * 1_000_000)
    by_key = {f"run:{row['run_id']}:{row['agent_interrupt_id']}": row for row in waiting.mappings().all()}
    for key, row in by_key.items():
        works = [row["task_id"]] if row["task_id"] else json.loads(row["inbox_message_ids"]) or [row["trigger_id"]]
        question = _question(json.loads(row["payload"]), key)
        connection.execute(
            sa.text(
                "INSERT INTO requests (id, key, agent_id, thread_id, run_id, work_id, task_id, inbox_message_ids, "
                "lease_token, asker, status, resume, requester, agent_request_id, payload, created_at, expires_at) "
                "VALUES (:id, :key, :agent_id, :thread_id, :run_id, :work_id, :task_id, :inbox_message_ids, "
                ":lease_token, 'durable', 'open', 'none', :requester, :agent_interrupt_id, :question, :now, :until)"
            ),
            {**row, "key": key, "work_id": works[0], "inbox_message_ids": json.dumps([] if row["task_id"] else works),
             "question": json.dumps(question), "now": now,
             "until": now + _DAY_US},
        )  # fmt: skip
        if row["thread_id"]:
            connection.execute(
                sa.text(
                    "INSERT INTO deliveries (id, kind, status, thread_id, agent_id, channel, thread_ts, text, "
                    "broadcast, idempotency_key, attempts, due_at, created_at, removes, request_id) VALUES "
                    "(:delivery_id, 'post', 'queued', :thread_id, :agent_id, :channel, :thread_ts, :title, "
                    ":no, :card, 0, :now, :now, :no, :id)"
                ),
                {**row, "delivery_id": str(uuid4()), "title": question["title"], "card": f"request:{row['id']}",
                 "now": now, "no": False},
            )  # fmt: skip


def _question(asked: Mapping[str, Any], key: str) -> dict[str, Any]:
    fields = [
        {
            "name": field["name"],
            "label": field.get("label") or "",
            "type": field.get("kind") or "text",
            "required": bool(field.get("required")),
            "description": field.get("description") or "",
            "options": [{"value": option} for option in field.get("options") or ()],
            "default": field.get("default") or None,
        }
        for field in asked.get("fields") or ()
    ]
    is_approval = any(field["name"] == "approved" and field["type"] == "boolean" for field in fields)
    if is_approval:
        fields = [field for field in fields if field["name"] not in ("approved", "reason", "editedArgs")]
    if not fields and not is_approval:
        fields = [{"name": "answer", "label": "Answer", "type": "textarea", "required": True}]
    return {
        "key": key,
        "title": "A question",
        "prompt": asked.get("prompt") or "",
        "fields": fields,
        "decisions": ["approve" if is_approval else "answer", "reject"],
        "policy": {"requester": True},
        "agent_request_id": asked.get("id") or "",
        "raw": asked.get("raw") or {},
    }


def _of_request(table: str) -> sa.ForeignKeyConstraint:
    name = op.f(f"fk_{table}_request_id")
    return sa.ForeignKeyConstraint(["request_id"], ["requests.id"], name=name, ondelete="CASCADE")


def _create_index(name: str, table: str, columns: list[str], where: str) -> None:
    op.create_index(name, table, columns, sqlite_where=sa.text(where), postgresql_where=sa.text(where))


def _listed(column: str, values: tuple[str, ...]) -> str:
    return f"{column} IN ({', '.join(repr(value) for value in values)})"
