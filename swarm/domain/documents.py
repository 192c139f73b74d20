"""Documents that agents can search: the files of one folder, indexed in pieces that can be found and cited.

Pieces are consecutive slices: joined, they give the document. They begin at headings and paragraphs where possible, and
are short enough to be shown as excerpts of a search. Headings are those of Markdown (``# …``, underlined) and
reStructuredText (underlined, with or without a line above).

The database indexes words in a normalised form, so that both engines find the same documents, however their parsers and
locales treat hyphens, addresses, accents and scripts. Words are runs of letters, digits and their marks, without case,
accents and the English plural "s". Scripts without spaces between words (Chinese, Japanese, Korean, Thai, Lao, Khmer,
Burmese) become overlapping pairs of characters, which find any word of two or more characters.

HTML pages become readable text with Markdown headings.
"""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import unescape
from typing import Final, Protocol

SEARCH_LIMIT: Final = 5
MOST_RESULTS: Final = 20

PIECE_CHARACTERS: Final = 500
"""The maximum size of a piece, and thus of an excerpt."""

MOST_TERMS: Final = 48
"""The maximum number of terms in a query; a pasted error message has more."""

_QUERY_CHARACTERS: Final = 10_000  # the part of a query that is read
_LONGEST_WORD: Final = 64  # the number of characters compared
_PREFIX_FROM: Final = 4  # shorter words are prefixes of too many other words
_LONGEST_PHRASE: Final = 8  # words
_TITLE_CHARACTERS: Final = 200

