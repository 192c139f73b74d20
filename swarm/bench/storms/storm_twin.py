"""A twin in a separate process, for a storm or for streams, and its people."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from importlib import import_module
from typing import Any, Final

import aiohttp
import orjson

from swarm.bench.figures import BenchError

_START_SECONDS: Final = 60.0
_ANSWER_SECONDS: Final = 30.0
EVENTS: Final = ("message", "app_mention")
APP: Final = "swarm"
"""The app of the twin's default seed; its tokens contain this name."""


class Twin:
    """The twin's control API."""

    def __init__(self, base: str, http: aiohttp.ClientSession) -> None:
        self._base = base
        self._http = http

    @property
    def environment(self) -> dict[str, str]:
        """The settings that connect a coordinator to the twin."""
        return {
            "SLACK_BOT_TOKEN": f"xoxb-twin-{APP}",
            "SLACK_APP_TOKEN": f"xapp-twin-{APP}",
            "SLACK_API_BASE_URL": f"{self._base}api/",
        }

    async def seed(self, channels: Sequence[str]) -> None:
        """Makes channels."""
        await self._ask("POST", "seed", json={"channels": [{"name": name} for name in channels]})

    async def say(self, channel: str, text: str, thread_ts: str | None) -> tuple[str, str]:
        """Posts a message. Returns the channel's id and the timestamp."""
        said = {"user": "alice", "channel": channel, "text": text, "thread_ts": thread_ts}
        found = await self._ask("POST", "messages", json=said)
        return found["channel"], found["ts"]

    async def duplicate_next(self, event: str) -> None:
        """Sends the next event of a kind twice."""
        await self._ask("POST", "faults", json={"kind": "duplicate", "event": event})

    async def messages(self, channel: str) -> list[dict[str, Any]]:
        """Returns all messages of a channel, as people see them."""
        found: list[dict[str, Any]] = (await self._ask("GET", "messages", params={"channel": channel}))["messages"]
        return found

    async def thread(self, channel: str, ts: str) -> list[dict[str, Any]]:
        """Returns the replies to a message, as people see them."""
        where = {"channel": channel, "thread_ts": ts}
        found: list[dict[str, Any]] = (await self._ask("GET", "messages", params=where))["messages"]
        return [message for message in found if message["ts"] != ts]

    async def told_twice(self) -> tuple[int, int]:
        """Returns the numbers of events sent more than once, and of all events, as far as the twin remembers."""
        deliveries = (await self._ask("GET", "deliveries", params={"since": 0}))["deliveries"]
        times = Counter(attempt["event_id"] for attempt in deliveries if attempt["kind"] in EVENTS)
        return sum(count > 1 for count in times.values()), len(times)

    async def calls(self, since: int) -> list[dict[str, Any]]:
        """Returns the calls above a number. Raises BenchError if some of them are already forgotten."""
        found: list[dict[str, Any]] = (await self._ask("GET", "calls", params={"since": since}))["calls"]
        if found and found[0]["seq"] != since + 1:
            raise BenchError("the twin has forgotten calls that were not read yet")
        return found

    async def _ask(self, method: str, path: str, **request: Any) -> Mapping[str, Any]:
        async with self._http.request(method, f"{self._base}twin/{path}", **request) as answer:
            if answer.status != 200:
                raise BenchError(f"the twin refused {method} {path}: {(await answer.text())[:200]}")
            found: Mapping[str, Any] = await answer.json(loads=orjson.loads)
            return found


@asynccontextmanager
async def twin(retention_messages: int, *, rates: bool = False) -> AsyncIterator[Twin]:
    """Runs a twin that keeps ``retention_messages`` per channel, with Slack's ``rates`` or without."""
    import_module("slack_twin")  # a missing package raises here, with a clear message
    settings = {"TWIN_RATES": "on" if rates else "off", "TWIN_RETENTION_MESSAGES": str(retention_messages)}
    environment = os.environ | settings
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "slack_twin", "--port", "0"),
        stdout=asyncio.subprocess.PIPE,
        env=environment,
        start_new_session=True,
    )
    try:
        base = await _base_url(process)
        timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as http:
            yield Twin(base, http)
    finally:
        process.terminate()
        await process.wait()


async def _base_url(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(_START_SECONDS):
        async for line in process.stdout:
            if line.startswith(b"Open "):
                return line.decode().removeprefix("Open ").strip().rstrip("/") + "/"
    raise BenchError("the twin did not start")
