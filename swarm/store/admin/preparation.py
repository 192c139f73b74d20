"""Making sure at the start that a database has this version's schema.

Mostly it has, and one row says so; Alembic (`swarm.store.admin.migrations`), which takes long to load, is for other
cases.
"""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Final

from swarm.domain.errors import ConfigurationError
from swarm.store.bridge.sqlite_driver import connect, sqlite3
from swarm.store.bridge.urls import PostgresUrl, SqliteUrl, parse_url

LOCK_SECONDS: Final = 60
"""How long SQLite waits for another process that migrates; PostgreSQL waits for as long as that one lives."""

STARTING_SECONDS: Final = 60
"""How long a PostgreSQL that is starting is waited for."""

_CURRENT: Final = "SELECT version_num FROM alembic_version"

_Rows = list[tuple[str]]


def prepare(url: str) -> None:
    """Make sure at the start that the database has this version's schema.

    The embedded SQLite is migrated. A PostgreSQL is not touched, since several processes may run on it: pending
    migrations are a `ConfigurationError` that names the command. Raises `Unavailable` without a connection.
    """
    if is_current(url):
        return
    from swarm.store.admin import migrations  # heavy, and mostly not needed

    if isinstance(parse_url(url), SqliteUrl):
        migrations.upgrade(url)
    elif names := migrations.pending(url):
        raise ConfigurationError(
            f"The database lacks {len(names)} migration(s), the first is {names[0]}.", hint="Run: swarm db upgrade"
        )


def is_current(url: str) -> bool:
    """Whether the newest migration was the database's last; False as well where that cannot be asked."""
    return revision(url) == newest()


def revision(url: str) -> str | None:
    """The migration that was the database's last; None where that cannot be asked."""
    where = parse_url(url)
    rows = _on_postgres(where) if isinstance(where, PostgresUrl) else _on_sqlite(where.path)
    return rows[0][0] if rows else None


def newest() -> str:
    """The number of the newest migration: files are called NUMBER_SUBJECT.py, and numbers are of one length."""
    return max(path.name.partition("_")[0] for path in (folder() / "versions").glob("[0-9]*_*.py"))


def folder() -> Path:
    """Where the migrations are: inside an installed package, or in the checkout."""
    packaged = Path(__file__).parents[2] / "_migrations"
    return packaged if packaged.is_dir() else Path(__file__).parents[3] / "db" / "migrations"


def _on_sqlite(path: Path) -> _Rows:
    if not path.exists():  # to connect would make one
        return []
    try:
        with closing(connect(path, busy_timeout_seconds=LOCK_SECONDS)) as connection:
            return connection.execute(_CURRENT).fetchall()
    except sqlite3.Error:  # Alembic will meet the same, and say what it is
        return []


def _on_postgres(where: PostgresUrl) -> _Rows:
    import psycopg  # not loaded for SQLite
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
    """Whether a server says that it recovers from a crash, starts or ends: no reason to end as well.

    psycopg does not give such errors their code (57P03), so an English server's words have to do.
    """
    return "FATAL:  the database system is" in str(error)
