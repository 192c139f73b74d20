"""The document index: files, their sections, and full-text search.

A document is replaced in one transaction, so that a search finds one complete version of it. Concurrent writers are
serialized on PostgreSQL; a text that another process has already stored is not stored again.

The terms of a query are alternatives. FTS5's ``bm25`` and PostgreSQL's ``ts_rank`` rank the pieces; a word in a heading
counts as much as three in the text. Unlike BM25, ``ts_rank`` gives no extra weight to rare terms and does not treat a
phrase or a prefix as a term. It is therefore applied to each term separately.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from sqlalchemy import bindparam, cast, delete, insert, select, text, update
from sqlalchemy.dialects.postgresql import TSVECTOR

from swarm.clock import new_id
from swarm.domain.documents import Document, DocumentReading, FoundDocument, IndexedFile, IndexedPiece, QueryTerm
from swarm.store.bridge.statements import Row, Statement, row_mapper
from swarm.store.bridge.transaction import Dialect, Transaction
from swarm.store.tables import documents
from swarm.store.tables.documents import document_pieces, document_words

_LOCK: Final = "SELECT pg_advisory_xact_lock(hashtext('swarm.documents'))"
_d = documents.c
_p = document_pieces.c
_w = document_words

_KNOWN = Statement(select(_d.path, _d.size, _d.modified_ns, _d.digest))
_CURRENT = Statement(select(_d.id, _d.title, _d.digest).where(_d.path == bindparam("path")))
_PIECES = Statement(select(_p.text).where(_p.document_id == bindparam("document_id")).order_by(_p.position))
_LOOKED_AGAIN = Statement(
    update(documents)
    .where(_d.path == bindparam("of_path"))
    .values(size=bindparam("size"), modified_ns=bindparam("modified_ns"))
)
_ADD = Statement(insert(documents))
_ADD_PIECE = Statement(
    insert(document_pieces).values({name: bindparam(name) for name in ("document_id", "position", "text")})
)
_piece_id = (
    select(_p.id)
    .where(_p.document_id == bindparam("document_id"), _p.position == bindparam("position"))
    .scalar_subquery()
)
# With VALUES, because FTS5 writes its index to the database before each statement of any other form.
_ADD_WORDS: Final[Mapping[Dialect, Statement]] = {
    "sqlite": Statement(insert(_w).values(rowid=_piece_id, heading=bindparam("heading"), words=bindparam("words"))),
    "postgresql": Statement(insert(_w).values(rowid=_piece_id, words=cast(bindparam("words"), TSVECTOR))),
}
_of_path = select(_p.id).join(documents, _d.id == _p.document_id).where(_d.path == bindparam("of_path"))
_DROP_WORDS = Statement(delete(_w).where(_w.c.rowid.in_(_of_path.scalar_subquery())))
_DROP = Statement(delete(documents).where(_d.path == bindparam("of_path")))

# Only the best thousand pieces are considered. If a single document has more pieces that rank higher, other documents
# are not found.
_BEST: Final = """
WITH hits AS ({hits} ORDER BY score DESC LIMIT 1000),
places AS (
    SELECT documents.path AS id, documents.title, document_pieces.text AS excerpt, hits.score, row_number() OVER (
        PARTITION BY documents.id ORDER BY hits.score DESC, document_pieces.position) AS place
    FROM hits
    JOIN document_pieces ON document_pieces.id = hits.rowid
    JOIN documents ON documents.id = document_pieces.document_id
)
SELECT id, title, excerpt, score FROM places WHERE place = 1 ORDER BY score DESC, id LIMIT :n
"""
_HITS_SQLITE: Final = """
    SELECT rowid, -bm25(document_words, 3.0, 1.0) AS score FROM document_words WHERE document_words MATCH :asked
"""
# Terms have numbers, because PostgreSQL takes a word and its beginning for the same ``tsquery``.
_HITS_POSTGRESQL: Final = """
    WITH matches AS (
        SELECT number, rowid, ts_rank('{0.33, 0, 0, 1}', words, term, 1) AS rank FROM document_words
        JOIN unnest(CAST(string_to_array(:asked, '|') AS tsquery[])) WITH ORDINALITY AS terms (term, number)
        ON words @@ term
    ),
    frequencies AS (SELECT number, count(*) AS frequency FROM matches GROUP BY number)
    SELECT rowid, sum(rank / ln(1 + frequency)) AS score FROM matches JOIN frequencies USING (number) GROUP BY rowid
