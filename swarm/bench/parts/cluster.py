"""The coordinators of one measurement: as many processes as planned, on one new database, connected to one Slack."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from swarm.bench.figures import BenchError
from swarm.bench.parts.coordinator import Coordinator, new_operator_token
from swarm.bench.parts.http import Connection
from swarm.bench.parts.scratch import scratch
from swarm.bench.parts.slack import BenchSlack, bench_slack
from swarm.bench.plan import Plan

_QUIET_SECONDS: Final = 30
_QUIET_SHARE: Final = 0.15
_LOOK_SECONDS: Final = 0.5
_REGISTERING: Final = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchAgent:
    """A registered agent with its token, and its coordinator's port."""

    name: str
    token: str
    port: int


class Cluster:
    """Running coordinators. Agents are assigned to them in turn, as by a load balancer."""

    def __init__(self, members: Sequence[Coordinator]) -> None:
        self.members = members

    async def register(self, count: int, *, role: str = "lead", prefix: str = "agent") -> list[BenchAgent]:
        """Registers ``count`` agents, and lets each poll once, so that it counts as online.

        Returns them in order of name: ``prefix-0`` and so on.
        """
        agents: dict[int, BenchAgent] = {}
        numbers = iter(range(count))
        await asyncio.gather(*(self._register(numbers, role, prefix, agents) for _ in range(_REGISTERING)))
        return [agents[number] for number in range(count)]

    async def _register(self, numbers: Iterator[int], role: str, prefix: str, agents: dict[int, BenchAgent]) -> None:
        operator = await self.members[0].operator()
        for number in numbers:
            name = f"{prefix}-{number}"
            made = (await operator.call("POST", "/agents", {"name": name, "role": role})).json()
            port = self.members[number % len(self.members)].port
            agents[number] = BenchAgent(name=name, token=made["token"], port=port)
            connection = await Connection.open(port, made["token"])
            (await connection.call("GET", "/poll?wait_seconds=0&limit=1")).json()
            connection.close()
        operator.close()

    async def backlog(self) -> Mapping[str, int]:
        """Returns the open work, by kind."""
        return await self.members[0].backlog()

    async def unread(self) -> int:
        """Returns the number of inbox messages that are stored and not claimed."""
        return (await self.backlog())["inbox_unread"]

    async def expired_leases(self) -> int:
        """Returns the number of leases that expired."""
        return sum([await member.expired_leases() for member in self.members])

    async def quiet(self) -> None:
        """Waits until all coordinators are idle, at most half a minute."""
        for _ in range(int(_QUIET_SECONDS / _LOOK_SECONDS)):
            before = self.cpu_seconds()
            await asyncio.sleep(_LOOK_SECONDS)
            if self.cpu_seconds() - before < _QUIET_SHARE * _LOOK_SECONDS * len(self.members):
                return

    def memory_bytes(self) -> int:
        """Returns the current memory use of all coordinators."""
        return sum(member.memory_bytes() for member in self.members)

    def cpu_seconds(self) -> float:
        """Returns the processor time of all coordinators since their start."""
        return sum(member.cpu_seconds() for member in self.members)


@asynccontextmanager
async def cluster(plan: Plan, environment: Mapping[str, str]) -> AsyncIterator[Cluster]:
    """Runs coordinators on a new database, then removes both. ``environment`` has the address of Slack."""
    if plan.processes > 1 and plan.database == "sqlite":
        raise BenchError("several processes need a PostgreSQL: add --database postgresql://…")
    async with scratch(plan.database) as place:
        token, members = new_operator_token(), list[Coordinator]()
        try:
            for number in range(plan.processes):
                members.append(await Coordinator.start(place, f"coordinator-{number}", token, environment))
            await asyncio.gather(*(member.until_ready() for member in members))
            yield Cluster(members)
        finally:
            await asyncio.shield(asyncio.gather(*(member.stop() for member in members)))


@asynccontextmanager
async def connected(plan: Plan, settings: Mapping[str, str] | None = None) -> AsyncIterator[tuple[BenchSlack, Cluster]]:
    """Runs a bench Slack and coordinators connected to it. ``settings`` are further environment variables."""
    async with bench_slack() as slack, cluster(plan, {**slack.environment, **(settings or {})}) as processes:
        await slack.connected(plan.processes)
        yield slack, processes
