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
    """The documents in the database, written by `library_index`. Implements `domain.documents.documents.Library`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def search(self, query: str, limit: int = SEARCH_LIMIT) -> Sequence[FoundDocument]:
        """Returns the best documents first; none for words without a match. Any text is a valid query.

        ``limit`` is restricted to 1 … `MOST_RESULTS`. Raises `Unavailable` without the database.
        """
        terms = terms_of(query)
        if not terms:
            return []
        return await self._database.read(_find, terms, min(max(limit, 1), MOST_RESULTS))

    async def fetch(self, document_id: str) -> Document | None:
        """Returns a document by the id from a search; None for an unknown id. Reads only the index.

        Raises `Unavailable` without the database.
        """
        if len(document_id) > _LONGEST_ID or not document_id.isprintable():  # PostgreSQL refuses some characters
            return None
        return await self._database.read(documents.get, document_id)


def _find(tx: Transaction, terms: tuple[QueryTerm, ...], limit: int) -> Sequence[FoundDocument]:
    """Searches and makes the excerpts, also on the database's thread: they take as long as the search."""
    return [
        FoundDocument(id=hit.path, title=hit.title, excerpt=excerpt_of(hit.text, terms), score=hit.score)
        for hit in document_search.search(tx, terms, limit)
    ]
