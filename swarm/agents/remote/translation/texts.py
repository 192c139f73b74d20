"""Text messages, and their source: the agent itself, or a sub-agent, whose text stays out of the answer.

AG-UI 1.0 names the sub-agent's run on every event of its own. CAIPE sends ``NAMESPACE_CONTEXT``, which holds for all
events up to the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
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

from swarm.agents.remote.translation.values import clean, first, id_of, is_object, line_of
from swarm.domain.answers.events import AgentEvent, SourceChanged, TextDelta, TextEnded

MESSAGES: Final = 1000
"""The limit of unfinished messages, and of messages of others, stored in one run."""

_BESIDE = (CustomEvent, RawEvent, StateSnapshotEvent, StateDeltaEvent, ActivitySnapshotEvent, ActivityDeltaEvent)
"""Events that may come between the chunks of a message without ending it."""

NAMESPACE_CONTEXT: Final = "NAMESPACE_CONTEXT"

SUB_AGENTS: Final = 500
"""The limit of sub-agents known by name; others are known by the id of their run."""

_TEXT = (TextMessageStartEvent, TextMessageContentEvent, TextMessageChunkEvent)


class Texts:
    """The messages in progress, without echoes of people's and system messages, which some agents send."""

    def __init__(self) -> None:
        self._chunked: str | None = None  # the unfinished message built from chunks
        self._echoes: set[str] = set()
        self._said: set[str] = set()  # unfinished messages with text

    def read(self, event: Event) -> Iterator[AgentEvent]:
        """Yields the text in an event, and the ends of messages."""
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
        """Adds a chunk; a chunk without an id continues the message before it."""
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
            if len(self._said) < MESSAGES:
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
        elif len(self._echoes) < MESSAGES:
            self._echoes.add(id)


class Sources:
    """The source of the current text: the agent or a sub-agent."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}  # of sub-agents, by the id of their run
        self._namespace: str | None = None  # holds for events without a source of their own
        self._told: str | None = None

    def of(self, event: Event) -> str | None:
        """Returns the sub-agent that sent an event; None: the agent itself."""
        run = id_of(getattr(event, "subagent_run_id", None))
        return self._names.get(run, run) if run else self._namespace

    def read(self, event: Event) -> Iterator[AgentEvent]:
        """Yields a change of the source, before its first text."""
        match event:
            case SubagentStartedEvent():
                self._note_name(id_of(event.subagent_run_id), line_of(event.name))
            case CustomEvent(name=name) if name == NAMESPACE_CONTEXT:
                self._namespace = namespace_of(event.value)
                yield from self._tell(self._namespace)
            case _ if isinstance(event, _TEXT):
                yield from self._tell(self.of(event))

    def _note_name(self, run: str, name: str) -> None:
        if run and name and len(self._names) < SUB_AGENTS:
            self._names[run] = name

    def _tell(self, source: str | None) -> Iterator[AgentEvent]:
        if source != self._told:
            self._told = source
            yield SourceChanged(sub_agent=source)


def namespace_of(value: object) -> str | None:
    """Returns the sub-agent in a ``NAMESPACE_CONTEXT``; None without a name.

    The value is a name, a path of names, or an object with either under ``namespace``.
    """
    if is_object(value):
        value = first(value, "namespace", "agent", "name")
    if isinstance(value, list):
        value = "/".join(part for part in value if isinstance(part, str) and part)
    return line_of(value) or None
