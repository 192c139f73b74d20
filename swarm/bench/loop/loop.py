"""``swarm bench loop``: measures the path of a message from Slack to an agent and back, part by part.

*start*: the time until a new coordinator is ready, and its costs while idle. *first*: events from the moment at which
it is ready. *events*: from Slack's event to its acknowledgement, which means that the message is stored. *polls* and
*fairness* are measured in `polls`, *pairs* in `pairs`, and *store*, *sender* and *backlog* in `inside`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final

from swarm.bench.figures import BenchError, Better, Figure, Measure, Say, spread
from swarm.bench.loop import inside, pairs, polls
from swarm.bench.plans import LoopPlan
from swarm.bench.slack import Slack, constantly, steadily
from swarm.bench.stage import stage

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


MEASUREMENTS: Final[dict[str, Callable[[LoopPlan, Say], Awaitable[list[Figure]]]]] = {
    "start": _start,
    "first": _first,
    "events": _events,
    "polls": polls.measure,
    "fairness": polls.measure_fairness,
    "pairs": pairs.measure,
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
