"""A program under a supervisor, from the owner's point of view: its streams, its end, and the end of its descendants.

The guarantees of `swarm_base.processes` rest on three facts. First, the control socket tells the supervisor when we
end, however we end. Second, we are a subreaper from the first start on, so a process that loses its supervisor becomes
our child, and `_end_orphans` ends it. Third, all our children with their own sessions are started here, so an unknown
child is such an orphan.
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

from swarm_base.processes import supervisor

LINE_BYTES: Final = 64 * 1024
SUPERVISOR_SECONDS: Final = supervisor.KILL_SECONDS + 5.0
"""A supervisor that takes longer than this after the grace period is stuck or was stopped by its program, and is
killed."""

_ORPHANS_SECONDS: Final = 5.0
_RECEIVED_BYTES: Final = 1 << 18
_INHERITED: Final = ("LD_LIBRARY_PATH",)  # variables that Python itself needs; they contain nothing of the program's

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
    """The program's process id, which is also the id of its group and session."""

    def __init__(self, process: subprocess.Popen[bytes], control: socket.socket, grace_seconds: float) -> None:
        found = supervisor.process(process.pid)
        self.ended = asyncio.Event()  # set when the program ends; its descendants may still be ending
        self.code: int | None = None  # an exit code, or a negative signal number; None if the supervisor was killed
        self.outputs: tuple[bytes, bytes] = (b"", b"")
        self.is_cut = False  # whether part of the output is missing
        self._process = process
        self._control = control
        self._grace_seconds = grace_seconds
        self._since = found.started if found else 0
        self._started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._is_specified = False  # the supervisor's specification is sent as a whole
        self._heard = bytearray()
        self._last: list[int] | None = None  # the numbers in the supervisor's last line
        self._pipes = [pipe for pipe in (process.stdin, process.stdout, process.stderr) if pipe]  # no transport yet
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
        """Starts a program in a new session.

        Args:
            argv: The program and its arguments. A program without a path is found in ``PATH`` of ``env``. No shell
                is used.
            env: The program's complete environment.
            stdin, stdout, stderr: The same as for `subprocess.Popen`. With PIPE, the attribute of that name is set.
            captured: 1 captures standard output and standard error together; 2 captures them separately. At the end,
                `outputs` contains them.
            most_bytes: The approximate number of bytes kept from each output: half from the beginning, half from the
                end.
            line_bytes: The longest line that the readers accept.
            grace_seconds: The time between SIGTERM and SIGKILL.

        Raises:
            OSError: The start failed: FileNotFoundError (also for ``cwd``), PermissionError, E2BIG (an argument of
                more than 128 KiB, or arguments of more than about 2 MiB in all), ENOEXEC (neither a binary nor ``#!``).
            ValueError: An argument or a variable contains a NUL character or cannot be encoded.
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
        """Sends SIGTERM, and SIGKILL after the grace period. Returns when no process is left. Cancelling the
        caller does not interrupt it."""
        self._ask(b"t")
        await self._is_over(self._grace_seconds)

    async def kill(self) -> None:
        """Kills all processes. Returns when none is left. Cancelling the caller does not interrupt it. Idempotent."""
        self._ask(b"k")
        await self._is_over(0.0)

    async def _abandon(self) -> None:
        try:
            await to_the_end(self.kill())
        finally:  # any other cancellation is raised here
            self.close()

    async def is_gone_within(self, seconds: float) -> bool:
        """Waits up to ``seconds`` for the program and its descendants to end. Returns whether they have ended."""
        assert self._following
        done, _ = await asyncio.wait({self._following}, timeout=seconds)
        return bool(done)

    def close(self) -> None:
        """Closes our ends of the streams. Unread output is lost."""
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
        """Passes ownership of the pipe to the transport, which closes it."""
        self._transports.append(transport)
        self._pipes.remove(pipe)

    def _ask(self, request: bytes) -> None:
        with suppress(OSError):  # already ended
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
        """Reads the supervisor's lines until the supervisor ends. This task ends when the last descendant has ended."""
        loop = asyncio.get_running_loop()
        try:
            with suppress(ConnectionError):
                await loop.sock_sendall(self._control, len(program).to_bytes(8, "big") + program)
                self._is_specified = True
            with suppress(ConnectionError):
                while data := await loop.sock_recv(self._control, _RECEIVED_BYTES):
                    self._hear(data)
        finally:  # also if the loop ends first, since closing the socket informs the supervisor
            self._control.close()
        self._process.wait()  # returns at once, since the supervisor closes its socket only by ending
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
        """Ensures that no process is left, and records the program's end."""
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
            self._started.exception()  # marks the error as retrieved, since the starting task may have been cancelled
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
    """Starts a supervisor, which waits for its program. Returns the supervisor and our end of its control socket."""
    ours, theirs = socket.socketpair()
    try:
        with theirs, _lock:  # orphans are recognised as children that are not known supervisors
            ours.setblocking(False)
            supervisor.become_subreaper()
            process = subprocess.Popen(  # noqa: S603 -- our own interpreter, and our own script
                [sys.executable, "-I", "-S", supervisor.__file__, str(theirs.fileno())],
                env={name: os.environ[name] for name in _INHERITED if name in os.environ},
                pass_fds=(theirs.fileno(),),
                start_new_session=True,  # Ctrl-C in a terminal is only for us
                bufsize=0,
                **popen,
            )
            _supervisors.add(process.pid)
    except BaseException:
        ours.close()
        raise
    return process, ours


def _end_orphans(since: int, program: int) -> None:
    """Kills the orphans of a supervisor that was started at ``since``. Gives up after some seconds, since some
    processes cannot be ended."""
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
        time.sleep(0.005)  # give the system a moment


def _orphans(since: int) -> list[supervisor.Process]:
    """Returns our children, dead or alive, that were not started here and have their own session."""
    own, session = os.getpid(), os.getsid(0)
    return [
        one
        for one in supervisor.processes()
        if one.parent == own and one.session != session and one.started >= since and one.pid not in _supervisors
    ]


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Runs ``work`` to its end despite any number of cancellations. The cancellation is raised afterwards.

    Only for work that takes bounded time, such as ending processes, or writing in a thread, which cannot be
    interrupted.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        task.exception()  # marks the error as retrieved, so that it is not reported as lost
        raise cancelled
    return task.result()
