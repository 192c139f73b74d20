"""Who is speaking: the agent itself, or a sub-agent whose words are kept out of the answer.

AG-UI 1.0 names the sub-agent's run on every event of its own. CAIPE sends ``NAMESPACE_CONTEXT``, which holds for all
that follows until the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ag_ui.core import (
    CustomEvent,
    Event,
    SubagentStartedEvent,
    TextMessageChunkEvent,
    TextMessageContentEvent,
    TextMessageStartEvent,
)

from swarm.agents.remote.translation.values import first, id_of, is_object, line_of
from swarm.domain.answers.events import AgentEvent, SourceChanged

NAMESPACE_CONTEXT: Final = "NAMESPACE_CONTEXT"
SUB_AGENTS: Final = 500
"""So many sub-agents are known by name; the others by the id of their run."""

_TEXT = (TextMessageStartEvent, TextMessageContentEvent, TextMessageChunkEvent)


class Sources:
    """Whose words come, as far as the events have told."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}  # of sub-agents, by the id of their run
        self._namespace: str | None = None  # holds for events that name nobody
        self._told: str | None = None

    def of(self, event: Event) -> str | None:
        """The sub-agent whose event this is; None: the agent itself."""
        run = id_of(getattr(event, "subagent_run_id", None))
        return self._names.get(run, run) if run else self._namespace

    def read(self, event: Event) -> Iterator[AgentEvent]:
        """A change of who speaks, told before the words."""
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
    """The sub-agent that a ``NAMESPACE_CONTEXT`` names; None where it names none.

    The value is a name, a path of names, or an object with either under ``namespace``.
    """
    if is_object(value):
        value = first(value, "namespace", "agent", "name")
    if isinstance(value, list):
        value = "/".join(part for part in value if isinstance(part, str) and part)
    return line_of(value) or None
