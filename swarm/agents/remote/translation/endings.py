"""How a run ends: in the agent's own words, or without any."""

from __future__ import annotations

from typing import Final

from ag_ui.core import (
    AssistantMessage,
    Event,
    MessagesSnapshotEvent,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    TextMessageChunkEvent,
    TextMessageContentEvent,
)

from swarm.agents.remote.translation.questions import asked
from swarm.agents.remote.translation.tools import Tools
from swarm.agents.remote.translation.values import clean, first, id_of, is_object, line_of
from swarm.domain.answers.agents import RunEnd
from swarm.domain.answers.events import Cancelled, Failed, Finished, Interrupted
from swarm.telemetry.redaction import Redactor

INTERRUPTS: Final = 20
ERROR_CHARACTERS: Final = 500
READ_CHARACTERS: Final = 8 * ERROR_CHARACTERS
"""So much of an error is looked at, lest its length become a problem of its own."""

_REDACTOR: Final = Redactor()


class Endings:
    """The end of a run, and the final text that a snapshot of its messages may have told before."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._final: str | None = None

    def read(self, event: Event) -> RunEnd | None:
        """How the run ends, if it does with this event."""
        match event:
            case MessagesSnapshotEvent():
                self._final = _last_words(event)
            case TextMessageContentEvent(delta=delta) | TextMessageChunkEvent(delta=delta) if delta:
                self._final = None  # it speaks again, so what the snapshot ended with was not the end
            case RunErrorEvent(message=message, code=code):
                return failed(message, code or "")
            case RunFinishedEvent():
                return self._finished(event)
        return None

    def _finished(self, event: RunFinishedEvent) -> RunEnd:
        match event.outcome:
            case RunFinishedInterruptOutcome(interrupts=interrupts):
                return Interrupted(asked=tuple(asked(one, self._tools.get) for one in interrupts[:INTERRUPTS]))
            case RunFinishedCancelledOutcome():
                return Cancelled()
        return Finished(result=text_in(event.result) or self._final)


def failed(message: object, code: str = "") -> Failed:
    """An agent's own report of an error, fit to be shown: in one line, short, and without anything secret."""
    said = _REDACTOR.text(message[:READ_CHARACTERS]) if isinstance(message, str) else ""
    return Failed(message=line_of(said, ERROR_CHARACTERS) or "no reason was given", code=id_of(code))


def text_in(value: object) -> str | None:
    """The text that a result is, or holds; None if it has none."""
    if is_object(value):
        value = first(value, "content", "text", "answer", "output")
    return clean(value) if isinstance(value, str) and value else None


def _last_words(snapshot: MessagesSnapshotEvent) -> str | None:
    """What the agent said last, if nothing came after it and it calls no tool: then it may be the answer."""
    last = snapshot.messages[-1] if snapshot.messages else None
    if isinstance(last, AssistantMessage) and not last.tool_calls and last.content:
        return clean(last.content)
    return None
