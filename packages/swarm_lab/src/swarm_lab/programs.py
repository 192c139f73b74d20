"""Our programs as processes with logs, in the demo and in measurements; their ports, and the settings for a twin."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import STDOUT
from typing import Final

from swarm_base.processes.child import Child

STOP_SECONDS: Final = 8
LAST_LINES: Final = 20


class Died(Exception):
    """A program has ended unexpectedly. The message has the last lines of its log."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Program:
    """A running program of ours. Its output is appended to a log."""

    name: str
    process: Child
    log: Path
    begins_at: int  # in the log, which may be older

    @classmethod
    async def start(
        cls, name: str, arguments: Sequence[str], *, env: Mapping[str, str], log: Path, cwd: Path | None = None
    ) -> Program:
        """Starts ``python -P -m …``, so that a package in the working directory cannot replace one of ours.

        The process gets its own session, so that Ctrl-C in the terminal only reaches us.
        """
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            begins_at = output.tell()
            process = await Child.start(
                [sys.executable, "-P", "-m", *arguments],
                env={**env, "PYTHONUNBUFFERED": "1"},
                cwd=cwd,
                stdout=output,
                stderr=STDOUT,
                grace_seconds=STOP_SECONDS,
            )
        return cls(name=name, process=process, log=log, begins_at=begins_at)

    def lines(self) -> Sequence[str]:
        """Returns what it has written so far."""
        return self.log.read_bytes()[self.begins_at :].decode(errors="replace").splitlines()

    def last_lines(self) -> str:
        """Returns the end of what it has written, as the end of an error."""
        return "\n".join(["Its last lines:", *self.lines()[-LAST_LINES:]])

    def died(self) -> Died:
        """Returns the error that tells how it has ended."""
        return Died(f"{self.name} ended with exit code {self.process.code}. {self.last_lines()}")

    def check(self) -> None:
        """Raises Died if it has ended."""
        if self.process.ended.is_set():
            raise self.died()

    def memory_bytes(self) -> int:
        """Returns the current memory use: the resident set size from /proc. Raises Died."""
        return int(self._proc("statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def cpu_seconds(self) -> float:
        """Returns the processor time since the start: user and system time from /proc. Raises Died."""
        fields = self._proc("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _proc(self, file: str) -> str:
        try:
            return Path(f"/proc/{self.process.pid}/{file}").read_text()
        except OSError as error:
            raise self.died() from error

    async def stop(self) -> None:
        """Ends the process with SIGTERM, then with SIGKILL."""
        await self.process.end()
        self.process.close()

    async def kill(self) -> None:
        """Ends the process with SIGKILL."""
        await self.process.kill()
        self.process.close()


class Programs:
    """Programs with the logs in one folder. When one of them dies, the others are to be stopped."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._started: dict[str, Program] = {}

    async def start(self, name: str, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        """Starts a program with this environment in addition to ours."""
        env, log = {**os.environ, **environment}, self._logs / f"{name}.log"
        self._started[name] = await Program.start(name, arguments, env=env, log=log)

    def lines_of(self, name: str) -> Sequence[str]:
        """Returns what a program has written so far."""
        return self._started[name].lines()

    async def first_death(self) -> Died:
        """Waits until any program ends."""
        waiting = {asyncio.create_task(one.process.ended.wait()): one for one in self._started.values()}
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            return waiting[next(iter(done))].died()
        finally:
            for task in waiting:
                task.cancel()

    async def stop(self) -> None:
        """Stops all programs at the same time, with one deadline for all of them."""
        await asyncio.gather(*(one.stop() for one in self._started.values()))


def free_port() -> int:
    """Returns an unused port of this machine."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def twin_settings(url: str) -> dict[str, str]:
    """Returns the settings of a coordinator for the app in the seed of the twin at ``url``."""
    from slack_twin.seed import DEFAULT

    app = DEFAULT.apps[0]
    return {
        "SLACK_BOT_TOKEN": app.bot_token,
        "SLACK_APP_TOKEN": app.app_token,
        "SLACK_SIGNING_SECRET": app.signing_secret,
        "SLACK_API_BASE_URL": f"{url}/api/",
    }
