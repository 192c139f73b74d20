"""What stands below an answer, as JSON text: in its turn, and in a delivery that shows it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pydantic import TypeAdapter

from swarm.domain.answers.calls import AnswerTarget, Closing


@dataclass(frozen=True, kw_only=True, slots=True)
class Below:
    """What a delivery shows below its text, and of which answer it is, as buttons and footer need it."""

    closing: Closing
    place: AnswerTarget


_CLOSING: Final = TypeAdapter(Closing)
_BELOW: Final = TypeAdapter(Below)


def closing_text(closing: Closing) -> str:
    """A closing as the database keeps it."""
    return _CLOSING.dump_json(closing).decode()


def closing_of(text: str | None) -> Closing | None:
    """The closing that was kept, if there is one."""
    return _CLOSING.validate_json(text) if text else None


def below_text(closing: Closing | None, place: AnswerTarget | None) -> str | None:
    """What a delivery shows below its text, as the database keeps it; None where there is nothing to show."""
    if closing is None or place is None:
        return None
    return _BELOW.dump_json(Below(closing=closing, place=place)).decode()


def below_of(text: str | None) -> Below | None:
    """What a delivery is to show below its text, if anything."""
    return _BELOW.validate_json(text) if text else None
