"""Running a program for a tool: with a time limit, bounded output, and an end that nothing survives.

Between us and the program stands a small process, the *warden* (`swarm.agents.tools.warden`), which starts the
program, reads what it prints and ends all that descends from it: children that start a session of their own, that fork
twice, that ignore SIGTERM, that outlive their parent. It does so when the program ends, when its time is over, when the
call is cancelled, and when the coordinator dies.

A program that kills its warden is found by a mark in the environment of what it left behind (`MARK`). One that does
both, and empties its environment, gets away: against a program that is hostile to that degree a container is needed.

Linux only, because of subreapers and ``/proc``.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final

import structlog

from swarm.agents.tools.finishing import to_the_end
from swarm.clock import new_id

MARK: Final = "SWARM_RUN"
"""The variable of the environment that marks all processes of one run."""

GRACE_SECONDS: Final = 2.0
"""Between the request to end (SIGTERM), in which a program removes its locks, and the kill."""

_WARDEN: Final = Path(__file__).with_name("warden.py")
_WARDEN_SECONDS: Final = 10.0  # what the warden may take beyond the grace; longer than it tries to kill
_SWEEP_SECONDS: Final = 5.0
_KEPT: Final = frozenset({"HOME", "LANG", "LANGUAGE", "LOGNAME", "PATH", "SHELL", "TMPDIR", "TZ", "USER"})

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Ran:
    """How a run ended."""

    code: int | None  # the exit code; minus the number of the signal that ended it; None: we or something else ended it
    output: str  # what it printed, standard error included unless kept apart; bytes that are not UTF-8 become U+FFFD
    errors: str = ""  # what it printed on standard error, if kept apart
    timed_out: bool = False
    cut: bool = False  # a part of the output is missing, in the middle; a line says how much


async def run_program(
    argv: Sequence[str],
    *,
    cwd: Path | str,
    env: Mapping[str, str],
    stdin: bytes | None = None,
    timeout_seconds: float,
    most_bytes: int,
    errors_apart: bool = False,
    grace_seconds: float = GRACE_SECONDS,
) -> Ran:
    """Run a program to its end, or for ``timeout_seconds``, and end all that it started, however this returns.

    Args:
        argv: The program, found along ``PATH`` of ``env`` unless it is a path, and its arguments. No shell.
        env: Its whole environment (see `clean_environment`); a mark is added.
        stdin: What it may read; None: nothing.
        most_bytes: Of standard output, and of standard error if ``errors_apart``, at most about so much is kept: the
            beginning and the end in equal parts.

    It takes up to ``grace_seconds`` (and as long as killing takes) beyond the time limit, or beyond a cancellation.

    Raises:
        OSError: It cannot be started: FileNotFoundError (also for ``cwd``), PermissionError, E2BIG (an argument of
            more than 128 KiB, or all of them of more than about 2 MiB), ENOEXEC (neither a binary nor ``#!``).
        ValueError: An argument has a NUL character, or cannot be encoded.
    """
    mark = new_id()
    with contextlib.ExitStack() as open_things:
        control, far = (open_things.enter_context(end) for end in socket.socketpair())
        result = open_things.enter_context(_memory_file())
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(_WARDEN), str(far.fileno()), str(result.fileno())),
            *(str(grace_seconds), str(most_bytes), str(int(errors_apart)), *argv),
            cwd=cwd,
            env={**env, MARK: mark},
            stdin=asyncio.subprocess.DEVNULL if stdin is None else open_things.enter_context(_memory_file(stdin)),
            stdout=asyncio.subprocess.DEVNULL,
            pass_fds=(far.fileno(), result.fileno()),
            start_new_session=True,  # Ctrl-C at a terminal is for us alone
        )
        try:
            far.close()
            control.send(b"g")  # only now it may start the program: a cancelled start kills the warden alone
            timed_out = not await _ended_within(process, timeout_seconds)
        finally:
            control.close()
            await to_the_end(_gone(process, result, mark, grace_seconds))
        return _read(result, argv[0], timed_out=timed_out)


def clean_environment(given: Mapping[str, str], *, passed: Iterable[str] = ()) -> dict[str, str]:
    """Of an environment what a program needs to run and to find its own files, and the variables named in ``passed``.

    Nothing else: the coordinator's own environment holds tokens and keys.
    """
    names = {name for name in given if name in _KEPT or name.startswith("LC_")}
    return {name: given[name] for name in sorted(names | (set(passed) & set(given)))}


def _memory_file(content: bytes = b"") -> BinaryIO:
    """A file without a name, at its beginning."""
    file = open(os.memfd_create("swarm", os.MFD_CLOEXEC), "w+b")  # noqa: SIM115 -- the caller closes it
    file.write(content)
    file.seek(0)
    return file


async def _ended_within(process: asyncio.subprocess.Process, seconds: float) -> bool:
    try:
        await asyncio.wait_for(process.wait(), seconds)
    except TimeoutError:
        return False
    return True


async def _gone(process: asyncio.subprocess.Process, result: BinaryIO, mark: str, grace_seconds: float) -> None:
    """Wait until the warden has ended everything, and itself. If it could not, do it here."""
    if not await _ended_within(process, grace_seconds + _WARDEN_SECONDS):
        process.kill()
        await process.wait()
    head = _head(result)
    if head is None:
        _log.warning("a warden was killed", action="program_warden_lost", run=mark, code=process.returncode)
        await asyncio.to_thread(_end_marked, mark)
    elif left := int(head[1]):
        _log.error("processes cannot be ended", action="program_left", run=mark, left=left)


def _end_marked(mark: str) -> None:
    """Kill everything that carries the mark, until nothing is left. For seconds: some things cannot be ended."""
    until = time.monotonic() + _SWEEP_SECONDS
    while (found := _marked(mark)) and time.monotonic() < until:
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)  # the system needs a moment


def _marked(mark: str) -> list[int]:
    entry = f"{MARK}={mark}".encode()
    pids = (int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal())
    return [pid for pid in pids if entry in _environment(pid).split(b"\0")]


def _environment(pid: int) -> bytes:
    """Empty for a process that has ended, or is somebody else's."""
    try:
        return Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def _head(result: BinaryIO) -> list[str] | None:
    """The first line of the result; None: there is none, because the warden did not come to its end."""
    result.seek(0)
    return result.readline().decode().split() or None


def _read(result: BinaryIO, program: str, *, timed_out: bool) -> Ran:
    head = _head(result)
    if head is None:
        return Ran(code=None, output="", timed_out=timed_out)
    status, _, out_bytes, err_bytes, cut = head
    if status.startswith("error-"):
        number = int(status.removeprefix("error-"))
        raise OSError(number, os.strerror(number), program)
    return Ran(
        code=None if status == "none" or timed_out else int(status),
        output=result.read(int(out_bytes)).decode(errors="replace"),
        errors=result.read(int(err_bytes)).decode(errors="replace"),
        timed_out=timed_out,
        cut=cut == "1",
    )
