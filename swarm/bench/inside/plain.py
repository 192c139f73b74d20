"""The reference for the store: the same rows written with plain sqlite3, by a program without further needs.

The program finds the agent's next message, leases it, marks it, and later ends both, with history and the reaction for
Slack. It has no checks of the state machine, no notices, no wakeups and no bundles, and no caller waits for its
results.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from swarm.bench.inside.seed import agent_id
from swarm.clock import new_id
from swarm.store.bridge.sqlite_driver import connect, sqlite3

S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True, slots=True)
class _Held:
    """A message under a lease."""

    token: str
    inbox_message_id: str
    thread_id: str
    agent_id: str
    channel: str
    ts: str


def one_by_one(path: Path, callers: int, pairs: int) -> float:
    """Claims and finishes ``pairs`` messages, each step a transaction with its own sync. Returns pairs per second."""
    with _connected(path) as connection:
        begun = time.perf_counter()
        for number in range(pairs):
            (held,) = _committed(connection, _claim, [agent_id(number % callers)])
            _committed(connection, _finish, [held] if held else [])
        return pairs / (time.perf_counter() - begun)


def grouped(path: Path, callers: int, pairs: int) -> float:
    """As `one_by_one`, with one transaction for all callers' claims and one for their finishes, under savepoints."""
    with _connected(path) as connection:
        begun = time.perf_counter()
        for _ in range(pairs // callers):
            held = _committed(connection, _claim, [agent_id(number) for number in range(callers)])
            _committed(connection, _finish, [one for one in held if one])
        return pairs // callers * callers / (time.perf_counter() - begun)


@contextmanager
def _connected(path: Path) -> Iterator[sqlite3.Connection]:
    connection = connect(path, busy_timeout_seconds=5)
    try:
        yield connection
    finally:
        connection.close()


def _committed(
    connection: sqlite3.Connection, step: Callable[[sqlite3.Connection, S], T], subjects: Sequence[S]
) -> list[T]:
    """Takes the step for every subject in one transaction, each of several under a savepoint."""
    results, is_group = [], len(subjects) > 1
    connection.execute("BEGIN IMMEDIATE")
    for subject in subjects:
        if is_group:
            connection.execute("SAVEPOINT step")
        results.append(step(connection, subject))
        if is_group:
            connection.execute("RELEASE step")
    connection.execute("COMMIT")
    return results


def _claim(connection: sqlite3.Connection, agent: str) -> _Held | None:
    """Leases the agent's next message."""
    found = connection.execute(
        "SELECT m.id, m.thread_id, m.channel, m.ts FROM queue_heads h "
        "JOIN inbox_messages m ON m.agent_id = h.agent_id AND m.thread_id = h.lane_id "
        "WHERE h.agent_id = ? AND m.status = 'unread' AND m.delay_reason IS NULL ORDER BY h.order_key LIMIT 1",
        (agent,),
    ).fetchone()
    if found is None:
        return None
    inbox_message_id, thread_id, channel, ts = found
    token, now = secrets.token_urlsafe(16), time.time_ns() // 1_000
    connection.execute(
        "INSERT INTO leases (token, kind, agent_id, thread_id, trigger_id, attempt, hold, created_at, expires_at) "
        "VALUES (?, 'work', ?, ?, ?, 1, 0, ?, ?)",
        (token, agent, thread_id, inbox_message_id, now, now + 60_000_000),
    )
    connection.execute(
        "UPDATE inbox_messages SET status = 'claimed', claims = claims + 1, lease_token = ? "
        "WHERE id = ? AND status = 'unread'",
        (token, inbox_message_id),
    )
    connection.execute("INSERT INTO lease_members (token, inbox_message_id) VALUES (?, ?)", (token, inbox_message_id))
    _record(connection, now, inbox_message_id, thread_id, "inbox.claim", agent, None)
    connection.execute("DELETE FROM queue_heads WHERE agent_id = ? AND lane_id = ?", (agent, thread_id))
    return _Held(
        token=token, inbox_message_id=inbox_message_id, thread_id=thread_id, agent_id=agent, channel=channel, ts=ts
    )


def _finish(connection: sqlite3.Connection, held: _Held) -> None:
    """Dismisses the message and ends its lease."""
    now = time.time_ns() // 1_000
    connection.execute(
        "UPDATE inbox_messages SET status = 'dismissed', resolved_at = ? "
        "WHERE id = ? AND lease_token = ? AND status = 'claimed'",
        (now, held.inbox_message_id, held.token),
    )
    _record(connection, now, held.inbox_message_id, held.thread_id, "inbox.dismiss", held.agent_id, "measured")
    connection.execute(
        "INSERT INTO deliveries (id, kind, status, thread_id, channel, target_ts, text, broadcast, idempotency_key, "
        "attempts, due_at, expires_at, created_at) "
        "VALUES (?, 'reaction', 'queued', ?, ?, ?, 'white_check_mark', 0, ?, 0, ?, ?, ?)",
        (
            new_id(), held.thread_id, held.channel, held.ts, f"reaction:{held.channel}:{held.ts}:white_check_mark",
            now, now + 60_000_000, now,
        ),
    )  # fmt: skip
    connection.execute(
        "UPDATE leases SET ended_at = ?, ended_as = 'finished' WHERE token = ? AND ended_at IS NULL", (now, held.token)
    )


def _record(
    connection: sqlite3.Connection,
    now: int,
    inbox_message_id: str,
    thread_id: str,
    change: str,
    agent: str,
    reason: str | None,
) -> None:
    connection.execute(
        "INSERT INTO history (at, subject, thread_id, change, agent_id, reason) VALUES (?, ?, ?, ?, ?, ?)",
        (now, inbox_message_id, thread_id, change, agent, reason),
    )
