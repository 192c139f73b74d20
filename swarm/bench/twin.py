"""The Slack twin under load: messages into many channels, several connected apps, nothing lost, nothing reordered.

``python -m swarm.bench.twin`` starts a separate twin; a test runs `measure` at a smaller size.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp
import orjson
from rich.console import Console

from swarm.bench import report
from swarm.bench.figures import BenchError, Figure, percentile

_START_SECONDS: Final = 30.0
_DRAIN_SECONDS: Final = 30.0
_RETENTION: Final = "200"  # messages a channel: so few that memory must level off within a run


@dataclass(frozen=True, kw_only=True, slots=True)
class TwinPlan:
    """The size of one run; the defaults are those of the twin's issue."""

    seconds: float = 60
    messages_per_second: int = 200
    channels: int = 20
    apps: int = 5

    @property
    def messages(self) -> int:
        return int(self.seconds * self.messages_per_second)


@dataclass(kw_only=True, slots=True)
class Hearing:
    """The events of one app: timestamps by channel in order of arrival, and the arrival times."""

    by_channel: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    heard_at: dict[str, float] = field(default_factory=dict)
    count: int = 0
    complete: asyncio.Event = field(default_factory=asyncio.Event)

    async def listen(self, socket: aiohttp.ClientWebSocketResponse, expected: int) -> None:
        """Acknowledges and notes every event."""
        async for frame in socket:
            envelope = orjson.loads(frame.data)
            if envelope["type"] != "events_api":
                continue
            await socket.send_str(orjson.dumps({"envelope_id": envelope["envelope_id"]}).decode())
            event = envelope["payload"]["event"]
            self.by_channel[event["channel"]].append(event["ts"])
            self.heard_at.setdefault(event["ts"], time.perf_counter())
            self.count += 1
            if self.count >= expected:
                self.complete.set()


@dataclass(kw_only=True, slots=True)
class Saying:
    """The posted messages: timestamps by channel, and the times of sending."""

    by_channel: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    sent_at: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The results of a run."""

    said: Saying
    hearings: list[Hearing]
    memory_mib: list[float]  # of the twin, after two thirds and at the end
    cpu_seconds: float  # of the twin


async def measure(plan: TwinPlan) -> list[Figure]:
    """Runs the load once. Raises BenchError if the twin does not start or does not answer."""
    async with AsyncExitStack() as stack:
        pid, base = await stack.enter_async_context(_twin())
        http = await stack.enter_async_context(aiohttp.ClientSession())
        await _seed(http, base, plan)
        hearings = [Hearing() for _ in range(plan.apps)]
        async with asyncio.TaskGroup() as group:
            sockets = [await _connect(http, base, number) for number in range(plan.apps)]
            for hearing, socket in zip(hearings, sockets, strict=True):
                group.create_task(hearing.listen(socket, plan.messages))
            worked = _cpu_seconds(pid)
            said, memory = await _speak(http, base, plan, pid)
            await _drain(hearings)
            worked = _cpu_seconds(pid) - worked
            for socket in sockets:
                await socket.close()
        outcome = Outcome(said=said, hearings=hearings, memory_mib=[*memory, _resident_mib(pid)], cpu_seconds=worked)
        return _figures(plan, outcome)


@asynccontextmanager
async def _twin() -> AsyncIterator[tuple[int, str]]:
    """Runs a twin in a separate process. Yields its process id and base URL."""
    environment = os.environ | {"TWIN_RATES": "off", "TWIN_RETENTION_MESSAGES": _RETENTION}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "slack_twin", "--port", "0"), stdout=asyncio.subprocess.PIPE, env=environment
    )
    try:
        yield process.pid, await _base_url(process)
    finally:
        process.terminate()
        await process.wait()


async def _base_url(process: asyncio.subprocess.Process) -> str:
    if process.stdout is None:
        raise BenchError("the twin has no output")
    async with asyncio.timeout(_START_SECONDS):
        async for line in process.stdout:
            if line.startswith(b"Open "):
                return line.decode().removeprefix("Open ").strip()
    raise BenchError("the twin did not start")


def _channel(number: int) -> str:
    return f"load{number}"


async def _seed(http: aiohttp.ClientSession, base: str, plan: TwinPlan) -> None:
    """Limits the channels to the load's apps, so that the twin does not wait for an absent app."""
    apps = [f"ear{number}" for number in range(plan.apps)]
    channels = [{"name": _channel(number), "members": ["alice", *apps]} for number in range(plan.channels)]
    names = [channel["name"] for channel in channels]
    await _ask(http, f"{base}twin/seed", {"apps": [{"name": name, "channels": []} for name in apps]})
    seeded = {"channels": channels, "apps": [{"name": name, "channels": names} for name in apps]}
    await _ask(http, f"{base}twin/seed", seeded)


