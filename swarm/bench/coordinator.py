"""A real coordinator as a child process, and what it costs."""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import signal
import socket
import sys
from asyncio.subprocess import DEVNULL, STDOUT, Process
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from swarm.bench.figures import BenchError
from swarm.bench.http import Connection
from swarm.bench.scratch import Scratch

STOP_SECONDS: Final = 12
_LAST_CHARACTERS: Final = 1_500
_READY_SECONDS: Final = 60


class Coordinator:
    """A coordinator that runs."""

    def __init__(self, process: Process, port: int, operator_token: str, log: Path) -> None:
        self.port = port
        self._process = process
        self._operator_token = operator_token
        self._log = log

    @classmethod
    async def start(cls, place: Scratch, name: str, operator_token: str, environment: Mapping[str, str]) -> Coordinator:
        """Start one on a free port, with this environment beside the database's. It is not ready yet."""
        port = _free_port()
        ours = {"SWARM_HOME": str(place.folder / name), "SWARM_OPERATOR_TOKEN": operator_token, "PORT": str(port)}
        ours["SWARM_MESSAGES_PER_MINUTE"] = "0"  # one person writes for many
        log = place.folder / f"{name}.log"
        with log.open("wb") as output:
            # A session of its own keeps the terminal's Ctrl-C for us alone.
            process = await asyncio.create_subprocess_exec(
                *_command(), cwd=place.folder, env={**place.environment, **environment, **ours},
                stdin=DEVNULL, stdout=output, stderr=STDOUT, start_new_session=True,
            )  # fmt: skip
        return cls(process, port, operator_token, log)

    async def operator(self) -> Connection:
        """A connection with the operator's token."""
        return await Connection.open(self.port, self._operator_token)

    async def backlog(self) -> Mapping[str, int]:
        """How much there is to do, by kind."""
        operator = await self.operator()
        ready = (await operator.call("GET", "/readyz")).json()
        operator.close()
        return {kind: int(count) for kind, count in ready["backlog"].items()}

    async def expired_leases(self) -> int:
        """How many leases it has ended because nobody renewed them."""
        page = await self.metrics()
        found = re.search(r'^swarm_leases_ended_total\{how="expired"\} (\S+)', page, re.MULTILINE)
        return int(float(found.group(1))) if found else 0

    async def metrics(self) -> str:
        """Its metrics, in Prometheus's text format."""
        operator = await self.operator()
        page = (await operator.call("GET", "/metrics")).body.decode()
        operator.close()
        return page

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


def new_operator_token() -> str:
    """One for all coordinators of a run."""
    return secrets.token_urlsafe(16)


def _command() -> Sequence[str]:
    return (sys.executable, "-P", "-m", "swarm", "up")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
