"""The files and functions of the product that one Slack payload, one poll and one reply enter.

The real twin and the real coordinator run as two processes of the checkout that is measured; the payload comes over
Socket Mode, the poll and the reply over HTTP and MCP. Nothing of the product is imported here, only commands, routes
and settings that others use are, so older and newer checkouts are measured by the same code.

How it is counted: a profiler in the coordinator notes each function of ``swarm/``, ``tools/`` and ``packages/`` that is
entered on any thread. On the event loop those count whose task, or an ancestor of it, began with the request. The
database's threads and bare callbacks have no task: they count until the request has one, and from when a task of the
request enters the store until this task goes on after having waited. Each request is made several times, and what is
not entered every time (background loops, caches that were due) is left out.
"""

from __future__ import annotations

import asyncio
import contextlib
import dis
import inspect
import json
import math
import os
import runpy
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, Final

TIMES: Final = 5
PATIENCE_SECONDS: Final = 120.0
SETTLE_SECONDS: Final = 1.0  # reactions, and the events that tell of them, belong to no measurement
TAIL_SECONDS: Final = 0.3  # what a request does after its answer belongs to it
OPERATOR_TOKEN: Final = "operator-of-the-house"
DOORS: Final = "swarm/entrypoints/"
STORE: Final = "swarm/store/"
APART: Final = ("swarm/twin/", "packages/slack_twin/", "packages/swarm_lab/")

Place = tuple[str, str]
"""A file and a function of it."""

BACKGROUND: Final = -1
CALLBACK: Final = 0


Entry = tuple[int, int | None, bool, Place]
"""The root (or `BACKGROUND`, `CALLBACK`) and the task that it runs for, whether its task had waited, and what it is."""


def places_of_request(entered: Sequence[Entry]) -> set[Place]:
    """The functions on the way of the first request among them."""
    request = next((root for root, *_, (where, _) in entered if root > 0 and where.startswith(DOORS)), None)
    waits: set[int | None] = set()  # tasks of the request that have entered the store, and have not gone on
    since: list[Place] = []  # what has no task, since then; first, since before the request has a task
    found: set[Place] = set()
    for root, task, goes_on, place in entered:
        if root == CALLBACK and (waits or not found):
            since.append(place)
        elif root == request:
            if not found or (goes_on and task in waits):
                found.update(since)  # what was on the way to this
                waits.discard(task)
            found.add(place)
            if place[0].startswith(STORE):
                waits.add(task)
    return found


@cache
def _start(code: CodeType) -> float:
    """Where a frame of a coroutine stands when it is entered for the first time; others never wait."""
    starts = (step.offset for step in dis.get_instructions(code) if step.opname == "RESUME")
    return next(starts) if code.co_flags & inspect.CO_COROUTINE else math.inf


class Profile:
    """Inside the coordinator: notes who enters which function while a measurement is on."""

    def __init__(self, checkout: Path) -> None:
        self._prefixes = tuple(str(checkout / folder) + os.sep for folder in ("swarm", "tools", "packages"))
        self._cut = len(str(checkout)) + 1
        self._root: ContextVar[int] = ContextVar("root")
        self._roots = 0
        self._first_root = 1  # of this measurement
        self._known: set[asyncio.Task[Any]] = set()  # tasks that were there before this measurement
        self._is_on = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._entered: list[Entry] = []

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call" or not (self._is_on or self._loop is None):
            return
        code = frame.f_code
        if not code.co_filename.startswith(self._prefixes):
            return
        loop = asyncio._get_running_loop()
        if self._loop is None and loop is not None and threading.current_thread() is threading.main_thread():
            self._loop = loop
        if self._is_on:
            where = code.co_filename[self._cut :].replace(os.sep, "/")
            task = id(asyncio.current_task(loop)) if loop else None
            self._entered.append((self._who(loop), task, frame.f_lasti > _start(code), (where, code.co_qualname)))

    def _who(self, loop: asyncio.AbstractEventLoop | None) -> int:
        """The root task on whose behalf this context runs."""
        root = self._root.get(CALLBACK)
        if root == BACKGROUND or root >= self._first_root:
            return root
        task = asyncio.current_task(loop) if loop else None
        if task is None:
            return CALLBACK
        if task in self._known:
            code = getattr(task.get_coro(), "cr_code", None)
            if code is None or not code.co_filename.startswith(self._prefixes):
                return BACKGROUND  # a library's: the tasks that it makes are requests
            root = BACKGROUND
        else:
            self._roots += 1
            root = self._roots
        self._root.set(root)  # inherited by the tasks that it makes
        return root

    def begin(self) -> None:
        assert self._loop is not None
        self._known = set(asyncio.all_tasks(self._loop))
        self._first_root = self._roots + 1
        self._entered.clear()
        self._is_on = True

    def end(self) -> list[Place]:
        """The functions on the way of the first request since the beginning."""
        self._is_on = False
        ours = places_of_request(self._entered)
        return sorted((where, name) for where, name in ours if not where.startswith(APART) and not _is_nameless(name))


