"""The child process that renders one template, with limits on its time and memory, and ends."""

from __future__ import annotations

import base64
import faulthandler
import json
import marshal
import os
import resource
import signal
import socket
from collections.abc import Mapping
from types import CodeType, FrameType
from typing import Any, Final, NoReturn

from swarm.agents.prompts.limits import MEBIBYTE, MOST_CODE_BYTES, RenderLimits
from swarm.agents.prompts.rendering import OutOfTime, PromptEnvironment, compiled, line_of, rendered, words

CONNECTION: Final = 0  # the file descriptor, in place of the parent's control socket

STUCK: Final = signal.SIGUSR1
"""Asks a child to report its position and to end."""

_AGAIN_SECONDS: Final = 0.05
_SPARE_BYTES: Final = 32 * MEBIBYTE  # for the message that memory was short
_MOST_DESCRIPTORS: Final = 65536


def render_and_exit(descriptor: int, environment: PromptEnvironment, limits: RenderLimits) -> NoReturn:
    """Answers the request on the connection. Never returns: the process ends."""
    try:
        with _alone_with(descriptor) as connection:
            _answer(connection, environment, limits)
    finally:
        os._exit(0)


def _alone_with(descriptor: int) -> socket.socket:
    """Returns the connection. Closes every other file descriptor of the parent, and resets its signal handlers."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(descriptor, CONNECTION)
    os.closerange(3, _MOST_DESCRIPTORS)
    return socket.socket(fileno=CONNECTION)


def _answer(connection: socket.socket, environment: PromptEnvironment, limits: RenderLimits) -> None:
    asked = json.loads(b"".join(iter(lambda: connection.recv(65536), b"")))
    faulthandler.enable(CONNECTION)  # a crash of the interpreter is reported with its position as well
    _start_clocks(limits)
    result: dict[str, str | int | None]
    try:
        result = _result(asked, environment, limits)
    except (Exception, OutOfTime) as error:  # noqa: BLE001  # whatever the template does, it is what we answer
        _stop_clocks()
        result = {"problem": words(error, limits), "line": line_of(error)}
    _stop_clocks()
    connection.sendall(json.dumps(result).encode())
    connection.shutdown(socket.SHUT_RDWR)  # ends the connection before this process is gone


def _result(
    asked: Mapping[str, Any], environment: PromptEnvironment, limits: RenderLimits
) -> dict[str, str | int | None]:
    known = asked["code"]
    code = _loaded(known) if known else compiled(environment, asked["text"])
    if asked["only_check"]:
        return {"text": ""}
    text = rendered(environment, code, json.loads(asked["variables"]), limits.output_bytes)
    raw = b"" if known else marshal.dumps(code)
    return {"text": text, "code": base64.b64encode(raw).decode() if len(raw) <= MOST_CODE_BYTES else ""}


def _loaded(code: str) -> CodeType:
    loaded: CodeType = marshal.loads(base64.b64decode(code))  # noqa: S302  # from a child like this, for the same text
    return loaded


def _start_clocks(limits: RenderLimits) -> None:
    signal.signal(signal.SIGALRM, _out_of_time)
    # Repeatedly, since Python can ignore an exception, for instance in a destructor.
    signal.setitimer(signal.ITIMER_REAL, limits.seconds, _AGAIN_SECONDS)
    # The parent sends this signal; C code writes the traceback, and the signal then ends the process. A waiting thread
    # would do the same, but starting and joining a thread takes longer than most templates.
    faulthandler.register(STUCK, file=CONNECTION, all_threads=False, chain=True)
    memory = _memory_bytes() + limits.memory_bytes
    _limit(resource.RLIMIT_AS, memory, memory + _SPARE_BYTES)
    processor_seconds = int(limits.deadline_seconds) + 1
    _limit(resource.RLIMIT_CPU, processor_seconds, processor_seconds)
    for not_needed in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE):
        _limit(not_needed, 0, 0)


def _limit(kind: int, soft: int, hard: int) -> None:
    """Sets a limit, unless a lower one exists."""
    most = resource.getrlimit(kind)[1]
    if most != resource.RLIM_INFINITY:
        soft, hard = min(soft, most), min(hard, most)
    resource.setrlimit(kind, (soft, hard))


def _stop_clocks() -> None:
    signal.setitimer(signal.ITIMER_REAL, 0)
    faulthandler.unregister(STUCK)
    signal.signal(STUCK, signal.SIG_IGN)
    most = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def _out_of_time(_number: int, frame: FrameType | None) -> None:
    """Ends the rendering if it is still running; later steps are not disturbed."""
    while frame is not None:
        if frame.f_code is _result.__code__:
            raise OutOfTime
        frame = frame.f_back


def _memory_bytes() -> int:
    """Returns the current size of this process's address space."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
