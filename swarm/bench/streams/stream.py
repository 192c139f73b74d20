"""``swarm bench stream``: streamed answers, from the agent's deltas to the calls of Slack, within its limits.

A real coordinator, a twin that keeps Slack's rate limits, and an AG-UI agent, each a separate process. First a few
answers one after another, for the time to the first text; then several at once, 1 and 3 within Slack's limits, 20 and
100 above them. Each part waits until the limits allow a burst again: a coordinator begins with none.
"""

from __future__ import annotations

import asyncio
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import aiohttp
import orjson

from swarm.bench.figures import BenchError, Figure
from swarm.bench.parts.cluster import Cluster, cluster
from swarm.bench.plan import Plan, Say
from swarm.bench.storms.storm_twin import APP, Twin, twin
from swarm.bench.streams.lag import Lag, idle_lag, lag_on
from swarm.bench.streams.stream_figures import Part, figures
from swarm.bench.streams.stream_log import Asked, CallLog, faults
from swarm.bench.streams.streaming_agent import Order, Sent, marks_in

CHANNELS: Final = 20
FIRST_TEXT: Final = "one after another"
_SHORT_DELTAS: Final = 5
_LOOK_SECONDS: Final = 0.5
_PATIENCE_SECONDS: Final = 150.0
"""The time between the agent's last text and the end of an answer: streams are given up after 90 seconds."""

_RETENTION_MESSAGES: Final = 2_000
_START_SECONDS: Final = 30.0


@dataclass(kw_only=True, slots=True)
class Bench:
    """All participants of the measurement."""

    twin: Twin
    processes: Cluster
    agent: Agent
    say: Say
    asked: int = 0  # answers so far
    seq: int = 0  # of the last call of earlier parts

    async def ask(self, deltas: int, per_second: float) -> Asked:
        """Asks for one more answer, in a new thread."""
        order = Order(stream=self.asked, deltas=deltas, per_second=per_second)
        self.asked += 1
        said_at = time.time()
        channel, ts = await self.twin.say(f"stream-{order.stream % CHANNELS}", f"@{APP} {order}", None)
        return Asked(order=order, channel=channel, ts=ts, said_at=said_at)

    async def lag(self) -> Lag:
        return lag_on(await self.processes.members[0].metrics())

    async def part(self, name: str, asking: Iterable[float], deltas: int, per_second: float) -> Part:
        """Asks at the given moments, in seconds from now, and waits until every answer is whole, or counts as lost."""
        log, lag, begun = CallLog(last_seq=self.seq), await self.lag(), time.time()
        cpu = self.processes.cpu_seconds()
        async with idle_lag() as idle:
            asked = await asyncio.gather(*(self._ask_at(begun + after, deltas, per_second) for after in asking))
            until = time.time() + deltas / per_second + _PATIENCE_SECONDS
            await asyncio.sleep(deltas / per_second)  # the agent writes this long; later the load is smaller
            lag = (await self.lag()).since(lag)
        over_at = await self._until_shown(log, asked, until)
        cpu = self.processes.cpu_seconds() - cpu
        problems = [await self._faults(one, until) for one in asked]
        log.read(await self.twin.calls(log.last_seq))
        self.seq = log.last_seq
        return Part(
            name=name, asked=asked, sent=await self.agent.sent(), log=log, lag=lag, idle_lag=idle, faults=problems,
            seconds=over_at - begun, cpu_seconds=cpu,
        )  # fmt: skip

    async def _until_shown(self, log: CallLog, asked: Sequence[Asked], until: float) -> float:
        """Reads the twin's log until it has the end of every answer, or time is over. Returns the time."""
        while time.time() < until and not all(log.has_all_of(one.order) for one in asked):
            await asyncio.sleep(_LOOK_SECONDS)
            log.read(await self.twin.calls(log.last_seq))
        return time.time()

    async def _ask_at(self, moment: float, deltas: int, per_second: float) -> Asked:
        await asyncio.sleep(max(0.0, moment - time.time()))
        return await self.ask(deltas, per_second)

    async def _faults(self, one: Asked, until: float) -> tuple[int, int, bool]:
        """Returns the final faults of an answer: closing messages and removing buttons takes a while."""
        while True:
            messages = await self.twin.thread(one.channel, one.ts)
            found = faults(one.order, messages)
            is_settled = not any(message["streaming"] for message in messages) and found == (0, 0, False)
            if is_settled:
                return found
            if time.time() > until:
                shown = {number for message in messages for _, number in marks_in(message["text"])}
                lost = [number for number in range(one.order.deltas) if number not in shown]
                self.say(f"s{one.order.stream} in {one.channel}, {one.ts}, is not whole; not shown: {lost}")
                return found
            await asyncio.sleep(_LOOK_SECONDS)


