"""Measures only the store, in this process: claims and finishes by many callers, a look of the sender with many open
reactions, and a claim with a million finished messages in the database.

The database itself generates the rows, a million within seconds. The statements have the same text on both engines, so
numbers are written into the text instead of being bound. The reference is the plain driver (`plain`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Final

from swarm.domain.model.agents import Agent, Role
from swarm.domain.model.leases import FinishOutcome
from swarm.domain.policy.operating import OperatingPolicy
from swarm.services.inbox.claim import lease_due
from swarm.services.inbox.claim_calls import ClaimCall
from swarm.services.outbox.deliver import POST_LANES
from swarm.services.work.leases import FinishCall, finish
from swarm.store import deliveries, reactions
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm_lab.bench.figures import Better, Circumstances, Figure, Say, combined
from swarm_lab.bench.loop.plain import GROUP, Run, Speed, plain_driver
from swarm_lab.bench.plans import LoopPlan
from swarm_lab.bench.stage import other_programs, scratch

_BASE = 10_000_000
"""Added to the numbers in ids, so that ids have equal length and sort numerically."""

_MOMENT = "1763700000000000"
_SLACK_TS = f"'17' || ({_BASE} + i) || '.000100'"
# The remainder of a division, written without "%", which a driver would take for a placeholder.
_AGENT = f"'agent-' || ({_BASE} + i - i / {{agents}} * {{agents}})"
_CHANNEL = "'C' || (1000 + i - i / 50 * 50)"


def _agent_id(number: int) -> str:
    """Returns the id of the agent with this number, counted from 0."""
    return f"agent-{_BASE + number}"


def _agents(tx: Transaction, count: int) -> None:
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


def _due(tx: Transaction, first: int, count: int, agents: int) -> None:
    """Inserts due messages, each in a separate thread, distributed over ``agents``. Numbers start at ``first``."""
    _threads(tx, first, count, agents)
    _messages(tx, "unread", first, count, agents)
    columns = {
        "agent_id": _AGENT.format(agents=agents),
        "lane_id": f"'thread-' || ({_BASE} + i)",
        "order_key": f"{_MOMENT} + i",
    }
    _insert(tx, "queue_heads", columns, first, count)


def _finished(tx: Transaction, first: int, count: int, agents: int) -> None:
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


def _analyse(tx: Transaction) -> None:
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


_AGENTS: Final = 8
_TURNS: Final = 3


async def measure(plan: LoopPlan, say: Say) -> list[Figure]:
    """Measures pairs per second through ``Database``, and the plain driver with the same rows.

    The two take turns, and the figures and their ratios are the medians of the turns, because other programs may leave
    more of the machine to one than to the other.
    """
    part = replace(plan, store_pairs=plan.store_pairs // _TURNS, plain_pairs=plan.plain_pairs // _TURNS)
    async with plain_driver(plan.database) as plain:
        return combined([await _turn(part, plain, say) for _ in range(_TURNS)])


async def _turn(plan: LoopPlan, plain: Run, say: Say) -> list[Figure]:
    say("the plain driver, one by one")
    single = await plain(1, plan.plain_pairs)
    ours = {callers: await _pairs(plan, callers, say) for callers in (1, plan.callers)}
    say("the plain driver, grouped")
    group = await plain(GROUP, plan.store_pairs // 4)
    (one,), (many,) = ours[1], ours[plan.callers]
    figure, callers = partial(Figure, "store", better=Better.HIGHER), f"{plan.callers} callers"
    return [
        one,
        many,
        *_of_plain("one by one", single),
        *_of_plain(f"in groups of {GROUP}", group),
        figure("1 caller, against the plain driver one by one", one.value / single.pairs, "×"),
        figure(f"{callers}, against the plain driver one by one", many.value / single.pairs, "×", target=5.0),
        figure(f"{callers}, against the plain driver grouped", 100 * many.value / group.pairs, "%", target=120.0),
    ]


def _of_plain(how: str, speed: Speed) -> list[Figure]:
    beside = Circumstances(others=speed.others, cpu_ms=speed.pair_cpu_ms)
    return [
        Figure("store", f"the plain driver {how}, {what}", rate, unit, Better.HIGHER, beside=conditions)
        for what, rate, unit, conditions in (
            ("claim + finish", speed.pairs, "pairs/s", beside),
            ("events", speed.events, "events/s", None),
        )
    ]


async def _pairs(plan: LoopPlan, callers: int, say: Say) -> list[Figure]:
    """Measures the store alone, with a number of callers."""
    pairs = plan.store_pairs if callers > 1 else plan.plain_pairs
    say(f"{pairs} messages are claimed and finished by {callers} caller{'s' if callers > 1 else ''}")
    async with _seeded(plan, callers, pairs) as database:
        with other_programs() as window:
            cpu = time.process_time()
            await asyncio.gather(*(_caller(database, number) for number in range(callers)))
            window.cpu_seconds = time.process_time() - cpu
    what = f"claim + finish, {callers} caller{'s' if callers > 1 else ''}"
    figure = Figure("store", what, pairs / window.seconds, "pairs/s", Better.HIGHER)
    return window.beside([figure], pairs)


@asynccontextmanager
async def _seeded(plan: LoopPlan, callers: int, pairs: int) -> AsyncIterator[Database]:
    async with scratch(plan.database) as place, Database(place.url) as database:
        await database.write(_agents, callers)
        await database.write(_due, 0, pairs, callers)
        await database.write(_analyse)
        yield database


async def _caller(database: Database, number: int) -> None:
    """Claims and finishes one message at a time until none is left."""
    agent = Agent(
        id=_agent_id(number),
        name=f"agent-{number}",
        role=Role.LEAD,
        description="",
        capabilities=(),
        created_at=0,
        last_seen_at=None,
    )
    while claimed := await database.write_together(lease_due, ClaimCall(agent_id=agent.id, limit=1)):
        ending = FinishCall(
            agent=agent,
            tokens=tuple(claim.lease.token for claim in claimed),
            outcome=FinishOutcome.DISMISSED,
            reason="measured",
            operating_policy=OperatingPolicy(),
        )
        await database.write_together(finish, ending)


async def measure_sender(plan: LoopPlan, say: Say) -> list[Figure]:
    """Measures how long the sender takes to look for due posts and reactions, without and with many open reactions."""
    async with scratch(plan.database) as place, Database(place.url) as database:
        await database.write(_agents, _AGENTS)
        await database.write(_finished, 0, plan.open_reactions, _AGENTS)
        await database.write(_analyse)
        with other_programs() as window:
            none = await _looks(plan, database)
            await database.write(_open_reactions, 0, plan.open_reactions)
            await database.write(_analyse)
            say(f"{plan.open_reactions:,} reactions are open")
            many = await _looks(plan, database)
    figure, found = partial(Figure, "sender"), list[Figure]()
    for what in none:
        found += [
            figure(f"a look for {what} without open reactions, median", none[what] * 1e6, "µs"),
            figure(f"a look for {what} with {plan.open_reactions:,} open reactions, median", many[what] * 1e6, "µs"),
            figure(f"look for {what}, many against none", many[what] / none[what], "×", target=2.0),
        ]
    return window.beside(found)


def _open_reactions(tx: Transaction, first: int, count: int) -> None:
    """Inserts a due reaction in each of ``count`` threads."""
    columns = {
        "id": f"'reaction-' || ({_BASE} + i)",
        "kind": "'reaction'",
        "status": "'queued'",
        "thread_id": f"'thread-' || ({_BASE} + i)",
        "channel": _CHANNEL,
        "target_ts": _SLACK_TS,
        "text": "'eyes'",
        "broadcast": "FALSE",
        "idempotency_key": f"'reaction-' || ({_BASE} + i)",
        "attempts": "0",
        "due_at": f"{_MOMENT} + i",
        "expires_at": f"{2 * int(_MOMENT)}",
        "created_at": f"{_MOMENT} + i",
        "mark": "'stored'",
    }
    _insert(tx, "deliveries", columns, first, count)


async def _looks(plan: LoopPlan, database: Database) -> dict[str, float]:
    """Returns the median seconds of each look."""
    return {
        what: median([await database.read(_timed, look) for _ in range(plan.looks)]) for what, look in _LOOKS.items()
    }


def _timed(tx: Transaction, look: Callable[[Transaction], object]) -> float:
    begun = time.perf_counter()
    look(tx)
    return time.perf_counter() - begun


_LOOKS: Final[dict[str, Callable[[Transaction], object]]] = {
    "posts": lambda tx: deliveries.lanes_due(tx, POST_LANES),
    "reactions": lambda tx: (reactions.due(tx, 1), reactions.removals(tx, 1)),
}


async def measure_backlog(plan: LoopPlan, say: Say) -> list[Figure]:
    """Measures the median time of a claim with few and with many finished rows, and the ratio of the two."""
    with other_programs() as window:
        few, _ = await _claim_times(plan, plan.few_rows, say)
        many, whole = await _claim_times(plan, plan.rows, say)
    figure = partial(Figure, "backlog")
    found = [
        figure(f"claim beside {plan.few_rows:,} finished, median", few * 1e6, "µs"),
        figure(f"claim beside {plan.rows:,} finished, median", many * 1e6, "µs"),
        figure(f"the same with its commit, {plan.rows:,} finished", whole * 1e6, "µs"),
        figure("many against few", many / few, "×", target=1.5),
    ]
    return window.beside(found)


async def _claim_times(plan: LoopPlan, rows: int, say: Say) -> tuple[float, float]:
    """Returns the median seconds of a claim: alone, and including queue, commit and sync. There is one caller, and the
    database has ``rows`` finished rows.
    """
    async with scratch(plan.database) as place, Database(place.url) as database:
        begun = time.perf_counter()
        await database.write(_agents, _AGENTS)
        await database.write(_finished, 0, rows, _AGENTS)
        await database.write(_due, rows, plan.claims, _AGENTS)
        await database.write(_analyse)
        say(f"{rows:,} finished rows were inserted in {time.perf_counter() - begun:.1f} s; claiming {plan.claims}")
        inner, outer = [], []
        for number in range(rows, rows + plan.claims):  # the numbers of the due messages
            begun = time.perf_counter()
            inner.append(await database.write(_timed_claim, _agent_id(number % _AGENTS)))
            outer.append(time.perf_counter() - begun)
    return median(inner), median(outer)


def _timed_claim(tx: Transaction, agent_id: str) -> float:
    begun = time.perf_counter()
    (claimed,) = lease_due(tx, [ClaimCall(agent_id=agent_id, limit=1)])
    elapsed = time.perf_counter() - begun
    assert claimed  # every claim has a due message
    return elapsed
