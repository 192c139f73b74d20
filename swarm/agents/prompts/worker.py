"""The separate process that renders templates: waits, forks a child for each rendering, and watches it.

Who may act: only the coordinator, over the socket on standard input; each byte there brings one connection. Guarantee:
a rendering ends within its limits, even when stuck; it affects no other, since it has its own process; and when the
coordinator ends, or closes a connection, its renderings are killed. The stages are in `limits.RenderLimits`. On
failure the connection ends without an answer, or with the dump of the watchdog.

Forking a prepared process takes a millisecond or two; starting a process takes a hundred and fifty.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import pprint
import random
import select
import signal
import socket
import sys
import textwrap
import time
from collections.abc import Container, Iterable
from typing import Final

from swarm.agents.prompts.child import STUCK, render_and_exit
from swarm.agents.prompts.limits import RenderLimits
from swarm.agents.prompts.rendering import PromptEnvironment, compiled, rendered

READY: Final = b"+"
CONTROL: Final = 0  # the file descriptor

_NEEDED_LATE: Final = (pprint, random, textwrap)
"""Modules that filters import on use; a child can open no file."""


def main() -> None:
    """Serves until the coordinator goes away. The last argument has the limits, as JSON."""
    limits = RenderLimits(**json.loads(sys.argv[-1]))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    environment = PromptEnvironment()
    _warm(environment)
    gc.collect()
    gc.freeze()  # existing objects stay shared with the children
    gc.disable()
    with socket.socket(fileno=CONTROL) as control:
        control.sendall(READY)
        Children(control, environment, limits).serve()


def _warm(environment: PromptEnvironment) -> None:
    """Prepares everything that the first template needs: lexer, tables, regular expressions."""
    text = "{% for x in client_context.items() %}{{ x|join('\\n')|tojson }}{% endfor %}{{ user.a.b }}"
    rendered(environment, compiled(environment, text), {"client_context": {"a": 1}}, 1000)


class Children:
    """The running renderings: a process and a connection each."""

    def __init__(self, control: socket.socket, environment: PromptEnvironment, limits: RenderLimits) -> None:
        self._control = control
        self._limits = limits
        self._environment = environment
        self._processes: dict[int, tuple[socket.socket, float]] = {}  # connection and start, by process id
        self._poll = select.poll()
        self._poll.register(control, select.POLLIN)
        self._ended, self._wakeup = socket.socketpair()
        for end in (self._ended, self._wakeup):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # an ignored signal would wake nothing
        signal.set_wakeup_fd(self._wakeup.fileno(), warn_on_full_buffer=False)
        self._poll.register(self._ended, select.POLLIN)

    def serve(self) -> None:
        """Accepts one connection after the other; at the end kills the remaining children."""
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
        """Forks a child for the next connection. False: no more connections will come."""
        said, descriptors, _, _ = socket.recv_fds(self._control, 1, 1)
        if not said or not descriptors:
            return bool(said)
        connection = socket.socket(fileno=descriptors[0])
        process = os.fork()
        if process == 0:
            render_and_exit(connection.fileno(), self._environment, self._limits)
        self._processes[process] = (connection, time.monotonic())
        self._poll.register(connection, 0)  # only a hang-up is of interest
        return True

    def _reap(self) -> None:
        """Removes ended children. Their connections end, even if another process has a copy."""
        with contextlib.suppress(BlockingIOError):
            self._ended.recv(4096)
        for process in list(self._processes):
            if os.waitpid(process, os.WNOHANG)[0]:
                connection, _ = self._processes.pop(process)
                self._poll.unregister(connection)
                with connection, contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _kill_abandoned(self, hung_up: Container[int]) -> None:
        """Kills children whose connection is closed: the coordinator has left, or the answer is complete."""
        self._kill(number for number, (connection, _) in self._processes.items() if connection.fileno() in hung_up)

    def _end_overdue(self) -> None:
        now = time.monotonic()
        for process, (_, started) in self._processes.items():
            if now - started >= self._limits.kill_seconds:
                os.kill(process, signal.SIGKILL)
            elif now - started >= self._limits.watchdog_seconds:
                os.kill(process, STUCK)

    def _kill(self, processes: Iterable[int]) -> None:
        for process in processes:
            os.kill(process, signal.SIGKILL)  # our child is not waited for yet, so the number is still its own

    def _wait_ms(self) -> float | None:
        """Returns the time until the next stage of a child; None: wait for events only."""
        now = time.monotonic()
        ages = [now - started for _, started in self._processes.values()]
        stages = (self._limits.watchdog_seconds, self._limits.kill_seconds)
        ahead = [stage - age for age in ages for stage in stages if stage > age]
        return min(ahead) * 1000 + 1 if ahead else None  # the end of a killed child wakes us
