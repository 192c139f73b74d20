"""``swarm bench team``: a lead and its workers, from a person's message to the worker's result in Slack.

The lead delegates every message, to each worker in turn; the worker completes the task at once with a reply. So a
message is two triggers, two tool calls and a notice for the lead. The end is the moment at which the bench Slack gets
``chat.postMessage`` with the result. Slack's rate limits are off: otherwise a post per second and channel would be the
only result.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from swarm.bench.figures import BenchError, Better, Figure, percentile
from swarm.bench.parts.agent import Agent, Part, names, question
from swarm.bench.parts.cluster import Cluster, connected
from swarm.bench.parts.slack import BOT_USER, CHANNELS, BenchSlack
from swarm.bench.plan import Plan, Say

_SETTINGS: Final = {"SWARM_SLACK_PACE": "off"}
_RESULT_SECONDS: Final = 60.0


async def measure(plan: Plan, say: Say) -> list[Figure]:
    """Measures the time to the result at a steady rate, and the highest rate of results."""
    async with connected(plan, _SETTINGS) as (slack, processes), _team(plan, processes) as lead:
        people = People(slack, f"<@{BOT_USER}> swarm#{lead}")
        await asyncio.gather(*(people.ask() for _ in CHANNELS))  # the channels' names are known from then on
        say(f"{plan.team_per_second} messages/s for {plan.seconds:g} s")
        waits = await people.ask_steadily(plan.seconds, plan.team_per_second)
        say(f"as many as get a result, {plan.team_in_flight} in flight, for {plan.seconds:g} s")
        before = processes.cpu_seconds()
        count, rate = await people.ask_constantly(plan.seconds, plan.team_in_flight)
        cost = (processes.cpu_seconds() - before) / count
        people.check()
    who = f"a lead, {plan.workers} workers, {plan.processes} processes" if plan.processes > 1 else ""
    who = who or f"a lead, {plan.workers} workers"
    return [
        _latency(f"message → result at {plan.team_per_second}/s, p50", percentile(waits, 0.5)),
        _latency(f"message → result at {plan.team_per_second}/s, p99", percentile(waits, 0.99)),
        Figure(
            measurement="team",
            what=f"sustained, {who}, {plan.team_in_flight} in flight",
            value=rate,
            unit="messages/s",
            better=Better.HIGHER,
        ),
        _latency("processor time of one message with its task", cost),
    ]


class People:
    """People who ask, and wait for the result."""

    def __init__(self, slack: BenchSlack, address: str) -> None:
        self._slack = slack
        self._address = address
        self._numbers = itertools.count()
        self._waiting: dict[str, asyncio.Future[float]] = {}
        self._surplus: list[str] = []
        slack.on_post = self._hear

    def _hear(self, text: str) -> None:
        """Notes a result; a second one for the same message is surplus."""
        for name in names(text):
            if (waiting := self._waiting.pop(name, None)) and not waiting.done():
                waiting.set_result(time.perf_counter())
            else:
                self._surplus.append(name)

    async def ask(self) -> float:
        """Posts a message in a new thread. Returns the seconds until its result is posted.

        Raises BenchError if none comes.
        """
        number = next(self._numbers)
        posted = self._waiting[f"m{number}"] = asyncio.get_running_loop().create_future()
        begun = time.perf_counter()
        await self._slack.send(f"{self._address} {question(number, delegate=True)}")
        try:
            async with asyncio.timeout(_RESULT_SECONDS):
                posted_at: float = await posted
        except TimeoutError as error:
            raise BenchError(f"m{number} got no result within {_RESULT_SECONDS:g} s") from error
        return posted_at - begun

    async def ask_steadily(self, seconds: float, per_second: float) -> list[float]:
        """Asks at a steady rate, however late the results come. Returns the seconds to each of these."""
        begun, asking = time.perf_counter(), list[asyncio.Task[float]]()
        for turn in range(int(seconds * per_second)):
            await asyncio.sleep(max(0.0, begun + turn / per_second - time.perf_counter()))
            asking.append(asyncio.create_task(self.ask()))
        return await asyncio.gather(*asking)

    async def ask_constantly(self, seconds: float, in_flight: int) -> tuple[int, float]:
        """Returns the number of results, and their rate, with a fixed number of questions open."""
        begun = time.perf_counter()

        async def asker() -> int:
            asked = 0
            while time.perf_counter() - begun < seconds:
                await self.ask()
                asked += 1
            return asked

        count = sum(await asyncio.gather(*(asker() for _ in range(in_flight))))
        return count, count / (time.perf_counter() - begun)

    def check(self) -> None:
        """Raises BenchError for surplus results, which would make the figures worthless."""
        if self._surplus:
            raise BenchError(f"said more than once: {', '.join(self._surplus[:10])}")


@asynccontextmanager
async def _team(plan: Plan, processes: Cluster) -> AsyncIterator[str]:
    """Starts lead and workers. Yields the lead's name."""
    (lead,) = await processes.register(1, prefix="lead")
    workers = await processes.register(plan.workers, role="worker", prefix="worker")
    parts = [
        Part(port=lead.port, token=lead.token, workers=[worker.name for worker in workers], hands=plan.workers),
        *(Part(port=worker.port, token=worker.token, hands=plan.hands) for worker in workers),
    ]
    playing = [asyncio.create_task(Agent(part).play()) for part in parts]
    try:
        yield lead.name
    finally:
        for task in playing:
            task.cancel()
        ended = await asyncio.gather(*playing, return_exceptions=True)
    failures = [error for error in ended if isinstance(error, BenchError)]
    if failures:
        raise failures[0]


def _latency(what: str, seconds: float) -> Figure:
    return Figure(measurement="team", what=what, value=1_000 * seconds, unit="ms")
