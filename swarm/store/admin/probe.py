"""Checks whether the database can store data, and gives a short reason if it cannot."""

from __future__ import annotations

from typing import Final

from sqlalchemy import bindparam, delete

from swarm.clock import new_id
from swarm.store import idempotency_keys
from swarm.store.bridge.statements import Statement
from swarm.store.bridge.transaction import Transaction
from swarm.store.tables.effects import idempotency_keys as table

PROBE_BYTES: Final = 16 * 1024
"""The size of a long message. A smaller change can succeed even on a full disk."""

_FULL: Final = "the disk is full"
_LOCKED: Final = "the database is locked"
_READ_ONLY: Final = "the database is read-only"
_DISK: Final = "the disk reports an error"
_DAMAGED: Final = "the database file is damaged"
_SQLITE: Final = {5: _LOCKED, 6: _LOCKED, 8: _READ_ONLY, 10: _DISK, 11: _DAMAGED, 13: _FULL, 14: _DISK, 26: _DAMAGED}
"""Keyed by SQLite's result codes: https://www.sqlite.org/rescode.html."""

_POSTGRES: Final = {"25006": _READ_ONLY, "53100": _FULL, "55P03": _LOCKED, "58030": _DISK}
"""Keyed by SQLSTATE: https://www.postgresql.org/docs/current/errcodes-appendix.html."""

_FORGET: Final = Statement(delete(table).where(table.c.key == bindparam("of_key")))


def store_something(tx: Transaction) -> None:
    """Writes and deletes a row as large as a long message. Other processes neither see the row nor wait for it."""
    key = f"probe:{new_id()}"
    idempotency_keys.record(tx, key)
    idempotency_keys.complete(tx, key, "x" * PROBE_BYTES)
    _FORGET.run(tx, of_key=key)


def reason(error: BaseException) -> str:
    """Returns why a write failed, without the addresses, files or users in a driver's message."""
    cause: BaseException | None = error
    while cause is not None:
        known = _SQLITE.get(getattr(cause, "sqlite_errorcode", 0) & 0xFF)
        known = known or _POSTGRES.get(getattr(cause, "sqlstate", None) or "")
        if known:
            return known
        cause = cause.__cause__
    return "the database is not available"
