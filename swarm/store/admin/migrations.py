"""Migrates a database to the schema of this version.

Only this module calls Alembic and uses an SQLAlchemy Engine. All pending migrations run in one transaction under a
lock: if two processes start together, one migrates and the other has nothing left to do. A failing migration leaves the
database unchanged.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psycopg
import structlog
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.script.revision import RevisionError
from sqlalchemy import Connection, Engine, NullPool, create_engine, event
from sqlalchemy.exc import DBAPIError

from swarm.domain.errors import ConfigurationError, Unavailable
from swarm.store.admin.revisions import LOCK_SECONDS, folder
from swarm.store.bridge.engine import PostgresUrl, SqliteUrl, parse_url
from swarm.store.bridge.sqlite_driver import connect, sqlite3

_ADVISORY_LOCK = 0x7377_6172_6D64_62  # "swarmdb"

_log = structlog.get_logger(__name__)


def upgrade(url: str) -> list[str]:
    """Runs all pending migrations. Returns their names, oldest first. Raises `Unavailable`, `ConfigurationError`."""
    with _locked(url) as connection:
        names = _pending(connection)
        if names:
            _log.info("Migrating the database.", action="migrate", migrations=names)
            command.upgrade(_config(connection), "head")
            _check_references(connection)
        return names


def pending(url: str) -> list[str]:
    """Returns the names of pending migrations, oldest first. Raises `Unavailable`, `ConfigurationError`."""
    where = parse_url(url)
    if isinstance(where, SqliteUrl) and not where.path.exists():
        return _names_above(())
    with _connected(_engine(where)) as connection:
        return _pending(connection)


def draft(url: str, message: str) -> None:
    """Writes a new migration file with the differences between `tables` and the migrated database, for manual
    editing.
    """
    with _connected(_engine(parse_url(url))) as connection:
        number = f"{len(_names_above(())) + 1:04}"
        command.revision(_config(connection), message, autogenerate=True, rev_id=number)


def _pending(connection: Connection) -> list[str]:
    return _names_above(MigrationContext.configure(connection).get_current_heads())


def _names_above(current: tuple[str, ...]) -> list[str]:
    scripts = ScriptDirectory.from_config(_config())
    try:
        missing = list(scripts.iterate_revisions("heads", current or "base"))
    except RevisionError as error:
        raise ConfigurationError(
            f"The database is at migration {', '.join(current)}, which this version of swarm does not know.",
            hint="Start the newer version that migrated it, or restore a backup.",
        ) from error
    return [f"{script.revision} {script.doc}" for script in reversed(missing)]


def _config(connection: Connection | None = None) -> Config:
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(folder()).replace("%", "%%"))
    config.set_main_option("file_template", "%%(rev)s_%%(slug)s")
    return config


@contextlib.contextmanager
def _locked(url: str) -> Iterator[Connection]:
    """Opens a transaction that blocks other migrations and commits at the end of the block."""
    engine = _engine(parse_url(url))
    if engine.dialect.name == "sqlite":
        event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN EXCLUSIVE"))
    with _connected(engine) as connection, connection.begin():
        if engine.dialect.name == "postgresql":
            connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_ADVISORY_LOCK})")
        yield connection


@contextlib.contextmanager
def _connected(engine: Engine) -> Iterator[Connection]:
    try:
        connection = engine.connect()
    except DBAPIError as error:
        raise Unavailable(f"The database cannot be reached: {error.orig}") from error
    with connection:
        yield connection


def _engine(where: SqliteUrl | PostgresUrl) -> Engine:
    if isinstance(where, PostgresUrl):
        conninfo = where.conninfo
        return create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(conninfo), poolclass=NullPool)
    path = where.path
    return create_engine("sqlite://", module=sqlite3, creator=lambda: _connect_sqlite(path), poolclass=NullPool)


def _connect_sqlite(path: Path) -> sqlite3.Connection:
    connection = connect(path, busy_timeout_seconds=LOCK_SECONDS)
    # A batch operation replaces a table. With foreign keys enabled, dropping the old table would delete the rows that
    # refer to it.
    connection.execute("PRAGMA foreign_keys = OFF")
    return connection


def _check_references(connection: Connection) -> None:
    """Checks, before the commit, the foreign keys that SQLite ignored during the migration."""
    if connection.dialect.name == "sqlite":
        broken = connection.exec_driver_sql("PRAGMA foreign_key_check").all()
        if broken:
            raise RuntimeError(f"The migration would leave dangling references: {broken[:5]}")
