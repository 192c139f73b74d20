"""Searches the documents of one folder, and keeps their index up to date with the folder.

Who may act: any process; the elected process is sufficient. What is guaranteed: a search finds each document in full,
in one of its versions; a changed file is found with its new text after the next scan; a file with unchanged size and
modification time is not read again. What happens on failure: a file that cannot currently be read keeps its old state;
a missing folder removes nothing from the index; an interrupted scan is finished by the next scan. Several concurrent
processes store each change once.

Files are read and split on a thread, with pauses as long as the work. One transaction writes one large file or several
small files.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple

import structlog

from swarm.clock import SystemClock
from swarm.domain.documents import (
    MOST_RESULTS,
    SEARCH_LIMIT,
    Document,
    DocumentReading,
    FoundDocument,
    IndexedFile,
    IndexedPiece,
    pieces_of,
    terms_of,
    text_of,
    title_of,
    words_of,
)
from swarm.services.builtin import library_folder
from swarm.services.builtin.library_folder import FileState, Folder, Inventory, Unreadable, decode
from swarm.services.ground.guarded import attempt
from swarm.store.bridge.database import Database
from swarm.store.builtin import documents

SCAN_SECONDS: Final = 30.0

_LONGEST_ID: Final = 4_096
_MOST_FILES: Final = 50  # read and written at once
_MOST_PIECES: Final = 100  # written at once, unless a single file has more
_LONGEST_PAUSE_SECONDS: Final = 0.5
_PAGES: Final = (".html", ".htm")
_SETTLED_NS: Final = 2_000_000_000  # may change again within one tick of the file's clock
_FOLDER, _LIMIT = ".", "…"  # keys of warnings about the folder itself and the limit

_log = structlog.get_logger(__name__)


class DocumentLibrary:
    """The documents in the database, written by `FolderIndex`. Implements `domain.documents.Library`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def search(self, query: str, limit: int = SEARCH_LIMIT) -> Sequence[FoundDocument]:
        """Returns the matching documents, best first; none if no words match. Any text is a valid query.

        ``limit`` is restricted to 1 … `MOST_RESULTS`. Raises `Unavailable` without the database.
        """
        return await self._database.read(documents.search, terms_of(query), min(max(limit, 1), MOST_RESULTS))

    async def fetch(self, document_id: str) -> Document | None:
        """Returns a document by its id from a search; None for an unknown id. Reads only the index.

        Raises `Unavailable` without the database.
        """
        if len(document_id) > _LONGEST_ID or not document_id.isprintable():  # PostgreSQL refuses some characters
            return None
        return await self._database.read(documents.get, document_id)


class Scanned(NamedTuple):
    """The result of a scan."""

    stored: int = 0  # new or changed documents
    removed: int = 0
    skipped: int = 0  # files with a document's name that are not documents


