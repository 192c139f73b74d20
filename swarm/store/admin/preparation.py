"""Ensures at startup that a database has this version's schema.

Usually a query of one row confirms this. Alembic (`swarm.store.admin.migrations`) is slow to import and is only used in
other cases.
"""

from __future__ import annotations

from swarm.domain.errors import ConfigurationError
from swarm.store.admin import revisions
from swarm.store.bridge.engine import SqliteUrl, parse_url


def prepare(url: str) -> None:
    """Ensures at startup that the database has this version's schema.

    An embedded SQLite database is migrated. PostgreSQL is left unchanged, because several processes may use it: pending
    migrations raise a `ConfigurationError` that names the command. Raises `Unavailable` without a connection.
    """
    if is_current(url):
        return
    from swarm.store.admin import migrations  # slow to import, and rarely needed

    if isinstance(parse_url(url), SqliteUrl):
        migrations.upgrade(url)
    elif names := migrations.pending(url):
        raise ConfigurationError(
            f"The database has {len(names)} pending migration{'' if len(names) == 1 else 's'}.",
            hint="Run: swarm db upgrade",
        )


def is_current(url: str) -> bool:
    """Returns whether the database is at the newest migration. Returns False if the query fails."""
    return revisions.revision(url) == revisions.newest()
