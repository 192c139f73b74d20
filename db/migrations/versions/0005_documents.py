"""Documents that agents can search: files split into pieces, and a full-text index of the pieces.

Times are microseconds since 1970 UTC; `swarm/store/tables` describes each column.
"""

from __future__ import annotations

from alembic import op
from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    ForeignKeyConstraint,
    Integer,
    PrimaryKeyConstraint,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import TSVECTOR

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _create_documents()
    _create_document_pieces()
    if op.get_bind().dialect.name == "sqlite":
        op.execute("CREATE VIRTUAL TABLE document_words USING fts5(heading, words, tokenize='ascii')")
    else:
        _create_document_words()


def downgrade() -> None:
    raise NotImplementedError("Older versions do not support documents; restore a backup.")


def _create_documents() -> None:
    op.create_table(
        "documents",
        Column("id", Text, nullable=False),
        Column("path", Text, nullable=False),
        Column("title", Text, nullable=False),
        Column("size", BigInteger, nullable=False),
        Column("modified_ns", BigInteger, nullable=False),
        Column("digest", Text, nullable=False),
        Column("status", Text, nullable=False),
        Column("created_at", BigInteger, nullable=False),
        PrimaryKeyConstraint("id", name=op.f("pk_documents")),
        CheckConstraint("status IN ('loading', 'current', 'outdated')", name=op.f("ck_documents_status")),
    )
    _create_partial_index("uq_documents_path", ["path"], "status = 'current'", unique=True)
    _create_partial_index("ix_documents_leftover", ["id"], "status != 'current'")


def _create_document_pieces() -> None:
    number = BigInteger().with_variant(Integer, "sqlite")
    op.create_table(
        "document_pieces",
        Column("id", number, nullable=False, autoincrement=True),
        Column("document_id", Text, nullable=False),
        Column("position", Integer, nullable=False),
        Column("text", Text, nullable=False),
        PrimaryKeyConstraint("id", name=op.f("pk_document_pieces")),
        ForeignKeyConstraint(
            ["document_id"], ["documents.id"], name=op.f("fk_document_pieces_document_id"), ondelete="CASCADE"
        ),
        UniqueConstraint("document_id", "position", name=op.f("uq_document_pieces_position")),
    )


def _create_document_words() -> None:
    op.create_table(
        "document_words",
        Column("rowid", BigInteger, nullable=False, autoincrement=False),
        Column("words", TSVECTOR, nullable=False),
        PrimaryKeyConstraint("rowid", name=op.f("pk_document_words")),
        ForeignKeyConstraint(
            ["rowid"], ["document_pieces.id"], name=op.f("fk_document_words_rowid"), ondelete="CASCADE"
        ),
    )
    op.create_index(
        "ix_document_words",
        "document_words",
        ["words"],
        postgresql_using="gin",
        postgresql_with={"fastupdate": "off"},
    )


def _create_partial_index(name: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    op.create_index(name, "documents", columns, unique=unique, sqlite_where=text(where), postgresql_where=text(where))