class FolderIndex:
    """The index of one folder's documents, as kept by one process."""

    def __init__(self, database: Database, folder: Folder, *, scan_seconds: float = SCAN_SECONDS) -> None:
        self._database = database
        self._folder = folder
        self._scan_seconds = scan_seconds
        self._clock = SystemClock()
        self._skipped: dict[str, FileState] = {}  # files that are not documents, with their state when read
        self._same: dict[str, tuple[FileState, str]] = {}  # files with a new state but unchanged text, by digest
        self._warnings: dict[str, str] = {}  # already in the log

    async def run(self) -> None:
        """Scans until cancelled, immediately and then periodically; waits while the database is unavailable."""
        while True:
            await attempt(self.scan(), "documents_scan")
            await asyncio.sleep(self._scan_seconds)

    async def scan(self) -> Scanned:
        """Updates the index to the current state of the folder. Raises `Unavailable` without the database."""
        try:
            found = await asyncio.to_thread(library_folder.look, self._folder)
        except OSError as error:
            self._warn(_FOLDER, f"the folder of documents cannot be read: {error.strerror}", action="documents_scan")
            return Scanned()
        self._keep_to(found)
        begun = time.monotonic()
        known = {file.path: file for file in await self._database.read(documents.known)}
        stored = await self._store_changes(found, known)
        gone = [path for path in known if self._is_gone(path, found)]
        for start in range(0, len(gone), _MOST_FILES):
            await self._database.write(documents.remove, gone[start : start + _MOST_FILES])
        if stored or gone:
            _log.info(
                "the document index was updated",
                action="documents_index",
                stored=stored,
                removed=len(gone),
                seconds=round(time.monotonic() - begun, 2),
            )
        return Scanned(stored=stored, removed=len(gone), skipped=len(self._skipped))

    async def _store_changes(self, found: Inventory, known: Mapping[str, IndexedFile]) -> int:
        """Reads new and changed files into the index. Returns the number of new texts."""
        changed = [path for path, state in found.files.items() if self._has_changed(path, state, known.get(path))]
        stored = 0
        while changed:
            begun = time.monotonic()
            outcomes = await asyncio.to_thread(_read_some, self._folder, changed, known, self._clock.now_us() * 1_000)
            del changed[: len(outcomes)]
            readings = [
                reading
                for path, outcome in outcomes.items()
                if (reading := self._document(path, found.files[path], outcome))
            ]
            await self._database.write(documents.store, readings)
            stored += sum(reading.pieces is not None for reading in readings)
            # Splitting texts holds Python's lock, and the event loop must wait for this lock each time it wakes up.
            await asyncio.sleep(min(time.monotonic() - begun, _LONGEST_PAUSE_SECONDS))
        return stored

    def _has_changed(self, path: str, state: FileState, known: IndexedFile | None) -> bool:
        if known is None:
            return self._skipped.get(path) != state
        return _state(known) != state and self._same.get(path) != (state, known.digest)

    def _is_gone(self, path: str, found: Inventory) -> bool:
        if path in found.files:
            return path in self._skipped
        return not path.startswith(found.unknown)

    def _document(
        self, path: str, state: FileState, outcome: DocumentReading | Unreadable | OSError
    ) -> DocumentReading | None:
        """Returns the reading of a file, or records why the file is not a document."""
        self._skipped.pop(path, None)
        match outcome:
            case DocumentReading(file=file):
                self._warnings.pop(path, None)
                if _state(file) == state:
                    self._same[path] = state, file.digest
                return outcome
            case Unreadable():
                self._skipped[path] = state
                self._warn(path, f"{path} is left out of the documents: {outcome}", action="documents_skip")
            case OSError():  # possibly temporary; the next scan tries again
                self._warn(path, f"{path} cannot be read: {outcome.strerror}", action="documents_skip")
        return None

    def _keep_to(self, found: Inventory) -> None:
        """Drops the state of missing files, and warns about places that could not be read."""
        there = {*found.files, *found.unknown, *([_LIMIT] if found.left_out else [])}
        for kept in (self._skipped, self._same, self._warnings):
            for path in kept.keys() - there:
                del kept[path]
        for place in found.unknown:
            self._warn(
                place, f"the folder {place} cannot be read; its indexed documents are kept", action="documents_scan"
            )
        if found.left_out:
            self._warn(_LIMIT, f"{found.left_out} documents beyond the limit are left out", action="documents_scan")

    def _warn(self, place: str, sentence: str, *, action: str) -> None:
        """Warns once per message."""
        if self._warnings.get(place) != sentence:
            self._warnings[place] = sentence
            _log.warning(sentence, action=action, folder=str(self._folder.path), path=place or None)


def _state(file: IndexedFile) -> FileState:
    return FileState(file.size, file.modified_ns)


def _read_some(
    folder: Folder, paths: Sequence[str], known: Mapping[str, IndexedFile], now_ns: int
) -> dict[str, DocumentReading | Unreadable | OSError]:
    """Reads files in order until they fill a transaction."""
    outcomes: dict[str, DocumentReading | Unreadable | OSError] = {}
    pieces = 0
    for path in paths[:_MOST_FILES]:
        try:
            reading = outcomes[path] = _read(folder, path, known.get(path), now_ns)
            pieces += len(reading.pieces or ())
        except (Unreadable, OSError) as error:
            outcomes[path] = error
        if pieces >= _MOST_PIECES:
            break
    return outcomes


def _read(folder: Folder, path: str, known: IndexedFile | None, now_ns: int) -> DocumentReading:
    """Reads a document and splits it if it has changed. Raises `Unreadable` with the reason, and OSError."""
    content, state = library_folder.read(folder, path)
    is_settled = now_ns - state.modified_ns >= _SETTLED_NS
    file = IndexedFile(
        path=path,
        size=state.size,
        modified_ns=state.modified_ns if is_settled else 0,
        digest=hashlib.sha256(content).hexdigest(),
    )
    if known and known.digest == file.digest:
        return DocumentReading(file=file, pieces=None)
    text = decode(content)
    if path.lower().endswith(_PAGES):
        text = text_of(text)
    title = title_of(text) or PurePosixPath(path).name
    about = words_of(f"{title} {PurePosixPath(path).with_suffix('')}")
    pieces = [
        IndexedPiece(
            text=piece,
            heading_words=tuple(dict.fromkeys((*about, *words_of(" ".join(headings))))),
            words=words_of(piece),
        )
        for piece, headings in pieces_of(text)
    ]
    return DocumentReading(file=file, title=title, pieces=pieces)
