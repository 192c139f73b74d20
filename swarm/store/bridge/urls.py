"""Parses database URLs into engine and location."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError

from swarm.domain.errors import ConfigurationError

_KEY = "database.url (SWARM_DATABASE_URL)"
_EXPECTED = "sqlite:///relative/path, sqlite:////absolute/path, or postgresql://user:password@host/name"


@dataclass(frozen=True, kw_only=True)
class SqliteUrl:
    path: Path

    def __str__(self) -> str:
        return f"sqlite:///{self.path}"


@dataclass(frozen=True, kw_only=True)
class PostgresUrl:
    conninfo: str = field(repr=False)  # as libpq takes it, with the password: never into a log
    shown: str  # the same with the password masked

    def __str__(self) -> str:
        return self.shown


def parse_url(text: str) -> SqliteUrl | PostgresUrl:
    """Raises `ConfigurationError`, naming the expected forms, for any other URL."""
    try:
        url = make_url(text)
    except ArgumentError as error:
        raise ConfigurationError(f"{_KEY} cannot be read; expected {_EXPECTED}.") from error
    if url.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        plain = url.set(drivername="postgresql")
        return PostgresUrl(conninfo=plain.render_as_string(hide_password=False), shown=plain.render_as_string())
    if url.drivername == "sqlite":
        return _sqlite(url)
    raise ConfigurationError(f"{_KEY} begins with {url.drivername!r}; expected {_EXPECTED}.")


def _sqlite(url: URL) -> SqliteUrl:
    name = url.database or ""
    if not name or ":memory:" in name or url.query.get("mode") == "memory":
        raise ConfigurationError(
            f"{_KEY} is an in-memory SQLite, but several connections must see one file; expected sqlite:///path."
        )
    return SqliteUrl(path=Path(name))
