"""What of a final result has not been said yet.

Some agents send their whole answer once more at the end, some only then, and some the rest of it. Blanks do not count
in the comparison: agents trim and wrap.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True, slots=True)
class Missing:
    """What is still to be shown; ``goes_on`` is whether it continues the last text message."""

    text: str = ""
    goes_on: bool = False


_SHORT_CHARACTERS: Final = 40
"""So short a result may stand by accident within a sentence about something else."""


def missing_of(result: str, said: str, last: str) -> Missing:
    """What of ``result`` is in neither everything that was ``said`` nor the ``last`` text message of it."""
    if not result.strip() or _is_in(result, said):
        return Missing()
    for begun in (said, last):
        rest = _rest_behind(result, begun)
        if rest is not None:
            return Missing(text=rest, goes_on=True)
    return Missing(text=result)


def _is_in(result: str, said: str) -> bool:
    """Whether a result was said: as whole words in a row, a short one as a whole line or at the very end."""
    wanted = _in_words(result)
    if len(wanted) > _SHORT_CHARACTERS:
        return wanted in _in_words(said)
    return _in_words(said).endswith(wanted) or any(_in_words(line) == wanted for line in said.splitlines())


def _in_words(text: str) -> str:
    return f" {' '.join(text.split())} "


def _rest_behind(result: str, begun: str) -> str | None:
    """What follows in ``result`` on what has begun it; None if it does not begin so."""
    at = 0
    for character in begun:
        if character.isspace():
            continue
        while at < len(result) and result[at].isspace():
            at += 1
        if at >= len(result) or result[at] != character:
            return None
        at += 1
    return result[at:] if begun.strip() else None
