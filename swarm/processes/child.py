"""A program under a supervisor, as its owner sees it: its streams, its end, and the end of all its descendants.

The guarantees of `swarm.processes` rest on three facts. The control socket tells the supervisor of our end, however we
end. We are a subreaper from the first start on, so a process that loses its supervisor becomes our child, and
`_end_orphans` ends it. And every child of ours with a session of its own is started here, so an unknown child is such
an orphan.
"""

from __future__ import annotations

import asyncio
import marshal
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from asyncio import StreamReader, StreamReaderProtocol, StreamWriter
from collections.abc import Coroutine, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from subprocess import DEVNULL
from typing import IO, Any, Final, TypeVar

import structlog

from swarm.processes import supervisor

LINE_BYTES: Final = 64 * 1024
SUPERVISOR_SECONDS: Final = supervisor.KILL_SECONDS + 5.0
"""A supervisor that takes so long beyond the grace is stuck, or was stopped by its program: it is killed."""

_ORPHANS_SECONDS: Final = 5.0
_RECEIVED_BYTES: Final = 1 << 18
_INHERITED: Final = ("LD_LIBRARY_PATH",)  # needed by Python itself, and nothing of the program's

T = TypeVar("T")

_log = structlog.get_logger(__name__)
_lock = threading.Lock()
_supervisors: set[int] = set()  # process ids of living supervisors


