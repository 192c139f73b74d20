"""Documents as text: their titles, their pieces for the index, and excerpts of these.

Pieces are slices: joined they give the document. They begin at headings and paragraphs where possible. Headings are
those of Markdown (``# …``, underlined) and reStructuredText (underlined, with or without a line above).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from swarm.domain.documents.query_words import QueryTerm, Span, matches_terms, spans_of

PIECE_CHARACTERS: Final = 1_000
"""The largest size of a piece."""

EXCERPT_CHARACTERS: Final = 500
"""The largest size of an excerpt, including the marks of omissions."""

_FULL_ENOUGH: Final = 250  # a piece of so many characters ends before the next heading
_TITLE_CHARACTERS: Final = 200
_HEADING_LINE: Final = 1_000  # a longer line is no heading
_TRAIL: Final = 3  # the number of headings that describe a piece

_LINE: Final = re.compile(r"[^\n]*\n|[^\n]+")
_MARKED: Final = re.compile(r" {0,3}(#{1,6})[ \t]+(\S[^\n]*?)(?:[ \t]+#+)?\s*$")
_UNDERLINE: Final = re.compile(r"([=\-~^\"'*+#])\1{2,}\s*$")
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_FRONT: Final = re.compile(r"---[ \t]*\n(.{0,4000}?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FRONT_TITLE: Final = re.compile(r"^title:[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)
_LINK: Final = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_DECORATION: Final = re.compile(r"[*`]+|<[^<>]*>|\{#[^{}]*\}")
_SENTENCE_END: Final = re.compile(r"[.!?][\"')\]]?\s|[。！？]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """A slice of a document."""

    text: str
    headings: tuple[str, ...]  # the headings above it and inside it


@dataclass(frozen=True, kw_only=True, slots=True)
class Heading:
    """A heading and its position."""

    start: int  # the first character of its first line
    end: int  # the position after its last line
    level: int  # 1 is the highest
    text: str


def title_of(text: str) -> str | None:
    """Returns a document's title from its front matter, else its first heading; None without either."""
    front = _FRONT.match(text)
    named = front and _FRONT_TITLE.search(front[1])
    if named and (title := _plain(named[1].strip("\"'"))):
        return title
    return next((heading.text for heading in headings_of(text)), None)


def headings_of(text: str) -> Iterator[Heading]:
    """Yields a document's headings in order, except for fenced code and front matter."""
    front = _FRONT.match(text)
    lines = list(_LINE.finditer(text, front.end() if front else 0))
    fence = ""
    for number, line in enumerate(lines):
        mark = _FENCE.match(line[0])
        if fence:
            fence = "" if mark and mark[1].startswith(fence) and not line[0].strip(" \n" + fence[0]) else fence
        elif mark:
            fence = mark[1]
        elif len(line[0]) <= _HEADING_LINE and (heading := _marked(line) or _underlined(lines, number)):
            yield heading


def pieces_of(text: str, most_characters: int = PIECE_CHARACTERS) -> Iterator[Piece]:
    """Yields a document in pieces, as few and as large as headings, paragraphs and the limit allow."""
    trail: list[Heading] = []
    start = end = 0
    inside: list[str] = []
    for begins, ends, heading in _blocks(text):
        too_much = ends - start > most_characters
        if end > start and (too_much or (heading and end - start >= _FULL_ENOUGH)):
            yield from _cut(text[start:end], inside, most_characters)
            start, inside = begins, []
        if heading:
            trail = [above for above in trail if above.level < heading.level] + [heading]
        inside += [above.text for above in trail[-_TRAIL:] if above.text not in inside]
        end = ends
    yield from _cut(text[start:end], inside, most_characters)


