"""``swarm bench storm``: checks that every message ends once and visibly under heavy load, with events sent twice and
agents and coordinators killed at random.

The twin acts as Slack, without rate limits. The coordinators and all agents are separate processes. People write in
many threads, with a limited number of open messages; leads answer or delegate, and workers complete tasks.

The verdict is based on the calls in the twin's log and the messages that people see, never on our own tables. A message
must end exactly once, in one of two ways: an agent posts ``answer m17`` in its thread, or a notice in the thread says
that the message could not be answered.
"""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from swarm_lab.bench import slack as slacks
from swarm_lab.bench.agents import Part, names, question
from swarm_lab.bench.figures import Figure, Say
from swarm_lab.bench.plans import StormPlan
from swarm_lab.bench.slack import EVENTS, Slack
from swarm_lab.bench.stage import UNPACED, Cluster, cluster
from swarm_lab.programs import Program

_LOOK_SECONDS: Final = 0.25
_TELL_SECONDS: Final = 5.0
_AWAY_SECONDS: Final = (0.0, 1.0)
"""The shortest and longest time for which a killed agent stays away."""

_ANSWER: Final = "answer "
_FAILURES: Final = ("I could not answer this", "I could not get the task")
"""The texts by which a thread shows that a message or task was set aside."""

_STORED: Final = "eyes"
_DONE: Final = "white_check_mark"
_FAILED: Final = "x"

Json = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A person's message."""

    name: str  # m17
    channel: str
    ts: str
    thread_ts: str


@dataclass(kw_only=True, slots=True)
class Log:
    """The content of the twin's call log, which is read in parts, since the twin keeps only the latest calls."""

    answers: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # by channel, thread and name
    failures: Counter[tuple[str, str]] = field(default_factory=Counter)  # by channel and thread
    texts: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # timestamps of posts, by channel and thread
    done: Counter[tuple[str, str]] = field(default_factory=Counter)  # ✅ given, by channel and timestamp
    stored: set[tuple[str, str]] = field(default_factory=set)  # 👀 given, by channel and timestamp
    refused: Counter[str] = field(default_factory=Counter)  # calls that Slack refused, by method and error
    calls: int = 0
    last_seq: int = 0

    def read(self, calls: Sequence[Json]) -> None:
        """Adds the calls logged since ``last_seq``."""
        for call in calls:
            self.calls += 1
            self.last_seq = int(call["seq"])
            if call["ok"]:
                self._note(call["method"], call["args"])
            else:
                self.refused[f"{call['method']}: {call['error']}"] += 1

    def _note(self, method: str, said: Json) -> None:
        if method == "chat.postMessage":
            channel, thread, text = said["channel"], said.get("thread_ts", ""), str(said.get("text", ""))
            self.texts[channel, thread, text] += 1
            self.failures[channel, thread] += any(words in text for words in _FAILURES)
            if text.startswith(_ANSWER):
                self.answers.update((channel, thread, name) for name in names(text))
        elif method == "reactions.add":
            where = said["channel"], said["timestamp"]
            self.done[where] += said["name"] == _DONE
            self.stored |= {where} if said["name"] == _STORED else set()

    @property
    def failed(self) -> int:
        """The number of messages that were reported in their threads as not answered."""
        return sum(self.failures.values())

    def answered(self, asked: Asked) -> int:
        """Returns the number of answers to a message in its own thread."""
        return self.answers[asked.channel, asked.thread_ts, asked.name]


@dataclass(frozen=True, kw_only=True, slots=True)
class Seen:
    """One message as people see it at the end."""

    text: str
    kind: str  # user or bot
    reactions: tuple[str, ...]  # one for each person who gave it

    @classmethod
    def of(cls, message: Mapping[str, Any]) -> Seen:
        """Returns a message of the twin."""
        reactions = tuple(given["name"] for given in message["reactions"] for _ in given["users"])
        return cls(text=message["text"], kind=message["kind"], reactions=reactions)


