"""``swarm bench loop``: measures the path of a message from Slack to an agent and back, part by part.

*start*: the time until a new coordinator is ready, and its costs while idle. *first*: events from the moment at which
it is ready. *events*: from Slack's event to its acknowledgement, which means that the message is stored. *polls* and
*fairness* are measured in `polls`, and *store*, *sender* and *backlog* in `inside`. *pairs*: agents that claim one
message at a time and dismiss it, beside the plain driver in the same window.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from swarm_lab.bench.agents import Connection, Part, finished
from swarm_lab.bench.figures import BenchError, Better, Circumstances, Figure, Measure, Say, spread
from swarm_lab.bench.loop import inside, polls
from swarm_lab.bench.loop.plain import Run, Speed, plain_driver
from swarm_lab.bench.plans import LoopPlan
from swarm_lab.bench.slack import Slack, constantly, steadily
from swarm_lab.bench.stage import Cluster, stage

_EVENT_TARGETS: Final = {"p99_ms": 10.0, "per_second": 3_000.0, "cpu_ms": 0.3}


async def _start(plan: LoopPlan, say: Say) -> list[Figure]:
    figure = partial(Figure, "start")
    async with stage(plan) as (_, processes):
        await processes.settled()
        say(f"idle for {plan.seconds:g} s")
        async with processes.window() as window:
            await asyncio.sleep(plan.seconds)
        (member,) = processes.members
        return window.beside(
            [
                figure("start → ready", member.ready_seconds, "s", target=2.0),
                figure("processor time until then", member.ready_cpu_seconds, "s"),
                figure("resident memory", processes.memory_bytes() / 1e6, "MB", target=120.0),
                figure("processor while idle", 100 * window.cpu_seconds / window.seconds, "% of a core", target=0.3),
            ]
        )


async def _first(plan: LoopPlan, say: Say) -> list[Figure]:
    """Measures events from the first second of a coordinator on, when it may still be loading and connecting."""
    async with stage(plan) as (slack, processes):
        await processes.register(1)
        say(f"{plan.events_per_second} events/s for {plan.seconds:g} s, at once")
        async with processes.window() as window:
            waits = await steadily(lambda _: slack.send(_text(slack)), plan.seconds, plan.events_per_second)
    what = f"received → acked at {plan.events_per_second}/s, from the first second"
    return window.beside(spread("first", what, waits, p99=_EVENT_TARGETS["p99_ms"]), len(waits))


async def _events(plan: LoopPlan, say: Say) -> list[Figure]:
    """Measures the time to the acknowledgement at a steady rate, and the highest rate of acknowledged events."""
    async with stage(plan) as (slack, processes):
        text = _text(slack)
        await processes.register(1)
        await processes.settled()
        say(f"{plan.events_per_second} events/s for {plan.seconds:g} s")
        async with processes.window() as steady:
            waits = await steadily(lambda _: slack.send(text), plan.seconds, plan.events_per_second)
        say(f"maximum rate of acknowledged events, {plan.events_in_flight} in flight, for {plan.seconds:g} s")
        async with processes.window() as window:
            count = await constantly(lambda: slack.send(text), plan.seconds, plan.events_in_flight)
        stored = (await processes.backlog())["inbox_unread"]
        if stored != len(waits) + count:  # otherwise an acknowledgement would mean nothing
            raise BenchError(f"{len(waits) + count} events were acknowledged, but {stored} inbox messages are stored")
    targets = _EVENT_TARGETS if plan.database == "sqlite" else {}
    figure = partial(Figure, "events")
    steadily_acked = f"received → acked at {plan.events_per_second}/s"
    sustained = f"sustained, {plan.events_in_flight} in flight"
    cost = 1_000 * window.cpu_seconds / count
    most = [
        figure(sustained, count / window.seconds, "events/s", Better.HIGHER, targets.get("per_second")),
        figure("processor time of one event", cost, "ms", target=targets.get("cpu_ms")),
    ]
    return [
        *steady.beside(spread("events", steadily_acked, waits, p99=targets.get("p99_ms")), len(waits)),
        *window.beside(most, count),
    ]


def _text(slack: Slack) -> str:
    return f"{slack.mention} please have a look at the build of last night"


_CPU_MS: Final = {1: 1.6, 8: 0.6, 32: 0.5}
"""The targets for the processor time of a pair, by number of agents."""

_CPU_WITH_NEXT_MS: Final = {8: 0.45}
_POSTGRES_PAIRS: Final = 1_000.0
_LEARN_SECONDS: Final = 30.0


async def _pairs(plan: LoopPlan, say: Say) -> list[Figure]:
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


async def _work(agent: Part, until: float, *, with_next: bool) -> list[float]:
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


MEASUREMENTS: Final[dict[str, Callable[[LoopPlan, Say], Awaitable[list[Figure]]]]] = {
    "start": _start,
    "first": _first,
    "events": _events,
    "polls": polls.measure,
    "fairness": polls.measure_fairness,
    "pairs": _pairs,
    "store": inside.measure,
    "sender": inside.measure_sender,
    "backlog": inside.measure_backlog,
}
"""In order of execution."""

_OF_ONE: Final = frozenset({"start", "store", "sender", "backlog"})
"""Measurements that are made with one coordinator only."""


def chosen(plan: LoopPlan) -> dict[str, Measure]:
    """Returns the measurements named in ``only``, or all that apply to the number of coordinators.

    Raises BenchError for an unknown measurement, and for one that does not apply.
    """
    wanted = {name.strip() for name in plan.only.split(",") if name.strip()}
    if unknown := sorted(wanted - MEASUREMENTS.keys()):
        raise BenchError(
            f"there is no measurement {', '.join(unknown)}; the measurements are {', '.join(MEASUREMENTS)}"
        )
    barred = _OF_ONE if plan.processes > 1 else frozenset()
    if idle := sorted(wanted & barred):
        raise BenchError(f"{', '.join(idle)} is not available for several coordinators; leave out --processes")
    names = [name for name in MEASUREMENTS if name in (wanted or MEASUREMENTS.keys() - barred)]
    return {name: partial(MEASUREMENTS[name], plan) for name in names}