"""
_SEARCH: Final[Mapping[Dialect, Statement]] = {
    "sqlite": Statement(text(_BEST.format(hits=_HITS_SQLITE))),
    "postgresql": Statement(text(_BEST.format(hits=_HITS_POSTGRESQL))),
}

_file = row_mapper(IndexedFile)
_found = row_mapper(FoundDocument, excerpt=lambda row: row["excerpt"].strip())


def search(tx: Transaction, terms: Sequence[QueryTerm], limit: int) -> Sequence[FoundDocument]:
    """Returns the documents that contain any of the terms, best first, each with its best piece."""
    if not terms:
        return []
    asked = " OR ".join(map(_match, terms)) if tx.dialect == "sqlite" else "|".join(map(_tsquery, terms))
    return [_found(row) for row in _SEARCH[tx.dialect].all(tx, asked=asked, n=limit)]


def get(tx: Transaction, path: str) -> Document | None:
    """Returns a complete document; None for an unknown path."""
    row = _CURRENT.first(tx, path=path)
    if row is None:
        return None
    pieces = _PIECES.all(tx, document_id=row["id"])
    return Document(id=path, title=row["title"], text="".join(piece["text"] for piece in pieces))


def known(tx: Transaction) -> Sequence[IndexedFile]:
    """Returns all indexed files."""
    return [_file(row) for row in _KNOWN.all(tx)]


def store(tx: Transaction, readings: Sequence[DocumentReading]) -> None:
    """Replaces documents with their newly read versions. If the text is already known, only the state of the file is
    stored.
    """
    _serialize_writers(tx)
    for reading in readings:
        file = reading.file
        current = _CURRENT.first(tx, path=file.path)
        if current is not None and current["digest"] == file.digest:
            _LOOKED_AGAIN.run(tx, of_path=file.path, size=file.size, modified_ns=file.modified_ns)
        elif reading.pieces is not None:
            _remove(tx, [file.path])
            _add(tx, reading, reading.pieces)


def remove(tx: Transaction, paths: Sequence[str]) -> None:
    """Removes documents."""
    _serialize_writers(tx)
    _remove(tx, paths)


def _serialize_writers(tx: Transaction) -> None:
    """Serializes writers on PostgreSQL. SQLite always has a single writer."""
    if tx.dialect == "postgresql":
        tx.fetch(_LOCK, {})


def _remove(tx: Transaction, paths: Sequence[str]) -> None:
    rows = [{"of_path": path} for path in paths]
    _DROP_WORDS.many(tx, rows)
    _DROP.many(tx, rows)


def _add(tx: Transaction, reading: DocumentReading, pieces: Sequence[IndexedPiece]) -> None:
    file, document_id = reading.file, new_id()
    _ADD.run(
        tx,
        id=document_id,
        path=file.path,
        title=reading.title,
        size=file.size,
        modified_ns=file.modified_ns,
        digest=file.digest,
    )
    numbered = [({"document_id": document_id, "position": place}, piece) for place, piece in enumerate(pieces)]
    _ADD_PIECE.many(tx, [{**row, "text": piece.text} for row, piece in numbered])
    indexed = _for_sqlite if tx.dialect == "sqlite" else _for_postgres
    _ADD_WORDS[tx.dialect].many(tx, [{**row, **indexed(piece)} for row, piece in numbered])


def _match(term: QueryTerm) -> str:
    """Returns a term in FTS5 syntax. Words contain neither quotes nor spaces."""
    return f'"{" ".join(term.words)}"' + (" *" if term.is_prefix else "")


def _tsquery(term: QueryTerm) -> str:
    """Returns a term in ``tsquery`` syntax."""
    return " <-> ".join(f"'{word}'" for word in term.words) + (":*" if term.is_prefix else "")


def _for_sqlite(piece: IndexedPiece) -> Row:
    return {"heading": " ".join(piece.heading_words), "words": " ".join(piece.words)}


def _for_postgres(piece: IndexedPiece) -> Row:
    """Returns a ``tsvector`` literal: each word with its positions. One position between headings and text is left
    free.
    """
    places = [(word, f"{place}A") for place, word in enumerate(piece.heading_words, start=1)]
    places += [(word, f"{place}") for place, word in enumerate(piece.words, start=len(piece.heading_words) + 2)]
    return {"words": " ".join(f"'{word}':{place}" for word, place in places)}
