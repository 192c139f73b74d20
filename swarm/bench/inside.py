"""Measures only the store, in this process: claims and finishes by many callers, and a claim with a million finished
messages in the database.

The database itself generates the rows, a million within seconds. The statements have the same text on both engines, so
numbers are written into the text instead of being bound.

The reference is the plain driver: a program with sqlite3 that writes the same rows. The program finds the agent's next
message, leases and marks it, and later ends the message and its lease, with history and the reaction for Slack. The
program has no state machine checks, notices, wakeups or bundles, and no caller waits for its results.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final, TypeVar

from swarm.bench.figures import Better, Figure, Say
from swarm.bench.plans import LoopPlan
from swarm.bench.stage import Scratch, scratch
from swarm.clock import new_id
from swarm.domain.model.agents import Agent, Role
from swarm.domain.model.leases import FinishOutcome
from swarm.domain.operating_policy import OperatingPolicy
from swarm.services.inbox.claim import ClaimCall, lease_due
from swarm.services.rules.leases import FinishCall, finish
from swarm.store.bridge.database import Database
from swarm.store.bridge.sqlite_driver import connect, sqlite3
from swarm.store.bridge.transaction import Transaction

_BASE = 10_000_000
"""Added to the numbers in ids, so that ids have equal length and sort numerically."""

_MOMENT = "1763700000000000"
_SLACK_TS = f"'17' || ({_BASE} + i) || '.000100'"
# The remainder of a division, written without "%", which a driver would take for a placeholder.
_AGENT = f"'agent-' || ({_BASE} + i - i / {{agents}} * {{agents}})"
_CHANNEL = "'C' || (1000 + i - i / 50 * 50)"


def agent_id(number: int) -> str:
    """Returns the id of the agent with this number, counted from 0."""
    return f"agent-{_BASE + number}"


def agents(tx: Transaction, count: int) -> None:
    """Inserts ``count`` leads."""
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
    """Inserts due messages, each in a separate thread, distributed over ``agents``. Numbers start at ``first``."""
    _threads(tx, first, count, agents)
    _messages(tx, "unread", first, count, agents)
    columns = {
        "agent_id": _AGENT.format(agents=agents),
        "lane_id": f"'thread-' || ({_BASE} + i)",
        "order_key": f"{_MOMENT} + i",
    }
    _insert(tx, "queue_heads", columns, first, count)


def finished(tx: Transaction, first: int, count: int, agents: int) -> None:
    """Inserts messages that were dismissed long ago, each with its thread and history."""
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
    """Updates the planner's statistics, as PostgreSQL's autovacuum does. SQLite collects no statistics by itself."""
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
    """Inserts ``count`` rows whose columns are expressions of the row number ``i``."""
    tx.execute(
        f"INSERT INTO {table} ({', '.join(columns)}) "
        f"WITH RECURSIVE numbers (i) AS "
        f"(SELECT {first} UNION ALL SELECT i + 1 FROM numbers WHERE i + 1 < {first + count}) "
        f"SELECT {', '.join(columns.values())} FROM numbers",
        {},
    )


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


def plain_one_by_one(path: Path, callers: int, pairs: int) -> float:
    """Claims and finishes ``pairs`` messages, with a separate transaction and sync for each step. Returns pairs per
    second."""
    with _connected(path) as connection:
        begun = time.perf_counter()
        for number in range(pairs):
            (held,) = _committed(connection, _claim, [agent_id(number % callers)])
            _committed(connection, _finish, [held] if held else [])
        return pairs / (time.perf_counter() - begun)


def plain_grouped(path: Path, callers: int, pairs: int) -> float:
    """Does the same as `plain_one_by_one`, with one transaction for all claims and one for all finishes, using
    savepoints."""
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
    """Performs the step for every subject in one transaction. Several subjects have a savepoint each."""
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


_TURNS: Final = 3
_AGENTS: Final = 8


async def measure(plan: LoopPlan, say: Say) -> list[Figure]:
    """Measures pairs per second through ``Database`` and, on SQLite, also through the plain driver with the same rows.

    The three variants take turns, and the best turn of each counts, so temporary load on the machine does not distort
    the ratios.
    """
    pairs = plan.store_pairs // _TURNS
    ours, one_by_one, grouped = list[float](), list[float](), list[float]()
    for turn in range(1, _TURNS + 1):
        say(f"{pairs} messages are claimed and finished by {plan.callers} callers (turn {turn} of {_TURNS})")
        async with _seeded(plan, pairs) as (_, database):
            begun = time.perf_counter()
            done = await asyncio.gather(*(_caller(database, number) for number in range(plan.callers)))
            ours.append(sum(done) / (time.perf_counter() - begun))
        if plan.database == "sqlite":
            say("the same rows through the plain driver")
            for found, run, count in ((one_by_one, plain_one_by_one, pairs // 4), (grouped, plain_grouped, pairs)):
                async with _seeded(plan, count) as (place, _):
                    found.append(await asyncio.to_thread(run, place.folder / "swarm.db", plan.callers, count))
    figure = partial(Figure, "store", better=Better.HIGHER)
    figures = [figure(f"claim + finish, {plan.callers} callers", max(ours), "pairs/s")]
    if grouped:
        single, group = max(one_by_one), max(grouped)
        figures += [
            figure("the plain driver, one by one", single, "pairs/s"),
            figure("the plain driver, grouped", group, "pairs/s"),
            figure("against the plain driver one by one", max(ours) / single, "×", target=5.0, ratio=True),
            figure("against the plain driver grouped", 100 * max(ours) / group, "%", target=120.0, ratio=True),
        ]
    return figures


@asynccontextmanager
async def _seeded(plan: LoopPlan, pairs: int) -> AsyncIterator[tuple[Scratch, Database]]:
    async with scratch(plan.database) as place, Database(place.url) as database:
        await database.write(agents, plan.callers)
        await database.write(due, 0, pairs, plan.callers)
        await database.write(analyse)
        yield place, database


async def _caller(database: Database, number: int) -> int:
    """Claims and finishes one message at a time until none is left. Returns the number of messages."""
    agent = Agent(
        id=agent_id(number),
        name=f"agent-{number}",
        role=Role.LEAD,
        description="",
        capabilities=(),
        created_at=0,
        last_seen_at=None,
    )
    done = 0
    while claimed := await database.write_together(lease_due, ClaimCall(agent_id=agent.id, limit=1)):
        tokens = tuple(claim.lease.token for claim in claimed)
        ending = FinishCall(
            agent=agent,
            tokens=tokens,
            outcome=FinishOutcome.DISMISSED,
            reason="measured",
            operating_policy=OperatingPolicy(),
        )
        await database.write_together(finish, ending)
        done += len(tokens)
    return done


async def measure_backlog(plan: LoopPlan, say: Say) -> list[Figure]:
    """Measures the median time of a claim with few and with many finished rows, and the ratio of the two."""
    few, _ = await _claim_times(plan, plan.few_rows, say)
    many, whole = await _claim_times(plan, plan.rows, say)
    figure = partial(Figure, "backlog")
    return [
        figure(f"claim beside {plan.few_rows:,} finished, median", few * 1e6, "µs"),
        figure(f"claim beside {plan.rows:,} finished, median", many * 1e6, "µs"),
        figure(f"the same with its commit, {plan.rows:,} finished", whole * 1e6, "µs"),
        figure("many against few", many / few, "×", target=1.5, ratio=True),
    ]


async def _claim_times(plan: LoopPlan, rows: int, say: Say) -> tuple[float, float]:
    """Returns the median seconds of a claim, alone and with queue, commit and sync, for one caller and ``rows``
    finished rows."""
    async with scratch(plan.database) as place, Database(place.url) as database:
        begun = time.perf_counter()
        await database.write(agents, _AGENTS)
        await database.write(finished, 0, rows, _AGENTS)
        await database.write(due, rows, plan.claims, _AGENTS)
        await database.write(analyse)
        say(f"{rows:,} finished rows were inserted in {time.perf_counter() - begun:.1f} s; claiming {plan.claims}")
        inner, outer = [], []
        for number in range(rows, rows + plan.claims):  # the numbers of the due messages
            begun = time.perf_counter()
            inner.append(await database.write(_timed_claim, agent_id(number % _AGENTS)))
            outer.append(time.perf_counter() - begun)
    return median(inner), median(outer)


def _timed_claim(tx: Transaction, agent_id: str) -> float:
    begun = time.perf_counter()
    (claimed,) = lease_due(tx, [ClaimCall(agent_id=agent_id, limit=1)])
    elapsed = time.perf_counter() - begun
    assert claimed  # every claim has a due message
    return elapsed
