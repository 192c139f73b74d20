"""The document index: readings of files, their pieces, and the full-text index over them.

A reading is written in batches, each in a short transaction; the last batch replaces the previous reading. Replaced
readings are deleted bit by bit. Concurrent writers are serialized on PostgreSQL; the later reading of a file wins, and
a reading identical to the current one is not stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import bindparam, cast, delete, insert, or_, select, update
from sqlalchemy.dialects.postgresql import TSVECTOR

from swarm.clock import SECOND
from swarm.domain.documents.documents import (
    Document,
    DocumentBatch,
    DocumentReading,
    DocumentStatus,
    FileState,
    IndexedFile,
    IndexedPiece,
)
from swarm.store.bridge.statements import AT_MOST_N, Row, Statement, every_column, literally
from swarm.store.bridge.transaction import Dialect, Transaction
from swarm.store.tables import documents
from swarm.store.tables.documents import document_pieces, document_words

AT_ONCE: Final = 50
"""The number of pieces deleted in one transaction."""

ABANDONED_SECONDS: Final = 600
"""A reading still loading after this time was abandoned by its process."""

_RUN: Final = "SELECT pg_advisory_xact_lock(hashtext('swarm.documents'))"
_d = documents.c
_p = document_pieces.c
_w = document_words
_is_current = _d.status == literally(DocumentStatus.CURRENT)


_KNOWN = Statement(select(_d.path, _d.size, _d.modified_ns, _d.digest).where(_is_current))
_CURRENT = Statement(select(_d.id, _d.title, _d.digest).where(_d.path == bindparam("path"), _is_current))
_BEGIN = Statement(insert(documents))
_IS_LOADING = Statement(select(_d.id).where(_d.id == bindparam("id"), _d.status == literally(DocumentStatus.LOADING)))
_ADD_PIECE = Statement(insert(document_pieces).values(every_column(document_pieces, "id")))
_LOOKED_AGAIN = Statement(
    update(documents)
    .where(_d.path == bindparam("of_path"), _d.digest == bindparam("of_digest"), _is_current)
    .values(size=bindparam("size"), modified_ns=bindparam("modified_ns"))
)
_OUTDATE = Statement(
    update(documents).where(_d.path == bindparam("of_path"), _is_current).values(status=DocumentStatus.OUTDATED.value)
)
_COMPLETE = Statement(
    update(documents)
    .where(_d.id == bindparam("of_id"), _d.status == literally(DocumentStatus.LOADING))
    .values(status=DocumentStatus.CURRENT.value)
)
_PIECES = Statement(select(_p.text).where(_p.document_id == bindparam("document_id")).order_by(_p.position))

_LEFTOVER = Statement(
    select(_d.id)
    .where(
        _d.status != literally(DocumentStatus.CURRENT),
        or_(_d.status == literally(DocumentStatus.OUTDATED), _d.created_at < bindparam("before")),
    )
    .order_by(_d.id)
    .limit(1)
)
_some_pieces = (
    select(_p.id).where(_p.document_id == bindparam("of_id")).order_by(_p.position).limit(AT_MOST_N).scalar_subquery()
)
_DROP_WORDS = Statement(delete(_w).where(_w.c.rowid.in_(_some_pieces)))
_DROP_PIECES = Statement(delete(document_pieces).where(_p.id.in_(_some_pieces)))
_DROP = Statement(delete(documents).where(_d.id == bindparam("of_id")))

_of_piece = select(_p.id).where(_p.document_id == bindparam("document_id"), _p.position == bindparam("position"))


def known(tx: Transaction) -> Sequence[IndexedFile]:
    """Returns all indexed files."""
    return [
        IndexedFile(
            path=row["path"],
            state=FileState(size=row["size"], modified_ns=row["modified_ns"]),
            digest=row["digest"],
        )
        for row in _KNOWN.all(tx)
    ]


def store(tx: Transaction, parts: Sequence[DocumentBatch]) -> None:
    """Writes batches of readings. A last batch makes its reading the current one."""
    _acquire_slot(tx)
    for part in parts:
        if part.begins and not _begin(tx, part.reading):
            continue
        if not part.begins and _IS_LOADING.first(tx, id=part.reading.id) is None:
            continue  # the reading was unchanged, or took too long
        _add_pieces(tx, part.reading.id, part.pieces)
        if part.ends:
            _OUTDATE.run(tx, of_path=part.reading.path)
            _COMPLETE.run(tx, of_id=part.reading.id)


def note_unchanged(tx: Transaction, files: Sequence[IndexedFile]) -> None:
    """Stores the new state of files whose content is unchanged."""
    _acquire_slot(tx)
    _LOOKED_AGAIN.many(tx, [_looked_again(file.path, file.digest, file.state) for file in files])


def retire(tx: Transaction, paths: Sequence[str]) -> None:
    """Removes documents from the search."""
    _acquire_slot(tx)
    _OUTDATE.many(tx, [{"of_path": path} for path in paths])


def drop_some(tx: Transaction) -> bool:
    """Deletes some unreachable pieces. Returns whether more may remain."""
    _acquire_slot(tx)
    leftover = _LEFTOVER.first(tx, before=tx.now - ABANDONED_SECONDS * SECOND)
    if leftover is None:
        return False
    _DROP_WORDS.run(tx, of_id=leftover["id"], n=AT_ONCE)
    if _DROP_PIECES.run(tx, of_id=leftover["id"], n=AT_ONCE) < AT_ONCE:
        _DROP.run(tx, of_id=leftover["id"])
    return True


def get(tx: Transaction, path: str) -> Document | None:
    """Returns a whole document; None for an unknown path."""
    row = _CURRENT.first(tx, path=path)
    if row is None:
        return None
    text = "".join(piece["text"] for piece in _PIECES.all(tx, document_id=row["id"]))
    return Document(id=path, title=row["title"], text=text)


def _acquire_slot(tx: Transaction) -> None:
    """Serializes writers on PostgreSQL; SQLite has one writer anyway."""
    if tx.dialect == "postgresql":
        tx.fetch(_RUN, {})


def _begin(tx: Transaction, reading: DocumentReading) -> bool:
    """Returns False if the index already has this content from another process."""
    current = _CURRENT.first(tx, path=reading.path)
    if current is not None and current["digest"] == reading.digest:
        _LOOKED_AGAIN.run(tx, **_looked_again(reading.path, reading.digest, reading.state))
        return False
    _BEGIN.run(
        tx,
        id=reading.id,
        path=reading.path,
        title=reading.title,
        size=reading.state.size,
        modified_ns=reading.state.modified_ns,
        digest=reading.digest,
        status=DocumentStatus.LOADING.value,
        created_at=tx.now,
    )
    return True


def _looked_again(path: str, digest: str, state: FileState) -> dict[str, object]:
    return {"of_path": path, "of_digest": digest, "size": state.size, "modified_ns": state.modified_ns}


def _add_pieces(tx: Transaction, document_id: str, pieces: Sequence[IndexedPiece]) -> None:
    rows = [{"document_id": document_id, "position": piece.position} for piece in pieces]
    _ADD_PIECE.many(tx, [{**row, "text": piece.text} for row, piece in zip(rows, pieces, strict=True)])
    indexed = _INDEXED[tx.dialect]
    _ADD_WORDS[tx.dialect].many(tx, [{**row, **indexed(piece)} for row, piece in zip(rows, pieces, strict=True)])


def _for_sqlite(piece: IndexedPiece) -> Row:
    return {"heading": " ".join(piece.heading_words), "words": " ".join(piece.words)}


def _for_postgres(piece: IndexedPiece) -> Row:
    """A ``tsvector`` literal: each word with its positions. One position stays free between headings and text."""
    places: dict[str, list[str]] = {}
    for place, word in enumerate(piece.heading_words, start=1):
        places.setdefault(word, []).append(f"{place}A")
    for place, word in enumerate(piece.words, start=len(piece.heading_words) + 2):
        places.setdefault(word, []).append(str(place))
    return {"words": " ".join(f"'{word}':{','.join(at)}" for word, at in places.items())}


_INDEXED: Final = {"sqlite": _for_sqlite, "postgresql": _for_postgres}
_ADD_WORDS: Final[Mapping[Dialect, Statement]] = {
    "sqlite": Statement(
        insert(_w).from_select(
            ["rowid", "heading", "words"], _of_piece.add_columns(bindparam("heading"), bindparam("words"))
        )
    ),
    "postgresql": Statement(
        insert(_w).from_select(["rowid", "words"], _of_piece.add_columns(cast(bindparam("words"), TSVECTOR)))
    ),
}
