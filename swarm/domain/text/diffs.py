"""Unified diffs, in a time that grows with the texts' size whatever they contain: others have written both.

Lines that occur once in both texts hold them together, and between these, equal beginnings and ends are kept. A diff is
exact, but not always the shortest. https://bramcohen.livejournal.com/73318.html
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

CONTEXT_LINES: Final = 3

_Row = tuple[str, str, int, int]  # the sign, the line, and how many lines of the old and the new text come before it


@lru_cache(maxsize=8)
def unified(old: str, new: str) -> tuple[str, ...]:
    """Returns the hunks of a unified diff with three lines of context; no lines for equal texts."""
    rows = list(_rows(_lines(old), _lines(new)))
    shown = {
        near
        for place, row in enumerate(rows)
        if row[0] != " "
        for near in range(max(place - CONTEXT_LINES, 0), min(place + CONTEXT_LINES + 1, len(rows)))
    }
    hunks: list[list[_Row]] = []
    for place in sorted(shown):
        if place - 1 not in shown:
            hunks.append([])
        hunks[-1].append(rows[place])
    return tuple(line for hunk in hunks for line in (_head(hunk), *(sign + text for sign, text, _, _ in hunk)))


def changed_lines(diff: Sequence[str]) -> tuple[int, int]:
    """Returns how many lines a diff adds and removes."""
    return sum(line.startswith("+") for line in diff), sum(line.startswith("-") for line in diff)


def _lines(text: str) -> list[str]:
    return text.split("\n") if text else []


def _head(hunk: Sequence[_Row]) -> str:
    olds, news = (sum(sign != other for sign, *_ in hunk) for other in "+-")
    return f"@@ -{hunk[0][2] + bool(olds)},{olds} +{hunk[0][3] + bool(news)},{news} @@"


def _rows(old: Sequence[str], new: Sequence[str]) -> Iterator[_Row]:
    at, to = 0, 0
    for one, other in [*_kept(old, new), (len(old), len(new))]:
        yield from (("-", old[place], place, to) for place in range(at, one))
        yield from (("+", new[place], one, place) for place in range(to, other))
        if one < len(old):
            yield (" ", old[one], one, other)
        at, to = one + 1, other + 1


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
    found = [(place, places[line]) for place, line in enumerate(old) if line in once]
    lasts: list[int] = []  # the place in the new text at which a row of each length ends earliest
    rows: list[int] = []  # the pair at that end
    before: list[int | None] = []
    for number, (_, place) in enumerate(found):
        length = bisect_left(lasts, place)
        lasts[length : length + 1], rows[length : length + 1] = [place], [number]
        before.append(rows[length - 1] if length else None)
    chosen: list[tuple[int, int]] = []
    last = rows[-1] if rows else None
    while last is not None:
        chosen.append(found[last])
        last = before[last]
    return chosen[::-1]