def excerpt_of(text: str, terms: tuple[QueryTerm, ...], most_characters: int = EXCERPT_CHARACTERS) -> str:
    """Returns the part of a text with the most search terms, cut between words and marked where cut."""
    clean = re.sub(r"\n\s*\n+", "\n", re.sub(r"[^\S\n]+", " ", text)).strip()
    if len(clean) <= most_characters:
        return clean
    room = most_characters - 2  # for the two marks
    spans = list(spans_of(clean))
    start = _line_before(clean, _densest(spans, terms, room - room // 4), room // 4)
    end = _border(clean, start, start + room)
    before, after = "…" if start else "", "…" if end < len(clean) else ""
    return before + clean[start:end].strip() + after


def _marked(line: re.Match[str]) -> Heading | None:
    found = _MARKED.match(line[0])
    text = _plain(found[2]) if found else ""
    if not found or not text:
        return None
    return Heading(start=line.start(), end=line.end(), level=len(found[1]), text=text)


def _underlined(lines: Sequence[re.Match[str]], number: int) -> Heading | None:
    """Returns a heading from a single line of text with a line of marks below, and optionally one above."""
    under = _UNDERLINE.match(lines[number][0])
    if not under or number == 0:
        return None
    text = _plain(lines[number - 1][0][:_HEADING_LINE])
    above = lines[number - 2] if number > 1 else None
    over = _UNDERLINE.match(above[0]) if above else None
    is_overlined = over is not None and over[1] == under[1]
    if not text or _UNDERLINE.match(text) or (above and above[0].strip() and not is_overlined):
        return None
    start = above.start() if above and is_overlined else lines[number - 1].start()
    return Heading(start=start, end=lines[number].end(), level={"=": 1, "-": 2}.get(under[1], 3), text=text)


def _plain(heading: str) -> str:
    """Removes markup from a heading."""
    text = _DECORATION.sub("", _LINK.sub(r"\1", heading))
    return " ".join(text.split())[:_TITLE_CHARACTERS].strip()


def _blocks(text: str) -> Iterator[tuple[int, int, Heading | None]]:
    """Yields paragraphs with their following blank lines, as positions; a heading belongs to the text below it."""
    headings = {heading.start: heading for heading in headings_of(text)}
    start, heading, body = 0, None, False
    blank = False
    for line in _LINE.finditer(text):
        here = headings.get(line.start())
        if line.start() > start and (here or (blank and body and line[0].strip())):
            yield start, line.start(), heading
            start, heading, body = line.start(), None, False
        heading = here or heading
        blank = not line[0].strip()
        body = body or (not blank and line.start() >= (heading.end if heading else start))
    if start < len(text):
        yield start, len(text), heading


def _cut(text: str, headings: Sequence[str], most_characters: int) -> Iterator[Piece]:
    """Cuts a possibly long text at the ends of lines, else of sentences, else of words."""
    start = 0
    while len(text) - start > most_characters:
        end = _good_end(text, start, start + most_characters)
        yield Piece(text=text[start:end], headings=tuple(headings))
        start = end
    if text[start:]:
        yield Piece(text=text[start:], headings=tuple(headings))


def _good_end(text: str, start: int, limit: int) -> int:
    half = (start + limit) // 2
    line = text.rfind("\n", half, limit)
    if line >= 0:
        return line + 1
    sentence = max((found.end() for found in _SENTENCE_END.finditer(text, half, limit)), default=0)
    return sentence or _border(text, half, limit)


def _border(text: str, start: int, limit: int) -> int:
    """Returns the last position up to ``limit`` outside a word; ``limit`` if there is none."""
    if limit >= len(text):
        return len(text)
    for place in range(limit, start, -1):
        if text[place - 1].isspace() or text[place].isspace():
            return place
    borders = [span.end for span in spans_of(text[start : limit + 1])]
    return start + borders[-2] if len(borders) > 1 else limit


def _densest(spans: Sequence[Span], terms: tuple[QueryTerm, ...], room: int) -> int:
    """Returns the start of the part with the most different search terms, then with the most occurrences."""
    hits = [(span, word) for span in spans for word in span.words if matches_terms(word, terms)]
    best, place, last = (0, 0), 0, 0
    for first, (span, _) in enumerate(hits):
        while last < len(hits) and hits[last][0].end <= span.start + room:
            last += 1
        words = [word for _, word in hits[first:last]]
        if (len(set(words)), len(words)) > best:
            best, place = (len(set(words)), len(words)), span.start
    return place


def _line_before(text: str, place: int, most: int) -> int:
    """Returns the near start of the line or sentence around ``place``; else of an earlier word."""
    near = max(0, place - most)
    line = text.rfind("\n", near, place)
    if line >= 0 or near == 0:
        return line + 1
    sentences = [found.end() for found in _SENTENCE_END.finditer(text, near, place)]
    return sentences[-1] if sentences else (text.find(" ", near, place) + 1 or place)
