"""Event received → durable and acknowledged, through Bolt over Socket Mode."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from swarm.bench.figures import BenchError, Better, Figure, percentile
from swarm.bench.parts.cluster import Cluster, connected
from swarm.bench.parts.slack import BOT_USER, BenchSlack
from swarm.bench.plan import Plan, Say

_P99_MS: Final = 20.0
_SUSTAINED: Final = 1_500.0

_TEXT: Final = f"<@{BOT_USER}> please have a look at the build of last night"


async def measure(plan: Plan, say: Say) -> list[Figure]:
    """Measures the time to the acknowledgement at a steady rate, and the highest rate of acknowledged events."""
    async with connected(plan) as (slack, processes):
        await processes.register(1)
        await processes.quiet()
        say(f"{plan.events_per_second} events/s for {plan.seconds:g} s")
        waits = await send_steadily(slack, [_TEXT] * int(plan.seconds * plan.events_per_second), plan.events_per_second)
        say(f"as many as are acknowledged, {plan.events_in_flight} in flight, for {plan.seconds:g} s")
        before = processes.cpu_seconds()
        count, rate = await _send_constantly(slack, plan)
        cost = (processes.cpu_seconds() - before) / count
        await _check_stored(processes, len(waits) + count)
    return [
        _latency(f"received → acked at {plan.events_per_second}/s, p50", percentile(waits, 0.5), None),
        _latency(f"received → acked at {plan.events_per_second}/s, p99", percentile(waits, 0.99), _P99_MS),
        Figure(
            measurement="events",
            what=f"sustained, {plan.events_in_flight} in flight",
            value=rate,
            unit="events/s",
            better=Better.HIGHER,
            target=_SUSTAINED if plan.database == "sqlite" else None,
        ),
        _latency("processor time of one event", cost, None),
    ]


async def send_steadily(slack: BenchSlack, texts: list[str], per_second: float) -> list[float]:
    """Sends messages at a steady rate, however late the acknowledgements come. Returns the seconds to each of these."""
    begun = time.perf_counter()
    sending: list[asyncio.Task[float]] = []
    for number, text in enumerate(texts):
        await asyncio.sleep(max(0.0, begun + number / per_second - time.perf_counter()))
        sending.append(asyncio.create_task(slack.send(text)))
    return await asyncio.gather(*sending)


async def _send_constantly(slack: BenchSlack, plan: Plan) -> tuple[int, float]:
    """Returns the number of acknowledged events, and their rate, with a fixed number of them in flight."""
    begun = time.perf_counter()

    async def sender() -> int:
        sent = 0
        while time.perf_counter() - begun < plan.seconds:
            await slack.send(_TEXT)
            sent += 1
        return sent

    count = sum(await asyncio.gather(*(sender() for _ in range(plan.events_in_flight))))
    return count, count / (time.perf_counter() - begun)


async def _check_stored(processes: Cluster, acknowledged: int) -> None:
    """Checks that acknowledged events are stored: otherwise the acknowledgement would be worthless."""
    stored = await processes.unread()
    if stored != acknowledged:
        raise BenchError(f"{acknowledged} events were acknowledged, but {stored} inbox messages are stored")


def _latency(what: str, seconds: float, target: float | None) -> Figure:
    return Figure(measurement="events", what=what, value=1_000 * seconds, unit="ms", target=target)
