"""A run of a built-in agent in progress: its events, its session, the messages to store, and its usage."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from swarm.domain.answers.agents import RunEnd
from swarm.domain.answers.events import (
    AgentEvent,
    Asked,
    InputMessage,
    Origin,
    PlanShown,
    RunInput,
    Speaker,
    TextDelta,
    TextEnded,
    ToolEnded,
    ToolStarted,
)
from swarm.domain.model.language_models import Door, ModelUsage, RunLimits
from swarm.domain.model.sessions import MessageRole, SessionMessage, SessionScope
from swarm.domain.prompts.fences import said_by
from swarm_agents.toolbox.tool import ToolAnswer

WAITING_EVENTS: Final = 256
"""The number of events that may be queued for the reader. When the queue is full, the agent waits."""

_TERMINAL_PREFIX = "cli:"

ROLES: Final = {Speaker.USER: MessageRole.USER, Speaker.ASSISTANT: MessageRole.ASSISTANT}
"""The roles of a thread's authors in sessions."""


class Stumbled(Exception):
    """An error after which the agent cannot continue. ``message`` tells the user about the problem and its remedy."""

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
        self.limits = RunLimits()
        self.owner = ""  # the id of the agent whose memory the run has read; empty before that
        self.model = ""  # the model that answered last
        self.remembered: list[SessionMessage] = []
        self.waiting: list[SessionMessage] = []  # the tool calls that this run asked about
        self.asked: tuple[Asked, ...] = ()  # the questions that end the run
        self.continues = ""  # the run whose waiting calls this run has settled
        self._events: asyncio.Queue[AgentEvent] = asyncio.Queue()
        self._room = asyncio.Semaphore(WAITING_EVENTS)
        self._is_over = False
        self._message_id = ""  # of the unfinished text; empty if there is none

    async def say(self, event: AgentEvent) -> None:
        """Shows an event. Waits while the queue is full."""
        await self._room.acquire()
        self._events.put_nowait(event)

    def end(self, event: RunEnd) -> None:
        """Ends the run. Only the first end counts. It needs no space in the queue, so the reader always receives it."""
        if not self._is_over:
            self._is_over = True
            self._events.put_nowait(event)

    async def heard(self) -> AgentEvent:
        """Waits for the next event and returns it."""
        event = await self._events.get()
        self._room.release()
        return event

    async def write(self, text: str, message_id: str) -> None:
        """Appends to a text message and stores the text. A different id begins a new message."""
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
        """Ends a text message. Does nothing if no text was written."""
        if message_id == self._message_id:
            self._message_id = ""
            await self.say(TextEnded(message_id=message_id))

    async def write_whole(self, text: str, message_id: str) -> None:
        """Writes a complete text message."""
        await self.write(text, message_id)
        await self.written(message_id)

    def remember(self, *messages: SessionMessage) -> None:
        """Stores messages that are not shown, or are shown in a different form."""
        self.remembered.extend(messages)

    async def begin_call(self, id: str, tool: str, arguments: Mapping[str, Any]) -> None:
        """Shows the start of a tool call."""
        await self.say(ToolStarted(id=id, name=tool, arguments=json.dumps(dict(arguments), ensure_ascii=False)))

    async def end_call(self, id: str, tool: str, arguments: Mapping[str, Any], answer: ToolAnswer) -> None:
        """Stores a tool call with its result, and shows the end of the call."""
        self.remember_call(id, tool, arguments, answer)
        await self.show_end(id, answer)

    async def show_end(self, id: str, answer: ToolAnswer) -> None:
        """Shows the end of a tool call whose result is stored already."""
        await self.say(ToolEnded(id=id, failed=answer.failed, result=answer.text))
        if answer.plan:
            await self.say(PlanShown(steps=answer.plan))

    def remember_call(self, id: str, tool: str, arguments: Mapping[str, Any], answer: ToolAnswer) -> None:
        """Stores a tool call together with its result, so that neither is ever stored alone."""
        self.remember(
            SessionMessage(role=MessageRole.TOOL_USE, call_id=id, tool=tool, arguments=arguments),
            SessionMessage(role=MessageRole.TOOL_RESULT, call_id=id, tool=tool, text=answer.text, failed=answer.failed),
        )

    def wait_for(self, call: SessionMessage, question: Asked) -> None:
        """Ends the run, as soon as its other calls have ended, with a question about a tool call."""
        self.waiting.append(call)
        self.asked = (*self.asked, question)

    def ask_again(self, question: Asked) -> None:
        """Ends the run with a question about a call that waits already."""
        self.asked = (*self.asked, question)

    @property
    def has_written(self) -> bool:
        """Whether the run has written any text."""
        return any(one.role is MessageRole.ASSISTANT and one.text.strip() for one in self.remembered)

    async def announce(self, workers: Iterable[str]) -> None:
        """Tells people who has got their message, unless the run has written anything."""
        if not self.has_written:
            await self.write_whole(f"I have asked {' and '.join(dict.fromkeys(workers))} to do this.", "handed-over")

    def used(self, usage: ModelUsage) -> None:
        """Adds to the usage of the run."""
        self.usage = self.usage + usage


