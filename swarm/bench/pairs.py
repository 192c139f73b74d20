"""Claim and finish over HTTP: agents that take one message at a time and dismiss it."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from swarm.bench.figures import Better, Figure, percentile
from swarm.bench.parts.cluster import BenchAgent, connected
from swarm.bench.parts.http import Connection
from swarm.bench.parts.slack import BOT_USER, CHANNELS, BenchSlack
from swarm.bench.plan import Plan, Say

_TARGETS: Final = {"sqlite": 1_500.0, "postgresql": 800.0}
_POLL: Final = "/poll?wait_seconds=0&limit=1"
_LEARN_SECONDS: Final = 30.0


async def measure(plan: Plan, say: Say) -> list[Figure]:
    """Measures pairs per second of all agents together, each message in a thread of its own, history on."""
    async with connected(plan) as (slack, processes):
        agents = await processes.register(plan.agents)
        await _learn_names(slack, agents[0])
        count = int(plan.seconds * plan.pairs_per_second)
        say(f"{count} messages are stored")
        texts = [f"<@{BOT_USER}> swarm#{agents[i % len(agents)].name} please look" for i in range(count)]
        await slack.send_many(texts, plan.events_in_flight)
        await processes.quiet()
        say(f"{plan.agents} agents claim and finish for {plan.seconds:g} s")
        begun, before = time.perf_counter(), processes.cpu_seconds()
        pairs = await asyncio.gather(*(_work(agent, begun + plan.seconds) for agent in agents))
        waits = [wait for of_agent in pairs for wait in of_agent]
        rate = len(waits) / (time.perf_counter() - begun)
        cost = (processes.cpu_seconds() - before) / max(1, len(waits))
    target = _TARGETS["sqlite" if plan.database == "sqlite" else "postgresql"]
    return [
        Figure(
            measurement="pairs",
            what=f"claim + finish over HTTP, {plan.agents} agents",
            value=rate,
            unit="pairs/s",
            better=Better.HIGHER,
            target=target,
        ),
        _explaining("one pair, p50", percentile(waits, 0.5)),
        _explaining("one pair, p99", percentile(waits, 0.99)),
        _explaining("processor time of one pair", cost),
    ]


async def _learn_names(slack: BenchSlack, agent: BenchAgent) -> None:
    """Lets one agent work once in each channel: the coordinator asks Slack for names once, and then knows them."""
    await slack.send_many([f"<@{BOT_USER}> swarm#{agent.name} hello"] * len(CHANNELS), len(CHANNELS))
    await _work(agent, time.perf_counter() + _LEARN_SECONDS)


async def _work(agent: BenchAgent, until: float) -> list[float]:
    """Returns the seconds of each pair; ends when nothing is left, so that the rate never counts idle time."""
    connection = await Connection.open(agent.port, agent.token)
    waits: list[float] = []
    while (begun := time.perf_counter()) < until:
        triggers = (await connection.call("GET", _POLL)).json()["triggers"]
        if not triggers:
            break
        finish = {"tokens": [triggers[0]["lease"]["token"]], "outcome": "dismissed", "reason": "measured"}
        (await connection.call("POST", "/leases/finish", finish)).json()
        waits.append(time.perf_counter() - begun)
    connection.close()
    return waits


def _explaining(what: str, seconds: float) -> Figure:
    return Figure(measurement="pairs", what=what, value=1_000 * seconds, unit="ms")
