"""The store alone: claim and finish by many callers at once, beside the plain driver."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from swarm.bench.figures import Better, Figure
from swarm.bench.inside import plain, seed
from swarm.bench.parts.scratch import scratch
from swarm.bench.plan import Plan, Say
from swarm.domain.model.agents import Agent, Role
from swarm.domain.model.leases import FinishOutcome
from swarm.domain.operating_policy import OperatingPolicy
from swarm.services.inbox.claim import lease_due
from swarm.services.rules.leases import finish
from swarm.store.bridge.database import Database

_OVER_ONE_BY_ONE: Final = 3.0
_OF_GROUPED_PERCENT: Final = 50.0
_TURNS: Final = 3


async def measure(plan: Plan, say: Say) -> list[Figure]:
    """Measures pairs per second through ``Database``; on SQLite also of the plain driver with the same rows.

    The three take turns, and the best turn of each counts, so temporary load on the machine spoils no ratio.
    """
    pairs = plan.store_pairs // _TURNS
    ours, one_by_one, grouped = [], [], []
    for turn in range(1, _TURNS + 1):
        say(f"{pairs} messages are claimed and finished by {plan.callers} callers (turn {turn} of {_TURNS})")
        ours.append(await _ours(plan, pairs))
        if plan.database == "sqlite":
            say("the same rows through the plain driver")
            one_by_one.append(await _plain(plan, pairs // 4, plain.one_by_one))
            grouped.append(await _plain(plan, pairs, plain.grouped))
    figures = [_rate(f"claim + finish, {plan.callers} callers", max(ours))]
    return [*figures, *_compared(max(ours), max(one_by_one), max(grouped))] if grouped else figures


def _compared(ours: float, one_by_one: float, grouped: float) -> list[Figure]:
    return [
        _rate("the plain driver, one by one", one_by_one),
        _rate("the plain driver, grouped", grouped),
        _ratio("against the plain driver one by one", ours / one_by_one, "×", _OVER_ONE_BY_ONE),
        _ratio("against the plain driver grouped", 100 * ours / grouped, "%", _OF_GROUPED_PERCENT),
    ]


async def _ours(plan: Plan, pairs: int) -> float:
    async with scratch(plan.database) as place, Database(place.url) as database:
        await database.write(seed.agents, plan.callers)
        await database.write(seed.due, 0, pairs, plan.callers)
        await database.write(seed.analyse)
        begun = time.perf_counter()
        done = await asyncio.gather(*(_caller(database, number) for number in range(plan.callers)))
        return sum(done) / (time.perf_counter() - begun)


async def _caller(database: Database, number: int) -> int:
    """Claims and finishes one message at a time until none is left. Returns their number."""
    agent = _agent(number)
    done = 0
    while claimed := await database.write(lease_due, agent.id, 1, False):
        tokens = [claim.lease.token for claim in claimed]
        await database.write(finish, agent, tokens, FinishOutcome.DISMISSED, "measured", OperatingPolicy())
        done += len(tokens)
    return done


async def _plain(plan: Plan, pairs: int, run: plain.Run) -> float:
    async with scratch(plan.database) as place:
        async with Database(place.url) as database:
            await database.write(seed.agents, plan.callers)
            await database.write(seed.due, 0, pairs, plan.callers)
        return await asyncio.to_thread(run, place.folder / "swarm.db", plan.callers, pairs)


def _agent(number: int) -> Agent:
    return Agent(
        id=seed.agent_id(number),
        name=f"agent-{number}",
        role=Role.LEAD,
        description="",
        capabilities=(),
        created_at=0,
        last_seen_at=None,
    )


def _rate(what: str, value: float) -> Figure:
    return Figure(measurement="store", what=what, value=value, unit="pairs/s", better=Better.HIGHER)


def _ratio(what: str, value: float, unit: str, target: float) -> Figure:
    return Figure(
        measurement="store", what=what, value=value, unit=unit, better=Better.HIGHER, target=target, ratio=True
    )
