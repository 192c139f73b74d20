"""The process of a server, with all that it starts: a group that is ended as a whole."""

from __future__ import annotations

import asyncio
import os
import signal
from asyncio.subprocess import PIPE, Process, SubprocessStreamProtocol
from contextlib import suppress
from typing import Final

import structlog

from swarm.agents.mcp.server import Patience, Program

LINE_BYTES: Final = 16 * 1024 * 1024
"""The longest message of a server; one with pictures in it is long."""

REAP_SECONDS: Final = 2.0
"""What is killed is gone after that, unless the machine itself is stuck."""

GONE_SECONDS: Final = 0.5
"""The children of what is killed are gone after that; where nobody collects orphans, there is no telling."""

_LOOK_EVERY_SECONDS: Final = 0.01
_INHERITED: Final = ("PATH", "HOME")

_log = structlog.get_logger(__name__)


class _Protocol(SubprocessStreamProtocol):
    """Tells of the end of the process itself: `Process.wait` waits for whoever else has its stdout open, too."""

    def __init__(self) -> None:
        super().__init__(limit=LINE_BYTES, loop=asyncio.get_running_loop())
        self.ended = asyncio.Event()

    def process_exited(self) -> None:
        super().process_exited()
        self.ended.set()


class ServerProcess:
    """A running program. Whoever starts it ends it."""

    def __init__(self, transport: asyncio.SubprocessTransport, protocol: _Protocol) -> None:
        self._transport = transport
        self._process = Process(transport, protocol, asyncio.get_running_loop())
        self.ended = protocol.ended
        self.pid = self._process.pid  # also its group's, and its session's
        assert self._process.stdin
        assert self._process.stdout
        assert self._process.stderr
        self.stdin = self._process.stdin
        self.stdout = self._process.stdout
        self.stderr = self._process.stderr

    @classmethod
    async def start(cls, program: Program) -> ServerProcess:
        """Start a program in a session of its own. Raises OSError, or ValueError for what no program can be given."""
        transport, protocol = await asyncio.get_running_loop().subprocess_exec(
            _Protocol,
            program.command,
            *program.args,
            env={**{name: os.environ[name] for name in _INHERITED if name in os.environ}, **program.env},
            cwd=program.cwd,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            start_new_session=True,
        )
        return cls(transport, protocol)

    async def end(self, patience: Patience) -> None:
        """Ask it to end by closing its stdin, then by SIGTERM; after that, or if this is cancelled, it is killed."""
        try:
            self.stdin.close()
            if not await self._is_gone_within(patience.end_seconds):
                self._send(signal.SIGTERM)
                await self._is_gone_within(patience.term_seconds)
        finally:
            self._send(signal.SIGKILL)
            await self._collect()

    async def _collect(self) -> None:
        try:
            async with asyncio.timeout(REAP_SECONDS):
                await self.ended.wait()
            await self._is_gone_within(GONE_SECONDS)
        except TimeoutError:
            _log.error("A process goes on after SIGKILL.", action="mcp_left_over", pid=self.pid)
        finally:
            self._transport.close()

    async def _is_gone_within(self, seconds: float) -> bool:
        """Whether the whole group has ended. A child may go on when its parent is gone."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while self._send(0):  # noqa: ASYNC110 - nobody tells of the end of grandchildren
                    await asyncio.sleep(_LOOK_EVERY_SECONDS)
        return not self._send(0)

    def _send(self, number: int) -> bool:
        """Signal the group; whether there is one. Its id stays taken while any member of it is alive."""
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # somebody else's, so there is somebody
        return True
