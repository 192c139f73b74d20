"""Rows made by the database itself, a million in seconds: agents, and inbox messages that are due or finished.

The statements are the same text on both engines, so numbers are written into them instead of being bound.
"""

from __future__ import annotations

from collections.abc import Mapping

from swarm.store.bridge.transaction import Transaction

_BASE = 10_000_000
"""Added to numbers in ids, which gives them one length and their numeric order."""

_MOMENT = "1763700000000000"
_SLACK_TS = f"'17' || ({_BASE} + i) || '.000100'"
# The remainder of a division, spelled out: a driver would take "%" for a placeholder.
_AGENT = f"'agent-' || ({_BASE} + i - i / {{agents}} * {{agents}})"
_CHANNEL = "'C' || (1000 + i - i / 50 * 50)"


def agent_id(number: int) -> str:
    """Returns the id of the agent with this number, counted from 0."""
    return f"agent-{_BASE + number}"


def agents(tx: Transaction, count: int) -> None:
    """Makes ``count`` leads."""
    columns = {
        "id": f"'agent-' || ({_BASE} + i)",
        "name": f"'agent-' || ({_BASE} + i)",
        "role": "'lead'",
        "description": "''",
        "capabilities": "'[]'",
        "created_at": _MOMENT,
    }
    _insert(tx, "agents", columns, 0, count)


def due(tx: Transaction, first: int, count: int, agents: int) -> None:
    """Makes due messages, each in a thread of its own, spread over ``agents``; numbers start at ``first``."""
    _threads(tx, first, count, agents)
    _messages(tx, "unread", first, count, agents)
    columns = {
        "agent_id": _AGENT.format(agents=agents),
        "lane_id": f"'thread-' || ({_BASE} + i)",
        "order_key": f"{_MOMENT} + i",
    }
    _insert(tx, "queue_heads", columns, first, count)


def finished(tx: Transaction, first: int, count: int, agents: int) -> None:
    """Makes messages dismissed long ago, each with its thread and history."""
    _threads(tx, first, count, agents)
    _messages(tx, "dismissed", first, count, agents)
    for change in ("inbox.store", "inbox.claim", "inbox.dismiss"):
        columns = {
            "at": f"{_MOMENT} + i",
            "subject": f"'entry-' || ({_BASE} + i)",
            "thread_id": f"'thread-' || ({_BASE} + i)",
            "change": f"'{change}'",
            "agent_id": _AGENT.format(agents=agents),
        }
        _insert(tx, "history", columns, first, count)


def analyse(tx: Transaction) -> None:
    """Updates the planner's statistics, as PostgreSQL's autovacuum does; SQLite's planner never learns the sizes."""
    if tx.dialect == "postgresql":
        tx.execute("ANALYZE", {})


def _threads(tx: Transaction, first: int, count: int, agents: int) -> None:
    columns = {
        "id": f"'thread-' || ({_BASE} + i)",
        "team": "'T0BENCH'",
        "channel": _CHANNEL,
        "thread_ts": _SLACK_TS,
        "channel_type": "'channel'",
        "owner_id": _AGENT.format(agents=agents),
        "epoch": "1",
        "context": "'complete'",
        "context_failures": "0",
        "active_at": _MOMENT,
        "created_at": _MOMENT,
    }
    _insert(tx, "threads", columns, first, count)


def _messages(tx: Transaction, status: str, first: int, count: int, agents: int) -> None:
    columns = {
        "id": f"'entry-' || ({_BASE} + i)",
        "thread_id": f"'thread-' || ({_BASE} + i)",
        "agent_id": _AGENT.format(agents=agents),
        "team": "'T0BENCH'",
        "channel": _CHANNEL,
        "ts": _SLACK_TS,
        "status": f"'{status}'",
        "matched_by": "'mention'",
        "reason": "'the bot was mentioned'",
        "attempts": "0",
        "claims": "0" if status == "unread" else "1",
        "order_key": f"{_MOMENT} + i",
        "created_at": f"{_MOMENT} + i",
        "resolved_at": "NULL" if status == "unread" else f"{_MOMENT} + i",
    }
    _insert(tx, "inbox_messages", columns, first, count)


def _insert(tx: Transaction, table: str, columns: Mapping[str, str], first: int, count: int) -> None:
    """Inserts ``count`` rows whose columns are expressions over their number ``i``."""
    tx.execute(
        f"INSERT INTO {table} ({', '.join(columns)}) "
        f"WITH RECURSIVE numbers (i) AS "
        f"(SELECT {first} UNION ALL SELECT i + 1 FROM numbers WHERE i + 1 < {first + count}) "
        f"SELECT {', '.join(columns.values())} FROM numbers",
        {},
    )
