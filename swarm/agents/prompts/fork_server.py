"""The coordinator's end of the rendering process: start, requests and end."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import sys
from dataclasses import asdict
from pathlib import Path
from subprocess import PIPE
from typing import Final

from swarm.agents.prompts.limits import MOST_ANSWER_BYTES, RenderLimits
from swarm.processes.child import Child

START_SECONDS: Final = 20.0

_ROOT: Final = str(Path(__file__).resolve().parents[3])
_PROGRAM: Final = """
import sys
sys.path.insert(0, sys.argv[1])
from swarm.agents.prompts.worker import main
main()
"""
_INHERITED: Final = ("LD_LIBRARY_PATH",)
"""The only variables passed on: Python may need them, and other variables may hold secrets."""


class Lost(Exception):
    """The process is gone or does not react; the request may be repeated."""


class ForkServer:
    """One process, in its own session, that forks a child for each rendering."""

    def __init__(self, process: Child, control: socket.socket, limits: RenderLimits) -> None:
        self._process = process
        self._control = control
        self._limits = limits

    @classmethod
    async def start(cls, limits: RenderLimits) -> ForkServer:
        """Starts the process and waits until it is ready. Raises Lost on failure."""
        ours, theirs = socket.socketpair()
        with theirs:
            ours.setblocking(False)
            try:
                process = await _process(theirs, limits)
            except OSError as error:
                ours.close()
                raise Lost(str(error)) from error
        fork_server = cls(process, ours, limits)
        try:
            await fork_server._become_ready()
        except BaseException:
            await fork_server.close()
            raise
        return fork_server

    async def _become_ready(self) -> None:
        try:
            async with asyncio.timeout(START_SECONDS):
                ready = await asyncio.get_running_loop().sock_recv(self._control, 1)
        except TimeoutError as error:
            raise Lost(f"it was not ready within {START_SECONDS:g} s") from error
        if not ready:
            said = (await self._process.stderr.read()).decode(errors="replace").strip()
            raise Lost(said.rpartition("\n")[2] or "it ended before it was ready")

    @property
    def is_alive(self) -> bool:
        """Whether the process still holds its end."""
        try:
            return bool(self._control.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return True
        except OSError:
            return False

    async def ask(self, request: bytes) -> bytes:
        """Returns the answer of a rendering; empty if the rendering was killed. Raises Lost if the deadline passes."""
        ours, theirs = socket.socketpair()
        with ours:
            ours.setblocking(False)
            with theirs:
                self._hand_over(theirs)
            try:
                async with asyncio.timeout(self._limits.deadline_seconds):
                    return await _exchange(ours, request)
            except TimeoutError as error:
                raise Lost("it did not react") from error
            except ConnectionError:
                return b""

    def _hand_over(self, connection: socket.socket) -> None:
        try:
            socket.send_fds(self._control, [b"r"], [connection.fileno()])
        except OSError as error:
            raise Lost(str(error)) from error

    async def close(self) -> None:
        """Kills the process and all renderings. Idempotent."""
        self._control.close()
        await self._process.kill()
        self._process.close()


async def _process(control: socket.socket, limits: RenderLimits) -> Child:
    """Starts the process isolated (-I): neither the environment nor the working directory changes its imports."""
    return await Child.start(
        [sys.executable, "-I", "-c", _PROGRAM, _ROOT, json.dumps(asdict(limits))],
        stdin=control.fileno(),
        stderr=PIPE,
        env={name: os.environ[name] for name in _INHERITED if name in os.environ},
        cwd="/",
        grace_seconds=0.0,
    )


async def _exchange(connection: socket.socket, request: bytes) -> bytes:
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(connection, request)
    connection.shutdown(socket.SHUT_WR)
    answer = bytearray()
    while part := await loop.sock_recv(connection, 65536):
        answer += part
        if len(answer) > MOST_ANSWER_BYTES:
            return b""
    return bytes(answer)
