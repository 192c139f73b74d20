"""The cost of a claim beside a million finished messages, against a thousand."""

from __future__ import annotations

import time
from statistics import median
from typing import Final

from swarm.bench.figures import Figure
from swarm.bench.inside import seed
from swarm.bench.parts.scratch import scratch
from swarm.bench.plan import Plan, Say
from swarm.services.inbox.claim import lease_due
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction

_AT_MOST: Final = 1.5
_AGENTS: Final = 8


async def measure(plan: Plan, say: Say) -> list[Figure]:
    """Measures the median time of a claim beside few and beside many finished rows, and their ratio."""
    few, _ = await _claim_times(plan, plan.few_rows, say)
    many, whole = await _claim_times(plan, plan.rows, say)
    return [
        _figure(f"claim beside {plan.few_rows:,} finished, median", few * 1e6, "µs"),
        _figure(f"claim beside {plan.rows:,} finished, median", many * 1e6, "µs"),
        _figure(f"the same with its commit, {plan.rows:,} finished", whole * 1e6, "µs"),
        Figure(measurement="backlog", what="many against few", value=many / few, unit="×", target=_AT_MOST, ratio=True),
    ]


async def _claim_times(plan: Plan, rows: int, say: Say) -> tuple[float, float]:
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


def _figure(what: str, value: float, unit: str) -> Figure:
    return Figure(measurement="backlog", what=what, value=value, unit=unit)
