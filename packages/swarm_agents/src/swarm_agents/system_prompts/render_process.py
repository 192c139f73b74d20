"""The separate process that renders templates: waits, forks a child for each rendering, and watches it.

Who may act: only the coordinator, over the socket on standard input; each byte received there comes with one
connection. Guarantee: a rendering ends within its limits, even if it is stuck, and affects no other rendering, because
it has its own process. When the coordinator ends or closes a connection, its renderings are killed. The stages are in
`limits.RenderLimits`. On failure the connection ends without a response, or with the dump of the watchdog.

Forking a prepared process takes one or two milliseconds; starting a process takes a hundred and fifty.
"""

from __future__ import annotations

import base64
import contextlib
import faulthandler
import gc
import json
import marshal
import os
import pprint
import random
import resource
import select
import signal
import socket
import sys
import textwrap
import time
from collections.abc import Container, Iterable, Mapping
from types import CodeType, FrameType
from typing import Any, Final, NoReturn

from swarm_agents.system_prompts.limits import MEBIBYTE, MOST_CODE_BYTES, RenderLimits
from swarm_agents.system_prompts.rendering import (
    OutOfTime,
    PromptEnvironment,
    check_names,
    compiled,
    line_of,
    rendered,
    words,
)

_CONNECTION: Final = 0  # the file descriptor; replaces the parent's control socket

_STUCK: Final = signal.SIGUSR1
"""Asks a child to report its position and to exit."""

_AGAIN_SECONDS: Final = 0.05
_SPARE_BYTES: Final = 32 * MEBIBYTE  # reserved for the message that memory was exhausted
_MOST_DESCRIPTORS: Final = 65536
_READY: Final = b"+"
_CONTROL: Final = 0  # the file descriptor

_NEEDED_LATE: Final = (pprint, random, textwrap)
"""Modules that filters import when used; a child cannot open files."""


def _render_and_exit(descriptor: int, environment: PromptEnvironment, limits: RenderLimits) -> NoReturn:
    """Answers the request on the connection, then ends the process. Never returns."""
    try:
        with _alone_with(descriptor) as connection:
            _answer(connection, environment, limits)
    finally:
        os._exit(0)


def _alone_with(descriptor: int) -> socket.socket:
    """Returns the connection. Closes all other file descriptors of the parent, and resets its signal handlers."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(descriptor, _CONNECTION)
    os.closerange(3, _MOST_DESCRIPTORS)
    return socket.socket(fileno=_CONNECTION)


def _answer(connection: socket.socket, environment: PromptEnvironment, limits: RenderLimits) -> None:
    asked = json.loads(b"".join(iter(lambda: connection.recv(65536), b"")))
    faulthandler.enable(_CONNECTION)  # also reports the position of an interpreter crash
    _start_clocks(limits)
    result: dict[str, str | int | None]
    try:
        result = _result(asked, environment, limits)
    except (Exception, OutOfTime) as error:  # noqa: BLE001  # whatever the template does, it is what we answer
        _stop_clocks()
        result = {"problem": words(error, limits), "line": line_of(error)}
    _stop_clocks()
    connection.sendall(json.dumps(result).encode())
    connection.shutdown(socket.SHUT_RDWR)  # ends the connection before this process exits


def _result(
    asked: Mapping[str, Any], environment: PromptEnvironment, limits: RenderLimits
) -> dict[str, str | int | None]:
    known = asked["code"]
    code = _loaded(known) if known else compiled(environment, asked["text"])
    if asked["only_check"]:
        check_names(environment, asked["text"])
        return {"text": ""}
    text = rendered(environment, code, json.loads(asked["variables"]), limits.output_bytes)
    raw = b"" if known else marshal.dumps(code)
    return {"text": text, "code": base64.b64encode(raw).decode() if len(raw) <= MOST_CODE_BYTES else ""}


def _loaded(code: str) -> CodeType:
    loaded: CodeType = marshal.loads(base64.b64decode(code))  # noqa: S302  # from a child like this, for the same text
    return loaded


def _start_clocks(limits: RenderLimits) -> None:
    signal.signal(signal.SIGALRM, _out_of_time)
    # The timer repeats, because Python can ignore an exception, for example in a destructor.
    signal.setitimer(signal.ITIMER_REAL, limits.seconds, _AGAIN_SECONDS)
    # The parent sends this signal; C code writes the traceback, and the signal then ends the process. A waiting thread
    # would have the same effect, but starting and joining a thread takes longer than most templates.
    faulthandler.register(_STUCK, file=_CONNECTION, all_threads=False, chain=True)
    memory = _memory_bytes() + limits.memory_bytes
    _limit(resource.RLIMIT_AS, memory, memory + _SPARE_BYTES)
    processor_seconds = int(limits.deadline_seconds) + 1
    _limit(resource.RLIMIT_CPU, processor_seconds, processor_seconds)
    for not_needed in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE):
        _limit(not_needed, 0, 0)


def _limit(kind: int, soft: int, hard: int) -> None:
    """Sets a limit unless a lower limit exists."""
    most = resource.getrlimit(kind)[1]
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(kind, (soft, hard))


def _stop_clocks() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)
    faulthandler.unregister(_STUCK)
    signal.signal(_STUCK, signal.SIG_IGN)
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _out_of_time(_number: int, frame: FrameType | None) -> None:
    """Ends the rendering if it is still running. Does not interrupt later steps."""
    while frame is not None:
        if frame.f_code is _result.__code__:
            raise OutOfTime
        frame = frame.f_back


def _memory_bytes() -> int:
    """Returns the current size of this process's address space."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * resource.getpagesize()


