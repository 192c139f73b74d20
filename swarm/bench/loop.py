"""``swarm bench loop``: measures the path of a message from Slack to an agent and back, part by part.

*start*: the time until a new coordinator is ready, and its costs while idle. *events*: from Slack's event to its
acknowledgement, which means that the message is stored. *polls*: from the stored message to a claim by one of a
thousand waiting polls. *pairs*: agents that claim one message at a time and dismiss it. *store* and *backlog* are in
`inside`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from swarm.bench import inside
from swarm.bench.agents import Answer, Connection
from swarm.bench.figures import BenchError, Better, Figure, Measure, Say, spread
from swarm.bench.plans import LoopPlan
from swarm.bench.slack import Slack
from swarm.bench.stage import BenchAgent, Cluster, stage

_EVENT_TARGETS: Final = {"p99_ms": 10.0, "per_second": 3_000.0, "cpu_ms": 0.3}
_PAIR_CPU_MS: Final = {1: 1.6, 8: 0.6, 32: 0.5}
"""The targets for the processor time of a pair, by number of agents."""

_POSTGRES_PAIRS: Final = 1_000.0
_LEASE_SECONDS: Final = 60
_ARRIVE_SECONDS: Final = 30.0


async def _start(plan: LoopPlan, say: Say) -> list[Figure]:
    figure = partial(Figure, "start")
    async with stage(plan) as (_, processes):
        await processes.settled()
        say(f"idle for {plan.seconds:g} s")
        async with processes.window() as window:
            await asyncio.sleep(plan.seconds)
        (member,) = processes.members
        return [
            figure("start → ready", member.ready_seconds, "s", target=2.0),
            figure("resident memory", processes.memory_bytes() / 1e6, "MB", target=120.0),
            figure("processor while idle", 100 * window.cpu_seconds / window.seconds, "% of a core", target=0.3),
            *window.figures("start"),
        ]


async def _events(plan: LoopPlan, say: Say) -> list[Figure]:
    """Measures the time to the acknowledgement at a steady rate, and the highest rate of acknowledged events."""
    async with stage(plan) as (slack, processes):
        text = f"{slack.mention} please have a look at the build of last night"
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
    figure, rate = partial(Figure, "events"), f"at {plan.events_per_second}/s"
    sustained = f"sustained, {plan.events_in_flight} in flight"
    return [
        *spread("events", f"received → acked {rate}", waits, p99=targets.get("p99_ms")),
        *steady.figures("events", rate),
        figure(sustained, count / window.seconds, "events/s", Better.HIGHER, targets.get("per_second")),
        figure("processor time of one event", 1_000 * window.cpu_seconds / count, "ms", target=targets.get("cpu_ms")),
        *window.figures("events", sustained),
    ]


async def steadily(act: Callable[[int], Awaitable[float]], seconds: float, per_second: float) -> list[float]:
    """Calls ``act`` at a steady rate, however late the results come. Returns the results."""
    begun = time.perf_counter()
    acting = []
    for number in range(int(seconds * per_second)):
        await asyncio.sleep(max(0.0, begun + number / per_second - time.perf_counter()))
        acting.append(asyncio.ensure_future(act(number)))
    return await asyncio.gather(*acting)


async def constantly(act: Callable[[], Awaitable[float]], seconds: float, in_flight: int) -> int:
    """Keeps a fixed number of calls of ``act`` in progress. Returns the number of results."""
    until = time.perf_counter() + seconds

    async def actor() -> int:
        count = 0
        while time.perf_counter() < until:
            await act()
            count += 1
        return count

    return sum(await asyncio.gather(*(actor() for _ in range(in_flight))))


async def _polls(plan: LoopPlan, say: Say) -> list[Figure]:
    """Measures the memory and processor time of waiting polls, then the time until a message is claimed while they
    wait.

    The number of polls grows, so that memory freed by earlier requests does not hide the polls' memory.
    """
    async with stage(plan) as (slack, processes):
        say(f"registering {plan.polls} agents")
        agents = await processes.register(plan.polls)
        await processes.settled()
        alone = await _cpu_percent(processes, plan.seconds / 2)
        empty = processes.memory_bytes()
        async with _Crowd() as crowd:
            say(f"{plan.polls} polls wait")
            await crowd.join(agents)
            await _learn_names(slack, agents[0])
            await crowd.claims(len(slack.channels))
            await processes.settled()
            few = processes.memory_bytes()
            costs = await _costs_of_many(plan, say, processes, agents, few)
            await processes.settled()
            say(f"{plan.events_per_second} events/s for {plan.seconds:g} s while {plan.polls} polls wait")
            crowd.answers.clear()
            async with processes.window() as window:
                sent = await steadily(
                    lambda number: slack.send(_addressed(slack, agents[number % len(agents)])),
                    plan.seconds, plan.events_per_second,
                )  # fmt: skip
                claims = await crowd.claims(len(sent))
    figure, where = partial(Figure, "polls"), f"{plan.polls} polls, {plan.events_per_second}/s"
    # The time from store to claim compares the same point of both transactions; the time to arrival includes the commit
    # of the claim.
    claimed = [claim.claimed_at - claim.stored_at for claim in claims]
    arrived = [claim.arrived_at - claim.stored_at for claim in claims]
    cost = 1_000 * window.cpu_seconds / len(claims)
    return [
        *spread("polls", f"stored → claimed, {where}", claimed, p50=1.0, p99=4.0),
        *spread("polls", "stored → in the agent's hands", arrived, p50=2.0),
        figure("processor time of one event with its claim", cost, "ms", target=1.5),
        *window.figures("polls"),
        figure(f"memory of each of the first {plan.polls} polls", (few - empty) / len(agents) / 1024, "KB"),
        *costs,
        figure(f"processor while nobody polls, {plan.polls} agents", alone, "% of a core"),
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class Claim:
    """The times of one trigger, in seconds since 1970 UTC."""

    stored_at: float  # the start of the storing transaction
    claimed_at: float  # the start of the claiming transaction
    arrived_at: float  # the arrival of the complete answer at the agent


class _Crowd:
    """Agents with one waiting poll each. An agent whose poll is answered polls again."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self._arrived = asyncio.Event()
        self._polling: list[asyncio.Task[None]] = []
        self._connections: list[Connection] = []

    async def __aenter__(self) -> _Crowd:
        return self

    async def __aexit__(self, *_: object) -> None:
        await cancelled(self._polling)
        for connection in self._connections:
            connection.close()

    async def join(self, agents: Sequence[BenchAgent]) -> None:
        """Adds these agents, which begin to poll."""
        for agent in agents:
            connection = await Connection.open(agent.port, agent.token)
            self._connections.append(connection)
            self._polling.append(asyncio.create_task(self._poll(connection)))

    async def _poll(self, connection: Connection) -> None:
        while True:
            answer = await connection.call("GET", "/poll?wait_seconds=60&limit=1")
            if answer.status != 200:
                answer.json()  # raises BenchError
            self.answers.append(answer)
            self._arrived.set()

    async def claims(self, count: int) -> list[Claim]:
        """Returns all claims once there are ``count`` of them. Raises BenchError if some claims do not come."""
        try:
            async with asyncio.timeout(_ARRIVE_SECONDS):
                while len(found := [claim for answer in self.answers for claim in _claims(answer)]) < count:
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError as error:
            raise BenchError(f"only {len(found)} of {count} messages reached an agent") from error
        return found


