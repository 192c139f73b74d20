"""The SQLite module in use, a connection as this system wants it, and what its errors mean.

`pysqlite3` carries its own, current SQLite and is taken where it is installed. The one of many distributions is older
than 3.51.3, where resetting the write-ahead log could lose pages; with such a one a warning goes to the log.
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

# Not a fault of the statement but of the machine, the file or a lock: trying again later may help.
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
    """Open a connection on which every BEGIN and COMMIT is ours, every commit reaches the disk, and threads may differ.

    Raises the driver's own errors, and `ConfigurationError` where SQLite cannot keep a write-ahead log.
    """
    connection = sqlite3.connect(
        path,
        timeout=busy_timeout_seconds,
        isolation_level=None,  # the driver begins nothing by itself
        check_same_thread=False,  # opened here, used by one thread for the rest of its life
        cached_statements=512,
    )
    try:
        _keep_log(connection, path, busy_timeout_seconds)
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA secure_delete = ON")  # what is deleted is overwritten with zeros
    except BaseException:
        connection.close()
        raise
    return connection


def explain(error: BaseException, *, writes: bool = False) -> BaseException:
    """What a caller gets for ``error``: its own exceptions as they are, the driver's in this system's words.

    A file that takes no writes is the machine's fault only for a call that ``writes``.
    """
    if isinstance(error, sqlite3.IntegrityError):
        return caused_by(ConstraintViolated(str(error)), error)
    if isinstance(error, sqlite3.Error) and (_is(error, _ENVIRONMENT) or (writes and _is(error, {"SQLITE_READONLY"}))):
        return unavailable(error)
    return error


def unavailable(error: BaseException) -> Unavailable:
    """The write is not durable because of ``error``."""
    return caused_by(Unavailable(f"The database cannot do this at the moment: {error}."), error)


@functools.cache  # once per process
def warn_if_old() -> None:
    """Warn in the log when the SQLite in use has the fault in resetting its write-ahead log."""
    if sqlite3.sqlite_version_info < SOUND_VERSION:
        structlog.get_logger(__name__).warning(
            "This SQLite can lose data when it resets its write-ahead log; install pysqlite3, or 3.51.3 or newer.",
            action="sqlite_old",
            version=sqlite3.sqlite_version,
        )


def _keep_log(connection: sqlite3.Connection, path: Path, patience_seconds: float) -> None:
    """Switch to the write-ahead log. While another process does the same to a new file, SQLite refuses at once."""
    deadline = time.monotonic() + patience_seconds
    while True:
        try:
            (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
    if mode != "wal":
        raise ConfigurationError(f"{path} lies where SQLite cannot keep a write-ahead log; it offers {mode!r}.")


def _is(error: sqlite3.Error, names: set[str]) -> bool:
    code: int = getattr(error, "sqlite_errorcode", 0)
    return any(code & 0xFF == getattr(sqlite3, name) for name in names)
