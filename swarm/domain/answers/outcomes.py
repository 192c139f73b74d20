"""How a run ended, as people see it."""

from __future__ import annotations

from dataclasses import dataclass

from swarm.domain.answers.events import Asked


@dataclass(frozen=True, kw_only=True, slots=True)
class Answered:
    """The answer is whole."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RunFailed:
    """There is no answer, or it is not whole. ``reason`` is a clause for people."""

    reason: str
    comes_again: bool = False  # the work is handed out again by itself, so nobody is asked to retry it


@dataclass(frozen=True, kw_only=True, slots=True)
class RunStopped:
    """A person did not want it any more; ``by`` is the user id, None where Slack does not say."""

    by: str | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Asks:
    """The agent waits for people."""

    asked: tuple[Asked, ...]


AnswerOutcome = Answered | RunFailed | RunStopped | Asks
