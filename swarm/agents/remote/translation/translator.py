"""The translation of one run: from the events of an agent's stream to ours."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ag_ui.core import Event

from swarm.agents.remote.translation.endings import Endings
from swarm.agents.remote.translation.progress import Plans, Steps
from swarm.agents.remote.translation.texts import Sources, Texts
from swarm.agents.remote.translation.tools import Tools
from swarm.agents.remote.translation.wire import Wire
from swarm.domain.answers.agents import Dialect, RunEnd
from swarm.domain.answers.events import AgentEvent, Broken, Finished

BROKE_OFF: Final = Broken(reason="it stopped in the middle of its answer")
NOTHING_CAME: Final = Broken(reason="it hung up without an answer")
NOT_UNDERSTOOD: Final = Broken(reason="nothing of what it sent could be understood")


class Translator:
    """Reads a stream, event by event. Events after the first end of the run are ignored.

    The events may come in any order: text without a beginning, results of unknown tools, a run without a start. The
    memory used for a run is bounded, however long the run is. Raises nothing.
    """

    def __init__(self, run_id: str = "", dialect: Dialect = Dialect.AGUI) -> None:
        self._wire = Wire(run_id)
        self._sources = Sources()
        self._texts = Texts()
        self._tools = Tools(dialect)
        self._plans = Plans(self._tools)
        self._steps = Steps()
        self._endings = Endings(self._tools)
        self.is_over = False

    def feed(self, data: str) -> tuple[AgentEvent, ...]:
        """Translates the data of one server-sent event; often into nothing."""
        event = None if self.is_over else self._wire.read(data)
        return tuple(self._translated(event)) if event is not None else ()

    def end(self) -> tuple[AgentEvent, ...]:
        """Translates the end of the stream; into nothing, if the run had ended."""
        if self.is_over:
            return ()
        self.is_over = True
        if self._wire.read_count:
            return (BROKE_OFF,)
        return (NOT_UNDERSTOOD,) if self._wire.skipped_count else (NOTHING_CAME,)

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
        if isinstance(end, Finished):
            yield from self._tools.finish()
        yield end
