"""Translates one run, either an event stream or a complete answer, into Swarm's events.

A text comes from the agent itself or from a sub-agent, whose text is not part of the answer. AG-UI 1.0 includes the
sub-agent's run in each of its events. CAIPE sends ``NAMESPACE_CONTEXT``, which applies to all events up to the next
one. Complete answers are results of CAIPE's ``invoke``, or streams collected into one text.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, Iterator
from typing import Final

from ag_ui.core import (
    ActivityDeltaEvent,
    ActivitySnapshotEvent,
    CustomEvent,
    Event,
    RawEvent,
    StateDeltaEvent,
    StateSnapshotEvent,
    SubagentStartedEvent,
    TextMessageChunkEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)

from swarm.agents.failures import NOT_AN_ANSWER
from swarm.agents.remote.translation.endings import Endings, cut_off, failed, text_in
from swarm.agents.remote.translation.progress import Plans, Steps
from swarm.agents.remote.translation.tools import Tools
from swarm.agents.remote.translation.wire import Wire, clean, first, id_of, is_object, line_of, parsed
from swarm.domain.answers.agents import Dialect, RunEnd
from swarm.domain.answers.events import (
    AgentEvent,
    Broken,
    Cancelled,
    Failed,
    Finished,
    Interrupted,
    SourceChanged,
    TextDelta,
    TextEnded,
)

_MESSAGES: Final = 1000
"""The maximum number of unfinished messages, and of messages from other authors, stored in one run."""

_BESIDE = (CustomEvent, RawEvent, StateSnapshotEvent, StateDeltaEvent, ActivitySnapshotEvent, ActivityDeltaEvent)
"""Events that may come between the chunks of a message without ending it."""

NAMESPACE_CONTEXT: Final = "NAMESPACE_CONTEXT"

_SUB_AGENTS: Final = 500
"""The maximum number of sub-agents whose names are stored. Others are identified by the id of their run."""

_TEXT = (TextMessageStartEvent, TextMessageContentEvent, TextMessageChunkEvent)
_BROKE_OFF: Final = Broken(reason="it stopped in the middle of its answer")
_NOTHING_CAME: Final = Broken(reason="it disconnected without an answer")
_NOT_UNDERSTOOD: Final = Broken(reason="nothing that it sent could be understood")


class _Texts:
    """The messages in progress. Some agents echo people's and system messages; these echoes are left out."""

    def __init__(self) -> None:
        self._chunked: str | None = None  # the unfinished message that is built from chunks
        self._echoes: set[str] = set()
        self._said: set[str] = set()  # unfinished messages with text

    def read(self, event: Event) -> Iterator[AgentEvent]:
        """Yields the text in an event and the ends of messages."""
        match event:
            case TextMessageChunkEvent():
                yield from self._chunk(event)
            case TextMessageStartEvent():
                yield from self._end_of_chunks()
                self._note_role(id_of(event.message_id), event.role)
            case TextMessageContentEvent():
                yield from self._delta(id_of(event.message_id), event.delta)
            case TextMessageEndEvent():
                yield from self._end(id_of(event.message_id))
            case _ if not isinstance(event, _BESIDE):
                yield from self._end_of_chunks()

    def _chunk(self, event: TextMessageChunkEvent) -> Iterator[AgentEvent]:
        """Adds a chunk. A chunk without an id continues the previous message."""
        id = self._chunked or "" if event.message_id is None else id_of(event.message_id)
        if id != self._chunked:
            yield from self._end_of_chunks()
            self._chunked = id
            self._note_role(id, event.role)
        yield from self._delta(id, event.delta or "")

    def _end_of_chunks(self) -> Iterator[AgentEvent]:
        if self._chunked is not None:
            id, self._chunked = self._chunked, None
            yield from self._end(id)

    def _delta(self, id: str, delta: str) -> Iterator[AgentEvent]:
        text = clean(delta)
        if text and id not in self._echoes:
            if len(self._said) < _MESSAGES:
                self._said.add(id)
            yield TextDelta(text=text, message_id=id)

    def _end(self, id: str) -> Iterator[AgentEvent]:
        self._echoes.discard(id)
        if id in self._said:
            self._said.discard(id)
            yield TextEnded(message_id=id)

    def _note_role(self, id: str, role: str | None) -> None:
        if role in (None, "assistant"):
            self._echoes.discard(id)
        elif len(self._echoes) < _MESSAGES:
            self._echoes.add(id)


