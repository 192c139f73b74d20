"""A real coordinator as a child process, and its costs."""

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
from swarm.bench.parts.http import Connection
from swarm.bench.parts.scratch import Scratch

STOP_SECONDS: Final = 12
_LAST_CHARACTERS: Final = 1_500
_READY_SECONDS: Final = 60


class Coordinator:
    """A running coordinator."""

    def __init__(self, process: Process, port: int, operator_token: str, log: Path) -> None:
        self.port = port
        self._process = process
        self._operator_token = operator_token
        self._log = log

    @classmethod
    async def start(cls, place: Scratch, name: str, operator_token: str, environment: Mapping[str, str]) -> Coordinator:
        """Starts a coordinator on a free port, with this environment beside the database's. It is not ready yet."""
        port = _free_port()
        ours = {"SWARM_HOME": str(place.folder / name), "SWARM_OPERATOR_TOKEN": operator_token, "PORT": str(port)}
        ours["SWARM_MESSAGES_PER_MINUTE"] = "0"  # one person writes many messages
        log = place.folder / f"{name}.log"
        with log.open("wb") as output:
            # A separate session keeps the terminal's Ctrl-C for this process.
            process = await asyncio.create_subprocess_exec(
                *_command(), cwd=place.folder, env={**place.environment, **environment, **ours},
                stdin=DEVNULL, stdout=output, stderr=STDOUT, start_new_session=True,
            )  # fmt: skip
        return cls(process, port, operator_token, log)

    async def operator(self) -> Connection:
        """Opens a connection with the operator's token."""
        return await Connection.open(self.port, self._operator_token)

    async def backlog(self) -> Mapping[str, int]:
        """Returns the open work, by kind."""
        operator = await self.operator()
        ready = (await operator.call("GET", "/readyz")).json()
        operator.close()
        return {kind: int(count) for kind, count in ready["backlog"].items()}

    async def expired_leases(self) -> int:
        """Returns the number of leases that expired."""
        page = await self.metrics()
        found = re.search(r'^swarm_leases_ended_total\{how="expired"\} (\S+)', page, re.MULTILINE)
        return int(float(found.group(1))) if found else 0

    async def metrics(self) -> str:
        """Returns the metrics, in Prometheus's text format."""
        operator = await self.operator()
        page = (await operator.call("GET", "/metrics")).body.decode()
        operator.close()
        return page

    def memory_bytes(self) -> int:
        """Returns the current memory use (resident set size, from /proc)."""
        pages = int(self._proc("statm").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def cpu_seconds(self) -> float:
        """Returns the processor time since the start (user and system time, from /proc)."""
        fields = self._proc("stat").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def _proc(self, name: str) -> str:
        try:
            return Path(f"/proc/{self._process.pid}/{name}").read_text()
        except OSError as error:
            raise BenchError(f"the coordinator's costs cannot be read: {error}{self.last_words()}") from error

    async def until_ready(self) -> None:
        """Waits for ``/readyz``. Raises BenchError, with the end of the log if the process has ended."""
        for _ in range(int(_READY_SECONDS / 0.1)):
            if self._process.returncode is not None:
                raise BenchError(f"the coordinator ended with {self._process.returncode}{self.last_words()}")
            try:
                operator = await self.operator()
                if (await operator.call("GET", "/readyz")).status == 200:
                    operator.close()
                    return
            except BenchError:
                pass  # not listening yet
            await asyncio.sleep(0.1)
        raise BenchError(f"the coordinator did not become ready in {_READY_SECONDS} s{self.last_words()}")

    def last_words(self) -> str:
        """Returns the end of the log."""
        said = self._log.read_text(errors="replace")[-_LAST_CHARACTERS:].strip()
        return f"; it said:\n{said}" if said else ""

    async def stop(self) -> None:
        """Ends the process: with SIGTERM, then with SIGKILL."""
        if self._process.returncode is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(self._process.wait(), STOP_SECONDS)
            except TimeoutError:
                self._process.kill()
                await self._process.wait()


def new_operator_token() -> str:
    """Returns a token for all coordinators of a measurement."""
    return secrets.token_urlsafe(16)


def _command() -> Sequence[str]:
    return (sys.executable, "-P", "-m", "swarm", "up")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
