"""Documents that agents can search: the files of one folder, indexed in pieces that can be found and cited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

SEARCH_LIMIT: Final = 5
MOST_RESULTS: Final = 20


@dataclass(frozen=True, kw_only=True, slots=True)
class FoundDocument:
    """A search result."""

    id: str  # the path below the folder, with slashes
    title: str  # the first heading, else the file's name
    excerpt: str  # the best matching lines, plain text
    score: float  # larger is better; comparable within one search only


@dataclass(frozen=True, kw_only=True, slots=True)
class Document:
    """A whole document."""

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


class DocumentStatus(StrEnum):
    """The status of one reading of a file. Searches see current readings only, never half a document.

    ``loading → current → outdated``, and ``loading → outdated`` for a reading that another one has overtaken.
    """

    LOADING = "loading"  # its pieces are being written
    CURRENT = "current"  # the file's content; at most one per path
    OUTDATED = "outdated"  # the file has changed or gone; deleted in small steps


@dataclass(frozen=True, kw_only=True, slots=True)
class FileState:
    """File attributes that reveal a change without reading the file."""

    size: int  # bytes
    modified_ns: int  # nanoseconds since 1970 by the file system; 0: too recent to be trusted


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexedFile:
    """A file in the index."""

    path: str
    state: FileState
    digest: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentReading:
    """One reading of a file."""

    id: str  # a UUID per reading
    path: str  # below the folder, with slashes
    title: str
    state: FileState
    digest: str  # of its bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexedPiece:
    """A piece of a document in the index."""

    position: int  # 0 is the first
    text: str  # a slice of the document; the pieces together are the document
    heading_words: tuple[str, ...]  # title, headings, path
    words: tuple[str, ...]  # in text order


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentBatch:
    """The part of a reading stored in one transaction."""

    reading: DocumentReading
    pieces: tuple[IndexedPiece, ...]
    begins: bool  # the first part
    ends: bool  # the last part
