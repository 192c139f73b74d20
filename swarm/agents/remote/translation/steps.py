"""What the agent says about its own doing: the names of its steps, and warnings for its operator."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ag_ui.core import CustomEvent, Event, StepFinishedEvent, StepStartedEvent

from swarm.agents.remote.translation.values import first, is_object, line_of, text_of
from swarm.domain.answers.events import AgentEvent, StepNamed, Warned

WARNING: Final = "WARNING"
WARNING_CHARACTERS: Final = 2000
NESTED_STEPS: Final = 100


class Steps:
    """Which steps are open, the innermost last: when one ends, the one around it goes on."""

    def __init__(self) -> None:
        self._open: list[str] = []

    def read(self, event: Event) -> Iterator[AgentEvent]:
        """The name of the step that now runs, or a warning."""
        match event:
            case StepStartedEvent(step_name=name) if line_of(name):
                self._open = [*self._open, line_of(name)][-NESTED_STEPS:]
                yield StepNamed(name=line_of(name))
            case StepFinishedEvent(step_name=name) if line_of(name) in self._open:
                yield from self._close(line_of(name))
            case CustomEvent(name=name) if name == WARNING:
                yield Warned(message=_warning(event.value))

    def _close(self, name: str) -> Iterator[AgentEvent]:
        was = self._open[-1]
        self._open.reverse()
        self._open.remove(name)
        self._open.reverse()
        if self._open and self._open[-1] != was:
            yield StepNamed(name=self._open[-1])


def _warning(value: object) -> str:
    said = first(value, "message", "warning", "text") if is_object(value) else value
    return text_of(said, WARNING_CHARACTERS) or "a warning without words"