def judge(asked: Sequence[Asked], log: Log, seen: Mapping[tuple[str, str], Seen]) -> list[Figure]:
    """Counts the messages with each kind of wrong end. Each count must be 0. The keys of ``seen`` are channel and
    timestamp."""
    answered = {message.name: log.answered(message) for message in asked}
    failed = {message.name for message in asked if _FAILED in _reactions(seen, message)}
    said = Counter(
        name for shown in seen.values() if shown.kind == "bot" and shown.text.startswith(_ANSWER)
        for name in names(shown.text)
    )  # fmt: skip
    ended = [message for message in asked if answered[message.name]]
    none, info = partial(Figure, "storm", unit="", target=0), partial(Figure, "storm", unit="")
    return [
        none("messages without an end", sum(not answered[m.name] and m.name not in failed for m in asked)),
        none("messages with two ends", sum(answered[m.name] + (m.name in failed) > 1 for m in asked)),
        none("answers outside their own thread", _strays(asked, log)),
        none("answers that people do not see exactly once", sum(said[m.name] != 1 for m in ended)),
        none("texts posted twice", sum(count - 1 for count in log.texts.values())),
        none("answered messages without exactly one ✅", _wrong_marks(ended, log, seen)),
        none("failures not reported exactly once in their thread", abs(len(failed) - log.failed)),
        info("messages that ended with a failure notice", len(failed)),
    ]


def _reactions(seen: Mapping[tuple[str, str], Seen], message: Asked) -> tuple[str, ...]:
    shown = seen.get((message.channel, message.ts))
    return shown.reactions if shown else ()


def _strays(asked: Sequence[Asked], log: Log) -> int:
    own = {(message.channel, message.thread_ts, message.name) for message in asked}
    return sum(count for where, count in log.answers.items() if where not in own)


def _wrong_marks(ended: Iterable[Asked], log: Log, seen: Mapping[tuple[str, str], Seen]) -> int:
    """Counts wrong marks. The log is checked as well as the visible result, since a mark that was removed and added
    again would look right."""
    return sum(
        log.done[message.channel, message.ts] != 1 or _reactions(seen, message).count(_DONE) != 1 for message in ended
    )


