"""Real processes for tests: started with an environment of their own, watched, and ended for certain.

Every process carries a mark in its environment, which its children inherit. So a test can tell whether anything of its
own is still alive, and the end of a test finds children whose parent is gone.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import fcntl
import functools
import itertools
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from swarm.clock import new_id
from tests.support.forked import Forked
from tests.support.http import client as http_client
from tests.support.waiting import wait_until

SWARM = str(Path(sys.executable).parent / "swarm")
"""The command as it is installed."""

START_SECONDS = 100.0
"""A busy machine may take long to load everything."""

_FIRST_PORT = 20_000

_numbers = itertools.count(os.getpid())  # two runs on one machine begin at different places

_MARK = "SWARM_TEST_MARK"
_RUN = "SWARM_TEST_RUN"
"""Common to all that a process of pytest starts."""
_SHOWN_CHARACTERS = 6_000


@dataclass(frozen=True, kw_only=True, slots=True)
class Ended:
    """How a command ended and what it said."""

    code: int
    out: str
    err: str


class Process:
    """One process. Its output, errors included, goes to a file."""

    def __init__(self, name: str, process: subprocess.Popen[bytes] | Forked, log: Path) -> None:
        self.name = name
        self.pid = process.pid
        self._process = process
        self._log = log

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    @property
    def output(self) -> str:
        return self._log.read_text(errors="replace")

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it as a power cut would."""
        self._process.kill()
        self._process.wait()

    async def exit_code(self, within_seconds: float) -> int:
        """Its exit code; fails if it goes on."""
        try:
            return await asyncio.to_thread(self._process.wait, within_seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} goes on after {within_seconds:g} s:\n{self.output}") from None

    async def says(self, pattern: str, within_seconds: float = START_SECONDS) -> re.Match[str]:
        """Wait until a line of its output matches; fails at once if it ends without that."""

        async def look() -> tuple[re.Match[str] | None, bool]:
            ended = not self.alive  # asked first: what it said last must be seen
            return re.search(pattern, self.output, re.MULTILINE), ended

        found, _ = await wait_until(look, any, within_seconds=within_seconds, what=f"{self.name} says {pattern!r}")
        assert found, f"{self.name} ended without {pattern!r}:\n{self.output}"
        return found


class Processes:
    """The processes of one test, or of several that share them. ``folder`` gets their logs and is their home."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._mark = new_id()
        self._run = _guarded_run()
        self._started: list[Process] = []

    def start(self, name: str, *command: str, env: Mapping[str, str], cwd: Path | None = None) -> Process:
        """Start a command, in a session of its own."""
        path = self.folder / f"{len(self._started):02}-{name}.log"
        with path.open("wb") as log:
            process = subprocess.Popen(
                command,
                env=self._environment(env),
                cwd=cwd or self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._started.append(Process(name, process, path))
        return self._started[-1]

    def fork(
        self, name: str, module: str, *arguments: str, env: Mapping[str, str], preload: Path | None = None
    ) -> Process:
        """Start one of our modules as ``python -m`` does, but loaded already (`tests.support.forked`)."""
        path = self.folder / f"{len(self._started):02}-{name}.log"
        path.touch()
        process = Forked(module, arguments, self._environment(env), self.folder, path, preload=preload)
        self._started.append(Process(name, process, path))
        return self._started[-1]

    async def run(self, *command: str, env: Mapping[str, str], cwd: Path | None = None) -> Ended:
        """Run a command to its end, which must come."""
        process = await asyncio.create_subprocess_exec(
            *command,
            env=self._environment(env),
            cwd=cwd or self.folder,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(), START_SECONDS)
        except TimeoutError:
            process.kill()
            raise
        return Ended(code=process.returncode or 0, out=out.decode(), err=err.decode())

    async def command(
        self, *arguments: str, env: Mapping[str, str], cwd: Path | None = None, piped: bytes = b""
    ) -> Ended:
        """Run ``swarm`` with these arguments to its end as `run` does, but loaded already (`tests.support.forked`)."""
        return await self.module("swarm.cli.main", *arguments, env=env, cwd=cwd, piped=piped)

    async def module(
        self, module: str, *arguments: str, env: Mapping[str, str], cwd: Path | None = None, piped: bytes = b""
    ) -> Ended:
        """Run one of our modules to its end, loaded already. ``piped`` is what it may read."""
        paths = [self.folder / f"{len(self._started):02}-command.{name}" for name in ("in", "out", "err")]
        for path, content in zip(paths, (piped, b"", b""), strict=True):
            path.write_bytes(content)
        stdin, out, err = paths
        forked = Forked(module, arguments, self._environment(env), cwd or self.folder, out, stdin=stdin, errors=err)
        process = Process(" ".join([module, *arguments]), forked, out)
        self._started.append(process)
        try:
            code = await process.exit_code(START_SECONDS)
        finally:
            process.kill()
        return Ended(code=code, out=out.read_bytes().decode(), err=err.read_bytes().decode())

    def _environment(self, env: Mapping[str, str]) -> dict[str, str]:
        """Nothing of the tester's own environment but the way to programs."""
        marks = {_MARK: self._mark, _RUN: self._run}
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder), "PYTHONUNBUFFERED": "1", **marks, **env}

    def alive(self) -> list[int]:
        """The process ids of all that is alive, children and grandchildren included."""
        mark = f"{_MARK}={self._mark}".encode()
        own = {process.pid for process in self._started if process.alive}  # a forked one has no mark itself
        return [pid for pid in _pids() if pid in own or mark in _read(pid, "environ").split(b"\0")]

    def find(self, word: str) -> int:
        """The one process of these whose command line has ``word``."""
        (pid,) = [pid for pid in self.alive() if word.encode() in _read(pid, "cmdline").split(b"\0")]
        return pid

    def send(self, pid: int, number: signal.Signals) -> None:
        """Signal a child or grandchild, which must be one of these."""
        assert pid in self.alive()
        os.kill(pid, number)

    def end(self) -> None:
        """End everything, for certain."""
        while found := self.alive():
            for pid in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for process in self._started:
                process.send(signal.SIGKILL)  # and collect it: one that nobody waited for would stay a zombie
                process.kill()

    def show_logs(self) -> None:
        """Print what they said: pytest shows it when the test has failed."""
        for path in sorted(self.folder.rglob("*.log")):
            text = path.read_text(errors="replace")
            sys.stdout.write(f"── {path.relative_to(self.folder)}\n{text[-_SHOWN_CHARACTERS:]}\n")


