"""The bench's AG-UI agent, which sends numbered deltas at a steady rate and records the time of each.

The message that starts a run contains the order for the run (see `Order`). To run an agent as a process, which prints
its port: ``python -m swarm_lab.bench.streaming_agent``.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from aiohttp import web

_ORDER: Final = re.compile(r"s(\d+): (\d+) deltas, ([\d.]+) a second")
_MARK: Final = re.compile(r"\bs(\d+)d(\d+);")
_FILLER: Final = "and some more words"


@dataclass(frozen=True, kw_only=True, slots=True)
class Order:
    """The order for one run."""

    stream: int
    deltas: int
    per_second: float

    def __str__(self) -> str:
        return f"s{self.stream}: {self.deltas} deltas, {self.per_second:g} a second"

    def delta(self, number: int) -> str:
        """Returns a piece of the answer, with a mark that contains the stream and the number."""
        return f"s{self.stream}d{number}; {_FILLER} "

    @property
    def text(self) -> str:
        """The complete answer."""
        return "".join(self.delta(number) for number in range(self.deltas))


def order_in(text: str) -> Order | None:
    """Returns the order in a message, or None if there is none."""
    found = _ORDER.search(text)
    if found is None:
        return None
    return Order(stream=int(found[1]), deltas=int(found[2]), per_second=float(found[3]))


def marks_in(text: str) -> Iterator[tuple[int, int]]:
    """Yields the stream and number of each delta in a text."""
    return ((int(found[1]), int(found[2])) for found in _MARK.finditer(text))


@dataclass(kw_only=True, slots=True)
class Sent:
    """One run from the agent's point of view, with times in seconds since 1970 UTC."""

    asked_at: float
    at: list[float] = field(default_factory=list)  # the time of each delta, by number
    hung_up: bool = False  # time just before the end of the answer


class StreamingAgent:
    """The agent, and all its runs by stream number. A stream that runs twice has two entries."""

    def __init__(self) -> None:
        self.runs: dict[int, list[Sent]] = {}

    @asynccontextmanager
    async def served(self) -> AsyncIterator[int]:
        """Serves ``POST /``, which runs the agent, and ``GET /sent``, which returns the sent deltas, on a free port.
        Yields the port."""
        app = web.Application()
        app.add_routes([web.post("/", self._run), web.get("/sent", self._sent)])
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield runner.addresses[0][1]
        finally:
            await runner.cleanup()

    async def _sent(self, request: web.Request) -> web.Response:
        return web.Response(
            body=orjson.dumps(self.runs, option=orjson.OPT_NON_STR_KEYS), content_type="application/json"
        )

    async def _run(self, request: web.Request) -> web.StreamResponse:
        asked_at = time.time()
        body = orjson.loads(await request.read())
        order = order_in(str(body["messages"][-1]["content"]))
        if order is None:
            return web.Response(status=422, text="a message of the bench is expected")
        sent = Sent(asked_at=asked_at)
        self.runs.setdefault(order.stream, []).append(sent)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            await self._say(response, order, sent, {"threadId": body["threadId"], "runId": body["runId"]})
        except ConnectionError:
            sent.hung_up = True
        return response

    async def _say(self, response: web.StreamResponse, order: Order, sent: Sent, run: dict[str, str]) -> None:
        message = {"messageId": f"m{order.stream}"}
        await response.write(_event(type="RUN_STARTED", **run))
        await response.write(_event(type="TEXT_MESSAGE_START", role="assistant", **message))
        begun = time.perf_counter()
        for number in range(order.deltas):
            await asyncio.sleep(max(0.0, begun + number / order.per_second - time.perf_counter()))
            sent.at.append(time.time())
            await response.write(_event(type="TEXT_MESSAGE_CONTENT", delta=order.delta(number), **message))
        await response.write(_event(type="TEXT_MESSAGE_END", **message))
        await response.write(_event(type="RUN_FINISHED", **run))


def _event(**fields: Any) -> bytes:
    return b"data: " + orjson.dumps(fields) + b"\n\n"


async def _main() -> None:
    async with StreamingAgent().served() as port:
        print(f"port {port}", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_main())
