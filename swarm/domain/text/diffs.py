"""Unified diffs, in a time that grows with the texts' size whatever they contain: others have written both.

Lines that occur once in both texts hold them together, and between these, equal beginnings and ends are kept. A diff is
exact, but not always the shortest. https://bramcohen.livejournal.com/73318.html
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import Match, SequenceMatcher
from functools import lru_cache
from itertools import groupby
from typing import Any, Final

CONTEXT_LINES: Final = 3


@lru_cache(maxsize=8)
def unified(old: str, new: str) -> tuple[str, ...]:
    """Returns the hunks of a unified diff with three lines of context; no lines for texts of equal lines."""
    olds, news = lines_of(old), lines_of(new)
    shown: list[str] = []
    for hunk in _Matcher(olds, news).get_grouped_opcodes(CONTEXT_LINES):
        (_, at, _, to, _), (_, _, end, _, its_end) = hunk[0], hunk[-1]
        shown.append(f"@@ -{at + (end > at)},{end - at} +{to + (its_end > to)},{its_end - to} @@")
        for kind, begin, end, its_begin, its_end in hunk:
            shown += ((" " if kind == "equal" else "-") + line for line in olds[begin:end])
            shown += ("+" + line for line in news[its_begin:its_end] if kind != "equal")
    return tuple(shown)


def lines_of(text: str) -> list[str]:
    """Returns the lines of a text. The last one may have a line break or not."""
    return text.removesuffix("\n").split("\n") if text else []


def changed_lines(diff: Sequence[str]) -> tuple[int, int]:
    """Returns how many lines a diff adds and removes."""
    return sum(line.startswith("+") for line in diff), sum(line.startswith("-") for line in diff)


class _Matcher(SequenceMatcher[str]):
    """The library's hunks, from another search for equal lines: its own may take the square of their number."""

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        super().__init__(None, old, new, autojunk=False)
        self._texts = old, new

    def get_matching_blocks(self) -> list[Match]:
        old, new = self._texts
        by_place = groupby(enumerate(_kept(old, new)), lambda one: (one[1][0] - one[0], one[1][1] - one[0]))
        runs = ([pair for _, pair in run] for _, run in by_place)
        return [*(Match(*run[0], len(run)) for run in runs), Match(len(old), len(new), 0)]


def _kept(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yields the places of the lines that stay, in order."""
    at, to = 0, 0
    for anchor, its in [*_anchors(old, new), (len(old), len(new))]:
        while at < anchor and to < its and old[at] == new[to]:
            yield at, to
            at, to = at + 1, to + 1
        same = 0
        while anchor - same > at and its - same > to and old[anchor - same - 1] == new[its - same - 1]:
            same += 1
        yield from ((anchor - back, its - back) for back in range(same, 0, -1))
        if anchor < len(old):
            yield anchor, its
        at, to = anchor + 1, its + 1


def _anchors(old: Sequence[str], new: Sequence[str]) -> list[tuple[int, int]]:
    """Returns the places of lines that occur once in both texts: the longest row of them in the same order."""
    counted, places = Counter(old), {line: place for place, line in enumerate(new)}
    once = {line for line, times in Counter(new).items() if times == 1 and counted[line] == 1}
    rows: list[
        Any
    ] = []  # of each length, the row that ends earliest in the new text: its last pair, and what is before
    for pair in ((place, places[line]) for place, line in enumerate(old) if line in once):
        length = bisect_left(rows, pair[1], key=lambda row: row[0][1])
        rows[length : length + 1] = [(pair, rows[length - 1] if length else None)]
    chosen: list[tuple[int, int]] = []
    row = rows[-1] if rows else None
    while row:
        pair, row = row
        chosen.append(pair)
    return chosen[::-1]
