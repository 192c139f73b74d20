"""The door of a plain command: the prompt is its input, and its standard output is the answer.

The command gets the prompt on standard input, or in place of ``{prompt}`` as an argument. Each turn is one process;
exit code 0 is success. There is no session: a follow-up starts the command again, with the thread in its prompt.
Standard error goes to the run's log. The command may reach the coordinator's tools by the variables ``SWARM_MCP_URL``,
``SWARM_MCP_AUTHORIZATION`` and ``SWARM_LEASE``.
"""

from __future__ import annotations

import asyncio
import codecs
import re
import shutil
from asyncio import StreamReader
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress
from subprocess import PIPE
from typing import Any, Final

from swarm_base.processes.child import Child, to_the_end
from swarm_runner.port import (
    CliEvent,
    CliSession,
    LogLine,
    SessionMissing,
    SessionWanted,
    StartFailed,
    TextAdded,
    TurnEnded,
    TurnOutcome,
)

_PROMPT: Final = "{prompt}"
_READ_BYTES: Final = 1 << 16
_MOST_BYTES: Final = 4 << 20  # of the output; people are shown far less
_SIGN_BYTES: Final = 16 << 20
_QUEUED: Final = 64  # chunks; a fast command waits for us, so its output needs no memory
_GRACE_SECONDS: Final = 2.0
_EXIT_SECONDS: Final = 30.0
_HELD_CHARACTERS: Final = 400  # of a line that is not finished, which a progress bar may still overwrite
_ESCAPE: Final = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*(?:[@-~]|$)"  # CSI: colours, cursor movements
    r"|(?:\x1b[]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$)"  # OSC and the like: titles, links
    r"|\x1b[ -/]*(?:[0-~]|$)"
)
_UNFINISHED: Final = re.compile(
    r"(?:(?:\x1b\[|\x9b)[0-?]*[ -/]*|(?:\x1b[]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c]*\x1b?|\x1b[ -/]*)$"
)
_ERASE: Final = re.compile(r"(?:\x1b\[|\x9b)[0-2]?K")
_CONTROL: Final = re.compile(r".\x08|[\0-\x08\x0b-\x1f\x7f-\x9f]")


class CommandDoor:
    """A command, as the words of its command line. ``exit_seconds`` is how long it may take to exit after it has closed
    its output."""

    def __init__(self, words: Sequence[str], exit_seconds: float = _EXIT_SECONDS) -> None:
        self._words = list(words)
        self._exit_seconds = exit_seconds

    async def open(self, wanted: SessionWanted) -> CliSession:
        """Raises StartFailed if the command does not exist, and SessionMissing for a session to resume."""
        if wanted.resume is not None:
            raise SessionMissing("A plain command has no sessions.")
        program = self._words[0]
        if not wanted.wrap and shutil.which(program, path=wanted.environment.get("PATH")) is None:
            raise StartFailed(f"The command '{program}' does not exist, or cannot be executed.")
        return _CommandSession(self._words, wanted, self._exit_seconds)


