"""A text that grows by small pieces and may become long: adding costs no more than a few kilobytes of copying."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_TAIL_CHARACTERS: Final = 4_096


@dataclass(frozen=True, kw_only=True, slots=True)
class Rope:
    """An immutable text in pieces."""

    pieces: tuple[str, ...] = ()
    tail: str = ""
    length: int = 0

    def __add__(self, text: str) -> Rope:
        if not text:
            return self
        tail, length = self.tail + text, self.length + len(text)
        if len(tail) < _TAIL_CHARACTERS:
            return Rope(pieces=self.pieces, tail=tail, length=length)
        return Rope(pieces=(*self.pieces, tail), length=length)

    def __str__(self) -> str:
        return "".join([*self.pieces, self.tail])

    def ends_with(self, ending: str) -> bool:
        """Whether the text ends so; only as much is looked at as needed."""
        last = "".join([*self.pieces[-1:], self.tail]) if len(self.tail) < len(ending) else self.tail
        return last.endswith(ending)
