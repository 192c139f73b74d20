"""``swarm bench storm``: heavy load, events sent twice, agents killed at random: every message ends once, visibly.

The twin is Slack, without rate limits; the coordinators and all agents are processes. People write into many threads,
with a limited number of open messages; leads answer or delegate, workers complete. `storm_verdict` judges the result.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Final

from swarm.bench.figures import Figure
from swarm.bench.parts.agent import Part, question
from swarm.bench.parts.cluster import Cluster, cluster
from swarm.bench.plan import Plan, Say
from swarm.bench.storms.storm_agents import Crowd, crowd
from swarm.bench.storms.storm_twin import APP, EVENTS, Twin, twin
from swarm.bench.storms.storm_verdict import Asked, Log, Seen, judge

_LOOK_SECONDS: Final = 0.25
_TELL_SECONDS: Final = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class StormPlan:
    """The size of a storm; the defaults are those of the team's issue."""

    database: str = "sqlite"
    processes: int = 1
    messages: int = 10_000
    threads: int = 500
    agents: int = 20
    leads: int = 5  # of the agents; the others are workers
    channels: int = 20
    in_flight: int = 64  # messages that have not ended
    delegated: float = 0.3  # of the messages
    doubled: float = 0.3  # of the messages are sent twice
    kill_every_seconds: float = 2.0
    lease_seconds: float = 10.0
    work_seconds: float = 0.05  # duration of a task
    patience_seconds: float = 120.0  # without any new end, before missing messages count as lost
    seed: int = 20_261_121


@dataclass(kw_only=True, slots=True)
class Storm:
    """The state of a storm."""

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
        """The number of messages that have not ended, by the log of calls."""
        return len(self.asked) - len(self.ended) - self.log.failed

    async def speak(self, leads: Sequence[str]) -> None:
        """Posts all messages, with a limited number of them open. The first message of a thread names its lead.

        People write on in a thread once they have seen 👀 below it. Several coordinators receive events in any order: a
        follow-up without a mention that overtakes its thread's first message has no agent yet.
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
        """Whether people may write into a thread: a new one, or one with a stored message."""
        root = self.roots.get(thread)
        return root is None or (root.channel, root.ts) in self.log.stored or self.log.answered(root) > 0

    async def watch(self, say: Say) -> None:
        """Reads the twin's log until cancelled."""
        told_at = time.monotonic()
        while True:
            await self.look()
            if time.monotonic() - told_at > _TELL_SECONDS:
                told_at = time.monotonic()
                say(f"{len(self.ended)} of {len(self.asked)} messages have ended")
            await asyncio.sleep(_LOOK_SECONDS)

    async def look(self) -> None:
        """Reads the new part of the log, and wakes people waiting for an answer."""
        self.log.read(await self.twin.calls(self.log.last_seq))
        before = self.open
        self.ended |= {m.name for m in self.asked if m.name not in self.ended and self.log.answered(m)}
        if self.open != before:
            self.moved_at = time.monotonic()
        async with self.going:
            self.going.notify_all()

    @property
    def stuck(self) -> bool:
        """Whether nothing has ended for so long that missing messages count as lost."""
        return time.monotonic() - self.moved_at > self.plan.patience_seconds

    async def until_over(self, processes: Cluster) -> None:
        """Waits until nothing is left to do, or nothing has happened for long."""
        while not self.stuck:
            await asyncio.sleep(_LOOK_SECONDS)
            if self.open == 0 and not any((await processes.backlog()).values()):
                return

    async def seen(self) -> dict[tuple[str, str], Seen]:
        """Returns all messages as people see them."""
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
    """Runs a storm. Raises BenchError if it could not take place; its failures are in the figures."""
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
    """Returns the leads' names, and the parts of all agents."""
    leads = await processes.register(plan.leads, prefix="lead")
    workers = await processes.register(plan.agents - plan.leads, role="worker", prefix="worker")
    names = [worker.name for worker in workers]
    parts = [
        *(Part(port=lead.port, token=lead.token, workers=names, hands=2) for lead in leads),
        *(Part(port=worker.port, token=worker.token, work_seconds=plan.work_seconds) for worker in workers),
    ]
    return [lead.name for lead in leads], parts


async def _pass(storm: Storm, leads: Sequence[str], agents: Crowd, processes: Cluster, say: Say) -> None:
    """Lets people write and agents die until every message is posted; then waits until all have ended."""
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
    """Counts the events of the storm."""
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