async def cancelled(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancels tasks. Raises the first BenchError of a task that has failed."""
    for task in tasks:
        task.cancel()
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(ended, BenchError):
            raise ended


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


def _addressed(slack: Slack, agent: BenchAgent) -> str:
    return f"{slack.mention} swarm#{agent.name} please look"


async def _learn_names(slack: Slack, agent: BenchAgent) -> None:
    """Gives one agent a message in each channel, so that the coordinator has asked Slack for all names before the
    measurement."""
    await slack.send_many([_addressed(slack, agent)] * len(slack.channels), len(slack.channels))


async def _costs_of_many(
    plan: LoopPlan, say: Say, processes: Cluster, agents: Sequence[BenchAgent], few: int
) -> list[Figure]:
    """Measures the cost of additional waiting polls, which are ended afterwards."""
    more = plan.more_polls - plan.polls
    figure = partial(Figure, "polls")
    async with _Crowd() as crowd:
        say(f"{plan.more_polls} polls wait")
        await crowd.join([agents[number % len(agents)] for number in range(more)])
        await processes.settled()
        each = (processes.memory_bytes() - few) / more / 1024
        cpu = await _cpu_percent(processes, plan.seconds)
    return [
        figure(f"memory of each poll, from {plan.polls} to {plan.more_polls}", each, "KB", target=16.0),
        figure(f"processor while {plan.more_polls} polls wait", cpu, "% of a core", target=2.0),
    ]


async def _cpu_percent(processes: Cluster, seconds: float) -> float:
    before = processes.cpu_seconds()
    await asyncio.sleep(seconds)
    return 100 * (processes.cpu_seconds() - before) / seconds


async def _pairs(plan: LoopPlan, say: Say) -> list[Figure]:
    """Measures pairs per second of all agents together. Each message has its own thread, and history is on."""
    found = list[Figure]()
    async with stage(plan) as (slack, processes):
        (first,) = await processes.register(1)
        await _learn_names(slack, first)
        await _work(first, time.perf_counter() + _ARRIVE_SECONDS)
        for number in plan.agents:
            found += await _pairs_of(plan, say, slack, processes, number)
    return found


async def _pairs_of(plan: LoopPlan, say: Say, slack: Slack, processes: Cluster, number: int) -> list[Figure]:
    agents = await processes.register(number, prefix=f"of-{number}")
    count = int(plan.seconds * min(plan.pairs_per_second, 500 * number))
    say(f"{count} messages are stored")
    texts = [_addressed(slack, agents[i % number]) for i in range(count)]
    await slack.send_many(texts, plan.events_in_flight)
    await processes.settled()
    say(f"{number} agents claim and finish for {plan.seconds:g} s")
    async with processes.window() as window:
        until = time.perf_counter() + plan.seconds
        waits = [wait for of_agent in await asyncio.gather(*(_work(one, until) for one in agents)) for wait in of_agent]
        seconds = time.perf_counter() - until + plan.seconds
    figure, who = partial(Figure, "pairs"), f"{number} agent{'s' if number > 1 else ''}"
    is_postgres = plan.database != "sqlite"
    rate, cost = len(waits) / seconds, 1_000 * window.cpu_seconds / max(1, len(waits))
    fast, cheap = (_POSTGRES_PAIRS if number == 8 else None, None) if is_postgres else (None, _PAIR_CPU_MS.get(number))
    return [
        figure(f"claim + finish over HTTP, {who}", rate, "pairs/s", Better.HIGHER, fast),
        *spread("pairs", f"one pair, {who}", waits),
        figure(f"processor time of one pair, {who}", cost, "ms", target=cheap),
        *window.figures("pairs", who),
    ]


async def _work(agent: BenchAgent, until: float) -> list[float]:
    """Returns the seconds of each pair. Ends when no messages are left, so that the rate does not include idle time."""
    connection = await Connection.open(agent.port, agent.token)
    waits: list[float] = []
    while (begun := time.perf_counter()) < until:
        triggers = (await connection.call("GET", "/poll?wait_seconds=0&limit=1")).json()["triggers"]
        if not triggers:
            break
        finish = {"tokens": [triggers[0]["lease"]["token"]], "outcome": "dismissed", "reason": "measured"}
        (await connection.call("POST", "/leases/finish", finish)).json()
        waits.append(time.perf_counter() - begun)
    connection.close()
    return waits


MEASUREMENTS: Final[dict[str, Callable[[LoopPlan, Say], Awaitable[list[Figure]]]]] = {
    "start": _start,
    "events": _events,
    "polls": _polls,
    "pairs": _pairs,
    "store": inside.measure,
    "backlog": inside.measure_backlog,
}
"""In order of execution."""

_OF_ONE: Final = frozenset({"start", "store", "backlog"})
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
