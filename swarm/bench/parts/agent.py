"""An agent simulated by the load generator: polls, and answers or delegates at once, in a checkable way.

A message contains its name (``m17``), and ``delegate`` if the lead is to delegate it. The lead or worker that ends it
posts ``answer m17``, so that a log of posts shows the answered messages and the number of answers.

Tools are called as JSON-RPC over the bare connection: an MCP client would cost more than the measured work. A call
without an answer is repeated word for word, as a careful agent does.

``python -m swarm.bench.parts.agent`` runs one such agent as a process, which a test may kill.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from swarm.bench.figures import BenchError
from swarm.bench.parts.http import Connection

DELEGATE: Final = "delegate"
_NUMBER: Final = re.compile(r"\bm\d+\b")
_POLL: Final = "/poll?wait_seconds=20&limit=1"
_REPEATS: Final = 200
_PAUSE_SECONDS: Final = 0.1
_MCP: Final = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
_PORT, _TOKEN, _WORKERS, _HANDS, _WORK = (
    "BENCH_PORT",
    "BENCH_TOKEN",
    "BENCH_WORKERS",
    "BENCH_HANDS",
    "BENCH_WORK_SECONDS",
)

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """The settings of a simulated agent. With workers it is a lead, which delegates to each of them in turn."""

    port: int
    token: str
    workers: Sequence[str] = ()
    hands: int = 1  # runs that poll at the same time
    work_seconds: float = 0  # duration of a task

    @property
    def environment(self) -> dict[str, str]:
        """Environment variables for a process with this part."""
        return {
            _PORT: str(self.port),
            _TOKEN: self.token,
            _WORKERS: ",".join(self.workers),
            _HANDS: str(self.hands),
            _WORK: str(self.work_seconds),
        }

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Part:
        """Reads the part from the variables of `environment`. Raises KeyError."""
        return cls(
            port=int(environment[_PORT]),
            token=environment[_TOKEN],
            workers=[name for name in environment[_WORKERS].split(",") if name],
            hands=int(environment[_HANDS]),
            work_seconds=float(environment[_WORK]),
        )


def question(number: int, *, delegate: bool) -> str:
    """Returns a person's text for message ``number``."""
    return f"please look at m{number}" + (f" and {DELEGATE} it" if delegate else "")


def names(text: str) -> list[str]:
    """Returns the names of the messages in a text: ``["m17"]``."""
    return _NUMBER.findall(text)


class Refused(Exception):
    """A tool refused its call."""


class Line:
    """The connection of one run, opened again after each loss: a coordinator closes silent connections."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._connection: Connection | None = None

    async def call(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Json:
        """Returns the decoded answer, with repetitions if needed. Raises BenchError if none comes for long."""
        for _ in range(_REPEATS):
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = await Connection.open(self._part.port, self._part.token)
                answer = await self._connection.call(method, path, body, headers)
            except BenchError:
                await asyncio.sleep(_PAUSE_SECONDS)
                continue
            if answer.status != 503:
                found: Json = answer.json()
                return found
            await asyncio.sleep(_PAUSE_SECONDS)
        raise BenchError(f"{method} {path} was not answered {_REPEATS} times")

    async def tool(self, name: str, lease: str, arguments: Json) -> Json:
        """Returns a tool's result. Raises Refused with its message."""
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": arguments}}
        answer = await self.call("POST", "/mcp", call, {**_MCP, "X-Swarm-Lease": lease})
        if "error" in answer:
            raise BenchError(f"{name} was not understood: {answer['error']}")
        if answer["result"].get("isError"):
            raise Refused(f"{name}: {answer['result']['content'][0]['text']}")
        content: Json = answer["result"]["structuredContent"]
        return content

    def close(self) -> None:
        """Closes the connection."""
        if self._connection:
            self._connection.close()


class Agent:
    """One agent with all its runs."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._workers = itertools.cycle(part.workers or [""])

    async def play(self) -> None:
        """Polls and works until cancelled."""
        await asyncio.gather(*(self._run() for _ in range(self._part.hands)))

    async def _run(self) -> None:
        line = Line(self._part)
        try:
            while True:
                for trigger in (await line.call("GET", _POLL))["triggers"]:
                    await self._handle(line, trigger)
        finally:
            line.close()

    async def _handle(self, line: Line, trigger: Json) -> None:
        """Handles a trigger. After a refused tool call the trigger fails, so that it comes again soon, or ends
        visibly.
        """
        lease, outcome = trigger["lease"]["token"], "done" if trigger["notice"] else None
        try:
            await self._act(line, lease, trigger)
        except Refused as refused:
            sys.stderr.write(f"{trigger['kind']}: {refused}\n")
            outcome = outcome or "failed"
        if outcome:
            await line.call("POST", "/leases/finish", {"tokens": [lease], "outcome": outcome, "reason": "refused"})

    async def _act(self, line: Line, lease: str, trigger: Json) -> None:
        match trigger["kind"]:
            case "task_assigned":
                await asyncio.sleep(self._part.work_seconds)
                task, (name,) = trigger["task"], names(trigger["task"]["title"])
                done = {"task_id": task["id"], "result": f"answer {name}", "reply": f"answer {name}"}
                await line.tool("task-complete", lease, done)
            case "slack_inbox_message" | "task_follow_up":
                for inbox_message in sorted(
                    trigger["inbox_messages"], key=self._is_for_worker
                ):  # some change the owner
                    await self._end(line, lease, inbox_message)
            case "task_returned":
                again = {"task_id": trigger["task"]["id"], "agent": next(self._workers)}
                await line.tool("assign-task", lease, again)
            case _:
                pass  # the worker itself has posted the end of its task

    def _is_for_worker(self, inbox_message: Json) -> bool:
        return bool(self._part.workers) and DELEGATE in inbox_message["text"]

    async def _end(self, line: Line, lease: str, inbox_message: Json) -> None:
        (name,) = names(inbox_message["text"])
        about = {"inbox_message_id": inbox_message["id"], "only": True}
        if self._is_for_worker(inbox_message):
            handed = {**about, "agent": next(self._workers), "task": inbox_message["text"], "title": name}
            try:
                await line.tool("inbox-delegate", lease, handed)
                return
            except Refused as refused:  # the worker is offline, or the thread has too many tasks
                sys.stderr.write(f"answered instead: {refused}\n")
        await line.tool("slack-reply", lease, {**about, "message": f"answer {name}"})


if __name__ == "__main__":
    asyncio.run(Agent(Part.read(os.environ)).play())