_MARK: Final = r"[=\-~^\"'*+#]"
_OUTLINE: Final = re.compile(
    r"^ {0,3}(?P<fence>`{3,}|~{3,}).*(?:\n(?! {0,3}(?P=fence)).*)*(?:\n.*)?"  # code, up to its end
    r"|^ {0,3}(?P<level>#{1,6})[ \t]+(?P<marked>\S.{0,999})$"
    rf"|(?<![^\n=\-~^\"'*+#]\n)^(?!(?P<no>{_MARK})(?P=no){{2,}}[ \t]*$)"  # below a blank line or a line of marks
    rf"(?P<underlined>\S.{{0,999}})\n(?P<mark>{_MARK})(?P=mark){{2,}}[ \t]*$",
    re.MULTILINE,
)
_FRONT: Final = re.compile(r"---[ \t]*\n(.{0,4000}?)\n(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL)
_FRONT_TITLE: Final = re.compile(r"^title:[ \t]*(\S.*?)[ \t]*$", re.MULTILINE)
_LINK: Final = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_DECORATION: Final = re.compile(r"[*`]+|<[^<>]*>|\{#[^{}]*\}|[ \t]#+$")

_UNSPACED: Final = (
    "\u0e01-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u1100-\u11ff\uac00-\ud7ff"  # Korean
    "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31f0-\u31ff"  # kana, bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
_RUN: Final = re.compile(rf"([{_UNSPACED}]+)|[^\s{_UNSPACED}]+")
_ACCENT: Final = re.compile(  # and variation selectors
    "[\u0300-\u036f\u0591-\u05c7\u064b-\u0652\u0670\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe00-\ufe0f\U000e0100-\U000e01ef]"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundDocument:
    """A search result."""

    id: str  # the path relative to the folder, with slashes
    title: str  # the first heading, or the file's name without one
    excerpt: str  # the best matching piece, plain text
    score: float  # larger is better; comparable only within one search


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A complete document."""

    id: str
    title: str
    text: str


class Library(Protocol):
    """The documents of one folder."""

    async def search(self, query: str, limit: int = SEARCH_LIMIT) -> Sequence[FoundDocument]:
        """Returns the best matching documents, best first; empty without a match. Any text is a valid query."""
        ...

    async def fetch(self, document_id: str) -> Document | None:
        """Returns a document by its id from a search; None for an unknown id."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexedFile:
    """A file in the index."""

    path: str  # relative to the folder, with slashes
    size: int  # bytes
    modified_ns: int  # nanoseconds since 1970, according to the file system; 0: too recent to be trusted
    digest: str  # the digest of its bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexedPiece:
    """A piece of a document in the index."""

    text: str  # a slice of the document; all pieces together form the document
    heading_words: tuple[str, ...]  # title, headings, path
    words: tuple[str, ...]  # in the order of the text


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentReading:
    """One reading of a file."""

    file: IndexedFile
    pieces: Sequence[IndexedPiece] | None  # None: the text has not changed
    title: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryTerm:
    """One search term: a word, the beginning of a word, or consecutive words."""

    words: tuple[str, ...]  # at least one word
    is_prefix: bool = False  # the word may continue


def title_of(text: str) -> str | None:
    """Returns a document's title from its front matter, or its first heading; None without either."""
    front = _FRONT.match(text)
    named = front and _FRONT_TITLE.search(front[1])
    if named and (title := _plain(named[1].strip("\"'"))):
        return title
    return next((heading for _, _, heading in _headings(text)), None)


def pieces_of(text: str) -> Iterator[tuple[str, Sequence[str]]]:
    """Yields the pieces of a document, each with the headings above and inside it."""
    headings = list(_headings(text))
    starts = [start for start, _, _ in headings]
    trail: dict[int, str] = {}  # by level
    start = 0
    while start < len(text):
        end = _end(text, start, starts)
        inside = headings[bisect_left(starts, start) : bisect_left(starts, end)]
        about = [] if inside and inside[0][0] == start else [*trail.values()]
        for _, level, heading in inside:
            trail = {above: name for above, name in trail.items() if above < level} | {level: heading}
            about.extend(trail.values())
        yield text[start:end], about
        start = end


def words_of(text: str) -> tuple[str, ...]:
    """Returns the words of a text in order, consisting only of letters, digits and marks."""
    words: list[str] = []
    for run in _RUN.finditer(_fold(text).translate(_SEPARATED)):
        words += [run[1][at : at + 2] for at in range(len(run[1]))] if run[1] else [_singular(run[0])[:_LONGEST_WORD]]
    return tuple(words)


def terms_of(query: str) -> tuple[QueryTerm, ...]:
    """Returns the search terms of a query. A document matches if it contains any of them, and ranks higher with more
    matches. Empty for a query without words.

    A chunk without blanks, such as ``gpt-5`` or ``max_tokens``, is a phrase in addition to its words. A word also finds
    longer words with this prefix, at a lower score.
    """
    terms: dict[QueryTerm, None] = {}  # an ordered set
    for chunk in query[:_QUERY_CHARACTERS].split():
        terms.update(dict.fromkeys(_asked(words_of(chunk))))
        if len(terms) >= MOST_TERMS:
            break
    return tuple(terms)[:MOST_TERMS]


def _headings(text: str) -> Iterator[tuple[int, int, str]]:
    """Yields position, level (1 is the highest) and text of each heading, except in fenced code and front matter."""
    front = _FRONT.match(text)
    for found in _OUTLINE.finditer(text, front.end() if front else 0):
        heading = _plain(found["marked"] or found["underlined"] or "")
        if heading:
            yield found.start(), len(found["level"] or "") or {"=": 1, "-": 2}.get(found["mark"], 3), heading


def _plain(heading: str) -> str:
    """Removes markup from a heading."""
    text = _DECORATION.sub("", _LINK.sub(r"\1", heading.rstrip()))
    return " ".join(text.split())[:_TITLE_CHARACTERS].strip()


def _end(text: str, start: int, headings: Sequence[int]) -> int:
    """Returns the end of a piece: a heading in its second half, or else the end of a paragraph, line, sentence
    or word.
    """
    limit = min(len(text), start + PIECE_CHARACTERS)
    half = start + PIECE_CHARACTERS // 2
    following = bisect_left(headings, half)
    if following < len(headings) and headings[following] < limit:
        return headings[following]
    if limit == len(text):
        return limit
    for mark in ("\n\n", "\n", ". ", "。", " "):
        if (found := text.rfind(mark, half, limit)) >= 0:
            return found + len(mark)
    return limit


def _asked(words: tuple[str, ...]) -> Iterator[QueryTerm]:
    """Yields the terms of a chunk without blanks: each word, and all words as a phrase if there are only a few."""
    whole = [word for word in words if len(word) > 1 or not _is_unspaced(word)]  # without the last halves of pairs
    if 1 < len(whole) <= _LONGEST_PHRASE:
        yield QueryTerm(words=tuple(whole))
    for word in whole or words:
        is_unspaced = _is_unspaced(word)
        if len(word) > 1 or not is_unspaced:
            yield QueryTerm(words=(word,))
        if len(word) == 1 if is_unspaced else len(word) >= _PREFIX_FROM:
            yield QueryTerm(words=(word,), is_prefix=True)


def _is_unspaced(word: str) -> bool:
    run = _RUN.match(word)
    return run is not None and run[1] is not None


def _fold(text: str) -> str:
    """Removes case and accents, and normalises compatible characters."""
    apart = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFKC", _ACCENT.sub("", apart)).casefold()


def _singular(word: str) -> str:
    """Removes a plural ending based only on spelling. Mistakes do no harm, because queries and texts share them."""
    if len(word) < 4 or not word.endswith("s") or not word.isascii() or word.endswith(("ss", "us")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return word[:-3] + "y"
    return word[:-2] if word.endswith(("sses", "xes")) else word[:-1]


class _Separated(dict[int, str]):
    """A map from each character's code point to the character if it belongs to a word, or to a blank. Filled on
    demand.
    """

    def __missing__(self, number: int) -> str:
        category = unicodedata.category(chr(number))  # Cf: soft hyphens and joiners inside words, but not part of them
        self[number] = chr(number) if category[0] in "LNM" else "" if category == "Cf" else " "
        return self[number]


_SEPARATED: Final = _Separated()


_SILENT: Final = frozenset({"script", "style", "template", "svg", "noscript", "iframe", "select", "math"})
_LINES: Final = frozenset({"dd", "dt", "li", "td", "th", "tr"})
_BLOCKS: Final = _LINES | {
    *("address", "article", "aside", "blockquote", "body", "details", "div", "dl", "figcaption", "figure", "footer"),
    *("form", "header", "hr", "main", "nav", "ol", "p", "pre", "section", "summary", "table", "ul"),
}
_BEFORE: Final = {"li": "\n- ", "tr": "\n", "dd": "\n", "td": " ", "th": " "}  # others get a blank line
_HEADINGS: Final = {f"h{level}": "#" * level for level in range(1, 7)}


_MARKUP: Final = re.compile(  # always matches to its end, so that a page is read once, whatever it contains
    r"<!--.*?(?:-->|\Z)|<[!?][^>]*+>?|</(?P<end>[a-z][^\s/>]*+)?[^>]*+>?"
    r"|<(?P<start>[a-z][^\s/>]*+)(?:=\s*+(?:\"[^\"]*+\"?|'[^']*+'?)|[^>])*+>?",
    re.IGNORECASE | re.DOTALL,
)
_CODE_END: Final = {tag: re.compile(rf"</{tag}(?=[\s/>])", re.IGNORECASE) for tag in ("script", "style")}
_MOST_SILENT: Final = 100


def text_of(page: str) -> str:
    """Returns the text of a page, preceded by its title unless the page has a first-level heading. Accepts any text."""
    reader = _Reader()
    reader.read(page)
    text = re.sub(r"\n\s*\n", "\n\n", "".join(reader.parts)).strip()
    title = " ".join("".join(reader.title).split())
    return f"# {title}\n\n{text}" if title and not reader.has_heading else text


class _Reader:
    """Collects the readable text. The library's parser takes minutes for some pages of twenty kilobytes."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.title: list[str] = []
        self.has_heading = False  # a first-level heading
        self._silent: list[str] = []  # the open elements whose content is ignored
        self._in_title = False
        self._preformatted = 0

    def read(self, page: str) -> None:
        """Reads a whole page."""
        at = 0
        while found := _MARKUP.search(page, at):
            if found.end() == len(page) and page[-1] != ">":  # it does not end, so it is none
                break
            self._data(page[at : found.start()])
            at = found.end()
            if start := (found["start"] or "").lower():
                self._start(start)
                if page[at - 2] == "/":
                    self._end(start)
                elif start in _CODE_END:
                    code_end = _CODE_END[start].search(page, at)
                    at = code_end.start() if code_end else len(page)
            elif found["end"]:
                self._end(found["end"].lower())
        self._data(page[at:])

    def _start(self, tag: str) -> None:
        if tag in _SILENT:
            self._silent += [tag] if len(self._silent) < _MOST_SILENT else []
        elif tag == "title" and not self._silent:
            self._in_title = True
        elif tag in _HEADINGS:
            self.has_heading = self.has_heading or tag == "h1"
            self.parts.append(f"\n\n{_HEADINGS[tag]} ")
        elif tag == "br":
            self.parts.append("\n")
        elif tag in _BLOCKS:
            self._preformatted += tag == "pre"
            self.parts.append(_BEFORE.get(tag, "\n\n"))

    def _end(self, tag: str) -> None:
        if tag in _SILENT and tag in self._silent:
            del self._silent[self._silent.index(tag) :]
        elif tag == "title":
            self._in_title = False
        elif tag in _HEADINGS or (tag in _BLOCKS and tag not in _LINES):
            self._preformatted = max(0, self._preformatted - (tag == "pre"))
            self.parts.append("\n\n")

    def _data(self, data: str) -> None:
        if self._silent and not self._in_title:
            return
        with suppress(ValueError):  # a number of too many digits
            data = unescape(data)
        if self._in_title:
            self.title.append(data)
        else:
            self.parts.append(data if self._preformatted else re.sub(r"\s+", " ", data))
