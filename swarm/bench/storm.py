"""``swarm bench storm``: much at once, events told twice, agents killed at random: every message ends once, visibly.

The twin is Slack, without rate limits; the coordinators and all agents are processes. People write into many threads,
with so many messages open at a time; leads answer or hand over, workers complete. `storm_verdict` judges what came of
it.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

from swarm.bench.agent import Part, question
from swarm.bench.cluster import Cluster, cluster
from swarm.bench.figures import Figure
from swarm.bench.plan import Plan, Say
from swarm.bench.storm_agents import Crowd, crowd
from swarm.bench.storm_twin import APP, EVENTS, Twin, twin
from swarm.bench.storm_verdict import Asked, Log, Seen, judge

_LOOK_SECONDS: Final = 0.25
_TELL_SECONDS: Final = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class StormPlan:
    """The size of a storm; as it stands, what the issue of the team asks for."""

    database: str = "sqlite"
    processes: int = 1
    messages: int = 10_000
    threads: int = 500
    agents: int = 20
    leads: int = 5  # of the agents; the others are workers
    channels: int = 20
    in_flight: int = 64  # messages that have not ended
    delegated: float = 0.3  # of the messages
    doubled: float = 0.3  # of the messages are told twice
    kill_every_seconds: float = 2.0
    lease_seconds: float = 10.0
    work_seconds: float = 0.05  # that a task takes
    patience_seconds: float = 120.0  # without any new end, before what is missing counts as lost
    seed: int = 20_261_121


@dataclass(kw_only=True, slots=True)
class Storm:
    """What happens."""

    plan: StormPlan
    twin: Twin
    chance: random.Random
    roots: dict[int, Asked] = field(default_factory=dict)  # the first message of each thread
    asked: list[Asked] = field(default_factory=list)
    log: Log = field(default_factory=Log)
    ended: set[str] = field(default_factory=set)
    moved_at: float = field(default_factory=time.monotonic)
    going: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def open(self) -> int:
        """How many messages have not ended, as far as the log of calls tells."""
        return len(self.asked) - len(self.ended) - self.log.failed

    async def speak(self, leads: Sequence[str]) -> None:
        """Say everything, never with more than so many messages open. The first of a thread names its lead.

        People write on in a thread when they have seen 👀 below it. Several coordinators hear of events in any order: a
        follow-up without a mention that overtakes its thread's first message concerns nobody yet.
        """
        for number in range(self.plan.messages):
            thread = number % self.plan.threads
            await self._may_speak(thread)
            text = question(number, delegate=self.chance.random() < self.plan.delegated)
            await self._say(f"m{number}", thread, text, leads[thread % len(leads)])

    async def _may_speak(self, thread: int) -> None:
        async with self.going:
            await self.going.wait_for(lambda: self.open < self.plan.in_flight and self._is_seen(thread))

    async def _say(self, name: str, thread: int, text: str, lead: str) -> None:
        root = self.roots.get(thread)
        if self.chance.random() < self.plan.doubled:
            for event in EVENTS[: 1 if root else 2]:  # a follow-up needs no mention
                await self.twin.duplicate_next(event)
        said = text if root else f"@{APP} swarm#{lead} {text}"
        place = f"storm-{thread % self.plan.channels}"
        channel, ts = await self.twin.say(place, said, root.ts if root else None)
        asked = Asked(name=name, channel=channel, ts=ts, thread_ts=root.ts if root else ts)
        self.roots.setdefault(thread, asked)
        self.asked.append(asked)

    def _is_seen(self, thread: int) -> bool:
        """Whether people may write into a thread: into a new one, or into one that has been heard of."""
        root = self.roots.get(thread)
        return root is None or (root.channel, root.ts) in self.log.stored or self.log.answered(root) > 0

    async def watch(self, say: Say) -> None:
        """Read the twin's log until cancelled."""
        told_at = time.monotonic()
        while True:
            await self.look()
            if time.monotonic() - told_at > _TELL_SECONDS:
                told_at = time.monotonic()
                say(f"{len(self.ended)} of {len(self.asked)} messages have ended")
            await asyncio.sleep(_LOOK_SECONDS)

    async def look(self) -> None:
        """Read what is new in the log, and let people speak who waited for an answer."""
        self.log.read(await self.twin.calls(self.log.last_seq))
        before = self.open
        self.ended |= {m.name for m in self.asked if m.name not in self.ended and self.log.answered(m)}
        if self.open != before:
            self.moved_at = time.monotonic()
        async with self.going:
            self.going.notify_all()

    @property
    def stuck(self) -> bool:
        """Whether nothing has ended for so long that what is missing counts as lost."""
        return time.monotonic() - self.moved_at > self.plan.patience_seconds

    async def until_over(self, processes: Cluster) -> None:
        """Wait until nothing is left to do, or nothing has happened for long."""
        while not self.stuck:
            await asyncio.sleep(_LOOK_SECONDS)
            if self.open == 0 and not any((await processes.backlog()).values()):
                return

    async def seen(self) -> dict[tuple[str, str], Seen]:
        """Everything as people see it."""
        found = {}
        for channel in {message.channel for message in self.asked}:
            for message in await self.twin.messages(channel):
                found[channel, message["ts"]] = Seen(
                    text=message["text"],
                    kind=message["kind"],
                    reactions=tuple(given["name"] for given in message["reactions"] for _ in given["users"]),
                )
        return found