def _is_nameless(function: str) -> bool:
    return function.rpartition(".")[2].startswith("<")


def _inside(checkout: Path) -> None:
    """Be the coordinator, and obey ``begin`` and ``end`` on the standard input."""
    profile = Profile(checkout)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    orders: dict[str, Callable[[], object]] = {"begin": profile.begin, "end": profile.end}

    def obey() -> None:
        for line in sys.stdin:
            answers.write(f"{json.dumps(orders[line.strip()]())}\n")
            answers.flush()

    threading.Thread(target=obey, daemon=True).start()
    threading.setprofile(profile)
    sys.setprofile(profile)
    sys.argv = ["swarm", "up"]
    runpy.run_module("swarm", run_name="__main__", alter_sys=True)


class _Scene:
    """A twin and a coordinator of one checkout, and an agent."""

    def __init__(self, checkout: Path, folder: Path, stack: contextlib.ExitStack) -> None:
        packages = sorted((checkout / "packages").glob("*/src")) + sorted((checkout / "packages").glob("*/"))
        self._checkout = checkout
        self._folder = folder
        self._stack = stack
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "PYTHONPATH": os.pathsep.join(map(str, [checkout, *packages])),
        }
        self._twin = f"http://127.0.0.1:{(twin_port := _free_port())}"
        self._base = f"http://127.0.0.1:{(port := _free_port())}"
        twin = self._start(["-m", "swarm", "twin", "--port", str(twin_port), "--rates", "off"], {})
        assert twin.stdout is not None
        exports = dict(_exports(twin))
        settings = {
            **{name: value for name, value in exports.items() if name != "SLACK_SIGNING_SECRET"},
            "PORT": str(port),
            "SWARM_HOME": str(folder / "home"),
            "SWARM_OPERATOR_TOKEN": OPERATOR_TOKEN,
            "SWARM_MESSAGES_PER_MINUTE": "0",
        }
        self._coordinator = self._start([str(Path(__file__).resolve()), "--inside", str(checkout)], settings)
        _until(lambda: self._ask("GET", "/readyz", OPERATOR_TOKEN))
        agent = self._ask("POST", "/agents", OPERATOR_TOKEN, {"name": "lea", "role": "lead"})
        self._token = str(agent["token"])

    def _start(self, arguments: list[str], settings: Mapping[str, str]) -> subprocess.Popen[str]:
        errors = self._stack.enter_context((self._folder / f"{len(list(self._folder.iterdir()))}.log").open("w"))
        process = subprocess.Popen(
            [sys.executable, "-u", *arguments],
            cwd=self._folder,
            env=self._environment | dict(settings),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        self._stack.callback(_stop, process)
        return process

    def tell(self, order: str) -> Any:
        assert self._coordinator.stdin is not None
        assert self._coordinator.stdout is not None
        self._coordinator.stdin.write(f"{order}\n")
        self._coordinator.stdin.flush()
        return json.loads(self._coordinator.stdout.readline())

    def during(self, act: Callable[[], Any]) -> tuple[set[Place], Any]:
        """What is entered during a request, once all is quiet, and its answer."""
        time.sleep(SETTLE_SECONDS)
        self.tell("begin")
        answer = act()
        time.sleep(TAIL_SECONDS)
        return {(where, name) for where, name in self.tell("end")}, answer

    def conversation(self, number: int) -> dict[str, set[Place]]:
        """One message, its poll and its answer."""
        payload, _ = self.during(lambda: self._say(f"@swarm hello {number}"))
        poll, polled = self.during(lambda: self._ask("GET", "/poll?wait_seconds=10", self._token))
        (trigger,) = polled["triggers"]
        reply, replied = self.during(lambda: self._reply(trigger))
        assert not replied["result"].get("isError"), replied
        return {"payload": payload, "poll": poll, "reply": reply}

    def warm_up(self) -> None:
        """Load MCP, which is loaded by the first call, and have an agent online: one that has polled."""
        self._mcp("tools/list", {})
        self._ask("GET", "/poll?wait_seconds=0", self._token)
        self.conversation(0)

    def _say(self, text: str) -> None:
        """Returns when the event was acknowledged."""
        said = {"user": "alice", "channel": "general", "text": text}
        ts = _http("POST", f"{self._twin}/twin/messages", body=said)["ts"]

        def is_acknowledged() -> bool:
            attempts = _http("GET", f"{self._twin}/twin/deliveries")["deliveries"]
            return any(attempt["ts"] == ts and attempt["acked"] for attempt in attempts)

        _until(is_acknowledged)

    def _reply(self, trigger: Mapping[str, Any]) -> Any:
        message_id, lease = trigger["inbox_messages"][0]["id"], trigger["lease"]["token"]
        arguments = {"inbox_message_id": message_id, "message": "hi there", "lease_token": lease}
        return self._mcp("tools/call", {"name": "slack-reply", "arguments": arguments})

    def _mcp(self, method: str, params: Mapping[str, Any]) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return self._ask("POST", "/mcp", self._token, body)

    def _ask(self, method: str, path: str, token: str, body: object = None) -> Any:
        return _http(method, self._base + path, token=token, body=body)


def measure(checkout: Path) -> dict[str, list[Place]]:
    """Files and functions by request. Takes half a minute."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        try:
            scene = _Scene(checkout.resolve(), Path(folder), stack)
            scene.warm_up()
            times = [scene.conversation(number) for number in range(1, TIMES + 1)]
        except BaseException:
            for log in sorted(Path(folder).glob("*.log")):
                sys.stderr.write(log.read_text()[-3000:])
            raise
    return {name: sorted(set.intersection(*(seen[name] for seen in times))) for name in times[0]}


def _http(method: str, url: str, *, token: str = "", body: object = None) -> Any:
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    headers |= {"Authorization": f"Bearer {token}"} if token else {}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, headers=headers, method=method)
    with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as answer:
        text = answer.read().decode()
    if text.startswith(("event:", "data:", ":")):  # MCP may answer with a stream of one event
        text = next(line for line in text.splitlines() if line.startswith("data: {")).removeprefix("data: ")
    return json.loads(text)


def _exports(twin: subprocess.Popen[str]) -> Iterator[tuple[str, str]]:
    """What the twin prints for a shell, until it serves."""
    assert twin.stdout is not None
    for line in twin.stdout:
        if line.startswith("Open "):
            return
        name, _, value = line.strip().removeprefix("export ").partition("=")
        yield name, value
    raise RuntimeError("the twin has ended")


def _until(look: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(OSError):
            if look():
                return
        time.sleep(0.05)
    raise TimeoutError(f"not within {PATIENCE_SECONDS:g} s")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _stop(process: subprocess.Popen[str]) -> None:
    with process:  # which closes the pipes
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        _inside(Path(sys.argv[2]))
    else:
        found = measure(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
        for request, functions in found.items():
            sys.stdout.write(f"{request}: {len({w for w, _ in functions})} files, {len(functions)} functions\n")
            sys.stdout.writelines(f"  {where}: {name}\n" for where, name in functions)
