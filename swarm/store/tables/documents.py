"""Searchable documents, their pieces, and the full-text index over them.

The index ``document_words`` is a virtual table (FTS5) on SQLite and a table with a ``tsvector`` on PostgreSQL, so its
statements differ by engine. Both store the words that `swarm.domain.documents.words_of` extracts from a piece, not its
text. Words are therefore split and normalized identically on both, independent of version, locale and configuration.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import (
    DDL,
    BigInteger,
    Column,
    ForeignKey,
    Integer,
    Table,
    Text,
    UniqueConstraint,
    column,
    event,
    table,
)
from sqlalchemy.dialects.postgresql import TSVECTOR

from swarm.store.tables.schema import Serial, metadata

WORDS: Final = "document_words"

documents = Table(
    "documents",
    metadata,
    Column("id", Text, primary_key=True),
    Column("path", Text, nullable=False, unique=True),  # relative to the folder, with slashes
    Column("title", Text, nullable=False),
    Column("size", BigInteger, nullable=False),  # bytes
    Column("modified_ns", BigInteger, nullable=False),  # from the file system; 0: check again
    Column("digest", Text, nullable=False),  # SHA-256 of the file's bytes; empty: read again
)

document_pieces = Table(
    "document_pieces",
    metadata,
    Column("id", Serial, primary_key=True, autoincrement=True),
    Column("document_id", Text, ForeignKey("documents.id", ondelete="CASCADE"), nullable=False),
    Column("position", Integer, nullable=False),  # 0 is the first
    Column("text", Text, nullable=False),
    UniqueConstraint("document_id", "position", name="uq_document_pieces_position"),
)

document_words = table(WORDS, column("rowid"), column("heading"), column("words", TSVECTOR))
"""For statements; ``heading`` exists on SQLite only. Each row has the number of its piece."""

# The tokenizer only splits at ASCII separators, so words separated by spaces are unchanged.
_ON_SQLITE: Final = (f"CREATE VIRTUAL TABLE {WORDS} USING fts5(heading, words, tokenize='ascii')",)
_ON_POSTGRESQL: Final = (
    f"CREATE TABLE {WORDS} ("
    "rowid BIGINT NOT NULL, words TSVECTOR NOT NULL, "
    f"CONSTRAINT pk_{WORDS} PRIMARY KEY (rowid), "
    f"CONSTRAINT fk_{WORDS}_rowid FOREIGN KEY (rowid) REFERENCES document_pieces (id) ON DELETE CASCADE)",
    # Without the list of pending entries, because every search would have to read it.
    f"CREATE INDEX ix_{WORDS} ON {WORDS} USING gin (words) WITH (fastupdate = off)",
)


def _run(when: str, dialect: str | None, *statements: str) -> None:
    """Runs statements when the table of pieces is created or dropped."""
    for statement in statements:
        ddl = DDL(statement)  # type: ignore[no-untyped-call]
        event.listen(document_pieces, when, ddl.execute_if(dialect=dialect))


_run("after_create", "sqlite", *_ON_SQLITE)
_run("after_create", "postgresql", *_ON_POSTGRESQL)
_run("before_drop", None, f"DROP TABLE {WORDS}")


def is_described(name: str | None, kind: str, parents: object) -> bool:
    """Returns whether `metadata` describes the database object ``name``: everything except the full-text index and its
    parts.

    For Alembic's ``include_name``; without it Alembic would propose to drop them.
    """
    return kind != "table" or name is None or not (name == WORDS or name.startswith(f"{WORDS}_"))
