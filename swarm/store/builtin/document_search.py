"""Full-text search in documents.

The terms of a query are alternatives. The score of a piece grows with the number of matching terms, their rarity and
their frequency, and headings count more. SQLite uses the BM25 of FTS5, PostgreSQL the same idea in one statement.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from sqlalchemy import ColumnElement, Executable, Float, Text, bindparam, cast, column, func, literal_column, select
from sqlalchemy.dialects.postgresql import ARRAY, TSQUERY

from swarm.domain.documents.documents import DocumentStatus
from swarm.domain.documents.query_words import QueryTerm
from swarm.store.bridge.statements import AT_MOST_N, Statement, literally
from swarm.store.bridge.transaction import Dialect, Transaction
from swarm.store.tables import documents
from swarm.store.tables.documents import WORDS, document_pieces, document_words

_HEADING_WEIGHT: Final = "3.0"  # a word in a heading counts as much as this many in the text

_CANDIDATES: Final[ColumnElement[int]] = literal_column("1000")
"""The number of best pieces considered. Documents are not found if a single document has more and better pieces."""

_d = documents.c
_p = document_pieces.c
_w = document_words
# In this form since PostgreSQL, before it has statistics, would scan the whole index of current documents for each one.
_is_current = _d.status.not_in([literally(DocumentStatus.LOADING), literally(DocumentStatus.OUTDATED)])


@dataclass(frozen=True, kw_only=True, slots=True)
class Hit:
    """A matching document and its best piece."""

    path: str
    title: str
    text: str  # of the piece
    score: float  # larger is better


def search(tx: Transaction, terms: Sequence[QueryTerm], limit: int) -> Sequence[Hit]:
    """Returns the documents with any of the terms, best first, each with its best piece."""
    if not terms:
        return []
    asked = [_ASKED[tx.dialect](term) for term in terms]
    rows = _SEARCH[tx.dialect].all(tx, asked=_JOINED[tx.dialect].join(asked), n=limit)
    return [Hit(path=row["path"], title=row["title"], text=row["text"], score=float(row["score"])) for row in rows]


def _match(term: QueryTerm) -> str:
    """A term in the syntax of FTS5. Words contain neither quotes nor spaces."""
    return f'"{" ".join(term.words)}"' + (" *" if term.is_prefix else "")


def _tsquery(term: QueryTerm) -> str:
    """A term in the syntax of ``tsquery``."""
    return " <-> ".join(f"'{word}'" for word in term.words) + (":*" if term.is_prefix else "")


def _best(scored: Any) -> Executable:
    """Selects the best of the scored pieces of each document, best first."""
    best = select(scored.c.rowid, scored.c.score).order_by(scored.c.score.desc()).limit(_CANDIDATES).cte("best")
    place = func.row_number().over(partition_by=_p.document_id, order_by=(best.c.score.desc(), _p.position))
    ranked = (
        select(_p.id, _p.document_id, best.c.score, place.label("place"))
        .select_from(best.join(document_pieces, _p.id == best.c.rowid))
        .cte("ranked")
    )
    found = ranked.c
    return (
        select(_d.path, _d.title, _p.text, found.score)
        .select_from(ranked)
        .join(documents, (_d.id == found.document_id) & _is_current)
        .join(document_pieces, _p.id == found.id)
        .where(found.place == literal_column("1"))
        .order_by(found.score.desc(), _d.path)
        .limit(AT_MOST_N)
    )


def _search_sqlite() -> Executable:
    """FTS5 ranks by BM25, as a negative number."""
    score = -func.bm25(literal_column(WORDS), literal_column(_HEADING_WEIGHT), literal_column("1.0"))
    return _best(
        select(_w.c.rowid, score.label("score")).where(column(WORDS).op("MATCH")(bindparam("asked"))).cte("hits")
    )


def _search_postgres() -> Executable:
    """``ts_rank`` of each term, times the rarity of the term, which PostgreSQL does not consider itself.

    The weight of a term is that of BM25. ``ts_rank`` grows ever slower with repetitions, as BM25 does; its option 1
    divides by the logarithm of the piece's length.
    """
    queries = cast(func.string_to_array(cast(bindparam("asked"), Text), literal_column("E'\\n'")), ARRAY(TSQUERY))
    asked = (
        func.unnest(queries)
        .table_valued(column("query", TSQUERY), with_ordinality="number", name="asked")
        .render_derived()
    )
    weights = cast(literal_column("'{0.33,0,0,1}'"), ARRAY(Float(24)))
    hits = (
        select(
            asked.c.number,
            _w.c.rowid,
            func.ts_rank(weights, _w.c.words, asked.c.query, literal_column("1")).label("rank"),
        )
        .select_from(asked.join(_w, _w.c.words.op("@@")(asked.c.query)))
        .cte("hits")
    )
    everywhere = select(func.count()).select_from(_w).scalar_subquery()
    counted = select(hits.c.number, cast(func.count(), Float).label("n")).group_by(hits.c.number).cte("counted")
    half, one = literal_column("0.5", Float), literal_column("1", Float)
    rarity = func.ln(one + (cast(everywhere, Float) - counted.c.n + half) / (counted.c.n + half))
    scored = (
        select(hits.c.rowid, func.sum(hits.c.rank * rarity).label("score"))
        .select_from(hits.join(counted, counted.c.number == hits.c.number))
        .group_by(hits.c.rowid)
        .cte("scored")
    )
    return _best(scored)


_SEARCH: Final[Mapping[Dialect, Statement]] = {
    "sqlite": Statement(_search_sqlite()),
    "postgresql": Statement(_search_postgres()),
}
_ASKED: Final = {"sqlite": _match, "postgresql": _tsquery}
_JOINED: Final = {"sqlite": " OR ", "postgresql": "\n"}