def session_of(run_input: RunInput, scope: SessionScope) -> str:
    """Returns the session id of a run.

    The id is ``slack:{channel}:{user}``, or ``slack:{channel}:{thread}`` if the scope is a thread or the user is
    unknown; ``task:{conversation}`` for a task without a thread; ``cli:{uuid}`` in a terminal, chosen by the terminal;
    and ``agui:{client id}:{conversation}`` for other clients, so that no client can reach another client's session.
    """
    return conversation_session(run_input.origin, run_input.conversation_id, scope)


def conversation_session(origin: Origin, conversation_id: str, scope: SessionScope) -> str:
    """Returns the session id of a conversation's runs; see `session_of`."""
    if origin.door is Door.CLI:
        return conversation_id if conversation_id.startswith(_TERMINAL_PREFIX) else f"cli:{conversation_id}"
    if origin.door is Door.AGUI:
        return f"agui:{origin.client}:{conversation_id}"
    if not origin.channel:
        return f"task:{conversation_id}"
    by_user = scope is SessionScope.USER and origin.user_id
    return f"slack:{origin.channel}:{origin.user_id if by_user else origin.thread_ts}"


def door_of(session_id: str) -> Door:
    """Returns the entry point of a session's runs."""
    kind = session_id.partition(":")[0]
    return {"cli": Door.CLI, "agui": Door.AGUI}.get(kind, Door.SLACK)


def asked(run_input: RunInput, *, with_author: bool = False) -> str:
    """Joins the new messages into one text. ``with_author`` adds the authors' names, for conversations with several
    people.

    Raises Stumbled if no message has text.
    """
    said = [message for message in run_input.messages if message.text.strip()]
    if not said:
        raise Stumbled("This message contains no text, and I can only read text. Please write what I should do.")
    return "\n\n".join(_named(message) if with_author else message.marked for message in said)


def questions(run_input: RunInput) -> Iterator[SessionMessage]:
    """Yields the new messages to store, each with its author and source."""
    in_slack = run_input.origin.door is Door.SLACK
    for message in run_input.messages:
        yield SessionMessage(
            role=MessageRole.USER,
            text=message.marked,
            author=message.author or run_input.origin.user_name,
            source=message.id if in_slack else "",
        )


def unheard(run_input: RunInput, told: Iterable[SessionMessage]) -> str:
    """Returns the thread's earlier messages that are not in ``told``, one per line; empty if people wrote none.

    A session contains the messages to the agent and its answers. A thread also contains messages between people,
    messages to other agents, and, if a client sends the complete conversation, messages older than the session.
    """
    remembered = [(message.role, _letters(message.text)) for message in told]
    by_people = {text for role, text in remembered if role is MessageRole.USER}
    by_us = "\n".join(text for role, text in remembered if role is MessageRole.ASSISTANT)  # Slack splits answers

    def is_new(said: InputMessage) -> bool:
        return _letters(said.marked) not in (by_people if said.speaker is Speaker.USER else by_us)

    new = [said for said in run_input.history if said.text.strip() and is_new(said)]
    return "\n".join(map(_line, new)) if any(said.speaker is Speaker.USER for said in new) else ""


def _letters(text: str) -> str:
    """Returns the text without characters that Slack may change: markup, spaces and punctuation."""
    return "".join(filter(str.isalnum, text)) or text


def _line(said: InputMessage) -> str:
    return said_by(said.author or said.speaker.value, said.marked)


def _named(message: InputMessage) -> str:
    return said_by(message.author, message.marked) if message.author else message.marked
