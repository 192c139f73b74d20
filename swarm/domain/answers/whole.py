"""An answer that is not shown live: what a run said in all, as it would have been shown."""

from __future__ import annotations

from collections.abc import Iterable

from swarm.domain.answers.agent_events import hear, stop
from swarm.domain.answers.events import AgentEvent, Broken, ToolEnded, ToolStarted
from swarm.domain.answers.reducer import begin
from swarm.domain.answers.showing import AnswerShown
from swarm.domain.answers.state import text_of


class AnswerCollector:
    """Takes the events of a run; `shown` is what came of them."""

    def __init__(self, mentionable: Iterable[str] = ()) -> None:
        self._live, _ = begin(0.0, mentionable=mentionable)

    @property
    def is_over(self) -> bool:
        """Whether nothing counts any more."""
        return self._live.outcome is not None

    def hear(self, event: AgentEvent) -> None:
        """Take one event; tools and steps are shown nowhere."""
        if not isinstance(event, ToolStarted | ToolEnded):
            self._live, _ = hear(self._live, event, 0.0)

    def stop(self, by: str | None) -> None:
        """A person does not want the answer any more."""
        self._live, _ = stop(self._live, by, 0.0)

    def shown(self) -> AnswerShown:
        """Everything as one text, to be posted. A run that has not ended breaks off here."""
        if not self.is_over:
            self.hear(Broken(reason="it stopped in the middle of its answer"))
        live = self._live
        assert live.outcome is not None  # it was ended just now
        return AnswerShown(
            outcome=live.outcome, text=str(live.said), leftover=text_of(live.queue), closing=live.closing
        )
