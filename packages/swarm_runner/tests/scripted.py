"""A CLI door whose turns a test writes, for what plain commands cannot do: sessions, permissions, questions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any

from swarm_runner.port import (
    CliEvent,
    PermissionAsked,
    QuestionAsked,
    SessionMissing,
    SessionWanted,
    StartFailed,
    TextAdded,
    TurnEnded,
    TurnOutcome,
)

Script = Callable[["ScriptedSession", str], AsyncIterator[CliEvent]]
"""The events of a turn with this prompt, without its end if that is an ordinary one."""


class ScriptedDoor:
    """Opens sessions that follow a script. ``sessions`` are those that can be resumed."""

    def __init__(self, script: Script, *, failing_starts: int = 0, sessions: set[str] | None = None) -> None:
        self.script = script
        self.opened: list[SessionWanted] = []
        self.sessions = set() if sessions is None else sessions
        self.closed = self.cancelled = 0
        self.forks = False  # resuming begins another session, as some CLIs do
        self.at_once = self.most_at_once = 0
        self._failing_starts = failing_starts

    async def open(self, wanted: SessionWanted) -> ScriptedSession:
        self.opened.append(wanted)
        if self._failing_starts:
            self._failing_starts -= 1
            raise StartFailed("the program said nothing")
        if wanted.resume is not None and wanted.resume not in self.sessions:
            raise SessionMissing("no such session")
        session = ScriptedSession(self, None if self.forks else wanted.resume)
        self.sessions.add(session.id)
        self.at_once += 1
        self.most_at_once = max(self.at_once, self.most_at_once)
        return session


class ScriptedSession:
    """A session. A script awaits `allowed` and `answered` after it has asked."""

    def __init__(self, door: ScriptedDoor, session_id: str | None) -> None:
        self.id = session_id or f"session-{len(door.opened)}"
        self._door = door
        self._asked: dict[str, asyncio.Future[Any]] = {}
        self._cancelled = asyncio.Event()
        self._is_closed = False

    def ask(self, event: PermissionAsked | QuestionAsked) -> Awaitable[Any]:
        """The decision on an event that the script yields next."""
        self._asked[event.id] = asyncio.get_running_loop().create_future()
        return self._asked[event.id]

    async def turn(self, prompt: str) -> AsyncIterator[CliEvent]:
        self._cancelled.clear()
        events = self._door.script(self, prompt)
        ended = None
        while True:
            step = asyncio.ensure_future(anext(events, None))
            stop = asyncio.create_task(self._cancelled.wait())
            await asyncio.wait({step, stop}, return_when=asyncio.FIRST_COMPLETED)
            if not step.done():
                step.cancel()
                yield TurnEnded(outcome=TurnOutcome.CANCELLED)
                return
            stop.cancel()
            if (event := step.result()) is None:
                break
            ended = event if isinstance(event, TurnEnded) else None
            yield event
        if ended is None:
            yield TurnEnded(outcome=TurnOutcome.DONE)

    async def permit(self, ask_id: str, *, allowed: bool, always: bool = False, reason: str = "") -> None:
        self._asked[ask_id].set_result(allowed)

    async def answer(self, ask_id: str, values: Mapping[str, Any] | None) -> None:
        self._asked[ask_id].set_result(values)

    async def cancel(self) -> None:
        self._door.cancelled += 1
        self._cancelled.set()

    async def close(self, grace_seconds: float) -> None:
        if not self._is_closed:
            self._is_closed = True
            self._door.closed += 1
            self._door.at_once -= 1
            self._cancelled.set()


def saying(text: str) -> Script:
    """A CLI that always says the same."""

    async def script(session: ScriptedSession, prompt: str) -> AsyncIterator[CliEvent]:
        yield TextAdded(text=text)

    return script
