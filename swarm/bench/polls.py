"""Stored → claimed by a waiting poll, and the cost of waiting polls."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from swarm.bench.events import send_steadily
from swarm.bench.figures import BenchError, Figure, percentile
from swarm.bench.parts.cluster import BenchAgent, Cluster, connected
from swarm.bench.parts.http import Answer, Connection
from swarm.bench.parts.slack import BOT_USER, CHANNELS, BenchSlack
from swarm.bench.plan import Plan, Say

_P50_MS: Final = 1.0
_P99_MS: Final = 3.0
_KB_EACH: Final = 16.0
_CPU_PERCENT: Final = 2.0

_POLL: Final = "/poll?wait_seconds=60&limit=1"
_LEASE_SECONDS: Final = 60
_ARRIVE_SECONDS: Final = 30.0


async def measure(plan: Plan, say: Say) -> list[Figure]:
    """Measures memory and processor time of waiting polls, then the time to a claim meanwhile.

    The number of polls grows, so that memory freed by earlier requests hides none of their memory.
    """
    async with connected(plan) as (slack, processes):
        say(f"registering {plan.polls} agents")
        agents = await processes.register(plan.polls)
        await processes.quiet()
        alone = await _cpu_percent(processes, plan.seconds / 2)
        empty = processes.memory_bytes()
        async with Crowd() as crowd:
            say(f"{plan.polls} polls wait")
            await crowd.join(agents)
            await _learn_names(slack, crowd, agents[0])
            await processes.quiet()
            few = processes.memory_bytes()
            costs = await _costs_of_many(plan, say, processes, agents, few)
            await processes.quiet()
            say(f"{plan.events_per_second} events/s for {plan.seconds:g} s while {plan.polls} polls wait")
            crowd.answers.clear()
            count = int(plan.seconds * plan.events_per_second)
            texts = [f"<@{BOT_USER}> swarm#{agents[i % len(agents)].name} please look" for i in range(count)]
            before = processes.cpu_seconds()
            await send_steadily(slack, texts, plan.events_per_second)
            claims = await crowd.claims(count)
            cost = 1_000 * (processes.cpu_seconds() - before) / count
    return [
        *_delays(plan, claims),
        _figure("processor time of one event with its claim", cost, "ms"),
        _figure(f"memory of each of the first {plan.polls} polls", (few - empty) / len(agents) / 1024, "KB"),
        *costs,
        _figure(f"processor while nobody polls, {plan.polls} agents", alone, "% of a core"),
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """The way of one trigger, in seconds since 1970 UTC."""

    stored_at: float  # the start of the storing transaction
    claimed_at: float  # the start of the lease's transaction
    arrived_at: float  # the arrival of the whole answer at the agent


class Crowd:
    """Agents with one waiting poll each; an answered agent polls again."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self._arrived = asyncio.Event()
        self._polling: list[asyncio.Task[None]] = []
        self._connections: list[Connection] = []

    async def __aenter__(self) -> Crowd:
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._polling:
            task.cancel()
        ended = await asyncio.gather(*self._polling, return_exceptions=True)
        for connection in self._connections:
            connection.close()
        failures = [error for error in ended if isinstance(error, BenchError)]
        if failures:
            raise failures[0]

    async def join(self, agents: Sequence[BenchAgent]) -> None:
        """Lets these agents poll as well."""
        for agent in agents:
            connection = await Connection.open(agent.port, agent.token)
            self._connections.append(connection)
            self._polling.append(asyncio.create_task(self._poll(connection)))

    async def _poll(self, connection: Connection) -> None:
        while True:
            answer = await connection.call("GET", _POLL)
            if answer.status != 200:
                answer.json()  # raises BenchError
            self.answers.append(answer)
            self._arrived.set()

    async def claims(self, count: int) -> list[Claim]:
        """Returns all claims, once there are ``count``. Raises BenchError if some do not come."""
        try:
            async with asyncio.timeout(_ARRIVE_SECONDS):
                while len(found := [claim for answer in self.answers for claim in _claims(answer)]) < count:
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError as error:
            raise BenchError(f"only {len(found)} of {count} messages reached an agent") from error
        return found


async def _learn_names(slack: BenchSlack, crowd: Crowd, agent: BenchAgent) -> None:
    """Gives one agent a message in each channel: the coordinator asks Slack for names once, and then knows them."""
    await slack.send_many([f"<@{BOT_USER}> swarm#{agent.name} hello"] * len(CHANNELS), len(CHANNELS))
    await crowd.claims(len(CHANNELS))


async def _costs_of_many(
    plan: Plan, say: Say, processes: Cluster, agents: Sequence[BenchAgent], few: int
) -> list[Figure]:
    """Measures the cost of additional waiting polls, which end afterwards."""
    more = plan.more_polls - plan.polls
    async with Crowd() as crowd:
        say(f"{plan.more_polls} polls wait")
        await crowd.join([agents[number % len(agents)] for number in range(more)])
        await processes.quiet()
        each = (processes.memory_bytes() - few) / more / 1024
        cpu = await _cpu_percent(processes, plan.seconds)
    return [
        _figure(f"memory of each poll, from {plan.polls} to {plan.more_polls}", each, "KB", _KB_EACH),
        _figure(f"processor while {plan.more_polls} polls wait", cpu, "% of a core", _CPU_PERCENT),
    ]


async def _cpu_percent(processes: Cluster, seconds: float) -> float:
    before = processes.cpu_seconds()
    await asyncio.sleep(seconds)
    return 100 * (processes.cpu_seconds() - before) / seconds


def _claims(answer: Answer) -> list[Claim]:
    return [
        Claim(
            stored_at=_moment(trigger["inbox_messages"][0]["received_at"]),
            claimed_at=_moment(trigger["lease"]["expires_at"]) - _LEASE_SECONDS,
            arrived_at=answer.at,
        )
        for trigger in answer.json()["triggers"]
    ]


def _moment(iso: Any) -> float:
    return datetime.fromisoformat(iso).timestamp()


def _delays(plan: Plan, claims: Sequence[Claim]) -> list[Figure]:
    """From store to claim, both transactions are at the same point; the time to arrival includes the claim's commit."""
    claimed = [1_000 * (claim.claimed_at - claim.stored_at) for claim in claims]
    arrived = [1_000 * (claim.arrived_at - claim.stored_at) for claim in claims]
    where = f"{plan.polls} polls, {plan.events_per_second}/s"
    return [
        _figure(f"stored → claimed, {where}, p50", percentile(claimed, 0.5), "ms", _P50_MS),
        _figure(f"stored → claimed, {where}, p99", percentile(claimed, 0.99), "ms", _P99_MS),
        _figure("stored → in the agent's hands, p50", percentile(arrived, 0.5), "ms"),
        _figure("stored → in the agent's hands, p99", percentile(arrived, 0.99), "ms"),
    ]


def _figure(what: str, value: float, unit: str, target: float | None = None) -> Figure:
    return Figure(measurement="polls", what=what, value=value, unit=unit, target=target)
