"""Backs up a database during operation, and restores it while no coordinator is running.

Who may act: an operator. Coordinators may keep running during a backup. Guarantee: a backup contains one committed
state; a restore is complete or changes nothing. Deliveries that were open at the time of the backup may have been sent
since then. They become doubtful and are looked up in Slack before a second attempt, as after a crash. Threads may have
continued, and are read from Slack again with their next message. After a restore, locks are free, and leases have
expired. On failure: the database is unchanged.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

from swarm.domain.errors import ConfigurationError, Conflict, SwarmError, Unavailable
from swarm.domain.model.deliveries import DeliveryStatus
from swarm.domain.model.threads import ContextState
from swarm.store.admin import migrations, revisions
from swarm.store.admin.refusals import CONTENT, IN_USE, NOT_EMPTY, STOP_FIRST, USE_FORCE
from swarm.store.bridge.engine import PostgresUrl, parse_url
from swarm.store.bridge.sqlite_driver import connect, sqlite3
from swarm.store.tables.schema import metadata

Progress = Callable[[float], None]
"""Receives the progress as a number from 0 to 1."""

PAGES_AT_ONCE: Final = 4_096
LOCK_SECONDS: Final = 2.0


def kind_of(url: str) -> str:
    """Returns ``sqlite`` or ``postgresql``."""
    return "postgresql" if isinstance(parse_url(url), PostgresUrl) else "sqlite"


def revision_of(url: str) -> str:
    """Returns the last migration of a database. Raises ConfigurationError if the database does not belong to Swarm."""
    revision = revisions.revision(url)
    if revision is None:
        raise ConfigurationError(f"There is no Swarm database at {parse_url(url)}.")
    return revision


def dump(url: str, copy: Path, progress: Progress) -> None:
    """Writes the current state of the database to the file ``copy``. Raises Unavailable, ConfigurationError."""
    where = parse_url(url)
    if isinstance(where, PostgresUrl):
        from swarm.store.admin import postgres_backup  # psycopg is not imported for SQLite

        postgres_backup.dump(where, copy, _tables_at(revision_of(url)))
    else:
        with _explained(where.path):
            _copy_sqlite(where.path, copy, progress)


def put_back(url: str, copy: Path, revision: str, *, force: bool, progress: Progress) -> None:
    """Replaces the database with ``copy``, whose last migration was ``revision``, and migrates it.

    Raises Conflict if the database is in use, or has content and ``force`` is not set; ConfigurationError if the copy
    is damaged or unusable; Unavailable.
    """
    where = parse_url(url)
    if isinstance(where, PostgresUrl):
        from swarm.store.admin import postgres_backup

        replaced = _tables_at(revisions.revision(url) or revisions.newest())
        postgres_backup.put_back(where, copy, replaced, afterwards(revision), force=force)
        migrations.upgrade(url)
    else:
        _check_sound(copy)
        migrations.upgrade(f"sqlite:///{copy}")
        with closing(connect(copy, busy_timeout_seconds=0)) as connection:
            for statement in afterwards(revisions.newest()):
                connection.execute(statement)
            connection.execute("PRAGMA journal_mode = DELETE")
        with _explained(where.path):
            _replace_sqlite(where.path, copy, force=force, progress=progress)


def afterwards(revision: str) -> list[str]:
    """Returns the statements that prepare a copy restored at this migration for coordinators."""
    waiting = f"'{DeliveryStatus.QUEUED}', '{DeliveryStatus.SENDING}'"
    statements = [
        f"UPDATE deliveries SET status = '{DeliveryStatus.UNKNOWN}', due_at = created_at, "  # noqa: S608 - values of ours
        f"error = 'restored from a backup' WHERE status IN ({waiting})",
        f"UPDATE threads SET context = '{ContextState.STALE}' "  # noqa: S608
        f"WHERE context = '{ContextState.COMPLETE}'",
    ]
    if revision >= "0018":
        statements.append("UPDATE locks SET holder = NULL, expires_at = 0")
        return statements
    if revision >= "0002":
        statements.append("UPDATE elections SET holder = NULL, expires_at = 0")
    if revision >= "0007":
        statements.append(f"DELETE FROM {'conversation_locks' if revision >= '0015' else 'talks'}")  # noqa: S608
    return statements


def _copy_sqlite(path: Path, copy: Path, progress: Progress) -> None:
    if not path.exists():
        raise ConfigurationError(f"There is no database at {path}.")
    with (
        closing(connect(path, busy_timeout_seconds=LOCK_SECONDS)) as source,
        closing(_opened_private(copy)) as target,
    ):
        # One read transaction covers all steps; otherwise a concurrent write would restart the copy.
        source.execute("BEGIN")
        source.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        source.backup(target, pages=PAGES_AT_ONCE, progress=_reported(progress), sleep=0)
        source.execute("ROLLBACK")
        target.execute("PRAGMA journal_mode = DELETE")  # keeps the copy in a single file
    _check_sound(copy)


def _replace_sqlite(path: Path, copy: Path, *, force: bool, progress: Progress) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    with closing(_opened_private(path)) as target:
        target.execute("PRAGMA locking_mode = EXCLUSIVE")
        try:
            target.execute("PRAGMA journal_mode = DELETE")  # fails while another connection has the file open
            target.execute("BEGIN EXCLUSIVE")
            has_content = _has_content(target)
            target.execute("ROLLBACK")
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise Conflict(f"{IN_USE} {path}.", hint=STOP_FIRST) from error
            raise
        if has_content and not force:
            raise Conflict(NOT_EMPTY, hint=USE_FORCE)
        target.execute("PRAGMA secure_delete = ON")
        with closing(sqlite3.connect(copy)) as source:
            source.backup(target, pages=PAGES_AT_ONCE, progress=_reported(progress), sleep=0)


def _has_content(connection: sqlite3.Connection) -> bool:
    there = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    return any(
        connection.execute(f"SELECT 1 FROM {table} LIMIT 1").fetchone()  # noqa: S608 - one of ours
        for table in CONTENT
        if table in there
    )


def _check_sound(copy: Path) -> None:
    """Raises ConfigurationError if SQLite reports the file as damaged."""
    try:
        with closing(sqlite3.connect(copy)) as connection:
            found = [row[0] for row in connection.execute("PRAGMA integrity_check(3)")]
            broken = connection.execute("PRAGMA foreign_key_check").fetchone()
    except sqlite3.DatabaseError as error:
        found, broken = [str(error)], None
    if found != ["ok"] or broken:
        raise ConfigurationError(f"The copy of the database is damaged: {'; '.join(found)}.")


def _opened_private(path: Path) -> sqlite3.Connection:
    """Opens a file that only its owner can read. Creates the file if it is missing."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    return sqlite3.connect(path, timeout=LOCK_SECONDS, isolation_level=None)


def _reported(progress: Progress) -> Callable[[int, int, int], None]:
    def tell(status: int, remaining: int, total: int) -> None:
        progress(1 - remaining / total if total else 1.0)

    return tell


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    """Maps driver errors to Swarm's errors."""
    try:
        yield
    except SwarmError:
        raise
    except (sqlite3.Error, OSError) as error:
        raise Unavailable(f"The database {path} cannot be used: {error}.") from error


TABLES: Final = (*(table.name for table in metadata.sorted_tables), "document_words", "alembic_version")
"""All of Swarm's tables, with referenced tables first."""

_BEFORE_0015: Final = {
    "runs": "turns",
    "run_messages": "turn_messages",
    "run_events": "turn_events",
    "conversation_locks": "talks",
    "idempotency_keys": "receipts",
    "queue_heads": "inbox_heads",
    "model_usage": "model_runs",
}


def _tables_at(revision: str) -> list[str]:
    """Returns the names of Swarm's tables in a database at this migration. The database may contain other tables."""
    tables = list(TABLES)
    if revision < "0018":
        tables.remove("locks")
        tables += ["elections", "conversation_locks"]
    return [_BEFORE_0015.get(table, table) if revision < "0015" else table for table in tables]
