"""``swarm bench stream``: streamed answers, from the agent's deltas to the calls of Slack, within its limits.

A real coordinator, a twin that keeps Slack's rate limits, and an AG-UI agent. First a few answers one after another,
for the time to the first text; then several at once, 1 and 3 within Slack's limits, 20 and 100 above them. Each part
waits until the limits allow a burst again: a coordinator begins with none. The verdict is in `stream_judge`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import orjson

from swarm.bench import slack as slacks
from swarm.bench.figures import Figure, Say
from swarm.bench.plans import StreamPlan
from swarm.bench.slack import Slack
from swarm.bench.stage import Cluster, cluster
from swarm.bench.stream_judge import Asked, CallLog, Lag, Part, faults, figures, lag_on, own_lag
from swarm.bench.streaming_agent import Order, StreamingAgent, marks_in

FIRST_TEXT: Final = "one after another"
_CHANNELS: Final = 20
_SHORT_DELTAS: Final = 5
_LOOK_SECONDS: Final = 0.5
_PATIENCE_SECONDS: Final = 150.0
"""The time between the agent's last text and the end of an answer: streams are given up after 90 seconds."""

_RETENTION_MESSAGES: Final = 2_000


@dataclass(kw_only=True, slots=True)
class _Bench:
    """All participants of the measurement."""

    slack: Slack
    processes: Cluster
    agent: StreamingAgent
    say: Say
    asked: int = 0  # answers so far
    seq: int = 0  # of the last call of earlier parts

    async def part(self, name: str, asking: Iterable[float], deltas: int, per_second: float) -> Part:
        """Asks at the given moments, in seconds from now, and waits until every answer is whole, or counts as lost."""
        log, lag, begun = CallLog(last_seq=self.seq), await self._lag(), time.time()
        async with self.processes.window() as window:
            async with own_lag() as late:
                asked = await asyncio.gather(*(self._ask_at(begun + after, deltas, per_second) for after in asking))
                until = time.time() + deltas / per_second + _PATIENCE_SECONDS
                await asyncio.sleep(deltas / per_second)  # the agent writes this long; later the load is smaller
                lag = (await self._lag()).since(lag)
            await self._until_shown(log, asked, until)
        problems = [await self._faults(one, until) for one in asked]
        log.read(self.slack.calls(log.last_seq))
        self.seq = log.last_seq
        return Part(
            name=name, asked=asked, sent=self.agent.runs, log=log, lag=lag, own_lag=late, faults=problems, window=window
        )

    async def _lag(self) -> Lag:
        return lag_on(await self.processes.members[0].metrics())

    async def _ask_at(self, moment: float, deltas: int, per_second: float) -> Asked:
        """Asks for one more answer, in a new thread."""
        await asyncio.sleep(max(0.0, moment - time.time()))
        order = Order(stream=self.asked, deltas=deltas, per_second=per_second)
        self.asked += 1
        said_at = time.time()
        channel, ts = self.slack.say(f"{self.slack.mention} {order}", channel=order.stream)
        return Asked(order=order, channel=channel, ts=ts, said_at=said_at)

    async def _until_shown(self, log: CallLog, asked: Sequence[Asked], until: float) -> None:
        """Reads the twin's log until it has the end of every answer, or time is over."""
        while time.time() < until and not all(log.has_all_of(one.order) for one in asked):
            await asyncio.sleep(_LOOK_SECONDS)
            log.read(self.slack.calls(log.last_seq))

    async def _faults(self, one: Asked, until: float) -> tuple[int, int, bool]:
        """Returns the final faults of an answer: closing messages and removing buttons takes a while."""
        while True:
            messages = [message for message in self.slack.messages(one.channel, one.ts) if message["ts"] != one.ts]
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


async def measure(plan: StreamPlan, say: Say) -> list[Figure]:
    """Runs all parts, one after another. Raises BenchError on failure."""
    parts = [(FIRST_TEXT, [number * plan.answer_every_seconds for number in range(plan.answers)], _SHORT_DELTAS)]
    deltas = max(1, int(plan.seconds * plan.per_second))
    parts += [(f"{count} at once", [0.0] * count, deltas) for count in plan.streams]
    found = list[Figure]()
    async with _bench(plan, say) as bench:
        for name, moments, count in parts:
            await asyncio.sleep(plan.refill_seconds)
            say(f"{len(moments)} answers, {name}, each {count} deltas, {plan.per_second:g} a second")
            found += figures(await bench.part(name, moments, count, plan.per_second))
    return found


@asynccontextmanager
async def _bench(plan: StreamPlan, say: Say) -> AsyncIterator[_Bench]:
    """Starts all participants, and asks for an answer in each channel, so that names are known and connections open."""
    async with AsyncExitStack() as stack:
        agent = StreamingAgent()
        port = await stack.enter_async_context(agent.served())
        slack = await stack.enter_async_context(slacks.opened(_CHANNELS, rates=True, retention=_RETENTION_MESSAGES))
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="swarm-bench-")))
        settings = {**slack.environment, "SWARM_CONFIG": str(_settings(folder, port, max(plan.streams)))}
        processes = await stack.enter_async_context(cluster(plan, settings))
        await slack.connected(1)
        bench = _Bench(slack=slack, processes=processes, agent=agent, say=say)
        say("a first answer in each channel")
        await bench.part("first", [0.0] * _CHANNELS, 1, plan.per_second)
        yield bench


def _settings(folder: Path, port: int, parallel: int) -> Path:
    """Writes a settings file with the agent; YAML is JSON too."""
    path = folder / "swarm.yaml"
    agent = {"url": f"http://127.0.0.1:{port}/", "parallel": parallel, "description": "answers as the bench wants it"}
    path.write_bytes(orjson.dumps({"agents": {"default": "streamer", "remote": {"streamer": agent}}}))
    return path