class Child:
    """A running program. Its owner calls `end` or `kill`, and then `close`."""

    stdin: StreamWriter
    stdout: StreamReader
    stderr: StreamReader
    pid: int
    """The program's process id, also its group's and its session's."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, grace_seconds: float) -> None:
        found = supervisor.process(process.pid)
        self.ended = asyncio.Event()  # the program's own end; its descendants may still be ending
        self.code: int | None = None  # an exit code, or minus a signal; None: its supervisor was killed
        self.outputs: tuple[bytes, bytes] = (b"", b"")
        self.is_cut = False  # a part of the outputs is missing
        self._process = process
        self._control = control
        self._grace_seconds = grace_seconds
        self._since = found.started if found else 0
        self._started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._is_specified = False  # the supervisor's specification is sent as a whole
        self._heard = bytearray()
        self._last: list[int] | None = None  # the numbers of the supervisor's last line
        self._pipes = [pipe for pipe in (process.stdin, process.stdout, process.stderr) if pipe]  # without a transport
        self._transports: list[asyncio.BaseTransport] = []
        self._following: asyncio.Task[None] | None = None

    @classmethod
    async def start(
        cls,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path | str | None = None,
        stdin: int | IO[bytes] = DEVNULL,
        stdout: int | IO[bytes] = DEVNULL,
        stderr: int | IO[bytes] = DEVNULL,
        captured: int = 0,
        most_bytes: int = 0,
        line_bytes: int = LINE_BYTES,
        grace_seconds: float,
    ) -> Child:
        """Start a program in a session of its own.

        Args:

            argv: The program, found along ``PATH`` of ``env`` unless given as a path, and its arguments. No shell.
            env: Its whole environment.
            stdin, stdout, stderr: As for `subprocess.Popen`. With PIPE the attribute of that name is set.
            captured: 1: keep standard output and error, together; 2: each apart. `outputs` has them in the end.
            most_bytes: How much of each output is kept, roughly: the beginning and the end, in equal parts.
            line_bytes: The longest line that the readers take.
            grace_seconds: Between SIGTERM and SIGKILL.

        Raises:

            OSError: The start failed: FileNotFoundError (also for ``cwd``), PermissionError, E2BIG (an argument of
                more than 128 KiB, or arguments of more than about 2 MiB in all), ENOEXEC (neither a binary nor ``#!``).
            ValueError: An argument or a variable has a NUL character, or cannot be encoded.
        """
        program = marshal.dumps((_encoded(argv), _encoded_env(env), grace_seconds, captured, most_bytes))
        child = cls(*_supervised(cwd=cwd, stdin=stdin, stdout=stdout, stderr=stderr), grace_seconds)
        child._following = asyncio.create_task(child._follow(program), name=f"supervisor {child._process.pid}")
        try:
            child.pid = await asyncio.shield(child._started)
            await to_the_end(child._connect(line_bytes))
        except BaseException as error:
            await child._abandon()
            if isinstance(error, OSError):
                raise OSError(error.errno, error.strerror, argv[0]) from None
            raise
        return child

    async def end(self) -> None:
        """Send SIGTERM, after the grace SIGKILL. Returns when no process is left. Ending goes on after cancellation."""
        self._ask(b"t")
        await self._is_over(self._grace_seconds)

    async def kill(self) -> None:
        """Kill all processes. Returns when none is left. Killing goes on after cancellation. Idempotent."""
        self._ask(b"k")
        await self._is_over(0.0)

    async def _abandon(self) -> None:
        try:
            await to_the_end(self.kill())
        finally:  # another cancellation is raised here
            self.close()

    async def is_gone_within(self, seconds: float) -> bool:
        """Wait up to ``seconds`` for the end of the program and its descendants."""
        assert self._following
        done, _ = await asyncio.wait({self._following}, timeout=seconds)
        return bool(done)

    def close(self) -> None:
        """Close our ends of the streams. Unread output is lost."""
        for transport in self._transports:
            transport.close()
        for pipe in self._pipes:
            pipe.close()

    async def _connect(self, line_bytes: int) -> None:
        loop, process = asyncio.get_running_loop(), self._process
        for name in ("stdout", "stderr"):
            if pipe := getattr(process, name):
                reader = StreamReader(line_bytes)
                transport, _ = await loop.connect_read_pipe(lambda: StreamReaderProtocol(reader), pipe)  # noqa: B023 -- called at once
                self._own(transport, pipe)
                setattr(self, name, reader)
        if process.stdin:
            idle = StreamReader()
            writing, protocol = await loop.connect_write_pipe(lambda: StreamReaderProtocol(idle), process.stdin)
            self._own(writing, process.stdin)
            self.stdin = StreamWriter(writing, protocol, None, loop)

    def _own(self, transport: asyncio.BaseTransport, pipe: IO[bytes]) -> None:
        """From now on the transport closes the pipe."""
        self._transports.append(transport)
        self._pipes.remove(pipe)

    def _ask(self, request: bytes) -> None:
        with suppress(OSError):  # ended already
            if self._is_specified:
                self._control.send(request)
            else:  # the request would be lost, or become a part of the specification; without its end nothing starts
                self._control.shutdown(socket.SHUT_WR)

    async def _is_over(self, grace_seconds: float) -> None:
        if not await self.is_gone_within(grace_seconds + SUPERVISOR_SECONDS):
            self._process.kill()
            assert self._following
            await asyncio.wait({self._following})

    async def _follow(self, program: bytes) -> None:
        """Read the supervisor's lines until its end. The end of this task is the end of the last descendant."""
        loop = asyncio.get_running_loop()
        try:
            with suppress(ConnectionError):
                await loop.sock_sendall(self._control, len(program).to_bytes(8, "big") + program)
                self._is_specified = True
            with suppress(ConnectionError):
                while data := await loop.sock_recv(self._control, _RECEIVED_BYTES):
                    self._hear(data)
        finally:  # also if the loop ends first: closing tells the supervisor
            self._control.close()
        self._process.wait()  # returns at once: the supervisor closes its socket by ending
        with _lock:
            _supervisors.discard(self._process.pid)
        await self._settle()

    def _hear(self, data: bytes) -> None:
        self._heard += data
        while self._last is None and b"\n" in self._heard:
            line, _, self._heard = self._heard.partition(b"\n")
            kind, numbers = line.split()[0], [int(number) for number in line.split()[1:]]
            match kind:
                case b"started":
                    self._started.set_result(*numbers)
                case b"error":
                    self._started.set_exception(OSError(*numbers, os.strerror(*numbers)))
                case b"ended":
                    (self.code,) = numbers
                    self.ended.set()
                case _:
                    self._last = numbers

    async def _settle(self) -> None:
        """Make sure that no process is left, and record the program's end."""
        pid = 0 if not self._started.done() or self._started.exception() else self._started.result()
        if self._last is None:
            _log.warning("The supervisor of a program was killed.", action="program_supervisor_lost", pid=pid)
            await asyncio.to_thread(_end_orphans, self._since, pid)
        else:
            left, out, err, cut = self._last
            self.outputs = bytes(self._heard[:out]), bytes(self._heard[out : out + err])
            self.is_cut = bool(cut)
            if left:
                _log.error("Processes cannot be ended.", action="program_left", pid=pid, left=left)
        if not self._started.done():
            self._started.set_exception(ChildProcessError("its supervisor was ended"))
            self._started.exception()  # marks the error as seen: the starting task may have been cancelled
        self.ended.set()


def _encoded(argv: Sequence[str]) -> list[bytes]:
    encoded = [os.fsencode(argument) for argument in argv]
    if any(b"\0" in argument for argument in encoded):
        raise ValueError("a NUL character in an argument or a variable")
    return encoded


def _encoded_env(env: Mapping[str, str]) -> dict[bytes, bytes]:
    if any("=" in name for name in env):
        raise ValueError("the name of a variable has '='")
    return dict(zip(_encoded(list(env)), _encoded(list(env.values())), strict=True))


def _supervised(**popen: Any) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a supervisor, which waits for its program. Returns our end of its control socket too."""
    ours, theirs = socket.socketpair()
    try:
        with theirs, _lock:  # orphans are recognised as children that are no known supervisors
            ours.setblocking(False)
            supervisor.become_subreaper()
            process = subprocess.Popen(  # noqa: S603 -- our own interpreter, and our own script
                [sys.executable, "-I", "-S", supervisor.__file__, str(theirs.fileno())],
                env={name: os.environ[name] for name in _INHERITED if name in os.environ},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C at a terminal is for us alone
                bufsize=0,
                **popen,
            )
            _supervisors.add(process.pid)
    except BaseException:
        ours.close()
        raise
    return process, ours


def _end_orphans(since: int, program: int) -> None:
    """Kill orphans of a supervisor started at ``since``. Gives up after seconds: some processes cannot be ended."""
    if sys.platform != "linux" and program:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(program, signal.SIGKILL)
    until = time.monotonic() + _ORPHANS_SECONDS
    while time.monotonic() < until:
        with _lock:
            if not (orphans := _orphans(since)):
                return
            living = [one for one in orphans if not one.is_dead]
            supervisor.send(signal.SIGKILL, living + supervisor.descendants({one.pid for one in orphans}))
        for one in orphans:
            with suppress(ChildProcessError):
                os.waitpid(one.pid, os.WNOHANG)
        time.sleep(0.005)  # the system needs a moment


def _orphans(since: int) -> list[supervisor.Process]:
    """Children of ours, dead or alive, not started here: they have a session of their own."""
    own, session = os.getpid(), os.getsid(0)
    return [
        one
        for one in supervisor.processes()
        if one.parent == own and one.session != session and one.started >= since and one.pid not in _supervisors
    ]


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Run ``work`` to its end in spite of cancellations, even several; the cancellation is raised afterwards.

    For work of bounded time: ending of processes, or a write in a thread, which nothing can interrupt.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.exception()  # marks the error as seen, so that it is not reported as lost
        raise cancelled
    return task.result()
