"""The twin under load, in a process of its own: messages into many channels, several connected apps.

``TWIN_LOAD_SECONDS=60 .venv/bin/pytest -m long -s tests/e2e/test_twin_under_load.py`` prints the figures of a long run.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from asyncio.subprocess import PIPE
from collections import defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import orjson
import pytest

from swarm_lab.bench.figures import percentile

pytestmark = [pytest.mark.req("TWIN-03"), pytest.mark.long, pytest.mark.timeout(300)]

SECONDS = float(os.environ.get("TWIN_LOAD_SECONDS", "5"))
PER_SECOND = 200 if SECONDS >= 60 else 100
CHANNELS, APPS = 20, 5
RETENTION = "200"  # messages a channel: so few that memory must level off within a long run
DRAIN_SECONDS = 30


@dataclass(kw_only=True)
class Hearing:
    """The events of one app: timestamps by channel in order of arrival, and the arrival times."""

    by_channel: defaultdict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    heard_at: dict[str, float] = field(default_factory=dict)
    count: int = 0

    async def listen(self, socket: aiohttp.ClientWebSocketResponse, expected: int) -> None:
        """Acknowledge and note every event, until there are ``expected``."""
        async for frame in socket:
            envelope = orjson.loads(frame.data)
            if envelope["type"] == "events_api":
                await socket.send_str(orjson.dumps({"envelope_id": envelope["envelope_id"]}).decode())
                event = envelope["payload"]["event"]
                self.by_channel[event["channel"]].append(event["ts"])
                self.heard_at.setdefault(event["ts"], time.perf_counter())
                self.count += 1
                if self.count >= expected:
                    return


async def test_under_load_no_delivery_is_lost_repeated_or_reordered() -> None:
    count, hearings = int(SECONDS * PER_SECOND), [Hearing() for _ in range(APPS)]
    async with twin() as (pid, base), aiohttp.ClientSession() as http:
        await seed(http, base)
        sockets = [await connect(http, base, number) for number in range(APPS)]
        listening = [hearing.listen(socket, count) for hearing, socket in zip(hearings, sockets, strict=True)]
        hearing_all = asyncio.gather(*listening)
        cpu = cpu_seconds(pid)
        said, memory_mib = await speak(http, base, count, pid)
        with contextlib.suppress(TimeoutError):  # lost events are found below
            await asyncio.wait_for(hearing_all, DRAIN_SECONDS)
        cpu, memory_at_end = cpu_seconds(pid) - cpu, resident_mib(pid)
        for socket in sockets:
            await socket.close()
    expected = defaultdict[str, list[str]](list)
    for ts in sorted(said):
        expected[said[ts][0]].append(ts)
    delays = [heard.heard_at[ts] - sent for heard in hearings for ts, (_, sent) in said.items() if ts in heard.heard_at]
    print(  # noqa: T201 -- shown with -s
        f"{count} messages: said → heard p50 {1_000 * percentile(delays, 0.5):.1f} ms, "
        f"p99 {1_000 * percentile(delays, 0.99):.1f} ms, {1_000 * cpu / count:.2f} ms of processor time a message, "
        f"{memory_at_end:.0f} MiB, {memory_at_end - memory_mib:.1f} of them in the last third"
    )
    assert len(said) == count
    for heard in hearings:
        assert heard.count == len(heard.heard_at), "repeated"
        assert heard.by_channel == expected


@contextlib.asynccontextmanager
async def twin() -> AsyncIterator[tuple[int, str]]:
    """A twin in a process. Gives its process id and base URL."""
    environment = os.environ | {"TWIN_RATES": "off", "TWIN_RETENTION_MESSAGES": RETENTION}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "slack_twin", "--port", "0"), stdout=PIPE, env=environment
    )
    assert process.stdout
    try:
        async with asyncio.timeout(60):
            async for line in process.stdout:
                if line.startswith(b"Open "):
                    break
        yield process.pid, line.decode().removeprefix("Open ").strip()
    finally:
        process.terminate()
        await process.wait()


async def seed(http: aiohttp.ClientSession, base: str) -> None:
    """Put the load's apps alone into the channels, so that the twin does not wait for an absent app."""
    apps, names = [f"ear{number}" for number in range(APPS)], [f"load{number}" for number in range(CHANNELS)]
    await ask(http, f"{base}twin/seed", {"apps": [{"name": name, "channels": []} for name in apps]})
    channels = [{"name": name, "members": ["alice", *apps]} for name in names]
    await ask(
        http, f"{base}twin/seed", {"channels": channels, "apps": [{"name": name, "channels": names} for name in apps]}
    )


async def ask(http: aiohttp.ClientSession, url: str, body: object) -> dict[str, str]:
    async with http.post(url, json=body) as answer:
        assert answer.status == 200, await answer.text()
        found: dict[str, str] = await answer.json(loads=orjson.loads)
        return found


async def connect(http: aiohttp.ClientSession, base: str, number: int) -> aiohttp.ClientWebSocketResponse:
    headers = {"Authorization": f"Bearer xapp-twin-ear{number}"}
    async with http.post(f"{base}api/apps.connections.open", headers=headers) as answer:
        url = (await answer.json())["url"]
    return await http.ws_connect(url)


async def speak(
    http: aiohttp.ClientSession, base: str, count: int, pid: int
) -> tuple[dict[str, tuple[str, float]], float]:
    """Send at a steady rate, regardless of answers: channels and times, and the memory when two thirds are sent."""
    said, memory_mib, begun = dict[str, tuple[str, float]](), 0.0, time.perf_counter()

    async def say(number: int) -> None:
        sent = time.perf_counter()
        body = {"user": "alice", "channel": f"load{number % CHANNELS}", "text": f"message {number}"}
        answer = await ask(http, f"{base}twin/messages", body)
        said[answer["ts"]] = answer["channel"], sent

    async with asyncio.TaskGroup() as group:
        for number in range(count):
            await asyncio.sleep(max(0.0, begun + number / PER_SECOND - time.perf_counter()))
            group.create_task(say(number))
            if number == count * 2 // 3:
                memory_mib = resident_mib(pid)
    return said, memory_mib


def resident_mib(pid: int) -> float:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
