"""The child that renders one template, with limits on its time and memory, and ends."""

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
from swarm.agents.prompts.rendering import OutOfTime, compiled, line_of, rendered, words
from swarm.agents.prompts.sandbox import PromptEnvironment

CONNECTION: Final = 0  # the file descriptor, in place of the one over which its parent hears

STUCK: Final = signal.SIGUSR1
"""Asks a child to say where it is, and to end, whatever it is doing."""

_AGAIN_SECONDS: Final = 0.05
_SPARE_BYTES: Final = 32 * MEBIBYTE  # to say that there was too little
_MOST_DESCRIPTORS: Final = 65536


def render_and_exit(descriptor: int, environment: PromptEnvironment, limits: RenderLimits) -> NoReturn:
    """Answer what is asked over the connection. It never returns: this process has no other business."""
    try:
        with _alone_with(descriptor) as connection:
            _answer(connection, environment, limits)
    finally:
        os._exit(0)


def _alone_with(descriptor: int) -> socket.socket:
    """The connection. Nothing else that its parent has open stays open, nor do its signals come here."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.dup2(descriptor, CONNECTION)
    os.closerange(3, _MOST_DESCRIPTORS)
    return socket.socket(fileno=CONNECTION)


def _answer(connection: socket.socket, environment: PromptEnvironment, limits: RenderLimits) -> None:
    asked = json.loads(b"".join(iter(lambda: connection.recv(65536), b"")))
    faulthandler.enable(CONNECTION)  # also if the interpreter crashes, it is to be known where
    _start_clocks(limits)
    result: dict[str, str | int | None]
    try:
        result = _result(asked, environment, limits)
    except (Exception, OutOfTime) as error:  # noqa: BLE001  # whatever the template does, it is what we answer
        _stop_clocks()
        result = {"problem": words(error, limits), "line": line_of(error)}
    _stop_clocks()
    connection.sendall(json.dumps(result).encode())
    connection.shutdown(socket.SHUT_RDWR)  # the end for the other side, before this process is gone


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
    # Again and again, since an exception can be lost where Python ignores them, in a destructor for instance.
    signal.setitimer(signal.ITIMER_REAL, limits.seconds, _AGAIN_SECONDS)
    # The parent sends it; C code writes where we are, and lets the signal end us. A thread that waits would do the
    # same, but starting and joining it takes longer than most templates.
    faulthandler.register(STUCK, file=CONNECTION, all_threads=False, chain=True)
    memory = _memory_bytes() + limits.memory_bytes
    _limit(resource.RLIMIT_AS, memory, memory + _SPARE_BYTES)
    processor_seconds = int(limits.deadline_seconds) + 1
    _limit(resource.RLIMIT_CPU, processor_seconds, processor_seconds)
    for not_needed in (resource.RLIMIT_CORE, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE):
        _limit(not_needed, 0, 0)


def _limit(kind: int, soft: int, hard: int) -> None:
    """Set a limit, unless there is a lower one already."""
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
    """End the rendering, if it is still under way: what comes after it is not to be disturbed."""
    while frame is not None:
        if frame.f_code is _result.__code__:
            raise OutOfTime
        frame = frame.f_back


def _memory_bytes() -> int:
    """The address space that this process has now."""
    with open("/proc/self/statm", "rb") as file:
        return int(file.read().split()[0]) * resource.getpagesize()
