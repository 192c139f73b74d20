"""Text messages of the agent itself and of its sub-agents."""

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
    TextMessageChunkEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
)

from swarm.agents.remote.translation.values import clean, id_of
from swarm.domain.answers.events import AgentEvent, TextDelta, TextEnded

MESSAGES: Final = 1000
"""So many messages that have not ended, and so many that are not the agent's own, are remembered in one run."""

_BESIDE = (CustomEvent, RawEvent, StateSnapshotEvent, StateDeltaEvent, ActivitySnapshotEvent, ActivityDeltaEvent)
"""Between the chunks of a message these may come without ending it."""


class Texts:
    """Which messages are being said.

    Messages of people and of systems, which some agents echo, are left out, and so are ends of what nobody has said.
    """

    def __init__(self) -> None:
        self._chunked: str | None = None  # the message that chunks build and nothing has ended yet
        self._echoes: set[str] = set()
        self._said: set[str] = set()  # messages with text that nothing has ended yet

    def read(self, event: Event) -> Iterator[AgentEvent]:
        """What an event says."""
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
        """A chunk without an id goes on with the message before it."""
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