class _CommandSession:
    """A series of independent turns."""

    id = None

    def __init__(self, words: Sequence[str], wanted: SessionWanted, exit_seconds: float) -> None:
        self._words = words
        self._wanted = wanted
        self._exit_seconds = exit_seconds
        self._child: Child | None = None
        self._is_cancelled = self._is_closed = False

    async def turn(self, prompt: str) -> AsyncIterator[CliEvent]:
        """Runs the command once."""
        whole = f"{self._wanted.system_prompt}\n\n{prompt}" if self._wanted.system_prompt else prompt
        self._is_cancelled = False
        try:
            child = self._child = await self._start(whole)
        except (OSError, ValueError) as error:
            reason = f"the command cannot be started: {getattr(error, 'strerror', None) or error}"
            yield TurnEnded(outcome=TurnOutcome.FAILED, reason=reason)
            return
        try:
            async for event in _events(child, "" if _PROMPT in self._words else whole):
                yield event
            yield await self._ended(child)
        finally:
            await to_the_end(child.kill())
            child.close()

    async def permit(self, ask_id: str, *, allowed: bool, always: bool = False, reason: str = "") -> None:
        """A command asks nothing."""

    async def answer(self, ask_id: str, values: Mapping[str, Any] | None) -> None:
        """A command asks nothing."""

    async def cancel(self) -> None:
        """Ends the command."""
        self._is_cancelled = True
        if self._child:
            await self._child.end()

    async def close(self, grace_seconds: float) -> None:
        """Ends the command at once: between turns no process is left."""
        if self._child:
            await to_the_end(self._child.kill())

    async def _start(self, prompt: str) -> Child:
        argv = [*self._wanted.wrap, *(prompt if word == _PROMPT else word for word in self._words)]
        return await Child.start(
            argv,
            env={**self._wanted.environment, **self._access()},
            cwd=self._wanted.cwd,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            line_bytes=_READ_BYTES,
            grace_seconds=_GRACE_SECONDS,
        )

    def _access(self) -> dict[str, str]:
        headers = self._wanted.mcp.headers
        return {
            "SWARM_MCP_URL": self._wanted.mcp.url,
            "SWARM_MCP_AUTHORIZATION": headers.get("Authorization", ""),
            "SWARM_LEASE": headers.get("X-Swarm-Lease", ""),
        }

    async def _ended(self, child: Child) -> TurnEnded:
        """Returns the result, once the command has exited. One that goes on after its last output is ended."""
        has_exited = True
        try:
            async with asyncio.timeout(self._exit_seconds):
                await child.ended.wait()
        except TimeoutError:
            has_exited = False
        if self._is_cancelled:
            return TurnEnded(outcome=TurnOutcome.CANCELLED)
        if not has_exited or child.code == 0:
            return TurnEnded(outcome=TurnOutcome.DONE)
        return TurnEnded(outcome=TurnOutcome.FAILED, reason=_reason(child.code))


async def _events(child: Child, given: str) -> AsyncIterator[CliEvent]:
    """Gives a command its input. Yields the output until it closes its standard output."""
    queue: asyncio.Queue[CliEvent | None] = asyncio.Queue(_QUEUED)
    work = (_read(child.stdout, queue), _log(child.stderr, queue), _feed(child, given))
    tasks = [asyncio.create_task(one) for one in work]
    try:
        while (event := await queue.get()) is not None:
            yield event
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


async def _feed(child: Child, given: str) -> None:
    with suppress(ConnectionError):  # a command may ignore its input
        child.stdin.write(given.encode(errors="replace"))
        await child.stdin.drain()
    child.stdin.close()


async def _read(stream: StreamReader, queue: asyncio.Queue[CliEvent | None]) -> None:
    """Passes the output on. What nobody will be shown is read and dropped, with a sign of life now and then."""
    decoder, screen = codecs.getincrementaldecoder("utf-8")(errors="replace"), Screen()
    count = 0
    while data := await stream.read(_READ_BYTES):
        count += len(data)
        if count <= _MOST_BYTES:
            await queue.put(TextAdded(text=screen.feed(decoder.decode(data))))
        elif count % _SIGN_BYTES < len(data):
            await queue.put(TextAdded(text=""))
    if rest := screen.feed(decoder.decode(b"", final=True), is_last=True):
        await queue.put(TextAdded(text=rest))
    await queue.put(None)


async def _log(stream: StreamReader, queue: asyncio.Queue[CliEvent | None]) -> None:
    while data := await stream.read(_READ_BYTES):
        await queue.put(LogLine(text=data.decode(errors="replace")))


class Screen:
    """What a terminal would show in the end: no escape sequences, and of a line that is overwritten its last state."""

    def __init__(self) -> None:
        self._line = ""

    def feed(self, text: str, *, is_last: bool = False) -> str:
        """Adds text. Returns what is certain: whole lines, and the beginning of a long one."""
        *whole, line = (self._line + text).split("\n")
        shown = "".join(f"{_state(one)}\n" for one in whole)
        if is_last:
            line, shown = "", shown + _state(line)
        elif len(line) > _HELD_CHARACTERS:
            if overwritten := line.rstrip("\r").rfind("\r") + 1:
                line = line[overwritten:]
            elif not line.endswith("\r"):
                found = _UNFINISHED.search(line[-_READ_BYTES:])
                kept = found[0] if found else ""
                line, shown = kept, shown + _state(line.removesuffix(kept))
        self._line = line
        return shown


def _state(line: str) -> str:
    state = ""
    for part in line.split("\r"):
        erased = _ERASE.split(part)
        state = _CONTROL.sub("", _ESCAPE.sub("", "".join(erased))) or ("" if len(erased) > 1 else state)
    return state


def _reason(code: int | None) -> str:
    if code is None or code < 0:
        return "the command was killed"
    return f"the command ended with exit code {code}"
