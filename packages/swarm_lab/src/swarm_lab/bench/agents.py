"""Simulated agents, and the minimal HTTP client for all measurements.

A message contains its name (``m17``), and ``delegate`` if the lead is to delegate it. The lead or worker that finishes
the message posts ``answer m17``, so the log of posts shows which messages were answered, and how often.

The client shares two cores with the measured system, so it does as little as possible. Tools are called with JSON-RPC
over the same connection, since an MCP client would cost more than the measured work. A call without an answer is
repeated unchanged, as a careful agent would do.

``python -m swarm_lab.bench.agents`` runs one agent as a process, which a test may kill.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import re
import sys
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import orjson

from swarm_lab.bench.figures import BenchError

DELEGATE: Final = "delegate"
_NUMBER: Final = re.compile(r"\bm\d+\b")
_POLL: Final = "/poll?wait_seconds=20&limit=1"
_ANSWER_SECONDS: Final = 90
"""Slightly longer than the longest poll."""

_LENGTH: Final = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_REPEATS: Final = 200
_PAUSE_SECONDS: Final = 0.1
_MCP: Final = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
_VARIABLE: Final = "BENCH_PART"

Json = dict[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """An answer, and the arrival time of its last byte in seconds since 1970 UTC."""

    status: int
    body: bytes
    at: float

    def json(self) -> Any:
        """Returns the decoded body. Raises BenchError unless the status indicates success."""
        if not 200 <= self.status < 300:
            raise BenchError(f"the coordinator answered {self.status}: {self.body[:300].decode(errors='replace')}")
        return orjson.loads(self.body)


class Connection:
    """A persistent connection for one caller, with one request at a time. Only answers with a Content-Length can be
    read."""

    def __init__(self, token: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._head = f"Host: localhost\r\nAuthorization: Bearer {token}\r\n"
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, port: int, token: str) -> Connection:
        """Connects to a port of this machine. Raises BenchError."""
        try:
            return cls(token, *await asyncio.open_connection("127.0.0.1", port))
        except OSError as error:
            raise BenchError(f"no connection to the coordinator: {error}") from error

    @property
    def closed(self) -> bool:
        """Whether either side has closed the connection."""
        return self._writer.is_closing() or self._reader.at_eof()

    async def call(
        self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Sends one request and returns its answer, whatever its status. Raises BenchError if there is no answer."""
        content = b"" if body is None else orjson.dumps(body)
        head = f"{method} {path} HTTP/1.1\r\n{self._head}"
        if content:
            head += f"Content-Type: application/json\r\nContent-Length: {len(content)}\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                self._writer.write(head.encode() + b"\r\n" + content)
                answer = await self._reader.readuntil(b"\r\n\r\n")
                found = await self._reader.readexactly(_content_length(answer))
        except TimeoutError as error:
            self.close()
            raise BenchError(f"{method} {path} was not answered within {_ANSWER_SECONDS} s") from error
        except (asyncio.IncompleteReadError, OSError) as error:
            self.close()
            raise BenchError(f"the coordinator closed the connection: {error}") from error
        return Answer(status=int(answer[9:12]), body=found, at=time.time())

    def close(self) -> None:
        self._writer.close()


def _content_length(head: bytes) -> int:
    if not (found := _LENGTH.search(head)):
        raise BenchError("the coordinator's answer has no Content-Length")
    return int(found[1])


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """The settings of a simulated agent. An agent with workers is a lead, which delegates to each of them in turn."""

    port: int
    token: str
    name: str = ""
    workers: Sequence[str] = ()
    hands: int = 1  # runs that poll at the same time
    work_seconds: float = 0  # duration of a task

    @property
    def environment(self) -> dict[str, str]:
        """Returns the environment variable for a process that plays this part."""
        return {_VARIABLE: orjson.dumps(self).decode()}

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Part:
        """Reads the part from the variable in ``environment``. Raises KeyError."""
        return cls(**orjson.loads(environment[_VARIABLE]))


def question(number: int, *, delegate: bool) -> str:
    """Returns the text of message ``number``, as written by a person."""
    return f"please look at m{number}" + (f" and {DELEGATE} it" if delegate else "")


def names(text: str) -> list[str]:
    """Returns the names of the messages in a text: ``["m17"]``."""
    return _NUMBER.findall(text)


class Refused(Exception):
    """A tool has refused its call."""


class Line:
    """The connection of one run. It is reopened after each loss, since a coordinator closes idle connections."""

    def __init__(self, part: Part) -> None:
        self._part = part
        self._connection: Connection | None = None

    async def call(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> Json:
        """Returns the decoded answer, repeating the call if needed. Raises BenchError if no answer comes for a long
        time."""
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
        if self._connection:
            self._connection.close()


async def cancelled(tasks: Sequence[asyncio.Task[Any]]) -> None:
    """Cancels tasks. Raises the first BenchError of a task that has failed."""
    for task in tasks:
        task.cancel()
    for ended in await asyncio.gather(*tasks, return_exceptions=True):
        if isinstance(ended, BenchError):
            raise ended


@asynccontextmanager
async def playing(*works: Coroutine[Any, Any, Any]) -> AsyncIterator[list[asyncio.Task[Any]]]:
    """Runs these works during the block, such as `Agent.play`. Raises the first BenchError of one that has failed."""
    tasks = [asyncio.create_task(work) for work in works]
    try:
        yield tasks
    finally:
        await cancelled(tasks)


async def dismiss(part: Part) -> None:
    """Claims up to 20 messages at a time, and finishes them without an answer, until cancelled."""
    connection = await Connection.open(part.port, part.token)
    try:
        while True:
            polled = await connection.call("GET", "/poll?wait_seconds=20&limit=20")
            await finished(connection, polled.json()["triggers"])
    finally:
        connection.close()


async def finished(connection: Connection, triggers: Sequence[Json], **more: object) -> Json:
    """Finishes work without an answer. ``more`` are additional fields of the request. Returns the response."""
    if not triggers:
        return {}
    tokens = [trigger["lease"]["token"] for trigger in triggers]
    request = {"tokens": tokens, "outcome": "dismissed", "reason": "measured", **more}
    answer: Json = (await connection.call("POST", "/leases/finish", request)).json()
    return answer


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
        """Handles a trigger. After a refused tool call the trigger is reported as failed, so that it is retried soon or
        ends visibly.
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
                for entry in sorted(trigger["inbox_messages"], key=self._is_for_worker):  # some tasks change the owner
                    await self._end(line, lease, entry)
            case "task_returned":
                again = {"task_id": trigger["task"]["id"], "agent": next(self._workers)}
                await line.tool("assign-task", lease, again)
            case _:
                pass  # the worker itself has posted the end of its task

    def _is_for_worker(self, entry: Json) -> bool:
        return bool(self._part.workers) and DELEGATE in entry["text"]

    async def _end(self, line: Line, lease: str, entry: Json) -> None:
        (name,) = names(entry["text"])
        about = {"inbox_message_id": entry["id"], "only": True}
        if self._is_for_worker(entry):
            handed = {**about, "agent": next(self._workers), "task": entry["text"], "title": name}
            try:
                await line.tool("inbox-delegate", lease, handed)
                return
            except Refused as refused:  # the worker is offline, or the thread has too many tasks
                sys.stderr.write(f"answered instead: {refused}\n")
        await line.tool("slack-reply", lease, {**about, "message": f"answer {name}"})


if __name__ == "__main__":
    asyncio.run(Agent(Part.read(os.environ)).play())
