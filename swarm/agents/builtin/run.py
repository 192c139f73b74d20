"""A run of a built-in agent while it goes on: its events, the messages to remember, and its usage."""

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
"""The number of events that may wait for the reader; then the agent waits."""


class Stumbled(Exception):
    """The agent cannot go on. ``message`` is for people: the problem, and the remedy."""

    def __init__(self, message: str, code: str = "failed") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class BuiltinRun:
    """One run of an agent."""

    def __init__(self, run_input: RunInput, session_id: str) -> None:
        self.input = run_input
        self.session_id = session_id
        self.usage = ModelUsage()
        self.model = ""  # the model that answered last
        self.remembered: list[SessionMessage] = []
        self._events: asyncio.Queue[AgentEvent] = asyncio.Queue()
        self._room = asyncio.Semaphore(WAITING_EVENTS)
        self._is_over = False
        self._message_id = ""  # of the unfinished text; empty: none

    async def say(self, event: AgentEvent) -> None:
        """Shows an event; waits while the queue is full."""
        await self._room.acquire()
        self._events.put_nowait(event)

    def end(self, event: RunEnd) -> None:
        """Ends the run. The first end counts, and needs no space in the queue, so the reader never waits in vain."""
        if not self._is_over:
            self._is_over = True
            self._events.put_nowait(event)

    async def heard(self) -> AgentEvent:
        """Waits for the next event and returns it."""
        event = await self._events.get()
        self._room.release()
        return event

    async def write(self, text: str, message_id: str) -> None:
        """Writes more of a text message, and remembers it; another id begins a new message."""
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
        """Ends a text message; does nothing if no text was written."""
        if message_id == self._message_id:
            self._message_id = ""
            await self.say(TextEnded(message_id=message_id))

    async def write_whole(self, text: str, message_id: str) -> None:
        """Writes a whole text message."""
        await self.write(text, message_id)
        await self.written(message_id)

    def remember(self, *messages: SessionMessage) -> None:
        """Remembers messages that are not shown, or shown differently."""
        self.remembered.extend(messages)

    async def begin_call(self, id: str, tool: str, arguments: Mapping[str, Any]) -> None:
        """Shows the start of a tool's call."""
        await self.say(ToolStarted(id=id, name=tool, arguments=json.dumps(dict(arguments), ensure_ascii=False)))

    async def end_call(self, id: str, tool: str, arguments: Mapping[str, Any], answer: ToolAnswer) -> None:
        """Remembers a tool's call with its result, and shows its end."""
        self.remember_call(id, tool, arguments, answer)
        await self.say(ToolEnded(id=id, failed=answer.failed, result=answer.text))

    def remember_call(self, id: str, tool: str, arguments: Mapping[str, Any], answer: ToolAnswer) -> None:
        """Remembers a tool's call together with its result: never one without the other."""
        self.remember(
            SessionMessage(role=MessageRole.TOOL_USE, call_id=id, tool=tool, arguments=arguments),
            SessionMessage(role=MessageRole.TOOL_RESULT, call_id=id, tool=tool, text=answer.text, failed=answer.failed),
        )

    def used(self, usage: ModelUsage) -> None:
        """Adds to the usage."""
        self.usage = self.usage + usage
