"""Measures waiting polls: their memory and processor time, the time from a stored message to its claim by one of a
thousand, and the delay of other work by a long thread and by a full channel.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final

from swarm_lab.bench.agents import Answer, Connection, Part, cancelled, dismiss, finished, playing
from swarm_lab.bench.figures import BenchError, Figure, Say, percentile, spread
from swarm_lab.bench.plans import LoopPlan
from swarm_lab.bench.slack import Slack, steadily
from swarm_lab.bench.stage import Cluster, stage

_LEASE_SECONDS: Final = 60
_ARRIVE_SECONDS: Final = 30.0
_PROBE_POLLS: Final = 4
_MOST_DELAY_MS: Final = 100.0
_WRITERS: Final = 8
"""The number of unacknowledged messages of the long thread. More would measure the machine's throughput."""


async def measure(plan: LoopPlan, say: Say) -> list[Figure]:
    """Measures the memory and processor time of waiting polls, then the time until a message is claimed while they
    wait.

    The number of polls grows, so that memory freed by earlier requests does not hide the polls' memory.
    """
    async with stage(plan) as (slack, processes):
        say(f"registering {plan.polls} agents")
        agents = await processes.register(plan.polls)
        await processes.settled()
        alone = await _idle(plan, processes, f"nobody polls, {plan.polls} agents")
        empty = processes.memory_bytes()
        async with _Crowd() as crowd:
            say(f"{plan.polls} polls wait")
            await crowd.join(agents)
            await slack.send_to_each_channel(agents[0].name)
            await crowd.claims(len(slack.channels))
            await processes.settled()
            few = processes.memory_bytes()
            costs = await _costs_of_many(plan, say, processes, agents, few)
            await processes.settled()
            say(f"{plan.events_per_second} events/s for {plan.seconds:g} s while {plan.polls} polls wait")
            crowd.forget()
            async with processes.window() as window:
                sent = await steadily(
                    lambda number: slack.send(slack.addressed(agents[number % len(agents)].name)),
                    plan.seconds, plan.events_per_second,
                )  # fmt: skip
                claims = await crowd.claims(len(sent))
    each = (few - empty) / len(agents) / 1024
    return [
        *window.beside(_times(plan, claims, window.cpu_seconds), len(claims)),
        Figure("polls", f"memory of each of the first {plan.polls} polls", each, "KB"),
        *costs,
        *alone,
    ]


@dataclass(frozen=True, kw_only=True, slots=True)
class _Claim:
    """The times of one trigger, in seconds since 1970 UTC."""

    said_at: float  # the message's timestamp in Slack
    stored_at: float  # the start of the storing transaction
    claimed_at: float  # the start of the claiming transaction
    arrived_at: float  # the arrival of the complete answer at the agent


class _Crowd:
    """Agents with one waiting poll each. When a poll returns work, its agent polls again; with ``finishes`` it finishes
    the work first, otherwise it keeps the work.
    """

    def __init__(self, *, finishes: bool = False) -> None:
        self._finishes = finishes
        self._claims: list[_Claim] = []
        self._since = 0.0
        self._arrived = asyncio.Event()
        self._polling: list[asyncio.Task[None]] = []
        self._connections: list[Connection] = []

    async def __aenter__(self) -> _Crowd:
        return self

    async def __aexit__(self, *_: object) -> None:
        await cancelled(self._polling)
        for connection in self._connections:
            connection.close()

    async def join(self, agents: Sequence[Part]) -> None:
        """Adds these agents, which begin to poll."""
        for agent in agents:
            connection = await Connection.open(agent.port, agent.token)
            self._connections.append(connection)
            self._polling.append(asyncio.create_task(self._poll(connection)))

    async def _poll(self, connection: Connection) -> None:
        while True:
            answer = await connection.call("GET", "/poll?wait_seconds=60&limit=1")
            self._claims += [claim for claim in _claims(answer) if claim.said_at >= self._since]
            self._arrived.set()
            if self._finishes:
                await finished(connection, answer.json()["triggers"])

    def forget(self) -> None:
        """Forgets all claims so far, and ignores later claims of messages posted before this call."""
        self._claims.clear()
        self._since = time.time()

    async def claims(self, count: int) -> list[_Claim]:
        """Returns all claims once there are ``count`` of them. Raises BenchError if some claims do not come."""
        try:
            async with asyncio.timeout(_ARRIVE_SECONDS):
                while len(self._claims) < count:
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError as error:
            raise BenchError(f"only {len(self._claims)} of {count} messages reached an agent") from error
        return self._claims.copy()


def _claims(answer: Answer) -> list[_Claim]:
    return [
        _Claim(
            said_at=float(trigger["inbox_messages"][0]["ts"]),
            stored_at=_moment(trigger["inbox_messages"][0]["received_at"]),
            claimed_at=_moment(trigger["lease"]["expires_at"]) - _LEASE_SECONDS,
            arrived_at=answer.at,
        )
        for trigger in answer.json()["triggers"]
    ]


def _moment(iso: Any) -> float:
    return datetime.fromisoformat(iso).timestamp()