async def _ask(http: aiohttp.ClientSession, url: str, body: object) -> dict[str, str]:
    async with http.post(url, json=body) as answer:
        if answer.status != 200:
            raise BenchError(f"the twin refused {url}: {(await answer.text())[:200]}")
        found: dict[str, str] = await answer.json(loads=orjson.loads)
        return found


async def _connect(http: aiohttp.ClientSession, base: str, number: int) -> aiohttp.ClientWebSocketResponse:
    headers = {"Authorization": f"Bearer xapp-twin-ear{number}"}
    async with http.post(f"{base}api/apps.connections.open", headers=headers) as answer:
        url = (await answer.json())["url"]
    return await http.ws_connect(url)


async def _speak(http: aiohttp.ClientSession, base: str, plan: TwinPlan, pid: int) -> tuple[Saying, list[float]]:
    """Sends at a steady rate, regardless of answers; memory is noted when two thirds are sent."""
    said, memory, begun = Saying(), list[float](), time.perf_counter()

    async def say(number: int) -> None:
        sent = time.perf_counter()
        body = {"user": "alice", "channel": _channel(number % plan.channels), "text": f"message {number}"}
        answer = await _ask(http, f"{base}twin/messages", body)
        said.by_channel[answer["channel"]].append(answer["ts"])
        said.sent_at[answer["ts"]] = sent

    async with asyncio.TaskGroup() as group:
        for number in range(plan.messages):
            await asyncio.sleep(max(0.0, begun + number / plan.messages_per_second - time.perf_counter()))
            group.create_task(say(number))
            if number == plan.messages * 2 // 3:
                memory.append(_resident_mib(pid))
    return said, memory


async def _drain(hearings: list[Hearing]) -> None:
    """Waits until every app has all messages, or for so long that some must be lost."""
    waiting = asyncio.gather(*(hearing.complete.wait() for hearing in hearings))
    try:
        await asyncio.wait_for(waiting, _DRAIN_SECONDS)
    except TimeoutError:
        return


def _resident_mib(pid: int) -> float:
    """Returns the resident memory of a process, 0 where the system does not report it."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS:")), 0.0)


def _cpu_seconds(pid: int) -> float:
    """Returns the processor time of a process, 0 where the system does not report it."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _figures(plan: TwinPlan, outcome: Outcome) -> list[Figure]:
    said, hearings, memory = outcome.said, outcome.hearings, outcome.memory_mib
    expected = {channel: sorted(timestamps) for channel, timestamps in said.by_channel.items()}
    lost = sum(len(set(sent) - set(heard.by_channel[c])) for heard in hearings for c, sent in expected.items())
    repeated = sum(heard.count - len(heard.heard_at) for heard in hearings)
    reordered = sum(heard.by_channel[c] != sorted(heard.by_channel[c]) for heard in hearings for c in expected)
    delays = [
        (heard.heard_at[ts] - sent) * 1_000
        for heard in hearings
        for ts, sent in said.sent_at.items()
        if ts in heard.heard_at
    ]
    name = f"{plan.messages_per_second}/s, {plan.channels} channels, {plan.apps} apps, {plan.seconds:g} s"

    def figure(what: str, value: float, unit: str, target: float | None = None) -> Figure:
        return Figure(measurement=name, what=what, value=value, unit=unit, target=target)

    return [
        figure("messages", len(said.sent_at), ""),
        figure("deliveries lost", lost, "", 0),
        figure("deliveries repeated", repeated, "", 0),
        figure("channels heard out of order", reordered, "", 0),
        figure("said → heard, p50", percentile(delays, 0.5), "ms"),
        figure("said → heard, p99", percentile(delays, 0.99), "ms"),
        figure("processor time a message", outcome.cpu_seconds * 1_000 / len(said.sent_at), "ms"),
        figure("memory of the twin at the end", memory[-1], "MiB"),
        figure("memory grown in the last third", memory[-1] - memory[0], "MiB"),
    ]


def main() -> int:
    """Measures and prints. Returns 0 if nothing was lost, repeated or reordered."""
    parser = argparse.ArgumentParser(prog="swarm.bench.twin", description="The Slack twin under load.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--rate", type=int, default=200, help="messages a second")
    parser.add_argument("--channels", type=int, default=20)
    parser.add_argument("--apps", type=int, default=5)
    given = parser.parse_args()
    plan = TwinPlan(seconds=given.seconds, messages_per_second=given.rate, channels=given.channels, apps=given.apps)
    try:
        figures = asyncio.run(measure(plan))
    except BenchError as error:
        sys.stderr.write(f"swarm: {error}\n")
        return 1
    report.show(figures, Console(highlight=False, markup=False, width=140))
    return 0 if all(figure.met is not False for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
