"""Showing an answer while it is given: what the use case that runs agents needs of it, and what it is told.

An answer that is not shown live: what a run said in all, as it would have been shown.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Container, Iterable
from dataclasses import dataclass
from typing import Protocol

from swarm.domain.answers.agent_events import hear, stop
from swarm.domain.answers.calls import AnswerTarget, CloseStream, Closing, PostPage, Slot, StreamCall, UpdatePage
from swarm.domain.answers.events import AgentEvent, AnswerOutcome, Broken, ToolEnded, ToolStarted
from swarm.domain.answers.reducer import begin
from swarm.domain.answers.state import text_of
from swarm.domain.model.deliveries import Answer

Last = CloseStream | PostPage | UpdatePage
"""A call that may end an answer."""


MayCall = Callable[[], Awaitable[bool]]
"""Whether Slack may be called: asked right before each call, and True only if that is certain."""


class LostRight(Exception):
    """Another process shows answers now, or another run gives this one: what this one has must not be shown."""


class PageRecord(Protocol):
    """Whoever must know of an answer's messages after a crash."""

    async def beginning(self, page: int, *, is_post: bool) -> None:
        """A message is about to begin."""
        ...

    async def began(self, page: int, ts: str) -> None:
        """A message has begun."""
        ...

    async def leaving(self, page: int, text: str) -> None:
        """A message with this text is about to be closed, and the answer goes on in another one."""
        ...

    async def ending(self, call: Last, outcome: AnswerOutcome) -> None:
        """The last call of an answer is about to be made: everything is known that it is to show."""
        ...

    async def ended(self, page: int, text: str) -> None:
        """A message will not change any more, and has this text."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerShown:
    """What became of an answer. ``leftover`` and ``closing`` are still to be posted, where they are not empty."""

    outcome: AnswerOutcome
    text: str  # everything that the agent said, plain
    leftover: str  # safe for Slack
    closing: Closing


class LiveSlack(Protocol):
    """Slack, as far as answers that grow are concerned."""

    async def turn(self, slot: Slot, channel: str) -> None:
        """Wait until Slack's limits leave room for such a call."""
        ...

    async def call(self, place: AnswerTarget, call: StreamCall) -> Answer:
        """Make one call, once, at once, and say what became of it."""
        ...

    async def find(
        self, place: AnswerTarget, page: int, after_us: int, known: Container[str], *, is_post: bool = False
    ) -> str | None:
        """Look for a message that may have begun; raises Unavailable or NotFound."""
        ...

    async def status(self, place: AnswerTarget, text: str, *, works: bool | None = None) -> None:
        """Show what is being done, or with an empty text nothing. Never raises."""
        ...


class Showing(Protocol):
    """One answer that is being shown."""

    def stop(self, by: str | None = None) -> None:
        """A person does not want the answer any more; ``by`` is the user id."""
        ...

    def lose(self) -> None:
        """The answer is somebody else's to give: `show` raises LostRight, and makes no further call."""
        ...

    async def show(self, events: AsyncGenerator[AgentEvent, None]) -> AnswerShown:
        """Show a run to its end; the generator is closed in any case. Raises LostRight."""
        ...


class Stage(Protocol):
    """Where answers are shown."""

    @property
    def slack(self) -> LiveSlack: ...

    def answer(
        self, place: AnswerTarget, *, mentionable: Iterable[str], record: PageRecord, may_call: MayCall, pages: int = 0
    ) -> Showing:
        """An answer that is about to be given, behind so many messages that show its beginning and are sealed."""
        ...


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
