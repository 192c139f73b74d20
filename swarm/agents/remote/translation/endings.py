"""Translates the end of a run: a result, an error, or the questions of its interrupts.

AG-UI 1.0 sends interrupts with the end of the run. LangGraph also sends an event for each before the end, and before
AG-UI 1.0 only these. https://docs.ag-ui.com/concepts/interrupts
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final

from ag_ui.core import (
    AssistantMessage,
    CustomEvent,
    Event,
    Interrupt,
    MessagesSnapshotEvent,
    RunErrorEvent,
    RunFinishedCancelledOutcome,
    RunFinishedEvent,
    RunFinishedInterruptOutcome,
    TextMessageChunkEvent,
    TextMessageContentEvent,
)

from swarm.agents.remote.translation.interrupts import questions_of
from swarm.agents.remote.translation.tools import Tools
from swarm.agents.remote.translation.wire import (
    CUTS,
    clean,
    first,
    id_of,
    is_object,
    line_of,
    parsed,
)
from swarm.domain.answers.agents import RunEnd
from swarm.domain.answers.events import Asked, Cancelled, Failed, Finished, Interrupted
from swarm.domain.model.requests import MAX_OPEN_PER_WORK
from swarm_base.redaction import Redactor

_INTERRUPTS: Final = MAX_OPEN_PER_WORK + 1  # one too many is seen, and refused
_ERROR_CHARACTERS: Final = 500

_READ_CHARACTERS: Final = 8 * _ERROR_CHARACTERS
"""The number of characters of an error that are read."""

_REDACTOR: Final = Redactor()

_END_REASONS: Final = ("finishReason", "finish_reason", "stopReason", "stop_reason", "reason", "type")
_ON_INTERRUPT: Final = "on_interrupt"
"""The name of LangGraph's events for interrupts, which precede the end of the run."""


class Endings:
    """A reader for the end of a run. It keeps the final text of the last message snapshot before the end, and the
    interrupts that LangGraph sends before it.
    """

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._final: str | None = None
        self._interrupts: dict[str, Interrupt] = {}  # by id

    def read(self, event: Event) -> RunEnd | None:
        """Returns the end of the run if the event ends it; otherwise None."""
        match event:
            case MessagesSnapshotEvent():
                self._final = _last_words(event)
            case TextMessageContentEvent(delta=delta) | TextMessageChunkEvent(delta=delta) if delta:
                self._final = None  # the agent is writing again, so the snapshot was not final
            case CustomEvent(name=name) if name == _ON_INTERRUPT and len(self._interrupts) < _INTERRUPTS:
                interrupt = _of_langgraph(event, f"interrupt-{len(self._interrupts) + 1}")
                self._interrupts[interrupt.id] = interrupt
            case RunErrorEvent(message=message, code=code):
                return failed(message, code or "")
            case RunFinishedEvent():
                return cut_off(event.model_dump()) or self._finished(event)
        return None

    def _finished(self, event: RunFinishedEvent) -> RunEnd:
        match event.outcome:
            case RunFinishedInterruptOutcome(interrupts=interrupts):
                return _interrupted(self._asked(interrupts[:_INTERRUPTS]))
            case RunFinishedCancelledOutcome():
                return Cancelled()
        if self._interrupts:
            return _interrupted(self._asked(list(self._interrupts.values()), by_command=True))
        return Finished(result=text_in(event.result) or self._final)

    def _asked(self, interrupts: list[Interrupt], *, by_command: bool = False) -> Iterator[Asked]:
        for interrupt in interrupts:
            before = self._interrupts.get(interrupt.id)
            if before and not interrupt.response_schema:
                interrupt.response_schema = before.response_schema
            yield from questions_of(interrupt, self._tools.get, by_command=by_command)


def cut_off(end: Mapping[str, object]) -> Failed | None:
    """Returns the failure of an answer whose end says that it is not whole."""
    places = (end, end.get("outcome"), end.get("result"))
    reasons = (str(first(place, *_END_REASONS)).rpartition(".")[2] for place in places if is_object(place))
    said = next(filter(None, (CUTS.get(reason.casefold().replace("-", "_")) for reason in reasons)), None)
    return failed(said) if said else None


def _interrupted(asked: Iterator[Asked]) -> Interrupted:
    return Interrupted(asked=tuple(islice(asked, _INTERRUPTS)))


def _of_langgraph(event: CustomEvent, default_id: str) -> Interrupt:
    """Returns the interrupt of LangGraph's own event, whose value is JSON text, another text, or an object."""
    source = event.raw_event if is_object(event.raw_event) else {}
    value = event.value
    if isinstance(value, str):
        found = parsed(value)
        value = found if isinstance(found, dict | list) else value
    fields = value if is_object(value) else {}
    schema = first(fields, "response_schema", "responseSchema") or source.get("response_schema")
    return Interrupt(
        id=id_of(source.get("id")) or default_id,
        reason=line_of(fields.get("reason")) or "langgraph:interrupt",
        tool_call_id=id_of(first(fields, "tool_call_id", "toolCallId")) or None,
        response_schema=dict(schema) if is_object(schema) else None,
        metadata={"langgraph": {"raw": value}},
    )


def failed(message: object, code: str = "") -> Failed:
    """Returns an agent's error as one short user-facing line without secrets."""
    text = _REDACTOR.text(message[:_READ_CHARACTERS]) if isinstance(message, str) else ""
    return Failed(message=line_of(text, _ERROR_CHARACTERS) or "no reason was given", code=id_of(code))


def text_in(value: object) -> str | None:
    """Returns the text of a result; None if it contains no text."""
    if is_object(value):
        value = first(value, "content", "text", "answer", "output")
    return clean(value) if isinstance(value, str) and value else None


def _last_words(snapshot: MessagesSnapshotEvent) -> str | None:
    """Returns the last message of a snapshot if the agent wrote it and it calls no tool: a possible answer."""
    last = snapshot.messages[-1] if snapshot.messages else None
    if isinstance(last, AssistantMessage) and not last.tool_calls and last.content:
        return clean(last.content)
    return None
