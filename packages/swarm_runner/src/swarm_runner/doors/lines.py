"""A CLI that speaks JSON, one message a line, and the events of its turns.

Output is read only as fast as the events are taken, so a CLI that writes a lot waits for us and needs no memory. What
is no message becomes a line of the log. Events outside of a turn are dropped; of log lines the last ones are kept.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
from asyncio import IncompleteReadError, LimitOverrunError
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from subprocess import PIPE
from typing import Any, Final

from swarm_base.processes.child import Child, to_the_end
from swarm_runner.port import (
    CliEvent,
    LogLine,
    SessionWanted,
    StartFailed,
    StepShown,
    ToolState,
    TurnEnded,
    TurnOutcome,
)

MAX_LINE_BYTES: Final = 10 << 20
TOO_LONG: Final = "swarm_too_long"
"""The type of the message in place of one that is too long: ``head`` and ``tail`` are how that one begins and ends, and
``members`` what they say of it, such as its id."""

MOST_COUNTED: Final = 10**15  # who counts more, or tells infinity, tells nothing

_END_BYTES: Final = 300  # of a line that is too long, at both ends
_MEMBER: Final = r'\s*"\w+"\s*:\s*(?:"[^"\\]*"|\d+)\s*'
_FIRST: Final = re.compile(rf"\s*\{{((?:{_MEMBER},)*)")
_LAST: Final = re.compile(rf"((?:,{_MEMBER})*)\}}\s*\Z")
_QUEUED_EVENTS: Final = 8  # an event may be as long as a line
_LOG_CHARACTERS: Final = 2_000
_LOG_READ_BYTES: Final = 1 << 14
_KEPT_LINES: Final = 100
_LAST_LINES: Final = 5
_LAST_CHARACTERS: Final = 600
_GRACE_SECONDS: Final = 2.0
_EXIT_SECONDS: Final = 2.0  # between the end of the output and the end of the process


class LineProcess:
    """A running CLI. Its owner calls `close`."""

    def __init__(self, child: Child) -> None:
        self._child = child
        self._events: asyncio.Queue[CliEvent] = asyncio.Queue(_QUEUED_EVENTS)
        self._is_in_turn = False
        self._is_closed = False
        self._kept: deque[LogLine] = deque(maxlen=_KEPT_LINES)
        self._last_lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._logging = asyncio.create_task(self._log_errors(), name="cli errors")

    @classmethod
    async def start(cls, words: Sequence[str], wanted: SessionWanted, wrap: Sequence[str] | None = None) -> LineProcess:
        """Starts a CLI. Raises StartFailed."""
        argv = [*(wanted.wrap if wrap is None else wrap), *words]
        if shutil.which(argv[0], path=wanted.environment.get("PATH")) is None:
            raise StartFailed(f"The command '{argv[0]}' does not exist, or cannot be executed.")
        try:
            child = await Child.start(
                argv,
                env=wanted.environment,
                cwd=wanted.cwd,
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                line_bytes=MAX_LINE_BYTES,
                grace_seconds=_GRACE_SECONDS,
            )
        except (OSError, ValueError) as error:
            raise StartFailed(f"The CLI cannot be started: {getattr(error, 'strerror', None) or error}.") from error
        return cls(child)

    async def send(self, message: Mapping[str, Any]) -> None:
        """Sends a message. Raises ConnectionError if the CLI is gone."""
        if self._child.stdin.is_closing():
            raise ConnectionResetError("the CLI is gone")
        self._child.stdin.write(json.dumps(message, ensure_ascii=True).encode() + b"\n")
        await self._child.stdin.drain()

    async def receive(self) -> dict[str, Any] | None:
        """Returns the next message, or None at the end of the output."""
        while (line := await self._line()) is not None:
            message = _object(line)
            if message is not None:
                return message
            if text := line.strip():
                await self.log(text[: 4 * _LOG_CHARACTERS].decode(errors="replace"))
        return None

    async def put(self, event: CliEvent) -> None:
        """Adds an event to the turn, and waits until there is room."""
        if self._is_in_turn:
            await self._events.put(event)
        elif isinstance(event, LogLine):
            self._kept.append(event)

    async def log(self, text: str) -> None:
        """Adds a line to the log, which is shortened."""
        cut = text if len(text) <= _LOG_CHARACTERS else text[:_LOG_CHARACTERS] + "…"
        await self.put(LogLine(text=cut))

    @property
    def is_in_turn(self) -> bool:
        """Whether somebody takes the events."""
        return self._is_in_turn

    async def turn(self, work: Callable[[], Coroutine[Any, Any, TurnEnded]]) -> AsyncIterator[CliEvent]:
        """Yields the events of a turn, which ends when ``work`` returns, or fails."""
        while not self._events.empty():
            self._events.get_nowait()
        self._is_in_turn = True
        task = asyncio.create_task(self._worked(work), name="cli turn")
        try:
            while self._kept:
                yield self._kept.popleft()
            while True:
                event = await self._events.get()
                yield event
                if isinstance(event, TurnEnded):
                    return
        finally:
            self._is_in_turn = False
            task.cancel()
            while not self._events.empty():  # releases whoever waits for room
                self._events.get_nowait()
            await asyncio.wait({task})

    async def _worked(self, work: Callable[[], Coroutine[Any, Any, TurnEnded]]) -> None:
        try:
            ended = await work()
        except ConnectionError:
            ended = TurnEnded(outcome=TurnOutcome.FAILED, reason=await self.why_gone())
        except Exception as error:  # noqa: BLE001 -- untrusted messages; a turn never raises
            ended = TurnEnded(outcome=TurnOutcome.FAILED, reason=f"the CLI sent what cannot be read: {error!r:.200}")
        await self._events.put(ended)

    async def why_gone(self) -> str:
        """Returns why the CLI has no more output, with the last lines of its standard error."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_EXIT_SECONDS):
                await self._child.ended.wait()
        await asyncio.wait({self._logging}, timeout=_EXIT_SECONDS if self._child.ended.is_set() else 0)
        code = self._child.code
        if not self._child.ended.is_set():
            reason = "the CLI closed its output"
        elif code is None or code < 0:
            reason = "the CLI was killed"
        else:
            reason = f"the CLI ended with exit code {code}, without a result"
        last = " / ".join(self._last_lines)
        return f"{reason}: {last[-_LAST_CHARACTERS:]}" if last else reason

    async def close(self, grace_seconds: float) -> None:
        """Closes the CLI's input, gives it time to exit, and ends what is left. Never raises. Idempotent."""
        if self._is_closed and grace_seconds > 0:
            return
        self._is_closed = True
        if grace_seconds > 0:
            self._child.stdin.close()
            await self._child.is_gone_within(grace_seconds)
        await to_the_end(self._child.kill())
        self._child.close()
        self._logging.cancel()
        await asyncio.wait({self._logging})

    async def _line(self) -> bytes | None:
        """Returns the next line, which may be the unfinished last one; in place of one that is too long a message that
        has only its beginning. People see that."""
        head = tail = b""
        while True:
            try:
                line = await self._child.stdout.readuntil(b"\n")
            except LimitOverrunError as error:
                part = await self._child.stdout.readexactly(error.consumed)
                head, tail = head or part[:_END_BYTES], part[-_END_BYTES:]
                continue
            except (IncompleteReadError, ConnectionError) as error:
                line = error.partial if isinstance(error, IncompleteReadError) else b""
                return line or None
            if not head:
                return line
            await self.log(f"(A line of more than {MAX_LINE_BYTES >> 20} MB is left out.)")
            words = f"a message of more than {MAX_LINE_BYTES >> 20} MB was left out"
            await self.put(StepShown(id="swarm-too-long", title=words, state=ToolState.ERROR))
            return json.dumps(_ends(head, tail + line)).encode()

    async def _log_errors(self) -> None:
        with suppress(ConnectionError):
            while data := await self._child.stderr.read(_LOG_READ_BYTES):
                for line in data.decode(errors="replace").splitlines():
                    if line.strip():
                        self._last_lines.append(line.strip()[:_LAST_CHARACTERS])
                        await self.log(line)