def _times(plan: LoopPlan, claims: Sequence[_Claim], cpu_seconds: float) -> list[Figure]:
    """Returns the times to the claim, which compare the same point of both transactions, and to the arrival, which
    include the commit of the claim."""
    claimed = [claim.claimed_at - claim.stored_at for claim in claims]
    arrived = [claim.arrived_at - claim.stored_at for claim in claims]
    what = f"stored → claimed, {plan.polls} polls, {plan.events_per_second}/s"
    cost = 1_000 * cpu_seconds / len(claims)
    return [
        *spread("polls", what, claimed, p50=1.0, p99=4.0),
        *spread("polls", "stored → in the agent's hands", arrived, p50=2.0),
        Figure("polls", "processor time of one event with its claim", cost, "ms", target=1.5),
    ]


async def _costs_of_many(
    plan: LoopPlan, say: Say, processes: Cluster, agents: Sequence[Part], few: int
) -> list[Figure]:
    """Measures the cost of additional waiting polls, which are ended afterwards."""
    more = plan.more_polls - plan.polls
    figure = partial(Figure, "polls")
    async with _Crowd() as crowd:
        say(f"{plan.more_polls} polls wait")
        await crowd.join([agents[number % len(agents)] for number in range(more)])
        await processes.settled()
        each = (processes.memory_bytes() - few) / more / 1024
        waiting = await _idle(plan, processes, f"{plan.more_polls} polls wait", 2.0)
    return [
        figure(f"memory of each poll, from {plan.polls} to {plan.more_polls}", each, "KB", target=16.0),
        *waiting,
    ]


async def _idle(plan: LoopPlan, processes: Cluster, what: str, target: float | None = None) -> list[Figure]:
    """Measures the processor time while nothing else happens than ``what`` says."""
    async with processes.window() as window:
        await asyncio.sleep(plan.seconds)
    percent = 100 * window.cpu_seconds / window.seconds
    return window.beside([Figure("polls", f"processor while {what}", percent, "% of a core", target=target)])


async def measure_fairness(plan: LoopPlan, say: Say) -> list[Figure]:
    """Measures how much a long thread and a full channel delay the messages of others, while they are written and while
    their agent works on them.
    """
    async with stage(plan) as (slack, processes):
        busy, other = await processes.register(2)
        await slack.send_to_each_channel(other.name)
        async with _Crowd(finishes=True) as crowd:
            await crowd.join([other] * _PROBE_POLLS)
            await crowd.claims(len(slack.channels))
            await processes.settled()
            probes = _Probes(plan, slack, processes, crowd, other.name)
            say(f"{plan.probes_per_second} messages/s for one agent, alone")
            await probes.measure("alone", lambda: asyncio.sleep(plan.seconds))
            root = await slack.send_in_first(slack.addressed(busy.name))
            for where, thread, text in (
                ("a long thread", root, "please look"),
                ("a full channel", None, slack.addressed(busy.name)),
            ):
                say(f"the same while {plan.long_thread} messages are written to {where}, and an agent works on them")
                written = partial(_write, plan, slack, text, thread)
                await probes.measure(f"while {where} is written", written)
                await probes.measure(f"while {where} is worked on", partial(_work_on, busy, plan.seconds))
    return probes.found


async def _write(plan: LoopPlan, slack: Slack, text: str, thread: str | None) -> None:
    left = iter(range(plan.long_thread))

    async def writer() -> None:
        for _ in left:
            await slack.send_in_first(text, thread)

    await asyncio.gather(*(writer() for _ in range(_WRITERS)))


async def _work_on(agent: Part, seconds: float) -> None:
    async with playing(dismiss(agent)) as working:
        await asyncio.wait(working, timeout=seconds)


class _Probes:
    """Sends messages at a steady rate to an agent whose polls wait, and computes the figures of their delays."""

    def __init__(self, plan: LoopPlan, slack: Slack, processes: Cluster, crowd: _Crowd, agent: str) -> None:
        self.found = list[Figure]()
        self._plan = plan
        self._slack = slack
        self._processes = processes
        self._crowd = crowd
        self._agent = agent
        self._alone_ms = 0.0

    async def measure(self, when: str, act: Callable[[], Awaitable[None]]) -> None:
        """Sends messages while ``act`` runs, and adds the figures."""
        self._crowd.forget()
        async with self._processes.window() as window:
            acting = asyncio.ensure_future(act())
            count = 0
            while not acting.done():
                self._slack.say(self._slack.addressed(self._agent), channel=1)  # the others write in channel 0
                count += 1
                await asyncio.wait({acting}, timeout=1 / self._plan.probes_per_second)
            await acting
            claims = await self._crowd.claims(count)
        delays = [claim.arrived_at - claim.said_at for claim in claims]
        p99_ms = 1_000 * percentile(delays, 0.99)
        figures = spread("fairness", f"said → in the agent's hands, {when}", delays)
        if self._alone_ms:
            figures.append(
                Figure("fairness", f"delay of p99 {when}", p99_ms - self._alone_ms, "ms", target=_MOST_DELAY_MS)
            )
        self._alone_ms = self._alone_ms or p99_ms
        self.found += window.beside(figures)
