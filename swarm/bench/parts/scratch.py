"""A separate, migrated database for each measurement, removed afterwards."""

from __future__ import annotations

import asyncio
import os
import secrets
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg

from swarm.bench.figures import BenchError


@dataclass(frozen=True, kw_only=True, slots=True)
class Scratch:
    """A folder and a database for one measurement alone."""

    folder: Path
    url: str

    @property
    def environment(self) -> Mapping[str, str]:
        """The environment of a measured process, without settings of this machine."""
        ours = {"SWARM_HOME": str(self.folder), "SWARM_DATABASE_URL": self.url, "HOME": str(self.folder)}
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SWARM_", "SLACK_", "PORT"))}
        return {**kept, **ours, "PYTHONUNBUFFERED": "1"}


@asynccontextmanager
async def scratch(database: str) -> AsyncIterator[Scratch]:
    """Makes a migrated database: ``sqlite``, or a new one on the server of a PostgreSQL URL.

    Raises BenchError on failure.
    """
    with tempfile.TemporaryDirectory(prefix="swarm-bench-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if database == "sqlite":
            found = Scratch(folder=folder, url=f"sqlite:///{folder / 'swarm.db'}")
            await _migrate(found)
            yield found
        else:
            async with _created(database) as url:
                found = Scratch(folder=folder, url=url)
                await _migrate(found)
                yield found


@asynccontextmanager
async def _created(server_url: str) -> AsyncIterator[str]:
    name = f"swarm_bench_{secrets.token_hex(4)}"
    await asyncio.to_thread(_run, server_url, f"CREATE DATABASE {name}")
    try:
        yield urlunsplit(urlsplit(server_url)._replace(path=f"/{name}"))
    finally:
        await asyncio.to_thread(_run, server_url, f"DROP DATABASE {name} WITH (FORCE)")


def _run(url: str, statement: str) -> None:
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(statement.encode())
    except psycopg.Error as error:
        raise BenchError(f"PostgreSQL cannot do '{statement}': {error}") from error


async def _migrate(found: Scratch) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "swarm", "db", "upgrade"),
        cwd=found.folder,
        env=dict(found.environment),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await process.communicate()
    if process.returncode:
        raise BenchError(f"the database could not be migrated: {said.decode(errors='replace').strip()[-500:]}")
