"""A run of a built-in agent while it goes on: what it says, what it will be remembered by, and what it has used."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from swarm.domain.model_runs import ModelUsage
from swarm.domain.sessions import MessageRole, SessionMessage
from swarm.domain.streaming.events import AgentEvent, TextDelta, TextEnded, TurnInput

WAITING_EVENTS: Final = 256
"""So many events may wait for who shows them; then the agent waits."""


class Stumbled(Exception):
    """The agent cannot go on. ``message`` is for people: what is wrong, and what to do."""

    def __init__(self, message: str, code: str = "failed") -> None:
        super().__init__(message)
        self.message = message
        self.code = code


class Run:
    """One run of an agent for one turn."""

    def __init__(self, turn: TurnInput, session_id: str) -> None:
        self.turn = turn
        self.session_id = session_id
        self.usage = ModelUsage()
        self.model = ""  # the one that answered last
        self.remembered: list[SessionMessage] = []
        self._events: asyncio.Queue[AgentEvent] = asyncio.Queue(WAITING_EVENTS)
        self._message_id = ""

    async def say(self, event: AgentEvent) -> None:
        """Show something; waits while too much is still to be shown."""
        await self._events.put(event)

    async def heard(self) -> AgentEvent:
        """The next event, once there is one."""
        return await self._events.get()

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

    async def write_whole(self, text: str, message_id: str) -> None:
        """A text message at once."""
        await self.write(text, message_id)
        await self.say(TextEnded(message_id=message_id))

    def remember(self, *messages: SessionMessage) -> None:
        """Have something remembered that is not written, or not as it is written."""
        self.remembered.extend(messages)

    def used(self, usage: ModelUsage) -> None:
        """Count what was used."""
        self.usage = self.usage + usage
