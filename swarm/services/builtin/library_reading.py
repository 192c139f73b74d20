"""Reads a file into rows of the index. All functions block and use processor time; they should be
called on a thread.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from swarm.clock import new_id
from swarm.domain.documents.documents import DocumentBatch, DocumentReading, FileState, IndexedPiece
from swarm.domain.documents.extracts import pieces_of, title_of
from swarm.domain.documents.query_words import words_of
from swarm.domain.text.html_text import text_of
from swarm.services.builtin.library_folder import Folder, Unreadable, decode, read

PART_PIECES: Final = 20
"""The number of pieces, of about 1,000 characters each, that are written in one transaction."""

_MOST_FILES: Final = 50  # in one batch
_PAGES: Final = (".html", ".htm")
_SETTLED_NS: Final = 2_000_000_000  # a file changed this recently may change again in the same tick of the file's clock


@dataclass(frozen=True, kw_only=True, slots=True)
class FileRead:
    """The result of reading a file."""

    state: FileState  # as stored in the index
    digest: str
    parts: Sequence[DocumentBatch]  # empty for an unchanged text


@dataclass(frozen=True, kw_only=True, slots=True)
class Batch:
    """Some files, one after another."""

    files: Sequence[tuple[str, FileRead | Unreadable | OSError]]  # by path
    seconds: float  # of processor time


def read_some(folder: Folder, wanted: Sequence[tuple[str, str | None]], now_ns: int) -> Batch:
    """Reads the first of the files, given by path and previous digest, until they fill a transaction."""
    begun = time.thread_time()
    files: list[tuple[str, FileRead | Unreadable | OSError]] = []
    pieces = 0
    for path, digest_before in wanted[:_MOST_FILES]:
        outcome = _read_or_not(folder, path, digest_before, now_ns)
        files.append((path, outcome))
        pieces += sum(len(part.pieces) for part in outcome.parts) if isinstance(outcome, FileRead) else 0
        if pieces >= PART_PIECES:
            break
    return Batch(files=files, seconds=time.thread_time() - begun)


def _read_or_not(folder: Folder, path: str, digest_before: str | None, now_ns: int) -> FileRead | Unreadable | OSError:
    try:
        return read_file(folder, path, digest_before, now_ns)
    except (Unreadable, OSError) as error:
        return error


def read_file(folder: Folder, path: str, digest_before: str | None, now_ns: int) -> FileRead:
    """Reads a document and splits it into pieces, if it has changed.

    Raises `Unreadable` with the reason, and OSError.
    """
    content, state = read(folder, path)
    digest = hashlib.sha256(content).hexdigest()
    if now_ns - state.modified_ns < _SETTLED_NS:
        state = FileState(size=state.size, modified_ns=0)
    return FileRead(
        state=state, digest=digest, parts=() if digest == digest_before else _parts(path, content, state, digest)
    )


def _parts(path: str, content: bytes, state: FileState, digest: str) -> Sequence[DocumentBatch]:
    text = decode(content)
    if path.lower().endswith(_PAGES):
        text = text_of(text)
    title = title_of(text) or PurePosixPath(path).name
    reading = DocumentReading(id=new_id(), path=path, title=title, state=state, digest=digest)
    pieces = list(_indexed(path, title, text))
    return [
        DocumentBatch(
            reading=reading,
            pieces=tuple(pieces[start : start + PART_PIECES]),
            begins=start == 0,
            ends=start + PART_PIECES >= len(pieces),
        )
        for start in range(0, max(1, len(pieces)), PART_PIECES)
    ]


def _indexed(path: str, title: str, text: str) -> Iterator[IndexedPiece]:
    about = words_of(f"{title} {PurePosixPath(path).with_suffix('')}")
    for position, piece in enumerate(pieces_of(text)):
        yield IndexedPiece(
            position=position,
            text=piece.text,
            heading_words=tuple(dict.fromkeys((*about, *words_of(" ".join(piece.headings))))),
            words=words_of(piece.text),
        )
