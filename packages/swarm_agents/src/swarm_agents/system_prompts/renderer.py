"""Renders system prompts in a separate process with limits.

Who may act: any caller, at any time; a few renderings run concurrently, and the others wait. A rendering's time limit
starts with the rendering itself. For each template only half as many may run concurrently, so that a slow template
cannot occupy every slot.

Guarantee: the text or a PromptError, within two seconds after the rendering starts (`limits.RenderLimits`). On
failure: a lost process is replaced, and its renderings are repeated once; they have no side effects.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import sys
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from subprocess import PIPE
from typing import Final
from weakref import WeakValueDictionary

import structlog

from swarm_agents.system_prompts.files import PromptError, Template
from swarm_agents.system_prompts.limits import (
    LIMITS,
    MOST_ANSWER_BYTES,
    MOST_TEMPLATE_BYTES,
    MOST_VARIABLE_BYTES,
    RenderLimits,
)
from swarm_base.processes.child import Child

_START_SECONDS: Final = 20.0
_ROOT: Final = str(Path(__file__).resolve().parents[2])

_PROGRAM: Final = """
import sys
sys.path.insert(0, sys.argv[1])
from swarm_agents.system_prompts.render_process import main
main()
"""

_INHERITED: Final = ("LD_LIBRARY_PATH",)
"""The only variables passed on. Python may need them, and other variables may contain secrets."""

AT_ONCE: Final = 8
OF_ONE_TEMPLATE: Final = AT_ONCE // 2
_TEMPLATES_KEPT: Final = 32
_IN_TEMPLATE: Final = re.compile(rb'File "<prompt>", line (\d+)')
_STUCK: Final = b"Stack ("  # the beginning of a requested dump; other dumps result from crashes

_log = structlog.get_logger(__name__)


class _Lost(Exception):
    """The process is gone or does not respond; the request may be repeated."""


class _ForkServer:
    """A process, in its own session, that forks a child for each rendering."""

    def __init__(self, process: Child, control: socket.socket, limits: RenderLimits) -> None:
        self._process = process
        self._control = control
        self._limits = limits

    @classmethod
    async def start(cls, limits: RenderLimits) -> _ForkServer:
        """Starts the process and waits until it is ready. Raises Lost on failure."""
        ours, theirs = socket.socketpair()
        with theirs:
            ours.setblocking(False)
            try:
                process = await _process(theirs, limits)
            except OSError as error:
                ours.close()
                raise _Lost(str(error)) from error
        fork_server = cls(process, ours, limits)
        try:
            await fork_server._become_ready()
        except BaseException:
            await fork_server.close()
            raise
        return fork_server

    async def _become_ready(self) -> None:
        try:
            async with asyncio.timeout(_START_SECONDS):
                ready = await asyncio.get_running_loop().sock_recv(self._control, 1)
        except TimeoutError as error:
            raise _Lost(f"it was not ready within {_START_SECONDS:g} s") from error
        if not ready:
            errors = (await self._process.stderr.read()).decode(errors="replace").strip()
            raise _Lost(errors.rpartition("\n")[2] or "it ended before it was ready")

    @property
    def is_alive(self) -> bool:
        """Whether the process still holds its end of the socket."""
        try:
            return bool(self._control.recv(1, socket.MSG_PEEK))
        except BlockingIOError:
            return True
        except OSError:
            return False

    async def ask(self, request: bytes) -> bytes:
        """Returns the response of a rendering; empty if the rendering was killed. Raises Lost if the deadline
        passes.
        """
        ours, theirs = socket.socketpair()
        with ours:
            ours.setblocking(False)
            with theirs:
                self._hand_over(theirs)
            try:
                async with asyncio.timeout(self._limits.deadline_seconds):
                    return await _exchange(ours, request)
            except TimeoutError as error:
                raise _Lost("it did not respond") from error
            except ConnectionError:
                return b""

    def _hand_over(self, connection: socket.socket) -> None:
        try:
            socket.send_fds(self._control, [b"r"], [connection.fileno()])
        except OSError as error:
            raise _Lost(str(error)) from error

    async def close(self) -> None:
        """Kills the process and all renderings. Idempotent."""
        self._control.close()
        await self._process.kill()
        self._process.close()


async def _process(control: socket.socket, limits: RenderLimits) -> Child:
    """Starts the process in isolated mode (-I), so that neither the environment nor the working directory affects its
    imports.
    """
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


class Renderer:
    """The renderer of all templates of a coordinator. Its process starts with the first template that is not plain
    text.
    """

    def __init__(self, limits: RenderLimits = LIMITS) -> None:
        self._limits = limits
        self._fork_server: _ForkServer | None = None
        self._starting = asyncio.Lock()
        self._closed = False
        self._places = asyncio.Semaphore(AT_ONCE)
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()  # by the template's name
        self._codes: OrderedDict[str, str] = OrderedDict()  # by the template's text, most recently used last

    async def render(self, template: Template, variables: Mapping[str, object]) -> str:
        """Returns the prompt's text. ``variables`` are JSON values; markup in them has no effect.

        Plain text is returned unchanged. Raises PromptError, with the line if known.
        """
        if template.is_plain:
            return template.text
        return (await self._rendered(template, variables, only_check=False)).text

    async def check(self, template: Template) -> None:
        """Checks that a template compiles, and that its variables exist, without rendering it. Raises PromptError."""
        if not template.is_plain:
            await self._rendered(template, {}, only_check=True)

    async def aclose(self) -> None:
        """Terminates the process and the running renderings. Idempotent."""
        self._closed = True
        async with self._starting:
            await self._discard()

    async def _rendered(self, template: Template, variables: Mapping[str, object], *, only_check: bool) -> _Rendered:
        request = self._request(template, variables, only_check=only_check)
        turn = self._turns.setdefault(template.name, asyncio.Semaphore(OF_ONE_TEMPLATE))
        async with turn, self._places:
            answer = await self._answer(template, request)
        rendered = _result(answer, template, self._limits)
        self._keep(template, rendered)
        return rendered

    def _request(self, template: Template, variables: Mapping[str, object], *, only_check: bool) -> bytes:
        _check_size(template)
        code = self._codes.get(template.text, "")
        asked = {
            "code": code,
            "text": "" if code else template.text,
            "variables": _as_json(template, variables),
            "only_check": only_check,
        }
        return json.dumps(asked).encode()

    def _keep(self, template: Template, rendered: _Rendered) -> None:
        """Stores compiled code, which is sent with the next request, because compiling takes much longer than
        rendering.
        """
        if rendered.code:
            self._codes[template.text] = rendered.code
        if template.text in self._codes:
            self._codes.move_to_end(template.text)
        if len(self._codes) > _TEMPLATES_KEPT:
            self._codes.popitem(last=False)

    async def _answer(self, template: Template, request: bytes) -> bytes:
        """Returns the process's response. A request lost with its process is repeated once."""
        for _ in range(2):
            try:
                fork_server = await self._running(template)
                if answer := await fork_server.ask(request):
                    return answer
            except _Lost as error:
                _log.warning("The process that renders prompts was lost.", action="prompts", error=str(error))
                await self._replace(fork_server)
        raise PromptError(template.name, "its process was killed twice; the machine may be out of memory")

    async def _running(self, template: Template) -> _ForkServer:
        async with self._starting:
            if self._closed:
                raise PromptError(template.name, "the coordinator is stopping")
            if self._fork_server and not self._fork_server.is_alive:
                await self._discard()
            if self._fork_server is None:
                self._fork_server = await self._started(template)
            return self._fork_server

    async def _started(self, template: Template) -> _ForkServer:
        try:
            return await _ForkServer.start(self._limits)
        except _Lost as error:
            _log.warning("The process that renders prompts did not start.", action="prompts", error=str(error))
            raise PromptError(template.name, "the process that renders prompts did not start") from error

    async def _replace(self, lost: _ForkServer) -> None:
        async with self._starting:
            if self._fork_server is lost:
                await self._discard()

    async def _discard(self) -> None:
        fork_server, self._fork_server = self._fork_server, None
        if fork_server:
            await fork_server.close()


