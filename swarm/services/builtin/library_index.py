"""Keeping the index of documents like the folder that they come from.

Who may act: any process; one in office is enough. What is guaranteed: those who search find each document as a whole,
as it was at some time; a file that changed is found with its new text after the next scan; a file whose size and time
of change are as before is not read again. What happens on failure: a file that cannot be read for the moment stays as
it was; a folder that is not there empties nothing; a scan that breaks off is finished by the next. Several processes
that do this at once store each change once, or twice with the same result.

Files are read and cut into pieces on a thread, with pauses as long as the work, and are written a little at a time, so
that whoever polls does not have to wait.
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

_AT_ONCE: Final = 100  # rows that one transaction changes
_LONGEST_PAUSE_SECONDS: Final = 0.5
_FOLDER, _LIMIT = ".", "…"  # what is told of neither a file nor a folder in it

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class Scanned:
    """What a scan came to."""

    stored: int = 0  # documents that are new or have changed
    removed: int = 0
    skipped: int = 0  # files that are no documents, though they are called so


class FolderIndex:
    """The index of one folder's documents, as one process keeps it."""

    def __init__(
        self, database: Database, folder: Folder, *, scan_seconds: float = SCAN_SECONDS, clock: Clock | None = None
    ) -> None:
        self._database = database
        self._folder = folder
        self._scan_seconds = scan_seconds
        self._clock = clock or SystemClock()
        self._skipped: dict[str, FileState] = {}  # files that are no documents, as they were when they were read
        self._same: dict[str, tuple[FileState, str]] = {}  # files that look different but say the same, by digest
        self._told: dict[str, str] = {}  # what the log says already

    async def run(self) -> None:
        """Scan until cancelled, at once and then every so many seconds; a database that is away is waited for."""
        while True:
            await attempt(self.scan(), "documents_scan")
            await asyncio.sleep(self._scan_seconds)

    async def scan(self) -> Scanned:
        """Bring the index up to date with the folder once. Raises `Unavailable` without the database."""
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
        """Store what a file says if that is new, or note why it is not a document."""
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
            case OSError():  # perhaps for the moment only; the next scan tries again
                self._tell(path, f"{path} cannot be read: {outcome.strerror}", action="documents_skip")

    def _keep_to(self, found: Inventory) -> None:
        """Forget files that are not there, and tell what could not be looked at."""
        there = {*found.files, *found.unknown, *([_LIMIT] if found.left_out else [])}
        for kept in (self._skipped, self._same, self._told):
            for path in kept.keys() - there:
                del kept[path]
        for place in found.unknown:
            self._tell(place, f"the folder {place} cannot be read; what is known of it stays", action="documents_scan")
        if found.left_out:
            self._tell(_LIMIT, f"{found.left_out} documents beyond the limit are left out", action="documents_scan")

    def _tell(self, what: str, sentence: str, *, action: str) -> None:
        """Warn once; again when there is something else to say."""
        if self._told.get(what) != sentence:
            self._told[what] = sentence
            _log.warning(sentence, action=action, folder=str(self._folder.path), path=what or None)


class _Intake:
    """What is to be written, until there is enough of it for a transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._parts: list[DocumentBatch] = []
        self._unchanged: list[IndexedFile] = []
        self.stored = 0

    async def add(self, path: str, file: FileRead) -> None:
        """A file that was read."""
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
        """Write what is left."""
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
