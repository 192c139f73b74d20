"""What of a final result has not been said yet.

Some agents send their whole answer once more at the end, some only then, and some the rest of it. Blanks do not count
in the comparison: agents trim and wrap.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class Missing:
    """What is still to be shown; ``goes_on`` is whether it continues the last text message."""

    text: str = ""
    goes_on: bool = False


def missing_of(result: str, said: str, last: str) -> Missing:
    """What of ``result`` is in neither everything that was ``said`` nor the ``last`` text message of it."""
    wanted, spoken = result.split(), said.split()
    if not wanted or _contains(spoken, wanted):
        return Missing()
    for begun in (said, last):
        rest = _rest_behind(result, begun)
        if rest is not None:
            return Missing(text=rest, goes_on=True)
    return Missing(text=result)


def _contains(words: list[str], wanted: list[str]) -> bool:
    """Whether some words stand somewhere among others, in a row."""
    return f" {' '.join(wanted)} " in f" {' '.join(words)} "


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
