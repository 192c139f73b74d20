"""Our own programs as processes that start at once: forked from one that has loaded what they need.

What a program needs three seconds of processor time for is loading code. Tests that are about something else than a
start, and start a coordinator each, need not pay for that again and again. Those about starts run the real command.

What is forked is as far as can be what ``python -m`` would have started: a session, files and an environment of its own
before anybody can signal it, and functions of `atexit` that run when it ends. It does not outlive pytest, however that
ends. Different are: its command line and environment in ``/proc`` are those of the process that it was forked from, all
that it might need has been loaded, and at the end Python is not taken down, so nobody tells of what was left open.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import io
import multiprocessing.connection
import multiprocessing.process
import os
import runpy
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import BinaryIO, TextIO, cast
from unittest import mock

LOADED = [
    "swarm.cli.main",
    "swarm.cli.commands",
    "swarm.cli.operator_commands",
    "swarm.cli.data",
    "swarm.app.bootstrap",
    "swarm_agents.app.built_in",
    "swarm_lab.demo.rules.model_server",
    "swarm.entrypoints.mcp.mcp_server",
    "slack_twin.server",
    "psycopg",
    "uvloop",
]

_END_WITH_PARENT = 1
"""``PR_SET_PDEATHSIG`` of prctl(2)."""


class Forked:
    """A module that runs as with ``python -m``, with what `subprocess.Popen` has of methods that tests use."""

    def __init__(
        self,
        module: str,
        arguments: Sequence[str],
        env: Mapping[str, str],
        cwd: Path,
        log: Path = Path(os.devnull),
        *,
        preload: Path | None = None,  # a library that comes before those of the system
        stdin: Path = Path(os.devnull),
        errors: Path | None = None,  # for standard error; None: the log
        terminal: str | None = None,  # a terminal's name: it controls the process, and takes the place of all files
    ) -> None:
        context = multiprocessing.get_context("forkserver")
        streams = terminal or (str(stdin), str(log), str(errors or log))
        here, there = context.Pipe(duplex=False)
        # Not a daemon in the sense of multiprocessing: those may have no children.
        self._process: ForkServerProcess = context.Process(
            target=_run, args=(there, module, tuple(arguments), dict(env), str(cwd), streams)
        )
        with mock.patch.object(forkserver, "connect_to_new_process", _server(preload).connect_to_new_process):
            self._process.start()
        # Else pytest would wait for it at its own end, and look after it in between, from whatever thread.
        multiprocessing.process._children.discard(self._process)  # type: ignore[attr-defined]
        self._asking = threading.Lock()
        assert self._process.pid is not None
        self.pid: int = self._process.pid
        there.close()
        with here, contextlib.suppress(EOFError):  # it has become what it shall be, or has ended
            here.recv_bytes()

    def poll(self) -> int | None:
        with self._asking:  # the answer comes once, and must not be taken by two threads
            return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has ended, and we have not heard of it yet
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, negative for a signal. Raises subprocess.TimeoutExpired."""
        multiprocessing.connection.wait([self._process.sentinel], timeout)
        code = self.poll()
        if code is None:
            raise subprocess.TimeoutExpired("a forked process", timeout or 0)
        return code


@cache
def _server(preload: Path | None) -> forkserver.ForkServer:
    """A process that loads our code, with nothing else of our environment: it may be read when code is loaded."""
    server = forkserver.ForkServer()
    server.set_forkserver_preload(LOADED)
    code = os.pathsep.join(path for path in sys.path if path)
    bare = {"PATH": os.environ["PATH"], "PYTHONPATH": code, "PYTHONUNBUFFERED": "1"}
    bare |= {"LD_PRELOAD": str(preload)} if preload else {}
    with mock.patch.dict(os.environ, bare, clear=True):
        server.ensure_running()
    return server


def _run(
    begun: multiprocessing.connection.Connection,
    module: str,
    arguments: Sequence[str],
    env: Mapping[str, str],
    cwd: str,
    streams: str | tuple[str, str, str],
) -> None:
    """Become what ``python -m module arguments`` would be, in a session of its own."""
    os.setsid()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    _use_streams(streams)
    begun.send_bytes(b"begun")
    begun.close()
    _let_go_of_pytest()
    sys.argv = [module, *arguments]
    sys.path.insert(0, cwd)
    if not hasattr(sys.modules.get(module), "__path__"):
        sys.modules.pop(module, None)  # which is loaded anew, under its other name
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    finally:
        threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as Python does before these functions
        atexit._run_exitfuncs()


def _use_streams(streams: str | tuple[str, str, str]) -> None:
    """One terminal, or three files: to read, to write to, and for errors."""
    if isinstance(streams, str):
        os.login_tty(os.open(streams, os.O_RDWR))
        sys.stdout, sys.stderr = _writer(1), _writer(2)  # those that there were take it for a file
    else:
        for number, (path, flags) in enumerate(
            zip(streams, (os.O_RDONLY, *[os.O_WRONLY | os.O_APPEND] * 2), strict=True)
        ):
            os.dup2(os.open(path, flags), number)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115  # for the whole life of the process


def _writer(number: int) -> TextIO:
    """A stream as Python makes it where nothing is to be buffered."""
    raw = open(number, "wb", buffering=0, closefd=False)  # noqa: SIM115  # for the whole life of the process
    return io.TextIOWrapper(cast(BinaryIO, raw), encoding="utf-8", errors="backslashreplace", write_through=True)


def _let_go_of_pytest() -> None:
    """End with the process that we were forked from, which ends with pytest: nothing of ours may hold these two.

    The other end of a pipe tells them that the last one who has it open has ended.
    """
    ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL)
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
