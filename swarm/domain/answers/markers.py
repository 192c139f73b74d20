"""Words of agents to their surroundings that no person should read: ``[FINAL ANSWER]`` and its like."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

_FIXED: Final = ("[FINAL ANSWER]", "[DEFER]", "[LOW_CONFIDENCE]", "[CONFIDENCE:")
_LONGEST: Final = 80
_MARKER = re.compile(r"\[(?:FINAL ANSWER|DEFER|LOW_CONFIDENCE|CONFIDENCE:[^\]\n]{0,64})\]", re.IGNORECASE)
_AFTER_MARKER = re.compile(r"[ \t]*\n?")


@dataclass(frozen=True, kw_only=True, slots=True)
class Markers:
    """Takes markers out of a text that comes in pieces.

    A marker at the start of a line takes the blanks behind it along, and the line's end if nothing else stands there.
    """

    held: str = ""  # may be the beginning of a marker
    at_line_start: bool = True
    eats: bool = False  # blanks, after a marker at the start of a line

    def feed(self, text: str) -> tuple[Markers, str]:
        """What is certainly no marker, up to where one may begin."""
        if not self.held and not self.eats and "[" not in text:
            return self._passed(text)
        text = self.held + text
        hold = _may_begin(text)
        return replace(self, held=text[hold:])._without(text[:hold])

    def end(self) -> tuple[Markers, str]:
        """What was held back was no marker."""
        return replace(self, held="")._without(self.held)

    def _without(self, text: str) -> tuple[Markers, str]:
        kept: list[str] = []
        state, at = self, 0
        for found in _MARKER.finditer(text):
            state, piece = state._passed(text[at : found.start()])
            kept.append(piece)
            state = replace(state, eats=state.at_line_start)
            at = found.end()
        state, piece = state._passed(text[at:])
        return state, "".join([*kept, piece])

    def _passed(self, text: str) -> tuple[Markers, str]:
        """Text without markers, and the state after it."""
        if self.eats and text:
            blank = _AFTER_MARKER.match(text)
            end = blank.end() if blank else 0
            goes_on = end == len(text) and not text.endswith("\n")
            text = text[end:]
            if not text:
                return replace(self, eats=goes_on), ""
        ends_line = text.endswith("\n")
        if not text or (not self.eats and ends_line == self.at_line_start):
            return self, text
        return replace(self, eats=False, at_line_start=ends_line), text


def without_markers(text: str) -> str:
    """A whole text without its markers."""
    state, begun = Markers().feed(text)
    return begun + state.end()[1]


def _may_begin(text: str) -> int:
    """Where a marker may begin that is not whole yet; the text's length if nowhere."""
    start = text.rfind("[", max(0, len(text) - _LONGEST))
    if start >= 0 and _is_beginning(text[start:].upper()):
        return start
    return len(text)


def _is_beginning(piece: str) -> bool:
    if "]" in piece or "\n" in piece:
        return False
    return any(marker.startswith(piece) for marker in _FIXED) or piece.startswith("[CONFIDENCE:")