@dataclass(kw_only=True, slots=True)
class _Storm:
    plan: StormPlan
    slack: Slack
    chance: random.Random
    processes: Cluster
    coordinator_kills: int = 0
    roots: dict[int, Asked] = field(default_factory=dict)  # the first message in each thread
    asked: list[Asked] = field(default_factory=list)
    log: Log = field(default_factory=Log)
    ended: set[str] = field(default_factory=set)
    moved_at: float = field(default_factory=time.monotonic)
    going: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def open(self) -> int:
        """The number of messages that have not ended according to the call log."""
        return len(self.asked) - len(self.ended) - self.log.failed

    async def speak(self, leads: Sequence[str]) -> None:
        """Posts all messages, with a limited number of them open. The first message of a thread names its lead.

        People continue in a thread once they have seen 👀 below it. Several coordinators may receive events in any
        order, and a follow-up without a mention has no agent yet if it overtakes its thread's first message.
        """
        for number in range(self.plan.messages):
            thread = number % self.plan.threads
            await self._may_speak(thread)
            text = question(number, delegate=self.chance.random() < self.plan.delegated)
            self._say(f"m{number}", thread, text, leads[thread % len(leads)])

    async def _may_speak(self, thread: int) -> None:
        async with self.going:
            await self.going.wait_for(lambda: self.open < self.plan.in_flight and self._is_seen(thread))

    def _say(self, name: str, thread: int, text: str, lead: str) -> None:
        root = self.roots.get(thread)
        if self.chance.random() < self.plan.doubled:
            for event in EVENTS[: 1 if root else 2]:  # a follow-up needs no mention
                self.slack.duplicate_next(event)
        said = text if root else f"{self.slack.mention} swarm#{lead} {text}"
        channel, ts = self.slack.say(said, thread_ts=root.ts if root else None, channel=thread)
        asked = Asked(name=name, channel=channel, ts=ts, thread_ts=root.ts if root else ts)
        self.roots.setdefault(thread, asked)
        self.asked.append(asked)

    def _is_seen(self, thread: int) -> bool:
        """Whether people may write in a thread, which must be new or have a stored message."""
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
        """Reads the new part of the log, and wakes people who are waiting for an answer."""
        self.log.read(self.slack.calls(self.log.last_seq))
        before = self.open
        self.ended |= {m.name for m in self.asked if m.name not in self.ended and self.log.answered(m)}
        if self.open != before:
            self.moved_at = time.monotonic()
        async with self.going:
            self.going.notify_all()

    @property
    def stuck(self) -> bool:
        """Whether no message has ended for so long that missing messages count as lost."""
        return time.monotonic() - self.moved_at > self.plan.patience_seconds

    async def kill_coordinators(self) -> None:
        """Kills and restarts a random coordinator now and then, until cancelled."""
        while seconds := self.plan.kill_coordinator_every_seconds:
            await asyncio.sleep(self.chance.uniform(0.5, 1.5) * seconds)
            restart = asyncio.ensure_future(self.chance.choice(self.processes.members).restart())
            self.coordinator_kills += 1
            try:
                await asyncio.shield(restart)
            except asyncio.CancelledError:
                await restart
                raise

    async def until_over(self, processes: Cluster) -> None:
        """Waits until no work is left, or until nothing has happened for a long time."""
        while not self.stuck:
            await asyncio.sleep(_LOOK_SECONDS)
            if self.open == 0 and not any((await processes.backlog()).values()):
                return

    def seen(self) -> dict[tuple[str, str], Seen]:
        """Returns all messages as people see them."""
        found = {}
        for channel in {message.channel for message in self.asked}:
            for message in self.slack.messages(channel):
                found[channel, message["ts"]] = Seen.of(message)
        return found


async def measure(plan: StormPlan, say: Say) -> list[Figure]:
    """Runs a storm. Raises BenchError if the storm could not take place. Its failures are reported in the figures."""
    chance = random.Random(plan.seed)
    async with AsyncExitStack() as stack:
        slack = await stack.enter_async_context(slacks.opened(plan.channels, retention=2 * plan.messages + 1_000))
        settings = {**slack.environment, **UNPACED, "SWARM_LEASE_SECONDS": str(plan.lease_seconds)}
        processes = await stack.enter_async_context(cluster(plan, settings))
        await slack.connected(plan.processes)
        leads, parts = await _parts(plan, processes)
        agents = await stack.enter_async_context(_crowd(parts, chance, processes.place.folder))
        storm = _Storm(plan=plan, slack=slack, chance=chance, processes=processes)
        async with processes.window() as window:
            await _pass(storm, leads, agents, processes, say)
        return [
            *window.beside(await _about(storm, agents, processes, window.seconds), plan.messages),
            *judge(storm.asked, storm.log, storm.seen()),
        ]


async def _parts(plan: StormPlan, processes: Cluster) -> tuple[list[str], list[Part]]:
    """Returns the leads' names and the parts of all agents."""
    leads = await processes.register(plan.leads, prefix="lead")
    workers = await processes.register(plan.agents - plan.leads, role="worker", prefix="worker")
    names = [worker.name for worker in workers]
    parts = [
        *(replace(lead, workers=names, hands=2) for lead in leads),
        *(replace(worker, work_seconds=plan.work_seconds) for worker in workers),
    ]
    return [lead.name for lead in leads], parts


