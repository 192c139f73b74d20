"""What a polling agent tells of its answer, piece by piece, and what each piece means for the answer that is shown."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, assert_never

from swarm.domain.answers.events import (
    AgentEvent,
    Failed,
    Finished,
    PlanShown,
    PlanStep,
    StepNamed,
    StepStatus,
    TextDelta,
)

MAX_PIECE_CHARACTERS: Final = 12_000
"""Of one piece of text; Slack takes no more in one call either."""

MAX_PIECES: Final = 10_000
"""So many pieces may one answer have; each is a row."""

_ONE_MESSAGE: Final = "1"  # what is appended goes on where the last piece ended, without a blank line between


class PieceKind(StrEnum):
    """What a piece is; its row says so."""

    OPENED = "opened"
    SAID = "said"
    TASK = "task"
    DOING = "doing"
    CLOSED = "closed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """The answer begins. The first piece of each, and of nothing else."""


@dataclass(frozen=True, kw_only=True, slots=True)
class SaidMore:
    """More text."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskTold:
    """A step of the work, as it is now; the same id again changes its card."""

    id: str
    title: str
    status: StepStatus


@dataclass(frozen=True, kw_only=True, slots=True)
class Doing:
    """What the agent does at the moment, for the status line."""

    what: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Closed:
    """The answer is over. ``failed`` says why it is not whole, as a clause for people; None: it is.

    ``settled`` are the ids of the inbox messages that were settled with it.
    """

    failed: str | None = None
    settled: tuple[str, ...] = ()


Piece = Opened | SaidMore | TaskTold | Doing | Closed


def kind_of(piece: Piece) -> PieceKind:
    """What its row says it is."""
    match piece:
        case Opened():
            return PieceKind.OPENED
        case SaidMore():
            return PieceKind.SAID
        case TaskTold():
            return PieceKind.TASK
        case Doing():
            return PieceKind.DOING
        case Closed():
            return PieceKind.CLOSED
        case _:
            assert_never(piece)


def event_of(piece: Piece) -> AgentEvent | None:
    """The piece as the event of a run; None for one that shows nothing."""
    match piece:
        case Opened():
            return None
        case SaidMore(text=text):
            return TextDelta(text=text, message_id=_ONE_MESSAGE)
        case TaskTold(id=task_id, title=title, status=status):
            return PlanShown(steps=(PlanStep(id=task_id, title=title, status=status),))
        case Doing(what=what):
            return StepNamed(name=what)
        case Closed(failed=reason):
            return Finished() if reason is None else Failed(message=reason)
        case _:
            assert_never(piece)
