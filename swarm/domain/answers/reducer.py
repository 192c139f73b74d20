"""The reducer of live answers: the agent's events, Slack's results and time become Slack calls.

``step(state, input, now) -> (state, commands)`` is pure. The rules:

- The agent's text is shown once and in order, over as many Slack messages as needed.
- The first text opens a stream at once. Later text is appended at the ends of lines or after an interval. At most one
  call is in flight, and its content is chosen when its slot is granted.
- A call that certainly failed is repeated. If the outcome is unknown, a message that may have been created is searched
  for, and a message that may have grown is overwritten. Where Slack does not support streams, messages are posted and
  updated.
- Every end of a run is visible to people, with its reason.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import assert_never

from swarm.domain.answers import wording
from swarm.domain.answers.agent_events import pass_break, seal_page, stop, take_event
from swarm.domain.answers.calls import Command, Slot
from swarm.domain.answers.events import AgentEvent
from swarm.domain.answers.sending import GIVE_UP_SECONDS, advance, wake_at
from swarm.domain.answers.slack_results import take_location, take_result
from swarm.domain.answers.state import Live, Pace, PageMode
from swarm.domain.answers.text import SafeText
from swarm.domain.model.deliveries import Answer

__all__ = [
    "AgentEventReceived",
    "BreakPassed",
    "GrowForAll",
    "Input",
    "Live",
    "Pace",
    "PageLocated",
    "SealRequested",
    "SlackAnswered",
    "SlotGranted",
    "StopRequested",
    "Tick",
    "begin",
    "step",
    "wake_at",
]


@dataclass(frozen=True, kw_only=True, slots=True)
class AgentEventReceived:
    """An event sent by the agent."""

    event: AgentEvent


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotGranted:
    """Slack's limits allow a requested call."""

    slot: Slot


@dataclass(frozen=True, kw_only=True, slots=True)
class SlackAnswered:
    """The result of the call in flight."""

    answer: Answer


@dataclass(frozen=True, kw_only=True, slots=True)
class PageLocated:
    """The result of a search: the message's timestamp, or None if Slack does not have the message."""

    ts: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class StopRequested:
    """A person's request to stop the answer; ``by`` is the user id, if known."""

    by: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class SealRequested:
    """A request to show all content so far and to end its message, because another message is about to be posted."""


@dataclass(frozen=True, kw_only=True, slots=True)
class BreakPassed:
    """That message has been posted, or will not be: the answer goes on below it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class GrowForAll:
    """A request to go on in posts, which everybody sees growing, once and for all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """The passage of time."""


Input = (
    AgentEventReceived
    | SlotGranted
    | SlackAnswered
    | PageLocated
    | StopRequested
    | SealRequested
    | BreakPassed
    | GrowForAll
    | Tick
)

Step = tuple[Live, tuple[Command, ...]]


def begin(
    now: float,
    *,
    mentionable: Iterable[str] = (),
    agent_name: str = "",
    mode: PageMode = PageMode.STREAM,
    pace: Pace | None = None,
    pages: int = 0,
    spread: float = 1.0,
) -> Step:
    """Returns the initial state. ``mentionable`` contains the user ids that the answer may mention.

    ``pages`` messages were begun and sealed by another process: the answer starts again below them. ``spread`` is this
    answer's own factor for pauses after failures.
    """
    live = Live(
        text=SafeText(mentionable=frozenset(mentionable)),
        agent_name=agent_name,
        mode=mode,
        pace=pace or Pace(),
        pages=pages,
        spread=spread,
        status_wanted=wording.THINKING,
        status_at=now - GIVE_UP_SECONDS,
    )
    return advance(live, now)


def step(live: Live, taken: Input, now: float) -> Step:
    """Performs one step. ``now`` is in seconds, on any monotonic clock."""
    if live.is_over:
        return live, ()
    live, commands = _take(live, taken, now)
    live, more = advance(live, now)
    return live, (*commands, *more)


def _take(live: Live, taken: Input, now: float) -> Step:
    match taken:
        case AgentEventReceived(event=event):
            return take_event(live, event, now)
        case SlotGranted(slot=slot):
            return _granted(live, slot), ()
        case SlackAnswered(answer=answer):
            return take_result(live, answer, now)
        case PageLocated(ts=ts):
            return take_location(live, ts, now)
        case StopRequested(by=by):
            return stop(live, by, now)
        case SealRequested():
            return seal_page(live), ()
        case BreakPassed():
            return pass_break(live), ()
        case GrowForAll():
            return replace(live, mode=PageMode.POST), ()
        case Tick():
            return _give_up_search(live, now)
        case _:
            assert_never(taken)


def _granted(live: Live, slot: Slot) -> Live:
    return replace(live, asked=live.asked - {slot}, granted=live.granted | {slot})


def _give_up_search(live: Live, now: float) -> Step:
    """Ends a search in Slack that takes too long after the end of the run."""
    if live.finds and live.outcome and now >= live.over_at + GIVE_UP_SECONDS:
        return take_location(live, None, now)
    return live, ()
