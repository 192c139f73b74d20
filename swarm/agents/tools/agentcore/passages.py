"""The parts of a long text that a task is about."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_PASSAGE_CHARACTERS: Final = 1_000
_LEFT_OUT: Final = "\n[…]\n"


def passages(text: str, task: str, most_characters: int) -> str:
    """A text, cut to a length: what shares most words with the task stays, in the text's order; else its beginning."""
    if len(text) <= most_characters:
        return text
    words = _words(task)
    pieces = list(_pieces(text))
    best = sorted(range(len(pieces)), key=lambda at: (-len(words & _words(pieces[at])), at))
    kept, room = set[int](), most_characters
    for at in best:
        if (room := room - len(pieces[at]) - len(_LEFT_OUT)) < 0:
            break
        kept.add(at)
    return _joined(pieces, kept) or text[:most_characters]


def _joined(pieces: list[str], kept: set[int]) -> str:
    parts = ((pieces[at] if at - 1 in kept or at == 0 else _LEFT_OUT + pieces[at]) for at in sorted(kept))
    return "".join(parts).strip("\n")


def _pieces(text: str) -> Iterator[str]:
    """Runs of lines of about a thousand characters; a longer line is cut."""
    piece = ""
    for line in text.splitlines(keepends=True):
        if piece and len(piece) + len(line) > _PASSAGE_CHARACTERS:
            yield piece
            piece = ""
        piece += line
        while len(piece) > _PASSAGE_CHARACTERS:
            yield piece[:_PASSAGE_CHARACTERS]
            piece = piece[_PASSAGE_CHARACTERS:]
    if piece:
        yield piece


def _words(text: str) -> set[str]:
    return set(re.findall(r"\w{3,}", text.casefold()))
