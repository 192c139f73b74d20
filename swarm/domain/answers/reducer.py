"""The reducer of live answers: what the agent does, what Slack answers and the clock become calls of Slack.

``step(state, input, now) -> (state, commands)``, and nothing else happens. The rules:

- What the agent says is shown once and in order, all its text messages, over as many Slack messages as it takes.
- The first text opens a stream at once. After that it grows at the ends of lines, or after a while; at most one call
  is under way, and what it carries is chosen when its turn has come.
- A call that certainly did not happen is made again; one that may have happened is looked up (a message that may have
  begun) or overwritten (one that may have grown). Where Slack takes no streams, a message is posted and updated.
- However the run ends, people see that it has, and how.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import assert_never

from swarm.domain.answers import wording
from swarm.domain.answers.agent_events import hear, stop
from swarm.domain.answers.calls import Command, Slot
from swarm.domain.answers.events import AgentEvent
from swarm.domain.answers.sending import GIVE_UP_SECONDS, advance, wake_at
from swarm.domain.answers.slack_results import answered, found
from swarm.domain.answers.state import Live, Pace, PageMode
from swarm.domain.answers.text import SafeText
from swarm.domain.model.deliveries import Answer

__all__ = [
    "AgentEventReceived",
    "Input",
    "Live",
    "Pace",
    "PageLocated",
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
    """The agent did something."""

    event: AgentEvent


@dataclass(frozen=True, kw_only=True, slots=True)
class SlotGranted:
    """Slack's limits leave room for a call that was asked for."""

    slot: Slot


@dataclass(frozen=True, kw_only=True, slots=True)
class SlackAnswered:
    """What became of the call that was under way."""

    answer: Answer


@dataclass(frozen=True, kw_only=True, slots=True)
class PageLocated:
    """The message that was searched for, or that Slack does not have it."""

    ts: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class StopRequested:
    """A person does not want the answer any more; ``by`` is the user id, if it is known."""

    by: str | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Tick:
    """Time has passed."""


Input = AgentEventReceived | SlotGranted | SlackAnswered | PageLocated | StopRequested | Tick

Step = tuple[Live, tuple[Command, ...]]


def begin(
    now: float,
    *,
    mentionable: Iterable[str] = (),
    mode: PageMode = PageMode.STREAM,
    pace: Pace | None = None,
    pages: int = 0,
    spread: float = 1.0,
) -> Step:
    """The state before the agent has said anything. ``mentionable`` are the user ids that the answer may mention.

    ``pages`` messages were begun by another process, and sealed: the answer begins anew behind them. ``spread`` is a
    factor of its own for pauses after failures.
    """
    live = Live(
        text=SafeText(mentionable=frozenset(mentionable)),
        mode=mode,
        pace=pace or Pace(),
        pages=pages,
        spread=spread,
        status_wanted=wording.THINKING,
        status_at=now - GIVE_UP_SECONDS,
    )
    return advance(live, now)


def step(live: Live, taken: Input, now: float) -> Step:
    """One step. ``now`` is in seconds, on any clock that never goes back."""
    if live.is_over:
        return live, ()
    live, commands = _take(live, taken, now)
    live, more = advance(live, now)
    return live, (*commands, *more)


def _take(live: Live, taken: Input, now: float) -> Step:
    match taken:
        case AgentEventReceived(event=event):
            return hear(live, event, now)
        case SlotGranted(slot=slot):
            return _granted(live, slot), ()
        case SlackAnswered(answer=answer):
            return answered(live, answer, now)
        case PageLocated(ts=ts):
            return found(live, ts, now)
        case StopRequested(by=by):
            return stop(live, by, now)
        case Tick():
            return _give_up_search(live, now)
        case _:
            assert_never(taken)


def _granted(live: Live, slot: Slot) -> Live:
    return replace(live, asked=live.asked - {slot}, granted=live.granted | {slot})


def _give_up_search(live: Live, now: float) -> Step:
    """Slack cannot be asked for too long whether it has a message."""
    if live.finds and live.outcome and now >= live.over_at + GIVE_UP_SECONDS:
        return found(live, None, now)
    return live, ()