def _ends(head: bytes, tail: bytes) -> dict[str, Any]:
    first, last = (part.decode(errors="replace") for part in (head, tail[-_END_BYTES:]))
    found = [match[1].strip(", ") for match in (_FIRST.match(first), _LAST.search(last)) if match]
    members = _object(f"{{{','.join(filter(None, found))}}}".encode()) or {}
    return {"type": TOO_LONG, "head": first.replace('": ', '":'), "tail": last.replace('": ', '":'), "members": members}


def object_of(value: object) -> Mapping[str, Any]:
    """Returns an object, or an empty one in place of anything else."""
    return value if isinstance(value, dict) else {}


def count_of(value: object) -> int | None:
    """Returns a number of things, or None in place of anything else."""
    return value if isinstance(value, int) and 0 <= value <= MOST_COUNTED else None


def text_of(value: object) -> str:
    """Returns a text, or an empty one in place of anything else."""
    return value if isinstance(value, str) else ""


def _object(line: bytes) -> dict[str, Any] | None:
    try:
        message = json.loads(text := line.removeprefix(b"\xef\xbb\xbf").decode(errors="replace"))
        if re.search(r"\\u[dD]", text):  # maybe half a character, as JavaScript may cut a text anywhere
            text = json.dumps(message, ensure_ascii=False)
            message = json.loads(text.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None
