"""A run of a built-in agent while it goes on: what it says, what it will be remembered by, and what it has used."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from swarm.agents.toolbox.tool import ToolAnswer
from swarm.domain.answers.agents import RunEnd
from swarm.domain.answers.events import AgentEvent, RunInput, TextDelta, TextEnded, ToolEnded, ToolStarted
from swarm.domain.model.models import ModelUsage
from swarm.domain.model.sessions import MessageRole, SessionMessage

WAITING_EVENTS: Final = 256
"""So many events may wait for who shows them; then the agent waits."""


class Stumbled(Exception):
    """The agent cannot go on. ``message`` is for people: what is wrong, and what to do."""

    def __init__(self, message: str, code: str = "failed") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class BuiltinRun:
    """One run of an agent for one turn."""

    def __init__(self, turn: RunInput, session_id: str) -> None:
        self.turn = turn
        self.session_id = session_id
        self.usage = ModelUsage()
        self.model = ""  # the one that answered last
        self.remembered: list[SessionMessage] = []
        self._events: asyncio.Queue[AgentEvent] = asyncio.Queue()
        self._room = asyncio.Semaphore(WAITING_EVENTS)
        self._is_over = False
        self._message_id = ""  # of the text that is being written; empty: none is

    async def say(self, event: AgentEvent) -> None:
        """Show something; waits while too much is still to be shown."""
        await self._room.acquire()
        self._events.put_nowait(event)

    def end(self, event: RunEnd) -> None:
        """Say how it ended. The first end counts, and it needs no room: whoever listens is never left waiting."""
        if not self._is_over:
            self._is_over = True
            self._events.put_nowait(event)

    async def heard(self) -> AgentEvent:
        """The next event, once there is one."""
        event = await self._events.get()
        self._room.release()
        return event

    async def write(self, text: str, message_id: str) -> None:
        """More of a text message, which is remembered as well; another id begins a new message."""
        if not text:
            return
        last = self.remembered[-1] if self.remembered else None
        if last and message_id == self._message_id and last.role is MessageRole.ASSISTANT:
            self.remembered[-1] = replace(last, text=last.text + text)
        else:
            self.remembered.append(SessionMessage(role=MessageRole.ASSISTANT, text=text))
        self._message_id = message_id
        await self.say(TextDelta(text=text, message_id=message_id))

    async def written(self, message_id: str) -> None:
        """A text message is whole; nothing happens if nothing of it was written."""
        if message_id == self._message_id:
            self._message_id = ""
            await self.say(TextEnded(message_id=message_id))

    async def write_whole(self, text: str, message_id: str) -> None:
        """A text message at once."""
        await self.write(text, message_id)
        await self.written(message_id)

    def remember(self, *messages: SessionMessage) -> None:
        """Have something remembered that is not written, or not as it is written."""
        self.remembered.extend(messages)

    async def begin_call(self, id: str, tool: str, arguments: Mapping[str, Any]) -> None:
        """Tell that a tool is called."""
        await self.say(ToolStarted(id=id, name=tool, arguments=json.dumps(dict(arguments), ensure_ascii=False)))

    async def end_call(self, id: str, tool: str, arguments: Mapping[str, Any], answer: ToolAnswer) -> None:
        """Remember a tool's call with its answer, and tell that it has answered."""
        self.remember_call(id, tool, arguments, answer)
        await self.say(ToolEnded(id=id, failed=answer.failed, result=answer.text))

    def remember_call(self, id: str, tool: str, arguments: Mapping[str, Any], answer: ToolAnswer) -> None:
        """Have a tool's call remembered together with its result: never one without the other."""
        self.remember(
            SessionMessage(role=MessageRole.TOOL_USE, call_id=id, tool=tool, arguments=arguments),
            SessionMessage(role=MessageRole.TOOL_RESULT, call_id=id, tool=tool, text=answer.text, failed=answer.failed),
        )

    def used(self, usage: ModelUsage) -> None:
        """Count what was used."""
        self.usage = self.usage + usage
