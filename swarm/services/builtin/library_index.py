"""Keeps the index of documents in step with their folder.

Who may act: any process; the elected process is enough. What is guaranteed: a search finds each document as a whole, in
one of its versions; a changed file is found with its new text after the next scan; a file with unchanged size and time
of change is not read again. What happens on failure: a file that cannot be read at the moment keeps its old state; a
missing folder empties nothing; an interrupted scan is finished by the next one. Several processes at once store each
change once, or twice with the same result.

Files are read and split on a thread, with pauses as long as the work, and written in small portions, so that polls do
not have to wait.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import structlog

from swarm.clock import Clock, SystemClock
from swarm.domain.documents.documents import DocumentBatch, FileState, IndexedFile
from swarm.services.builtin import library_folder
from swarm.services.builtin.library_folder import Folder, Inventory, Unreadable
from swarm.services.builtin.library_reading import PART_PIECES, FileRead, read_some
from swarm.services.rules.guarded import attempt
from swarm.store.bridge.database import Database
from swarm.store.builtin import documents

SCAN_SECONDS: Final = 30.0

_AT_ONCE: Final = 100  # rows changed by one transaction
_LONGEST_PAUSE_SECONDS: Final = 0.5
_FOLDER, _LIMIT = ".", "…"  # keys of warnings about the folder itself and about the limit

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scanned:
    """The result of a scan."""

    stored: int = 0  # new or changed documents
    removed: int = 0
    skipped: int = 0  # files named like documents that are none


class FolderIndex:
    """The index of one folder's documents, as kept by one process."""

    def __init__(
        self, database: Database, folder: Folder, *, scan_seconds: float = SCAN_SECONDS, clock: Clock | None = None
    ) -> None:
        self._database = database
        self._folder = folder
        self._scan_seconds = scan_seconds
        self._clock = clock or SystemClock()
        self._skipped: dict[str, FileState] = {}  # files that are no documents, in the state in which they were read
        self._same: dict[str, tuple[FileState, str]] = {}  # files with a new state and the same text, by digest
        self._told: dict[str, str] = {}  # warnings already in the log

    async def run(self) -> None:
        """Scans until cancelled, at once and then periodically; waits while the database is unavailable."""
        while True:
            await attempt(self.scan(), "documents_scan")
            await asyncio.sleep(self._scan_seconds)

    async def scan(self) -> Scanned:
        """Brings the index up to date with the folder once. Raises `Unavailable` without the database."""
        try:
            found = await asyncio.to_thread(library_folder.look, self._folder)
        except OSError as error:
            self._tell(_FOLDER, f"the folder of documents cannot be read: {error.strerror}", action="documents_scan")
            return Scanned()
        self._keep_to(found)
        begun = time.monotonic()
        known = {file.path: file for file in await self._database.read(documents.known)}
        scanned = await self._update(found, known)
        if scanned.stored or scanned.removed:
            _log.info(
                "the index of documents follows its folder",
                action="documents_index",
                stored=scanned.stored,
                removed=scanned.removed,
                seconds=round(time.monotonic() - begun, 2),
            )
        while await self._database.write(documents.drop_some):
            pass
        return scanned

    async def _update(self, found: Inventory, known: Mapping[str, IndexedFile]) -> Scanned:
        wanted = [
            (path, known[path].digest if path in known else None)
            for path, state in found.files.items()
            if self._has_changed(path, state, known.get(path))
        ]
        intake = _Intake(self._database)
        while wanted:
            now_ns = self._clock.now_us() * 1_000
            batch = await asyncio.to_thread(read_some, self._folder, wanted, now_ns)
            del wanted[: len(batch.files)]
            for path, outcome in batch.files:
                await self._take_in(path, found.files[path], outcome, intake)
            # Cutting texts holds Python's lock, for which the event loop has to wait each time that it wakes up.
            await asyncio.sleep(min(batch.seconds, _LONGEST_PAUSE_SECONDS))
        await intake.flush()
        gone = [path for path in known if self._is_gone(path, found)]
        for start in range(0, len(gone), _AT_ONCE):
            await self._database.write(documents.retire, gone[start : start + _AT_ONCE])
        return Scanned(stored=intake.stored, removed=len(gone), skipped=len(self._skipped))

    def _has_changed(self, path: str, state: FileState, known: IndexedFile | None) -> bool:
        if known is None:
            return self._skipped.get(path) != state
        return known.state != state and self._same.get(path) != (state, known.digest)

    def _is_gone(self, path: str, found: Inventory) -> bool:
        if path in found.files:
            return path in self._skipped
        return not path.startswith(found.unknown)

    async def _take_in(
        self, path: str, state: FileState, outcome: FileRead | Unreadable | OSError, intake: _Intake
    ) -> None:
        """Stores the text of a file if it is new, or notes why the file is not a document."""
        self._skipped.pop(path, None)
        match outcome:
            case FileRead():
                self._told.pop(path, None)
                if outcome.state == state:
                    self._same[path] = state, outcome.digest
                await intake.add(path, outcome)
            case Unreadable():
                self._skipped[path] = state
                self._tell(path, f"{path} is left out of the documents: {outcome}", action="documents_skip")
            case OSError():  # possibly temporary; the next scan tries again
                self._tell(path, f"{path} cannot be read: {outcome.strerror}", action="documents_skip")

    def _keep_to(self, found: Inventory) -> None:
        """Drops the state of missing files, and warns about places that could not be read."""
        there = {*found.files, *found.unknown, *([_LIMIT] if found.left_out else [])}
        for kept in (self._skipped, self._same, self._told):
            for path in kept.keys() - there:
                del kept[path]
        for place in found.unknown:
            self._tell(place, f"the folder {place} cannot be read; what is known of it stays", action="documents_scan")
        if found.left_out:
            self._tell(_LIMIT, f"{found.left_out} documents beyond the limit are left out", action="documents_scan")

    def _tell(self, what: str, sentence: str, *, action: str) -> None:
        """Warns once per message."""
        if self._told.get(what) != sentence:
            self._told[what] = sentence
            _log.warning(sentence, action=action, folder=str(self._folder.path), path=what or None)


class _Intake:
    """The rows to be written, collected until they fill a transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._parts: list[DocumentBatch] = []
        self._unchanged: list[IndexedFile] = []
        self.stored = 0

    async def add(self, path: str, file: FileRead) -> None:
        """Adds a file after reading."""
        if not file.parts:
            self._unchanged.append(IndexedFile(path=path, state=file.state, digest=file.digest))
            if len(self._unchanged) >= _AT_ONCE:
                await self._note()
            return
        self.stored += 1
        for part in file.parts:
            if sum(len(waiting.pieces) for waiting in self._parts) + len(part.pieces) > PART_PIECES:
                await self._store()
            self._parts.append(part)

    async def flush(self) -> None:
        """Writes the rest."""
        await self._store()
        await self._note()

    async def _store(self) -> None:
        if self._parts:
            await self._database.write(documents.store, self._parts)
            self._parts = []

    async def _note(self) -> None:
        if self._unchanged:
            await self._database.write(documents.note_unchanged, self._unchanged)
            self._unchanged = []
