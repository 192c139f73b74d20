"""Measures agents that claim one message at a time and dismiss it, beside the plain driver in the same window."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from swarm.bench.agents import Connection, finished
from swarm.bench.figures import Better, Circumstances, Figure, Say, spread
from swarm.bench.loop.plain import Run, Speed, plain_driver
from swarm.bench.plans import LoopPlan
from swarm.bench.slack import Slack
from swarm.bench.stage import BenchAgent, Cluster, stage

_CPU_MS: Final = {1: 1.6, 8: 0.6, 32: 0.5}
"""The targets for the processor time of a pair, by number of agents."""

_CPU_WITH_NEXT_MS: Final = {8: 0.45}
_POSTGRES_PAIRS: Final = 1_000.0
_LEARN_SECONDS: Final = 30.0


async def measure(plan: LoopPlan, say: Say) -> list[Figure]:
    """Measures pairs per second of all agents together. Each message has its own thread, and history is on."""
    parts = [_Part(plan=plan, number=number, next=with_next) for number in plan.agents
             for with_next in ((False, True) if plan.next else (False,))]  # fmt: skip
    found = list[Figure]()
    async with stage(plan) as (slack, processes), plain_driver(plan.database) as plain:
        (first,) = await processes.register(1)
        await slack.send_to_each_channel(first.name)
        await _work(first, time.perf_counter() + _LEARN_SECONDS, with_next=False)
        before = await _plain(plan, processes, plain, say)
        for part in parts:
            done = await part.measure(slack, processes, say)
            after = await _plain(plan, processes, plain, say)
            found += [*done.figures, *_against(done, before, after)]
            before = after
    return found


async def _plain(plan: LoopPlan, processes: Cluster, plain: Run, say: Say) -> Speed:
    await processes.settled()
    say("the same rows with the plain driver")
    return await plain(1, plan.plain_pairs)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Done:
    """The result of one part."""

    who: str
    rate: float
    cpu_ms: float
    figures: list[Figure]


def _against(done: _Done, before: Speed, after: Speed) -> list[Figure]:
    """Compares a part with the plain driver one by one, as measured before and after it."""
    rate, cost = (before.pairs + after.pairs) / 2, (before.pair_cpu_ms + after.pair_cpu_ms) / 2
    what = f"{done.who}, against the plain driver one by one"
    beside = Circumstances(others=(before.others + after.others) / 2, cpu_ms=cost)
    return [
        Figure("pairs", f"the plain driver, beside {done.who}", rate, "pairs/s", Better.HIGHER, beside=beside),
        Figure("pairs", f"pairs of {what}", done.rate / rate, "×", Better.HIGHER),
        Figure("pairs", f"processor time of {what}", done.cpu_ms / cost, "×"),
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Part:
    """A number of agents that work for a while, with or without ``next``."""

    plan: LoopPlan
    number: int
    next: bool

    async def measure(self, slack: Slack, processes: Cluster, say: Say) -> _Done:
        plan, number = self.plan, self.number
        agents = await processes.register(number, prefix=f"of-{number}{'-next' if self.next else ''}")
        count = int(plan.seconds * min(plan.pairs_per_second, 500 * number))
        say(f"{count} messages are stored")
        texts = [slack.addressed(agents[i % number].name) for i in range(count)]
        await slack.send_many(texts, plan.events_in_flight)
        await processes.settled()
        say(f"{self.who} claim and finish for {plan.seconds:g} s")
        async with processes.window() as window:
            until = time.perf_counter() + plan.seconds
            working = (_work(agent, until, with_next=self.next) for agent in agents)
            waits = [wait for of_agent in await asyncio.gather(*working) for wait in of_agent]
            seconds = time.perf_counter() - until + plan.seconds
        cost = 1_000 * window.cpu_seconds / max(1, len(waits))
        figures = self._figures(len(waits) / seconds, cost, waits)
        return _Done(who=self.who, rate=len(waits) / seconds, cpu_ms=cost, figures=window.beside(figures, len(waits)))

    @property
    def who(self) -> str:
        return f"{self.number} agent{'s' if self.number > 1 else ''}{' with next' if self.next else ''}"

    def _figures(self, rate: float, cost: float, waits: list[float]) -> list[Figure]:
        figure, is_sqlite = partial(Figure, "pairs"), self.plan.database == "sqlite"
        fast = None if is_sqlite or self.number != 8 else _POSTGRES_PAIRS
        cheap = (_CPU_WITH_NEXT_MS if self.next else _CPU_MS).get(self.number) if is_sqlite else None
        return [
            figure(f"claim + finish over HTTP, {self.who}", rate, "pairs/s", Better.HIGHER, fast),
            *spread("pairs", f"one pair, {self.who}", waits),
            figure(f"processor time of one pair, {self.who}", cost, "ms", target=cheap),
        ]


async def _work(agent: BenchAgent, until: float, *, with_next: bool) -> list[float]:
    """Returns the seconds of each pair. Ends when no messages are left, so that the rate does not include idle time.

    With ``next``, a finish claims the next message, so only the first pair has a poll.
    """
    connection = await Connection.open(agent.port, agent.token)
    waits, triggers = list[float](), list[Any]()
    while (begun := time.perf_counter()) < until:
        triggers = triggers or (await connection.call("GET", "/poll?wait_seconds=0&limit=1")).json()["triggers"]
        if not triggers:
            break
        answer = await finished(connection, triggers, **({"next": 1} if with_next else {}))
        triggers = answer["triggers"] if with_next else []
        waits.append(time.perf_counter() - begun)
    connection.close()
    return waits
