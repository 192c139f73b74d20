"""Tool calls: from the moment a tool is called until it has answered, which is what people want to see running.

In AG-UI, ``TOOL_CALL_END`` only says that the arguments are whole; the tool runs after that, until its
``TOOL_CALL_RESULT``. Some agents never send results. So a call whose arguments are whole also ends when the agent
itself goes on to speak, and whatever is left ends with a run that went well. A caipe service sends ``TOOL_CALL_END``
when the tool has answered, with or without a result before. What waits for a person, or was cut off, is left as it is.
"""

from __future__ import annotations

from collections.abc import Iterator
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

from swarm.agents.remote.translation.values import first, id_of, is_object, line_of, parsed
from swarm.domain.answers.agents import Dialect
from swarm.domain.answers.events import AgentEvent, ToolEnded, ToolStarted

CALLS: Final = 500
"""So many calls of one run are told; an agent in a loop of tools must not fill the memory."""

ARGUMENT_CHARACTERS: Final = 64 * 1024
"""Longer arguments are not kept."""

_NAMELESS: Final = "tool"


@dataclass(kw_only=True, slots=True)
class StreamedCall:
    """One call of a tool."""

    id: str
    name: str
    arguments: list[str] = field(default_factory=list)
    argument_characters: int = 0
    is_whole: bool = False  # no arguments will come any more
    has_ended: bool = False

    def add(self, delta: str) -> None:
        """More of the arguments."""
        self.argument_characters += len(delta)
        if self.argument_characters <= ARGUMENT_CHARACTERS:
            self.arguments.append(delta)
        else:
            self.arguments.clear()

    def argument_text(self) -> str:
        """The arguments as they were sent, JSON as a rule; empty if they were too long."""
        return "".join(self.arguments)


class Tools:
    """The calls of one run, oldest first."""

    def __init__(self, dialect: Dialect) -> None:
        self._is_caipe = dialect is Dialect.CAIPE
        self._calls: dict[str, StreamedCall] = {}
        self._chunked: str = ""  # the call that chunks build

    def get(self, id: object) -> StreamedCall | None:
        """A call of this run."""
        return self._calls.get(id_of(id))

    def read(self, event: Event, *, is_own: bool) -> Iterator[AgentEvent]:
        """What an event says of tools. ``is_own``: it is the agent's, not a sub-agent's."""
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
                yield from self._end(event.tool_call_id, failed=has_failed(event) or self._is_caipes_error(event))
            case TextMessageContentEvent(delta=delta) | TextMessageChunkEvent(delta=delta) if delta and is_own:
                yield from self._end_whole_ones()

    def finish(self) -> Iterator[AgentEvent]:
        """The run went well: so did whatever had no result."""
        for call in list(self._calls.values()):
            yield from self._end(call.id)

    def _is_caipes_error(self, result: ToolCallResultEvent) -> bool:
        return self._is_caipe and isinstance(result.content, str) and result.content.startswith("ERROR: ")

    def _start(self, id: str, name: str) -> Iterator[AgentEvent]:
        id = id_of(id)
        if id not in self._calls and len(self._calls) < CALLS:
            self._calls[id] = StreamedCall(id=id, name=line_of(name) or _NAMELESS)
            yield ToolStarted(id=id, name=self._calls[id].name)

    def _chunk(self, event: ToolCallChunkEvent) -> Iterator[AgentEvent]:
        """A chunk without an id goes on with the call before it; the first chunk of a call starts it."""
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

    def _end(self, id: str, *, failed: bool = False) -> Iterator[AgentEvent]:
        call = self.get(id)
        if call and not call.has_ended:
            call.has_ended = True
            call.arguments.clear()
            yield ToolEnded(id=call.id, failed=failed)


def has_failed(result: ToolCallResultEvent) -> bool:
    """Whether a tool answered with an error: AG-UI has no field for it, some agents say so in one of their own."""
    extra = result.model_extra or {}
    if first(extra, "error", "isError", "is_error"):
        return True
    content = parsed(result.content) if isinstance(result.content, str) and len(result.content) < 4096 else None
    return is_object(content) and set(content) == {"error"}