@contextlib.contextmanager
def processes_in(folder: Path) -> Iterator[Processes]:
    """Processes that are ended at the end of the block."""
    if not Path("/proc/self/environ").exists():
        pytest.skip("NOT TESTED HERE: the end of all processes is only made sure of with a /proc file system")
    processes = Processes(folder)
    try:
        yield processes
    finally:
        processes.end()
        processes.show_logs()


def free_port() -> int:
    """A port on which nobody listens at this moment, and that no other process of tests is given while this one lives.

    One that the system chooses may be somebody's outgoing connection by the time that a slow process wants it. So these
    lie below the system's own range, and each process of pytest has a thousand of them. Two runs on one machine meet
    there now and then, and whoever is slow to listen would find its port taken: so each is claimed.
    """
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    for number in _numbers:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do
            with contextlib.suppress(OSError):
                port = _FIRST_PORT + (worker % 10) * 1_000 + number % 1_000
                fcntl.lockf(_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
                probe.bind(("127.0.0.1", port))
                return port
    raise AssertionError("the numbers never end")


@functools.cache
def _claims() -> int:
    """A file of which each process locks one byte for each of its ports. The system unlocks what a process leaves."""
    return os.open(Path(tempfile.gettempdir()) / f"swarm-test-ports-{os.getuid()}", os.O_RDWR | os.O_CREAT, 0o600)


_GUARD = """
import os, signal, sys
sys.stdin.read()  # until pytest has ended, however it did
mark, found = sys.argv[1].encode(), True
while found:
    found = False
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if mark in open(f"/proc/{pid}/environ", "rb").read().split(b"\\0"):
                os.kill(int(pid), signal.SIGKILL)
                found = True
        except OSError:  # it has ended, or is somebody else's
            pass
"""


@functools.cache
def _guarded_run() -> str:
    """The mark of this run. A guard ends what still has it once pytest has ended, which may have been killed."""
    run = new_id()
    guard = subprocess.Popen(
        (sys.executable, "-I", "-S", "-c", _GUARD, f"{_RUN}={run}"),
        env={},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    atexit.register(guard.communicate)
    return run


async def until_ready(process: Process, url: str) -> None:
    """Wait until a URL answers 200; fails at once if the process that serves it ends."""
    async with http_client(timeout=5) as http:

        async def look() -> bool:
            assert process.alive, f"{process.name} ended:\n{process.output}"
            try:
                return (await http.get(url)).status_code == httpx2.codes.OK
            except httpx2.HTTPError:
                return False

        await wait_until(look, within_seconds=START_SECONDS, what=f"{url} answers")


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal()]


def _read(pid: int, about: str) -> bytes:
    """Empty for a process that has ended, or is somebody else's."""
    try:
        return Path(f"/proc/{pid}/{about}").read_bytes()
    except OSError:
        return b""
