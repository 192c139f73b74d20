"""The last migration of a database, and the newest of this version. Found without Alembic, which is slow to import."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Final

from swarm.store.bridge.engine import PostgresUrl, parse_url
from swarm.store.bridge.sqlite_driver import connect, sqlite3

LOCK_SECONDS: Final = 60
"""How long SQLite waits for another process that is migrating. PostgreSQL waits until that process ends."""

STARTING_SECONDS: Final = 60
"""How long a PostgreSQL server may take to start."""

_CURRENT: Final = "SELECT version_num FROM alembic_version"

_Rows = list[tuple[str]]


def revision(url: str) -> str | None:
    """Returns the last migration of the database; None if the query fails."""
    where = parse_url(url)
    rows = _on_postgres(where) if isinstance(where, PostgresUrl) else _on_sqlite(where.path)
    return rows[0][0] if rows else None


def newest() -> str:
    """Returns the number of the newest migration. Files are named NUMBER_SUBJECT.py, and all numbers have the same
    length.
    """
    return max(path.name.partition("_")[0] for path in (folder() / "versions").glob("[0-9]*_*.py"))


def folder() -> Path:
    """Returns the folder of the migrations, in an installed package or in the checkout."""
    packaged = Path(__file__).parents[2] / "_migrations"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "db" / "migrations"


def _on_sqlite(path: Path) -> _Rows:
    if not path.exists():  # connecting would create the file
        return []
    try:
        with closing(connect(path, busy_timeout_seconds=LOCK_SECONDS)) as connection:
            return connection.execute(_CURRENT).fetchall()
    except sqlite3.Error:  # Alembic will raise and report the same error
        return []


def _on_postgres(where: PostgresUrl) -> _Rows:
    import psycopg  # not imported for SQLite
    import stamina

    attempts = stamina.retry_context(
        on=_is_starting, attempts=None, timeout=STARTING_SECONDS, wait_initial=0.2, wait_max=2.0
    )
    try:
        for attempt in attempts:
            with attempt, psycopg.connect(where.conninfo) as connection:
                return connection.execute(_CURRENT).fetchall()
    except psycopg.Error:  # as above
        pass
    return []


def _is_starting(error: Exception) -> bool:
    """Returns whether the server reports a recovery, startup or shutdown, in which case a later attempt may succeed.

    psycopg gives these errors no code (57P03), so the text of an English-language server is compared.
    """
    return "FATAL:  the database system is" in str(error)