@dataclass(frozen=True, kw_only=True, slots=True)
class Agent:
    """The streaming agent, from outside."""

    url: str
    http: aiohttp.ClientSession

    async def sent(self) -> dict[int, list[Sent]]:
        """Returns the deltas sent so far, by stream."""
        async with self.http.get(f"{self.url}sent") as answer:
            runs = orjson.loads(await answer.read())
        return {int(stream): [Sent(**run) for run in several] for stream, several in runs.items()}


async def measure(plan: Plan, say: Say) -> list[Figure]:
    """Runs all parts, one after another. Raises BenchError on failure."""
    async with AsyncExitStack() as stack:
        bench = await stack.enter_async_context(_bench(plan, say))
        say(f"{plan.answers} answers, one every {plan.answer_every_seconds:g} s")
        parts = [await _part(bench, plan, FIRST_TEXT, _moments(plan), _SHORT_DELTAS)]
        for count in plan.streams:
            say(f"{count} at once, each {plan.deltas_per_second:g} deltas/s for {plan.stream_seconds:g} s")
            deltas = max(1, int(plan.stream_seconds * plan.deltas_per_second))
            parts.append(await _part(bench, plan, f"{count} at once", [0.0] * count, deltas))
        return [figure for part in parts for figure in figures(part)]


def _moments(plan: Plan) -> list[float]:
    return [number * plan.answer_every_seconds for number in range(plan.answers)]


async def _part(bench: Bench, plan: Plan, name: str, moments: list[float], deltas: int) -> Part:
    await asyncio.sleep(plan.refill_seconds)
    return await bench.part(name, moments, deltas, plan.deltas_per_second)


@asynccontextmanager
async def _bench(plan: Plan, say: Say) -> AsyncIterator[Bench]:
    """Starts all participants, and asks for an answer in each channel, so that names are known and connections open."""
    if plan.processes > 1:
        raise BenchError("streams are run by one coordinator process at a time; leave --processes out")
    async with AsyncExitStack() as stack:
        agent = await stack.enter_async_context(_agent())
        slack = await stack.enter_async_context(twin(_RETENTION_MESSAGES, rates=True))
        await slack.seed([f"stream-{number}" for number in range(CHANNELS)])
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="swarm-bench-")))
        settings = {**slack.environment, "SWARM_CONFIG": str(_settings(folder, agent.url, max(plan.streams)))}
        processes = await stack.enter_async_context(cluster(plan, settings))
        bench = Bench(twin=slack, processes=processes, agent=agent, say=say)
        say("a first answer in each channel")
        await bench.part("first", [0.0] * CHANNELS, 1, plan.deltas_per_second)
        yield bench


def _settings(folder: Path, url: str, parallel: int) -> Path:
    """Writes a settings file with the agent; YAML is JSON too."""
    path = folder / "swarm.yaml"
    agent = {"url": url, "parallel": parallel, "description": "answers as the bench wants it"}
    path.write_bytes(orjson.dumps({"agents": {"default": "streamer", "remote": {"streamer": agent}}}))
    return path


@asynccontextmanager
async def _agent() -> AsyncIterator[Agent]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "swarm.bench.streams.streaming_agent"), stdout=PIPE, start_new_session=True
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(_START_SECONDS):
            word, _, port = (await process.stdout.readline()).decode().partition(" ")
        if word != "port":
            raise BenchError("the streaming agent did not start")
        async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=_START_SECONDS)) as http:
            yield Agent(url=f"http://127.0.0.1:{int(port)}/", http=http)
    finally:
        process.terminate()
        await process.wait()
