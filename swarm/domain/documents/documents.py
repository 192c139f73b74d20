"""Documents that agents can search: the files of one folder, read in pieces that can be found and cited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

SEARCH_LIMIT: Final = 5
MOST_RESULTS: Final = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundDocument:
    """A document that a search has found."""

    id: str  # its path below the folder, with slashes
    title: str  # its first heading, else its name
    excerpt: str  # the lines that fit best, plain text
    score: float  # larger is better; comparable within one search only


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A document, whole."""

    id: str
    title: str
    text: str


class Library(Protocol):
    """The documents of one folder."""

    async def search(self, query: str, limit: int = SEARCH_LIMIT) -> Sequence[FoundDocument]:
        """The documents that fit best, best first; none for words that occur nowhere. Any text is a query."""
        ...

    async def fetch(self, document_id: str) -> Document | None:
        """A document by the id that a search gave; None if there is none."""
        ...
