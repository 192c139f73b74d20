"""Translates tool calls, from the start of a call until its result. People see the tool as running during this time.

In AG-UI, ``TOOL_CALL_END`` only marks the end of the arguments; the tool then runs until its ``TOOL_CALL_RESULT``. Some
agents never send results. A call with complete arguments therefore also ends when the agent itself writes text again,
and the remaining calls end with a successful run. A CAIPE service sends ``TOOL_CALL_END`` when the tool has returned,
with or without a preceding result. Calls that wait for a person or were cut off stay open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from ag_ui.core import (
    Event,
    TextMessageChunkEvent,
    TextMessageContentEvent,
    ToolCallArgsEvent,
    ToolCallChunkEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
)

from swarm.agents.remote.translation.wire import first, id_of, is_object, line_of, parsed
from swarm.domain.answers.agents import Dialect
from swarm.domain.answers.events import AgentEvent, ToolEnded, ToolStarted
from swarm.domain.model.requests import MAX_ARGUMENT_BYTES

_CALLS: Final = 500
"""The maximum number of calls shown in one run, so that an agent in a tool loop cannot exhaust the memory."""

_RESULT_CHARACTERS: Final = 4_000
"""The rest of a longer result is not kept: it is shown to nobody."""

_ARGUMENT_CHARACTERS: Final = MAX_ARGUMENT_BYTES
"""Longer arguments are not kept, since nobody could approve them."""

_NAMELESS: Final = "tool"


@dataclass(kw_only=True, slots=True)
class StreamedCall:
    """One call of a tool."""

    id: str
    name: str
    sent_name: str = ""  # not cleaned: a question about a call whose name misleads people is refused
    arguments: list[str] = field(default_factory=list)
    argument_characters: int = 0
    is_whole: bool = False  # all arguments have arrived
    has_ended: bool = False
    has_result: bool = False

    def add(self, delta: str) -> None:
        """Appends a part of the arguments."""
        self.argument_characters += len(delta)
        if self.argument_characters <= _ARGUMENT_CHARACTERS:
            self.arguments.append(delta)
        else:
            self.arguments.clear()

    @property
    def is_cut(self) -> bool:
        """Whether the arguments were too long to be kept."""
        return self.argument_characters > _ARGUMENT_CHARACTERS

    def argument_text(self) -> str:
        """Returns the arguments as sent, usually JSON; empty if they were too long."""
        return "".join(self.arguments)


class Tools:
    """The calls of one run, oldest first."""

    def __init__(self, dialect: Dialect) -> None:
        self._is_caipe = dialect is Dialect.CAIPE
        self._calls: dict[str, StreamedCall] = {}
        self._chunked: str = ""  # the call that is built from chunks

    def get(self, id: object) -> StreamedCall | None:
        """Returns a call of this run; None if unknown."""
        return self._calls.get(id_of(id))

    def read(self, event: Event, *, is_own: bool) -> Iterator[AgentEvent]:
        """Yields the tool events for an AG-UI event. ``is_own`` is true if the agent itself sent the event, not a
        sub-agent.
        """
        match event:
            case ToolCallStartEvent():
                yield from self._start(event.tool_call_id, event.tool_call_name)
            case ToolCallArgsEvent():
                self._add(event.tool_call_id, event.delta)
            case ToolCallChunkEvent():
                yield from self._chunk(event)
            case ToolCallEndEvent() if self._is_caipe:
                yield from self._end(event.tool_call_id)
            case ToolCallEndEvent():
                self._complete(event.tool_call_id)
            case ToolCallResultEvent():
                is_failure = _has_failed(event) or self._is_caipes_error(event)
                if call := self.get(event.tool_call_id):
                    call.has_result = True
                said = event.content if isinstance(event.content, str) else ""
                yield from self._end(event.tool_call_id, failed=is_failure, result=said[:_RESULT_CHARACTERS])
            case TextMessageContentEvent(delta=delta) | TextMessageChunkEvent(delta=delta) if delta and is_own:
                yield from self._end_whole_ones()

    def finish(self) -> Iterator[AgentEvent]:
        """Ends the remaining calls of a successful run, and reports them as successful."""
        for call in list(self._calls.values()):
            yield from self._end(call.id)

    def reopen(self, names: Iterable[str]) -> Iterator[AgentEvent]:
        """Starts the calls again that wait for approval, given by their tools: what counted as the end of such a call
        was the end of its arguments.
        """
        for name in names:
            ended = (call for call in reversed(self._calls.values()) if call.sent_name == name and call.has_ended)
            if (call := next(ended, None)) and not call.has_result:
                call.has_ended = False
                yield ToolStarted(id=call.id, name=call.name)

    def _is_caipes_error(self, result: ToolCallResultEvent) -> bool:
        return self._is_caipe and isinstance(result.content, str) and result.content.startswith("ERROR: ")

    def _start(self, id: str, name: str) -> Iterator[AgentEvent]:
        id = id_of(id)
        if id not in self._calls and len(self._calls) < _CALLS:
            self._calls[id] = StreamedCall(id=id, name=line_of(name) or _NAMELESS, sent_name=name)
            yield ToolStarted(id=id, name=self._calls[id].name)

    def _chunk(self, event: ToolCallChunkEvent) -> Iterator[AgentEvent]:
        """Adds a chunk. The first chunk of a call starts the call; a chunk without an id continues the previous
        call.
        """
        if event.tool_call_id is not None and id_of(event.tool_call_id) != self._chunked:
            self._complete(self._chunked)
            self._chunked = id_of(event.tool_call_id)
            yield from self._start(self._chunked, event.tool_call_name or "")
        self._add(self._chunked, event.delta or "")

    def _add(self, id: str, delta: str) -> None:
        if call := self.get(id):
            call.add(delta)

    def _complete(self, id: str) -> None:
        if call := self.get(id):
            call.is_whole = True

    def _end_whole_ones(self) -> Iterator[AgentEvent]:
        self._complete(self._chunked)
        for call in list(self._calls.values()):
            if call.is_whole:
                yield from self._end(call.id)

    def _end(self, id: str, *, failed: bool = False, result: str = "") -> Iterator[AgentEvent]:
        call = self.get(id)
        if call and not call.has_ended:
            call.has_ended = True
            if call.has_result:  # otherwise people may still be asked about it
                call.arguments.clear()
            yield ToolEnded(id=call.id, failed=failed, result=result)


def _has_failed(result: ToolCallResultEvent) -> bool:
    """Returns whether a tool's result is an error. AG-UI has no field for errors, but some agents send their own."""
    extra = result.model_extra or {}
    if first(extra, "error", "isError", "is_error"):
        return True
    content = parsed(result.content) if isinstance(result.content, str) and len(result.content) < 4096 else None
    return is_object(content) and set(content) == {"error"}
