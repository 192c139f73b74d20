"""A real coordinator as a child process, with a home, a database and a port of its own, and what it costs."""

from __future__ import annotations

import asyncio
import os
import secrets
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, STDOUT, Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from swarm.bench.figures import BenchError
from swarm.bench.http import Connection
from swarm.bench.plan import Plan
from swarm.bench.scratch import Scratch, scratch
from swarm.bench.slack import BenchSlack

STOP_SECONDS: Final = 12
_LAST_CHARACTERS: Final = 1_500
_READY_SECONDS: Final = 30
_QUIET_SHARE: Final = 0.15
_LOOK_SECONDS: Final = 0.5
_REGISTERING: Final = 16


@dataclass(frozen=True, kw_only=True, slots=True)
class BenchAgent:
    """A registered agent with its token."""

    name: str
    token: str


class Coordinator:
    """A coordinator that runs."""

    def __init__(self, process: Process, port: int, operator_token: str, log: Path) -> None:
        self.port = port
        self._process = process
        self._operator_token = operator_token
        self._log = log

    async def operator(self) -> Connection:
        """A connection with the operator's token."""
        return await Connection.open(self.port, self._operator_token)

    async def register(self, count: int) -> list[BenchAgent]:
        """Register ``count`` leads, and let each poll once, so that it counts as online."""
        names = iter([f"agent-{number}" for number in range(count)])
        agents: list[BenchAgent] = []
        await asyncio.gather(*(self._register(names, agents) for _ in range(_REGISTERING)))
        return agents

    async def _register(self, names: Any, agents: list[BenchAgent]) -> None:
        operator = await self.operator()
        for name in names:
            made = (await operator.call("POST", "/agents", {"name": name, "role": "lead"})).json()
            agent = BenchAgent(name=name, token=made["token"])
            connection = await Connection.open(self.port, agent.token)
            (await connection.call("GET", "/poll?wait_seconds=0&limit=1")).json()
            connection.close()
            agents.append(agent)
        operator.close()

    async def unread(self) -> int:
        """How many inbox messages are stored and not claimed."""
        operator = await self.operator()
        ready = (await operator.call("GET", "/readyz")).json()
        operator.close()
        return int(ready["backlog"]["inbox_unread"])

    async def quiet(self) -> None:
        """Wait until it has done what it was given, at most half a minute."""
        for _ in range(int(_READY_SECONDS / _LOOK_SECONDS)):
            before = self.cpu_seconds()
            await asyncio.sleep(_LOOK_SECONDS)
            if self.cpu_seconds() - before < _QUIET_SHARE * _LOOK_SECONDS:
                return

    def memory_bytes(self) -> int:
        """What it holds in memory now (resident set size, from /proc)."""
        pages = int(self._proc("statm").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def cpu_seconds(self) -> float:
        """What it has used of the processor since its start (user and system time, from /proc)."""
        fields = self._proc("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _proc(self, name: str) -> str:
        try:
            return Path(f"/proc/{self._process.pid}/{name}").read_text()
        except OSError as error:
            raise BenchError(f"the coordinator's costs cannot be read: {error}{self.last_words()}") from error

    async def until_ready(self) -> None:
        """Wait for ``/readyz``. Raises BenchError, with its last words if it ended."""
        for _ in range(int(_READY_SECONDS / 0.1)):
            if self._process.returncode is not None:
                raise BenchError(f"the coordinator ended with {self._process.returncode}{self.last_words()}")
            try:
                operator = await self.operator()
                if (await operator.call("GET", "/readyz")).status == 200:
                    operator.close()
                    return
            except BenchError:
                pass  # it does not listen yet
            await asyncio.sleep(0.1)
        raise BenchError(f"the coordinator did not become ready in {_READY_SECONDS} s{self.last_words()}")

    def last_words(self) -> str:
        """The end of its log."""
        said = self._log.read_text(errors="replace")[-_LAST_CHARACTERS:].strip()
        return f"; it said:\n{said}" if said else ""

    async def stop(self) -> None:
        """End it: politely, then not."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(self._process.wait(), STOP_SECONDS)
            except TimeoutError:
                self._process.kill()
                await self._process.wait()


@asynccontextmanager
async def coordinator(plan: Plan, slack: BenchSlack) -> AsyncIterator[Coordinator]:
    """A coordinator that is ready, connected to ``slack``, on a new database; gone afterwards."""
    async with scratch(plan.database) as place:
        started = await _start(place, slack)
        try:
            await started.until_ready()
            await slack.connected()
            yield started
        finally:
            await asyncio.shield(started.stop())


async def _start(place: Scratch, slack: BenchSlack) -> Coordinator:
    port, operator_token = _free_port(), secrets.token_urlsafe(16)
    environment = {
        **place.environment,
        "SLACK_BOT_TOKEN": "xoxb-bench",
        "SLACK_APP_TOKEN": "xapp-bench",
        "SLACK_API_BASE_URL": f"{slack.base_url}/api/",
        "SWARM_OPERATOR_TOKEN": operator_token,
        "PORT": str(port),
    }
    log = place.folder / "coordinator.log"
    with log.open("wb") as output:
        # A session of its own keeps the terminal's Ctrl-C for us alone.
        process = await asyncio.create_subprocess_exec(
            *_command(), cwd=place.folder, env=environment, stdin=DEVNULL, stdout=output, stderr=STDOUT,
            start_new_session=True,
        )  # fmt: skip
    return Coordinator(process, port, operator_token, log)


def _command() -> Sequence[str]:
    return (sys.executable, "-m", "swarm", "up")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
