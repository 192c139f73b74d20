"""The documents of one folder, as agents search them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from swarm.domain.documents.documents import MOST_RESULTS, SEARCH_LIMIT, Document, FoundDocument
from swarm.domain.documents.extracts import excerpt_of
from swarm.domain.documents.query_words import QueryTerm, terms_of
from swarm.store.bridge.database import Database
from swarm.store.bridge.transaction import Transaction
from swarm.store.builtin import document_search, documents

_LONGEST_ID: Final = 4_096


class DocumentLibrary:
    """The documents in the database, put there by `library_index`. Implements `domain.documents.documents.Library`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def search(self, query: str, limit: int = SEARCH_LIMIT) -> Sequence[FoundDocument]:
        """The documents that fit best, best first; none for words that occur nowhere. Any text is a query.

        ``limit`` is taken as at least 1 and at most `MOST_RESULTS`. Raises `Unavailable` without the database.
        """
        terms = terms_of(query)
        if not terms:
            return []
        return await self._database.read(_find, terms, min(max(limit, 1), MOST_RESULTS))

    async def fetch(self, document_id: str) -> Document | None:
        """A document by the id that a search gave; None if there is none. Nothing but the index is looked at.

        Raises `Unavailable` without the database.
        """
        if len(document_id) > _LONGEST_ID or not document_id.isprintable():  # PostgreSQL refuses some characters
            return None
        return await self._database.read(documents.get, document_id)


def _find(tx: Transaction, terms: tuple[QueryTerm, ...], limit: int) -> Sequence[FoundDocument]:
    """Excerpts are made here too, on the database's thread: they take as long as the search."""
    return [
        FoundDocument(id=hit.path, title=hit.title, excerpt=excerpt_of(hit.text, terms), score=hit.score)
        for hit in document_search.search(tx, terms, limit)
    ]
