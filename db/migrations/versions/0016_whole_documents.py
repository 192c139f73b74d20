"""Documents are replaced in one transaction, so there are no more readings that are loading or outdated. All files are
read again."""

from __future__ import annotations

from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None

_SUPERSEDED = "SELECT id FROM documents WHERE status != 'current'"
_PIECES = f"SELECT id FROM document_pieces WHERE document_id IN ({_SUPERSEDED})"  # noqa: S608 - no input


def upgrade() -> None:
    op.execute(f"DELETE FROM document_words WHERE rowid IN ({_PIECES})")  # noqa: S608 - no input
    op.execute(f"DELETE FROM document_pieces WHERE document_id IN ({_SUPERSEDED})")  # noqa: S608 - no input
    op.execute("DELETE FROM documents WHERE status != 'current'")
    op.drop_index("ix_documents_leftover", "documents")
    op.drop_index("uq_documents_path", "documents")
    with op.batch_alter_table("documents") as batch:
        batch.drop_constraint(op.f("ck_documents_status"), type_="check")
        batch.drop_column("status")
        batch.drop_column("created_at")
        batch.create_unique_constraint(op.f("uq_documents_path"), ["path"])
    # Pieces are now shorter. Until a file has been read again, searches find its old pieces.
    op.execute("UPDATE documents SET modified_ns = 0, digest = ''")


def downgrade() -> None:
    raise NotImplementedError("Older versions store readings of files; restore a backup.")
