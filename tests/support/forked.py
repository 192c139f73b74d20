"""Our own programs as processes that start at once: forked from one that has loaded what they need.

What a program needs three seconds of processor time for is loading code. Tests that are about something else than a
start, and start a coordinator each, need not pay for that again and again. Those about starts run the real command.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

LOADED = [
    "swarm.cli",
    "swarm.bootstrap",
    "swarm.built_in",
    "swarm.demo.model_server",
    "swarm.entrypoints.mcp_server",
    "swarm.twin.server",
    "psycopg",
    "uvloop",
]


class Forked:
    """A module that runs as with ``python -m``, with what `subprocess.Popen` has of methods that tests use."""

    def __init__(self, module: str, arguments: Sequence[str], env: Mapping[str, str], cwd: Path, log: Path) -> None:
        context = _context()
        # Not a daemon in the sense of multiprocessing: those may have no children.
        self._process: ForkServerProcess = context.Process(
            target=_run, args=(module, tuple(arguments), dict(env), str(cwd), str(log))
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid: int = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code, negative for a signal. Raises subprocess.TimeoutExpired."""
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("a forked process", timeout or 0)
        return self._process.exitcode


def _context() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED)
    return context


def _run(module: str, arguments: Sequence[str], env: Mapping[str, str], cwd: str, log: str) -> Any:
    """Become what ``python -m module arguments`` would be, in a session of its own."""
    os.setsid()
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    nothing = os.open(os.devnull, os.O_RDONLY)
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for ours, theirs in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(ours, theirs)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    sys.argv = [module, *arguments]
    sys.path = [path for path in sys.path if path != os.fspath(Path.cwd())]
    sys.modules.pop(module, None)  # which is loaded anew, under its other name
    runpy.run_module(module, run_name="__main__", alter_sys=True)
