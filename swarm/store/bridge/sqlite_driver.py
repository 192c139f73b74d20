"""The SQLite driver: the module to use, connection settings, and the mapping of errors.

`pysqlite3` includes a current SQLite and is used if installed. Many distributions ship an SQLite older than 3.51.3, in
which a reset of the write-ahead log can lose pages; a warning is logged for such a version.
"""

from __future__ import annotations

import functools
import time
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from swarm.domain.errors import ConfigurationError, Unavailable
from swarm.store.bridge.transaction import ConstraintViolated, Transaction, caused_by

if TYPE_CHECKING:
    import sqlite3
else:
    try:
        import pysqlite3 as sqlite3
    except ImportError:
        import sqlite3

__all__ = ["SqliteTransaction", "connect", "explain", "sqlite3", "unavailable", "warn_if_old"]

SOUND_VERSION = (3, 51, 3)

# Errors caused by the machine, the file or a lock, not by the statement: a later attempt may succeed.
_ENVIRONMENT = {
    "SQLITE_BUSY",
    "SQLITE_LOCKED",
    "SQLITE_NOMEM",
    "SQLITE_IOERR",
    "SQLITE_CORRUPT",
    "SQLITE_FULL",
    "SQLITE_CANTOPEN",
    "SQLITE_PROTOCOL",
    "SQLITE_NOTADB",
}


class SqliteTransaction(Transaction):
    dialect = "sqlite"
    driver_error = sqlite3.Error


def connect(path: Path, *, busy_timeout_seconds: float) -> sqlite3.Connection:
    """Opens a connection in autocommit mode with durable commits, usable from any thread.

    Raises the driver's own errors, and `ConfigurationError` if SQLite cannot use a write-ahead log.
    """
    connection = sqlite3.connect(
        path,
        timeout=busy_timeout_seconds,
        isolation_level=None,  # the driver does not begin transactions by itself
        check_same_thread=False,  # opened here, then used by one other thread
        cached_statements=512,
    )
    try:
        _keep_log(connection, path, busy_timeout_seconds)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")  # deleted data is overwritten with zeros
    except BaseException:
        connection.close()
        raise
    return connection


def explain(error: BaseException, *, writes: bool = False) -> BaseException:
    """Maps a driver error to one of Swarm's errors. Returns other exceptions unchanged.

    A read-only file counts as an environment error only for a call that ``writes``.
    """
    if isinstance(error, sqlite3.IntegrityError):
        return caused_by(ConstraintViolated(str(error)), error)
    if isinstance(error, sqlite3.Error) and (_is(error, _ENVIRONMENT) or (writes and _is(error, {"SQLITE_READONLY"}))):
        return unavailable(error)
    return error


def unavailable(error: BaseException) -> Unavailable:
    """Returns an `Unavailable` for a write that is not durable because of ``error``."""
    return caused_by(Unavailable(f"The database cannot do this now: {error}."), error)


@functools.cache  # once per process
def warn_if_old() -> None:
    """Logs a warning if the installed SQLite can lose pages when its write-ahead log is reset."""
    if sqlite3.sqlite_version_info < SOUND_VERSION:
        structlog.get_logger(__name__).warning(
            "This SQLite can lose data when it resets its write-ahead log; install pysqlite3, or 3.51.3 or newer.",
            action="sqlite_old",
            version=sqlite3.sqlite_version,
        )


def _keep_log(connection: sqlite3.Connection, path: Path, timeout_seconds: float) -> None:
    """Switches to the write-ahead log. SQLite refuses immediately while another process switches a new file."""
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    if mode != "wal":
        raise ConfigurationError(f"SQLite cannot use a write-ahead log at {path}; it offers {mode!r}.")


def _is(error: sqlite3.Error, names: set[str]) -> bool:
    code: int = getattr(error, "sqlite_errorcode", 0)
    return any(code & 0xFF == getattr(sqlite3, name) for name in names)
