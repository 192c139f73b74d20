"""Backs up a PostgreSQL database with PostgreSQL's own programs: ``pg_dump``, ``pg_restore`` and ``psql``.

Only Swarm's own tables are copied and replaced; other tables in the database are kept. The programs receive the
password in their environment, never on a command line, which every user of the machine can read.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from swarm.domain.errors import ConfigurationError, Conflict, Unavailable
from swarm.store.admin.refusals import CONTENT, IN_USE, NOT_EMPTY, STOP_FIRST, USE_FORCE
from swarm.store.bridge.engine import PostgresUrl

_IN_USE: Final = (
    "SELECT count(*) FROM pg_stat_activity "
    "WHERE datname = current_database() AND application_name = 'swarm' AND pid <> pg_backend_pid()"
)
# Runs in the same transaction as the restore, because a coordinator may have started after the first check.
_GUARD: Final = f"""
DO $$ BEGIN
    IF ({_IN_USE}) > 0 THEN
        RAISE EXCEPTION '{IN_USE}.';
    END IF;
END $$;
"""


def dump(where: PostgresUrl, copy: Path, tables: Iterable[str]) -> None:
    """Writes a consistent snapshot of ``tables`` to ``copy`` in PostgreSQL's custom format."""
    program = _program("pg_dump", _server_version(where))
    chosen = [f'--table="{table}"' for table in tables]
    _run(where, [program, "--format=custom", "--no-owner", "--no-privileges", *chosen, f"--file={copy}"])
    copy.chmod(0o600)


def put_back(
    where: PostgresUrl, copy: Path, replaced: Iterable[str], afterwards: Iterable[str], *, force: bool
) -> None:
    """Replaces tables with those in ``copy`` in one transaction. Raises the same errors as
    `swarm.store.admin.backup.put_back`.
    """
    version = _server_version(where)
    pg_restore, psql = _program("pg_restore", version), _program("psql", version)
    _check_free(where, force=force)
    data, script = copy.with_suffix(".data.sql"), copy.with_suffix(".sql")
    _run(None, [pg_restore, "--no-owner", "--no-privileges", f"--file={data}", str(copy)])
    names = ", ".join(f'"{table}"' for table in replaced)
    with script.open("w", encoding="utf-8") as file, data.open(encoding="utf-8") as restored:
        file.write(f"{_GUARD}DROP TABLE IF EXISTS {names} CASCADE;\n")
        shutil.copyfileobj(restored, file)
        file.write("\nRESET search_path;\n" + "".join(f"{statement};\n" for statement in afterwards) + _GUARD)
    data.unlink()
    _run(
        where,
        [psql, "--no-psqlrc", "--quiet", "--single-transaction", "--set=ON_ERROR_STOP=1", "--output=/dev/null",
         f"--file={script}"],
    )  # fmt: skip


def _check_free(where: PostgresUrl, *, force: bool) -> None:
    with _connected(where) as connection:
        (users,) = connection.execute(_IN_USE).fetchone() or (0,)
        if users:
            raise Conflict(f"{IN_USE} {where}.", hint=STOP_FIRST)
        if not force and any(_has_row(connection, table) for table in CONTENT):
            raise Conflict(NOT_EMPTY, hint=USE_FORCE)


def _has_row(connection: psycopg.Connection, table: str) -> bool:
    (there,) = connection.execute("SELECT to_regclass(%s) IS NOT NULL", [table]).fetchone() or (False,)
    return bool(
        there and connection.execute(sql.SQL("SELECT 1 FROM {} LIMIT 1").format(sql.Identifier(table))).fetchone()
    )


def _server_version(where: PostgresUrl) -> int:
    """Returns the server's major version."""
    with _connected(where) as connection:
        return connection.info.server_version // 10_000


def _connected(where: PostgresUrl) -> psycopg.Connection:
    try:
        return psycopg.connect(where.conninfo)
    except psycopg.Error as error:
        raise Unavailable(f"PostgreSQL at {where} cannot be reached: {str(error).splitlines()[0]}") from error


def _program(name: str, at_least: int) -> str:
    """Returns the path of a program whose version is at least the server's. Raises ConfigurationError."""
    path = shutil.which(name)
    hint = f"Install PostgreSQL's client programs, version {at_least} or newer, and put them on the PATH."
    if path is None:
        raise ConfigurationError(f"{name} is not on the PATH; backups of PostgreSQL need it.", hint=hint)
    version = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout  # noqa: S603
    found = re.search(r"(\d+)(?:\.\d+)*", version)
    if found is None or int(found.group(1)) < at_least:
        raise ConfigurationError(f"{path} is {version.strip() or 'unusable'}, older than the server.", hint=hint)
    return path


def _run(where: PostgresUrl | None, command: Sequence[str]) -> None:
    """Runs a program. Raises ConfigurationError with the program's error output. An interrupt terminates the
    program.
    """
    known = conninfo_to_dict(where.conninfo) if where else {}
    settings = {key: str(value) for key, value in known.items() if value is not None}
    password = settings.pop("password", "")
    environment = {**os.environ, "PGPASSWORD": password} if password else dict(os.environ)
    reach = [f"--dbname={make_conninfo('', **settings)}", "--no-password"] if where else []
    with (
        subprocess.Popen(  # noqa: S603 - programs of PostgreSQL
            [*command[:1], *reach, *command[1:]],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process
    ):
        try:
            _, errors = process.communicate()
        except BaseException:
            process.kill()
            raise
    if process.returncode:
        if IN_USE in errors:
            raise Conflict(f"{IN_USE}.", hint=STOP_FIRST)
        lines = errors.strip().splitlines() or [f"exit code {process.returncode}"]
        raise ConfigurationError(f"{Path(command[0]).name} failed: {lines[0]}")
