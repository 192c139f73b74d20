"""``swarm bench team``: measures a lead and its workers, from a person's message to the worker's result in Slack.

The lead delegates messages to each worker in turn, and the worker completes the task at once with a reply. A message
therefore causes two triggers, two tool calls and a notice for the lead. A message ends when the twin receives
``chat.postMessage`` with the result. Slack's rate limits are off; otherwise the limit of one post per second and
channel would determine the result.
"""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Final

from swarm_lab.bench.agents import Agent, names, playing, question
from swarm_lab.bench.figures import BenchError, Better, Figure, Say, spread
from swarm_lab.bench.plans import TeamPlan
from swarm_lab.bench.slack import Slack, constantly, steadily
from swarm_lab.bench.stage import UNPACED, Cluster, stage

_RESULT_SECONDS: Final = 60.0


async def measure(plan: TeamPlan, say: Say) -> list[Figure]:
    """Measures the time to the result at a steady rate, and the highest rate of results."""
    async with stage(plan, UNPACED) as (slack, processes), _team(plan, processes) as lead:
        people = _People(slack, f"{slack.mention} swarm#{lead}")
        await asyncio.gather(*(people.ask() for _ in slack.channels))  # afterwards the channels' names are known
        await processes.settled()
        say(f"{plan.per_second} messages/s for {plan.seconds:g} s")
        async with processes.window() as steady:
            waits = await steadily(lambda _: people.ask(), plan.seconds, plan.per_second)
        say(f"as many as get a result, {plan.in_flight} in flight, for {plan.seconds:g} s")
        async with processes.window() as window:
            count = await constantly(people.ask, plan.seconds, plan.in_flight)
        people.check()
    figure = partial(Figure, "team")
    who = f"a lead, {plan.workers} workers" + (f", {plan.processes} processes" if plan.processes > 1 else "")
    most = [
        figure(f"sustained, {who}, {plan.in_flight} in flight", count / window.seconds, "messages/s", Better.HIGHER),
        figure("processor time of one message with its task", 1_000 * window.cpu_seconds / count, "ms"),
    ]
    return [
        *steady.beside(spread("team", f"message → result at {plan.per_second}/s", waits), len(waits)),
        *window.beside(most, count),
    ]


class _People:
    """People who ask for work and wait for the result."""

    def __init__(self, slack: Slack, address: str) -> None:
        self._slack = slack
        self._address = address
        self._numbers = itertools.count()
        self._waiting: dict[str, asyncio.Future[float]] = {}
        self._surplus: list[str] = []
        slack.on_post = self._hear

    def _hear(self, text: str) -> None:
        """Records a result. A second result for the same message is surplus."""
        for name in names(text):
            if (waiting := self._waiting.pop(name, None)) and not waiting.done():
                waiting.set_result(time.perf_counter())
            else:
                self._surplus.append(name)

    async def ask(self) -> float:
        """Posts a message in a new thread. Returns the seconds until its result is posted.

        Raises BenchError if no result comes.
        """
        number = next(self._numbers)
        posted: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self._waiting[f"m{number}"] = posted
        begun = time.perf_counter()
        self._slack.say(f"{self._address} {question(number, delegate=True)}")
        try:
            async with asyncio.timeout(_RESULT_SECONDS):
                return await posted - begun
        except TimeoutError as error:
            raise BenchError(f"m{number} got no result within {_RESULT_SECONDS:g} s") from error

    def check(self) -> None:
        """Raises BenchError for surplus results, which would make the figures meaningless."""
        if self._surplus:
            raise BenchError(f"posted more than once: {', '.join(self._surplus[:10])}")


@asynccontextmanager
async def _team(plan: TeamPlan, processes: Cluster) -> AsyncIterator[str]:
    """Starts the lead and the workers. Yields the lead's name."""
    (lead,) = await processes.register(1, prefix="lead")
    workers = await processes.register(plan.workers, role="worker", prefix="worker")
    parts = [
        replace(lead, workers=[worker.name for worker in workers], hands=plan.workers),
        *(replace(worker, hands=plan.hands) for worker in workers),
    ]
    async with playing(*(Agent(part).play() for part in parts)):
        yield lead.name