async def _pass(storm: _Storm, leads: Sequence[str], agents: _Crowd, processes: Cluster, say: Say) -> None:
    """Posts messages and kills agents until every message is posted, then waits until all messages have ended."""
    say(f"{storm.plan.messages} messages in {storm.plan.threads} threads, {storm.plan.agents} agents")
    watching = asyncio.create_task(storm.watch(say))
    killing = asyncio.create_task(agents.kill_now_and_then(storm.plan.kill_every_seconds))
    restarting = asyncio.create_task(storm.kill_coordinators())
    speaking = asyncio.create_task(storm.speak(leads))
    try:
        while not speaking.done():
            await asyncio.wait({speaking, watching, killing}, timeout=1, return_when=asyncio.FIRST_COMPLETED)
            agents.check()
            if watching.done() or killing.done() or storm.stuck or (restarting.done() and restarting.exception()):
                break
        agents.calm()
        await killing
        restarting.cancel()
        await asyncio.wait({restarting})
        if speaking.done():
            await storm.until_over(processes)
    finally:
        tasks = (speaking, killing, restarting, watching)
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    if failures := [error for error in ended if isinstance(error, Exception)]:
        raise failures[0]
    await storm.look()


async def _about(storm: _Storm, agents: _Crowd, processes: Cluster, seconds: float) -> list[Figure]:
    """Counts the events of the storm."""
    doubled, events = storm.slack.told_twice()
    counts = {
        "messages said": len(storm.asked),
        "threads": len(storm.roots),
        "events sent to the app": events,
        "events told twice": doubled,
        "agents killed": agents.kills,
        "coordinators killed": storm.coordinator_kills,
        "leases that expired": await processes.expired_leases(),
        "calls of Slack": storm.log.calls,
        "messages a second": len(storm.asked) / seconds,
    }
    deadlocks = await processes.deadlocks()
    return [
        *(Figure("storm", what, count, "") for what, count in counts.items()),
        *([] if deadlocks is None else [Figure("storm", "deadlocks in PostgreSQL", deadlocks, "", target=0)]),
    ]


class _Crowd:
    """Agent processes, each of which plays a part."""

    def __init__(self, parts: Sequence[Part], chance: random.Random, folder: Path) -> None:
        self.kills = 0
        self._parts = parts
        self._chance = chance
        self._folder = folder
        self._running: dict[int, Program] = {}
        self._calm = asyncio.Event()

    async def start(self) -> None:
        """Starts all of them."""
        for number in range(len(self._parts)):
            await self._start(number)

    async def _start(self, number: int) -> None:
        part = self._parts[number]
        env, log = {**os.environ, **part.environment}, self._folder / f"{part.name}-agent.log"
        self._running[number] = await Program.start(part.name, ["swarm_lab.bench.agents"], env=env, log=log)

    async def kill_now_and_then(self, every_seconds: float) -> None:
        """Kills a random agent with SIGKILL at about this interval and starts it again, until `calm` is called.

        Raises Died if an agent ends by itself.
        """
        while not await self._calm_within(self._chance.uniform(0.5, 1.5) * every_seconds):
            number = self._chance.randrange(len(self._parts))
            self.check()
            await self._end(number)
            self.kills += 1
            await self._calm_within(self._chance.uniform(*_AWAY_SECONDS))
            await self._start(number)

    def calm(self) -> None:
        """Stops killing agents. Agents that are away come back at once."""
        self._calm.set()

    async def _calm_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._calm.wait(), seconds)
        except TimeoutError:
            return False
        return True

    def check(self) -> None:
        """Raises Died if an agent has ended by itself, since the storm would no longer be as planned."""
        for program in self._running.values():
            program.check()

    async def stop(self) -> None:
        """Ends all of them."""
        await asyncio.gather(*(self._end(number) for number in list(self._running)))

    async def _end(self, number: int) -> None:
        await self._running.pop(number).kill()


@asynccontextmanager
async def _crowd(parts: Sequence[Part], chance: random.Random, folder: Path) -> AsyncIterator[_Crowd]:
    """Runs the agents, and ends them afterwards."""
    found = _Crowd(parts, chance, folder)
    try:
        await found.start()
        yield found
    finally:
        await asyncio.shield(found.stop())
