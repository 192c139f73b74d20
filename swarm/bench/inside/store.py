"""The store alone, in this process: claim and finish by many callers at once beside the plain driver, and the cost of a
claim beside a million finished messages.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from statistics import median
from typing import Final

from swarm.bench.figures import Better, Figure, Say
from swarm.bench.inside import plain, seed
from swarm.bench.plans import LoopPlan
from swarm.bench.stage import Scratch, scratch
from swarm.domain.model.agents import Agent, Role
from swarm.domain.model.leases import FinishOutcome
from swarm.domain.operating_policy import OperatingPolicy
from swarm.services.inbox.claim import lease_due
from swarm.services.rules.leases import finish
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction

_TURNS: Final = 3
_AGENTS: Final = 8


async def measure(plan: LoopPlan, say: Say) -> list[Figure]:
    """Measures pairs per second through ``Database``; on SQLite also of the plain driver with the same rows.

    The three take turns, and the best turn of each counts, so temporary load on the machine spoils no ratio.
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
            for found, run, count in ((one_by_one, plain.one_by_one, pairs // 4), (grouped, plain.grouped, pairs)):
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
        await database.write(seed.agents, plan.callers)
        await database.write(seed.due, 0, pairs, plan.callers)
        await database.write(seed.analyse)
        yield place, database


async def _caller(database: Database, number: int) -> int:
    """Claims and finishes one message at a time until none is left. Returns their number."""
    agent = Agent(
        id=seed.agent_id(number),
        name=f"agent-{number}",
        role=Role.LEAD,
        description="",
        capabilities=(),
        created_at=0,
        last_seen_at=None,
    )
    done = 0
    while claimed := await database.write(lease_due, agent.id, 1, False):
        tokens = [claim.lease.token for claim in claimed]
        await database.write(finish, agent, tokens, FinishOutcome.DISMISSED, "measured", OperatingPolicy())
        done += len(tokens)
    return done


async def measure_backlog(plan: LoopPlan, say: Say) -> list[Figure]:
    """Measures the median time of a claim beside few and beside many finished rows, and their ratio."""
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
    """Returns a claim's median seconds by itself, and with queue, commit and sync; one caller, ``rows`` finished."""
    async with scratch(plan.database) as place, Database(place.url) as database:
        begun = time.perf_counter()
        await database.write(seed.agents, _AGENTS)
        await database.write(seed.finished, 0, rows, _AGENTS)
        await database.write(seed.due, rows, plan.claims, _AGENTS)
        await database.write(seed.analyse)
        say(f"{rows:,} finished rows are there after {time.perf_counter() - begun:.1f} s; claiming {plan.claims}")
        inner, outer = [], []
        for number in range(rows, rows + plan.claims):  # the numbers of the due messages
            begun = time.perf_counter()
            inner.append(await database.write(_timed_claim, seed.agent_id(number % _AGENTS)))
            outer.append(time.perf_counter() - begun)
    return median(inner), median(outer)


def _timed_claim(tx: Transaction, agent_id: str) -> float:
    begun = time.perf_counter()
    claimed = lease_due(tx, agent_id, 1, False)
    elapsed = time.perf_counter() - begun
    assert claimed  # every claim has a due message
    return elapsed
