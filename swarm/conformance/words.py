"""Comparison of texts by their words: changes of blanks, signs and code fences by Slack and Markdown do not count."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Final

PASSAGE_CHARACTERS: Final = 120
"""Shorter passages may well occur twice in a good answer: a command, the row of a table, a refrain."""

_FENCE = re.compile(r"^[ \t]*(?:```|~~~).*$", re.MULTILINE)  # repeated where a code block goes on in another message
_WORD = re.compile(r"\w+")


def words(text: str) -> str:
    """Returns the words of a text, with one blank between them and none around."""
    return " ".join(_WORD.findall(_FENCE.sub(" ", html.unescape(text)).casefold()))


def said_twice(text: str) -> str:
    """Returns a passage that occurs twice in a text, in words; empty if there is none.

    Its length is `PASSAGE_CHARACTERS`, or half of a short text.
    """
    flat = words(text)
    length = min(PASSAGE_CHARACTERS, (len(flat) - 1) // 2)
    if length <= 0:
        return ""
    first_at: dict[str, int] = {}
    for at in _beginnings(flat, len(flat) - length):
        passage = flat[at : at + length]
        if at - first_at.setdefault(passage, at) >= length:
            return passage
    return ""


def _beginnings(flat: str, last: int) -> Iterator[int]:
    """Yields the beginnings of words, up to a position."""
    at = 0
    while 0 <= at <= last:
        yield at
        at = flat.find(" ", at) + 1 or -1
