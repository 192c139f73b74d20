"""The interfaces between a run and the display of its answer, live (`Showing`) or in one piece (`AnswerCollector`)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Container, Iterable
from dataclasses import dataclass
from typing import Protocol

from swarm.domain.answers.agent_events import stop, take_event
from swarm.domain.answers.calls import (
    NOTHING_BELOW,
    AnswerTarget,
    CloseStream,
    Closing,
    PostPage,
    SessionState,
    Slot,
    StreamCall,
    UpdatePage,
)
from swarm.domain.answers.events import AgentEvent, AnswerOutcome, Broken, Finished, TextDelta, ToolEnded, ToolStarted
from swarm.domain.answers.reducer import begin
from swarm.domain.answers.state import text_of
from swarm.domain.answers.text import withheld_by
from swarm.domain.model.deliveries import Answer
from swarm.domain.model.runs import SilentEnd

Last = CloseStream | PostPage | UpdatePage
"""A call that may end an answer."""


MayCall = Callable[[], Awaitable[bool]]
"""Whether Slack may be called. Awaited immediately before each call; True only when certain."""


class AnswerLost(Exception):
    """Another process now shows answers, or another run gives this answer. This process must not show anything else."""


class PageRecord(Protocol):
    """The record of an answer's messages, used for recovery after a crash."""

    async def beginning(self, page: int, *, is_post: bool) -> None:
        """Records that a message is about to start."""
        ...

    async def began(self, page: int, ts: str) -> None:
        """Records that a message has started."""
        ...

    async def begins_after(self, page: int) -> int:
        """Returns a time on Slack's clock, in microseconds, before any possible start of a message; 0 if unknown."""
        ...

    async def leaving(self, page: int, text: str) -> None:
        """Records that a message with this text is about to be closed; the answer continues in another message."""
        ...

    async def ending(self, call: Last, outcome: AnswerOutcome) -> Closing:
        """Records that the last call of an answer is about to be made, with its complete content. Returns the blocks to
        be shown with it.
        """
        ...

    async def ended(self, page: int, text: str) -> None:
        """Records that a message with this text is final."""
        ...

    async def showing_status(self) -> None:
        """Records, before the call, that the answer shows a status line. Never raises."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class AnswerShown:
    """The end of an answer. Non-empty ``leftover`` and ``closing`` still have to be posted."""

    outcome: AnswerOutcome
    text: str = ""  # the agent's complete text, plain
    leftover: str = ""  # safe for Slack
    closing: Closing = NOTHING_BELOW
    withheld: SilentEnd | None = None  # of a complete answer: why it is not shown if nobody has asked for it


class LiveSlack(Protocol):
    """The Slack calls for live answers."""

    async def acquire_slot(self, slot: Slot, channel: str) -> None:
        """Waits until Slack's limits allow a call."""
        ...

    def expected_wait_seconds(self, slot: Slot, channel: str) -> float:
        """Returns how long :meth:`acquire_slot` is expected to wait."""
        ...

    async def call(self, place: AnswerTarget, call: StreamCall) -> Answer:
        """Makes one call immediately, once, and returns its result."""
        ...

    async def find(
        self, place: AnswerTarget, page: int, after_us: int, known: Container[str], *, is_post: bool = False
    ) -> str | None:
        """Searches for a message that may have been created. Raises Unavailable or NotFound."""
        ...

    async def status(self, place: AnswerTarget, text: str, *, session: SessionState = SessionState.PROCESSING) -> bool:
        """Sets the status line, and the state of the agent's session; an empty text clears the line. Never raises.

        Returns False if Slack did not take it, and another attempt may help.
        """
        ...

    @property
    def shows_stop(self) -> bool:
        """Whether Slack shows its own Stop button while an answer grows, as far as known."""
        ...


class Showing(Protocol):
    """One answer while it is shown in Slack."""

    def stop(self, by: str | None = None) -> None:
        """Stops the answer at a person's request; ``by`` is the user id."""
        ...

    def lose(self) -> None:
        """Records that another process now gives the answer: `show` makes no more calls and raises AnswerLost."""
        ...

    def grow_for_all(self) -> None:
        """Goes on in posts that everybody sees growing, because others take part in the thread."""
        ...

    async def seal(self) -> None:
        """Ends the current message after all content so far. Waits until Slack has accepted it, or accepts no more."""
        ...

    def go_on(self) -> None:
        """Goes on in another message after `seal`."""
        ...

    async def show(self, events: AsyncGenerator[AgentEvent, None]) -> AnswerShown:
        """Shows a run to its end and always closes the generator. Raises AnswerLost."""
        ...


class Stage(Protocol):
    """The factory for the displays of answers."""

    @property
    def slack(self) -> LiveSlack: ...

    def answer(
        self, place: AnswerTarget, *, mentionable: Iterable[str], record: PageRecord, may_call: MayCall, pages: int = 0
    ) -> Showing:
        """Returns the display of a new answer, below ``pages`` sealed messages that contain its earlier beginning.

        It grows as a native stream unless the place's settings, or `Showing.grow_for_all`, say otherwise.
        """
        ...


class AnswerCollector:
    """The collector of events of a run that is not shown live; `shown` returns the complete answer."""

    def __init__(self, mentionable: Iterable[str] = ()) -> None:
        self._live, _ = begin(0.0, mentionable=mentionable)
        self._said: list[str] = []  # the agent's text with its markers
        self._is_complete = False

    @property
    def is_over(self) -> bool:
        """Whether later events are ignored."""
        return self._live.outcome is not None

    def hear(self, event: AgentEvent) -> None:
        """Processes one event; tools are not shown."""
        if self.is_over or isinstance(event, ToolStarted | ToolEnded):
            return
        if isinstance(event, TextDelta) and self._live.sub_agent is None:
            self._said.append(event.text)
        if isinstance(event, Finished):
            self._said.append(f"\n{event.result or ''}")
            self._is_complete = True
        self._live, _ = take_event(self._live, event, 0.0)

    def stop(self, by: str | None) -> None:
        """Stops the answer at a person's request."""
        self._live, _ = stop(self._live, by, 0.0)

    def shown(self) -> AnswerShown:
        """Returns the answer as one text to be posted. A run without an end counts as broken off."""
        if not self.is_over:
            self.hear(Broken(reason="it stopped in the middle of its answer"))
        live = self._live
        assert live.outcome is not None  # a `Broken` event has just ended the run
        return AnswerShown(
            outcome=live.outcome,
            text=str(live.full_text),
            leftover=text_of(live.queue),
            closing=live.closing,
            withheld=withheld_by("".join(self._said)) if self._is_complete else None,
        )
