"""The words of documents and queries.

Words consist of letters, digits and their marks; all other characters, including underscores, separate words. The
comparison ignores case, accents and the English plural "s". Scripts without spaces between words (Chinese, Japanese,
Korean, Thai, Lao, Khmer, Burmese) are read in overlapping pairs of characters, which finds any word of two characters
or more. A query's word also finds longer words with this beginning, at a lower score.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

MOST_CHARACTERS: Final = 10_000
"""The largest part of a query that is read."""

MOST_TERMS: Final = 48
"""The largest number of terms of a query; a pasted error message has more."""

_LONGEST_WORD: Final = 64  # compared characters
_PREFIX_FROM: Final = 4  # shorter words begin too many others
_PLURAL_FROM: Final = 4

_UNSPACED: Final = (
    "\u0e01-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Burmese, Khmer
    "\u1100-\u11ff\uac00-\ud7ff"  # Korean
    "\u2e80-\u2fdf\u3005-\u3007\u3040-\u30ff\u3100-\u312f\u31f0-\u31ff"  # kana, bopomofo
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
_RUNS: Final = re.compile(f"[{_UNSPACED}]+|[^{_UNSPACED}]+")
_IS_UNSPACED: Final = re.compile(f"[{_UNSPACED}]")
_CHUNK: Final = re.compile(r"\S+")
_JOINERS: Final = frozenset(  # within words, but not of them: soft hyphen, joiners, variation selectors
    "\u00ad\u200c\u200d\u2060" + "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)
_ACCENTS: Final = re.compile("[\u0300-\u036f\u0591-\u05c7\u064b-\u0652\u0670\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff]")


@dataclass(frozen=True, kw_only=True, slots=True)
class QueryTerm:
    """One search term: a word, the beginning of a word, or consecutive words."""

    words: tuple[str, ...]  # at least one
    is_prefix: bool = False  # the last word may continue


@dataclass(frozen=True, slots=True)
class Span:
    """A run of letters in a text."""

    start: int
    end: int
    words: tuple[str, ...]  # its words for comparison; not empty


class _Separated(dict[int, str]):
    """Maps each character's number to the character if it belongs to a word, else to a blank. Filled on demand."""

    def __missing__(self, number: int) -> str:
        character = chr(number)
        belongs = unicodedata.category(character)[0] in "LNM" or character in _JOINERS
        self[number] = character if belongs else " "
        return self[number]


_SEPARATED: Final = _Separated()


def words_of(text: str) -> tuple[str, ...]:
    """Returns the words of a text in order, consisting of letters, digits and marks only."""
    return tuple(word for chunk in text.translate(_SEPARATED).split() for word in _read(chunk))


def spans_of(text: str) -> Iterator[Span]:
    """Yields the words of a text with their positions."""
    for found in _CHUNK.finditer(text.translate(_SEPARATED)):
        if words := _read(found[0]):
            yield Span(found.start(), found.end(), words)


def terms_of(query: str) -> tuple[QueryTerm, ...]:
    """Returns the search terms of a query: any of them matches, more are better. Empty for a query without words.

    A chunk without blanks, such as ``gpt-5`` or ``max_tokens``, is a phrase in addition to its words.
    """
    terms: dict[QueryTerm, None] = {}  # an ordered set
    for chunk in query[:MOST_CHARACTERS].split():
        words = words_of(chunk)
        terms.update(dict.fromkeys(_asked(words)))
        if len(terms) >= MOST_TERMS:
            break
    return tuple(terms)[:MOST_TERMS]


def matches_terms(word: str, terms: tuple[QueryTerm, ...]) -> bool:
    """Whether a text's word matches one of the terms."""
    return any(word in term.words or (term.is_prefix and word.startswith(term.words[-1])) for term in terms)


def _asked(words: tuple[str, ...]) -> Iterator[QueryTerm]:
    """Yields the terms of a chunk without blanks: each word, and all words as a phrase if they are few."""
    pairs = [word for word in words if len(word) > 1 or not _IS_UNSPACED.match(word)]
    if 1 < len(pairs) <= 8:
        yield QueryTerm(words=tuple(pairs))
    for word in pairs or words:
        if not _IS_UNSPACED.match(word):
            yield QueryTerm(words=(word,))
            if len(word) >= _PREFIX_FROM:
                yield QueryTerm(words=(word,), is_prefix=True)
        else:
            yield QueryTerm(words=(word,), is_prefix=len(word) == 1)


@lru_cache(maxsize=1 << 15)
def _read(chunk: str) -> tuple[str, ...]:
    """Returns the words of a run of letters in the form for comparison."""
    folded = _fold(chunk).translate(_SEPARATED)  # some characters stand for several, not all of them letters
    words: list[str] = []
    for part in folded.split():
        for run in _RUNS.findall(part):
            words.extend(_pairs(run) if _IS_UNSPACED.match(run) else [_singular(run)[:_LONGEST_WORD]])
    return tuple(words)


def _fold(text: str) -> str:
    """Removes case and accents, and normalises compatible characters."""
    apart = unicodedata.normalize("NFKD", text.casefold())
    return unicodedata.normalize("NFKC", _ACCENTS.sub("", apart)).translate(_WITHOUT_JOINERS).casefold()


_WITHOUT_JOINERS: Final = dict.fromkeys(map(ord, _JOINERS))


def _pairs(run: str) -> list[str]:
    """Returns each character with its successor; the last one alone, so that every character begins a word."""
    return [run[position : position + 2] for position in range(len(run))]


def _singular(word: str) -> str:
    """Removes a plural ending by spelling alone. Mistakes do no harm: queries and texts share them."""
    if len(word) < _PLURAL_FROM or not word.endswith("s") or not word.isascii() or word.endswith(("ss", "us")):
        return word
    if word.endswith("ies") and len(word) > _PLURAL_FROM:
        return word[:-3] + "y"
    return word[:-2] if word.endswith(("sses", "xes")) else word[:-1]