class _Sources:
    """The source of the current text: the agent itself or a sub-agent."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}  # of sub-agents, by the id of their run
        self._namespace: str | None = None  # applies to events without their own source
        self._told: str | None = None

    def of(self, event: Event) -> str | None:
        """Returns the sub-agent that sent an event; None for the agent itself."""
        run = id_of(getattr(event, "subagent_run_id", None))
        return self._names.get(run, run) if run else self._namespace

    def read(self, event: Event) -> Iterator[AgentEvent]:
        """Yields a change of source before the first text from that source."""
        match event:
            case SubagentStartedEvent():
                self._note_name(id_of(event.subagent_run_id), line_of(event.name))
            case CustomEvent(name=name) if name == NAMESPACE_CONTEXT:
                self._namespace = _namespace_of(event.value)
                yield from self._tell(self._namespace)
            case _ if isinstance(event, _TEXT):
                yield from self._tell(self.of(event))

    def _note_name(self, run: str, name: str) -> None:
        if run and name and len(self._names) < _SUB_AGENTS:
            self._names[run] = name

    def _tell(self, source: str | None) -> Iterator[AgentEvent]:
        if source != self._told:
            self._told = source
            yield SourceChanged(sub_agent=source)


def _namespace_of(value: object) -> str | None:
    """Returns the sub-agent in a ``NAMESPACE_CONTEXT``; None if it has no name.

    The value is a name, a path of names, or an object with either under ``namespace``.
    """
    if is_object(value):
        value = first(value, "namespace", "agent", "name")
    if isinstance(value, list):
        value = "/".join(part for part in value if isinstance(part, str) and part)
    return line_of(value) or None


class Translator:
    """A translator of one stream, event by event. Events after the first end of the run are ignored.

    The events may arrive in any order: text without a beginning, results of unknown tools, a run without a start. The
    memory used for a run is bounded, regardless of its length. Raises nothing.
    """

    def __init__(self, run_id: str = "", dialect: Dialect = Dialect.AGUI) -> None:
        self._wire = Wire(run_id)
        self._sources = _Sources()
        self._texts = _Texts()
        self._tools = Tools(dialect)
        self._plans = Plans(self._tools)
        self._steps = Steps()
        self._endings = Endings(self._tools)
        self.is_over = False

    def feed(self, data: str) -> tuple[AgentEvent, ...]:
        """Translates the data of one server-sent event. The result is often empty."""
        event = None if self.is_over else self._wire.read(data)
        return tuple(self._translated(event)) if event is not None else ()

    def end(self) -> tuple[AgentEvent, ...]:
        """Translates the end of the stream. The result is empty if the run had already ended."""
        if self.is_over:
            return ()
        self.is_over = True
        if self._wire.read_count:
            return (_BROKE_OFF,)
        return (_NOT_UNDERSTOOD,) if self._wire.skipped_count else (_NOTHING_CAME,)

    def _translated(self, event: Event) -> Iterator[AgentEvent]:
        end = self._endings.read(event)
        if end is not None:
            yield from self._last(event, end)
            return
        source = self._sources.of(event)
        yield from self._tools.read(event, is_own=source is None)
        if source is None:
            yield from self._plans.read(event)
        yield from self._steps.read(event)
        yield from self._sources.read(event)
        yield from self._texts.read(event)

    def _last(self, event: Event, end: RunEnd) -> Iterator[AgentEvent]:
        self.is_over = True
        yield from self._texts.read(event)
        match end:
            case Finished():
                yield from self._tools.finish()
            case Interrupted(asked=asked):
                yield from self._tools.reopen([one.tool.name for one in asked if one.tool])
        yield end


def answer_in(body: bytes) -> RunEnd:
    """Reads ``{"success": true, "content": "…"}`` or ``{"success": false, "error": "…"}``."""
    answer = parsed(body.decode(errors="replace"))
    if not is_object(answer):
        return Broken(reason=NOT_AN_ANSWER)
    error = first(answer, "error", "detail")
    if answer.get("success") is False or (error and not answer.get("success")):
        return failed(first(error, "message", "detail") if is_object(error) else error)
    if cut := cut_off(answer):
        return cut
    text = text_in(answer)
    return Finished(result=text) if text else Broken(reason=NOT_AN_ANSWER)


async def collected(events: AsyncIterable[AgentEvent]) -> RunEnd:
    """Returns the end of a run. If the run succeeded, its result contains the text of all messages."""
    texts: list[str] = []
    message_id, is_own = "", True
    async for event in events:
        match event:
            case SourceChanged(sub_agent=sub_agent):
                is_own = sub_agent is None
            case TextDelta() if is_own:
                texts.append("\n\n" if texts and event.message_id != message_id else "")
                texts.append(event.text)
                message_id = event.message_id
            case Finished(result=result):
                return Finished(result=_joined("".join(texts), result) or None)
            case Interrupted() | Cancelled() | Failed() | Broken():
                return event
    return _BROKE_OFF


def _joined(text: str, result: str | None) -> str:
    """Joins the texts and the result. A result that was already written is not repeated."""
    if not result or result.strip() in text:
        return text
    return f"{text}\n\n{result}" if text else result