def main() -> None:
    """Serves until the coordinator disconnects. The last argument contains the limits as JSON."""
    limits = RenderLimits(**json.loads(sys.argv[-1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    environment = PromptEnvironment()
    _warm(environment)
    gc.collect()
    gc.freeze()  # existing objects remain shared with the children
    gc.disable()
    with socket.socket(fileno=_CONTROL) as control:
        control.sendall(_READY)
        _Children(control, environment, limits).serve()


def _warm(environment: PromptEnvironment) -> None:
    """Prepares everything that the first template needs: lexer, tables and regular expressions."""
    text = "{% for x in client_context.items() %}{{ x|join('\\n')|tojson }}{% endfor %}{{ user.a.b }}"
    rendered(environment, compiled(environment, text), {"client_context": {"a": 1}}, 1000)


class _Children:
    """The running renderings, each with a process and a connection."""

    def __init__(self, control: socket.socket, environment: PromptEnvironment, limits: RenderLimits) -> None:
        self._control = control
        self._limits = limits
        self._environment = environment
        self._processes: dict[int, tuple[socket.socket, float]] = {}  # connection and start time, by process id
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._ended, self._wakeup = socket.socketpair()
        for end in (self._ended, self._wakeup):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # an ignored signal would not wake the poll
        signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        self._poll.register(self._ended, select.POLLIN)

    def serve(self) -> None:
        """Accepts connections one at a time; at the end kills the remaining children."""
        coming = True
        while coming:
            events = {descriptor for descriptor, _ in self._poll.poll(self._wait_ms())}
            self._kill_abandoned(events)
            if self._ended.fileno() in events:
                self._reap()
            if self._control.fileno() in events:
                coming = self._take()
            self._end_overdue()
        self._kill(self._processes)

    def _take(self) -> bool:
        """Forks a child for the next connection. Returns False if there will be no more connections."""
        data, descriptors, _, _ = socket.recv_fds(self._control, 1, 1)
        if not data or not descriptors:
            return bool(data)
        connection = socket.socket(fileno=descriptors[0])
        process = os.fork()
        if process == 0:
            _render_and_exit(connection.fileno(), self._environment, self._limits)
        self._processes[process] = (connection, time.monotonic())
        self._poll.register(connection, 0)  # only a hang-up is relevant
        return True

    def _reap(self) -> None:
        """Removes children that have exited. Their connections end, even if another process has a copy."""
        with contextlib.suppress(BlockingIOError):
            self._ended.recv(4096)
        for process in list(self._processes):
            if os.waitpid(process, os.WNOHANG)[0]:
                connection, _ = self._processes.pop(process)
                self._poll.unregister(connection)
                with connection, contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _kill_abandoned(self, hung_up: Container[int]) -> None:
        """Kills children whose connection is closed, because the coordinator has disconnected or the response is
        complete.
        """
        self._kill(number for number, (connection, _) in self._processes.items() if connection.fileno() in hung_up)

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for process, (_, started) in self._processes.items():
            if now - started >= self._limits.kill_seconds:
                os.kill(process, signal.SIGKILL)
            elif now - started >= self._limits.watchdog_seconds:
                os.kill(process, _STUCK)

    def _kill(self, processes: Iterable[int]) -> None:
        for process in processes:
            os.kill(process, signal.SIGKILL)  # the child has not been reaped yet, so the process id is still its own

    def _wait_ms(self) -> float | None:
        """Returns the time until the next stage of a child; None to wait for events only."""
        now = time.monotonic()
        ages = [now - started for _, started in self._processes.values()]
        stages = (self._limits.watchdog_seconds, self._limits.kill_seconds)
        ahead = [stage - age for age in ages for stage in stages if stage > age]
        return min(ahead) * 1000 + 1 if ahead else None  # the end of a killed child wakes this process
