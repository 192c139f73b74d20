"""The stored pieces of a polling agent's answer (`slack-stream`), and their translation into events."""

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
    TextDelta,
)

MAX_PIECE_CHARACTERS: Final = 12_000
"""The limit of one piece of text; Slack has the same limit for one call."""

MAX_PIECES: Final = 10_000
"""The largest number of pieces of one answer; each is a row."""

_ONE_MESSAGE: Final = "1"  # pieces continue one message, without blank lines between them


class PieceKind(StrEnum):
    """The kind of a piece, stored in its row."""

    OPENED = "opened"
    SAID = "said"
    TASK = "task"
    DOING = "doing"
    CLOSED = "closed"


@dataclass(frozen=True, kw_only=True, slots=True)
class Opened:
    """The start of an answer: always the first piece, and only the first."""


@dataclass(frozen=True, kw_only=True, slots=True)
class TextAdded:
    """More text."""

    text: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Doing:
    """The agent's current activity, for the status line."""

    what: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Closed:
    """The end of an answer. ``failed`` is the reason of an incomplete answer, as a clause for people; None: complete.

    ``settled`` are the ids of the inbox messages settled by this call.
    """

    failed: str | None = None
    settled: tuple[str, ...] = ()


Piece = Opened | TextAdded | PlanStep | Doing | Closed


def kind_of(piece: Piece) -> PieceKind:
    """Returns the kind stored in the piece's row."""
    match piece:
        case Opened():
            return PieceKind.OPENED
        case TextAdded():
            return PieceKind.SAID
        case PlanStep():
            return PieceKind.TASK
        case Doing():
            return PieceKind.DOING
        case Closed():
            return PieceKind.CLOSED
        case _:
            assert_never(piece)


def event_of(piece: Piece) -> AgentEvent | None:
    """Translates a piece into an event of a run; None for a piece that shows nothing."""
    match piece:
        case Opened():
            return None
        case TextAdded(text=text):
            return TextDelta(text=text, message_id=_ONE_MESSAGE)
        case PlanStep():
            return PlanShown(steps=(piece,))
        case Doing(what=what):
            return StepNamed(name=what)
        case Closed(failed=reason):
            return Finished() if reason is None else Failed(message=reason)
        case _:
            assert_never(piece)