def _check_size(template: Template) -> None:
    if len(template.text.encode("utf-8", "replace")) > MOST_TEMPLATE_BYTES:
        raise PromptError(template.name, f"it is larger than {MOST_TEMPLATE_BYTES // 1024} KiB")


def _as_json(template: Template, variables: Mapping[str, object]) -> str:
    try:
        found = json.dumps(dict(variables), default=_plain)
    except (TypeError, ValueError, RecursionError) as error:
        raise PromptError(template.name, "its variables cannot be written as JSON") from error
    if len(found) > MOST_VARIABLE_BYTES:
        raise PromptError(template.name, f"its variables are larger than {MOST_VARIABLE_BYTES // 1024} KiB")
    return found


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError


@dataclass(frozen=True, kw_only=True, slots=True)
class _Rendered:
    text: str
    code: str  # the template's compiled code, opaque, for the next request; empty if already known or not worth storing


def _result(answer: bytes, template: Template, limits: RenderLimits) -> _Rendered:
    """Reads the result from a rendering's non-empty response. Raises PromptError for any other response."""
    if not answer.startswith(b"{"):
        raise _dumped(answer, template, limits)
    try:
        result = json.loads(answer)
    except ValueError as error:  # the process was killed while writing
        raise PromptError(template.name, "it was stopped before it had finished") from error
    if "problem" in result:
        raise PromptError(template.name, result["problem"], line=result["line"])
    text = result["text"].encode("utf-8", "replace").decode()  # replaces unpaired surrogates, which no model accepts
    return _Rendered(text=text, code=result.get("code", ""))


def _dumped(answer: bytes, template: Template, limits: RenderLimits) -> PromptError:
    """Returns the error for a traceback dump, with the innermost line of the template (most recent call first)."""
    found = _IN_TEMPLATE.search(answer)
    late = answer.startswith(_STUCK)
    problem = f"it takes longer than {limits.seconds:g} s" if late else "it crashes the interpreter"
    return PromptError(template.name, problem, line=int(found[1]) if found else None)
