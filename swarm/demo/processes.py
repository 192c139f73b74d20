"""Named child processes with logs. When one of them dies, the others are stopped."""

from __future__ import annotations

import asyncio
import os
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import Final

from swarm_base.processes.child import Child

STOP_SECONDS: Final = 8
DRAIN_SECONDS: Final = 1
LAST_LINES: Final = 20


class Died(Exception):
    """A part has ended unexpectedly."""

    def __init__(self, name: str, code: int | None, last_lines: Sequence[str]) -> None:
        super().__init__(f"{name} ended with exit code {code}")
        self.name = name
        self.last_lines = tuple(last_lines)


class _Part:
    """One child process. Its output is written to a log file, and the last lines are kept in memory."""

    def __init__(self, name: str, process: Child, log: Path) -> None:
        self.name = name
        self.process = process
        self._log = log
        self._begins_at = log.stat().st_size if log.exists() else 0
        self._last: deque[str] = deque(maxlen=LAST_LINES)
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        with self._log.open("ab") as log:
            async for line in self.process.stdout:
                log.write(line)
                log.flush()
                self._last.append(line.decode(errors="replace").rstrip())

    def written(self) -> Sequence[bytes]:
        """Returns the lines of the log so far."""
        return self._log.read_bytes()[self._begins_at :].splitlines()

    async def died(self) -> Died:
        """Waits until the process ends unexpectedly."""
        await self.process.ended.wait()
        await self._drain()
        return Died(self.name, self.process.code, self._last)

    async def stop(self) -> None:
        """Ends the process with SIGTERM, then with SIGKILL."""
        await self.process.end()
        await self._drain()
        self.process.close()

    async def _drain(self) -> None:
        """Reads the remaining output, without waiting for a grandchild that keeps the pipe open."""
        await asyncio.wait({self._reading}, timeout=DRAIN_SECONDS)


class Parts:
    """The parts of one demo."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._parts: list[_Part] = []

    async def start(self, name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        """Starts ``python -P -m …``, so that a package in the working directory cannot replace one of ours.

        The process gets its own session, so that Ctrl-C in the terminal only reaches the demo.
        """
        self._logs.mkdir(parents=True, exist_ok=True)
        process = await Child.start(
            [sys.executable, "-P", "-m", *arguments],
            env={**os.environ, **environment, "PYTHONUNBUFFERED": "1"},
            stdout=PIPE,
            stderr=STDOUT,
            line_bytes=2**20,
            grace_seconds=STOP_SECONDS,
        )
        self._parts.append(_Part(name, process, self._logs / f"{name}.log"))

    def log_of(self, name: str) -> Sequence[bytes]:
        """Returns the output of a part so far, line by line."""
        return next(part.written() for part in self._parts if part.name == name)

    async def first_death(self) -> Died:
        """Waits until any part ends."""
        waiting = [asyncio.create_task(part.died()) for part in self._parts]
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            return next(iter(done)).result()
        finally:
            for task in waiting:
                task.cancel()

    async def stop(self) -> None:
        """Stops all parts at the same time, with one deadline for all of them."""
        await asyncio.gather(*(part.stop() for part in self._parts))