async def measure(plan: StormPlan, say: Say) -> list[Figure]:
    """Let a storm pass. Raises BenchError when it could not take place; what it broke is in the figures."""
    chance = random.Random(plan.seed)
    async with AsyncExitStack() as stack:
        slack = await stack.enter_async_context(twin(2 * plan.messages + 1_000))
        await slack.seed([f"storm-{number}" for number in range(plan.channels)])
        settings = {**slack.environment, "SWARM_SLACK_PACE": "off", "SWARM_LEASE_SECONDS": str(plan.lease_seconds)}
        sizes = Plan(database=plan.database, processes=plan.processes)
        processes = await stack.enter_async_context(cluster(sizes, settings))
        leads, parts = await _parts(plan, processes)
        agents = await stack.enter_async_context(crowd(parts, chance))
        storm = Storm(plan=plan, twin=slack, chance=chance)
        begun = time.monotonic()
        await _pass(storm, leads, agents, processes, say)
        seconds = time.monotonic() - begun
        return [
            *await _about(storm, agents, processes, seconds),
            *judge(storm.asked, storm.log, await storm.seen()),
        ]


async def _parts(plan: StormPlan, processes: Cluster) -> tuple[list[str], list[Part]]:
    """The leads' names, and what everybody plays."""
    leads = await processes.register(plan.leads, prefix="lead")
    workers = await processes.register(plan.agents - plan.leads, role="worker", prefix="worker")
    names = [worker.name for worker in workers]
    parts = [
        *(Part(port=lead.port, token=lead.token, workers=names, hands=2) for lead in leads),
        *(Part(port=worker.port, token=worker.token, work_seconds=plan.work_seconds) for worker in workers),
    ]
    return [lead.name for lead in leads], parts


async def _pass(storm: Storm, leads: Sequence[str], agents: Crowd, processes: Cluster, say: Say) -> None:
    """Let people speak and agents die until everything is said; then wait until everything has ended."""
    say(f"{storm.plan.messages} messages in {storm.plan.threads} threads, {storm.plan.agents} agents")
    watching = asyncio.create_task(storm.watch(say))
    killing = asyncio.create_task(agents.kill_now_and_then(storm.plan.kill_every_seconds))
    speaking = asyncio.create_task(storm.speak(leads))
    try:
        while not speaking.done():
            await asyncio.wait({speaking, watching, killing}, timeout=1, return_when=asyncio.FIRST_COMPLETED)
            agents.check()
            if watching.done() or killing.done() or storm.stuck:
                break
        agents.calm()
        await killing
        if speaking.done():
            await storm.until_over(processes)
    finally:
        for task in (speaking, killing, watching):
            task.cancel()
        ended = await asyncio.gather(speaking, killing, watching, return_exceptions=True)
    if failures := [error for error in ended if isinstance(error, Exception)]:
        raise failures[0]
    await storm.look()


async def _about(storm: Storm, agents: Crowd, processes: Cluster, seconds: float) -> list[Figure]:
    """What there was to be survived."""
    doubled, events = await storm.twin.told_twice()
    counts = {
        "messages said": len(storm.asked),
        "threads": len(storm.roots),
        "events told to the app": events,
        "events told twice": doubled,
        "agents killed": agents.kills,
        "leases that expired": await processes.expired_leases(),
        "calls of Slack": storm.log.calls,
        "messages a second": len(storm.asked) / seconds,
    }
    return [Figure(measurement="storm", what=what, value=count, unit="") for what, count in counts.items()]
