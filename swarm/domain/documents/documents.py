"""Documents that agents can search: the files of one folder, read in pieces that can be found and cited.

What the index of documents consists of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
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


class DocumentStatus(StrEnum):
    """Of one reading of a file. Those who search see current ones only, so they never see half a document.

    ``loading → current → outdated``, and ``loading → outdated`` for one that another reading has overtaken.
    """

    LOADING = "loading"  # its pieces are being written
    CURRENT = "current"  # what the file says; at most one for each path
    OUTDATED = "outdated"  # the file has changed or gone; dropped bit by bit


@dataclass(frozen=True, kw_only=True, slots=True)
class FileState:
    """What tells without reading whether a file has changed."""

    size: int  # bytes
    modified_ns: int  # nanoseconds since 1970 by the file system; 0: too young to be trusted


@dataclass(frozen=True, kw_only=True, slots=True)
class Known:
    """What the index knows of a file."""

    path: str
    state: FileState
    digest: str


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentReading:
    """A file as it was read."""

    id: str  # of this reading, a UUID
    path: str  # below the folder, with slashes
    title: str
    state: FileState
    digest: str  # of its bytes


@dataclass(frozen=True, kw_only=True, slots=True)
class IndexedPiece:
    """A piece of a document as it is stored and found."""

    position: int  # 0 is the first
    text: str  # a slice of the document: all of them together are the document
    heading_words: tuple[str, ...]  # what the piece is about: title, headings, path
    words: tuple[str, ...]  # in the order of the text


@dataclass(frozen=True, kw_only=True, slots=True)
class DocumentBatch:
    """What one transaction can store of a reading."""

    reading: DocumentReading
    pieces: tuple[IndexedPiece, ...]
    begins: bool  # it is the first part
    ends: bool  # it is the last part
