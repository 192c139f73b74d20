"""Tests that ask for `database_url` or `database` run on SQLite; what differs between the engines, on PostgreSQL too.

Behaviour is proven once, on SQLite. Tests marked `both_engines` (races, locks, recovery, and as many more as let every
statement of the use cases run on PostgreSQL once) and those of the store run on both engines; with ``--engines=both``,
as in ``make proof``, all of them do, with all of their cases. Nothing is skipped quietly.
"""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest
import structlog
from hypothesis import settings
from xdist.remote import Producer  # type: ignore[import-untyped]

from swarm.store.admin import migrations
from swarm.store.bridge.database import Database
from tests.support.groups import Scheduling, longest_first, restore_groups, split_long
from tests.support.logs import own_log
from tests.support.postgres import database_name, fresh_database, postgres_server_or_skip

# A shared machine is slow now and then; how long an example takes is not what the properties are about. Where CI is
# set, Hypothesis draws the same examples each time; elsewhere others, so that few of them find much after a while.
settings.register_profile("swarm", deadline=None, max_examples=60)
settings.register_profile("gate", deadline=None, max_examples=25)  # which is run often
settings.load_profile("swarm")

# What nobody has configured paints tracebacks with their code and variables, half a second of work for each.
structlog.dev.ConsoleRenderer.get_active().exception_formatter = structlog.dev.plain_traceback

ENGINES = ("sqlite", "postgresql")


@pytest.fixture(autouse=True)
def log_of_the_test() -> Iterator[None]:
    """What a command configures for its whole process ends with the test, and no logger is kept for another one."""
    with own_log():
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--engines",
        choices=["needed", "both"],
        default="needed",
        help="needed: PostgreSQL only for the store and for tests marked both_engines; both: for every test",
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Thousands of items that stay until the end: looking for garbage among them takes a quarter of collecting them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrize `database_url` with the test's engines, unless the test names them itself."""
    if "database_url" in metafunc.fixturenames and not _names_engines(metafunc):
        metafunc.parametrize("database_url", _engines(metafunc), indirect=True)


def _deselect_repeated(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave PostgreSQL the first case of each test that is marked `both_engines`: the engine is the same in all."""
    seen, repeated = set(), []
    marks = pytest.Item.get_closest_marker
    for item in items:
        if marks(item, "both_engines") and not marks(item, "long") and "[postgresql" in item.name:
            test = (item.path, item.name.partition("[")[0])
            repeated += [item] if test in seen else []
            seen.add(test)
    left_out = set(repeated)
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=repeated)


def _names_engines(metafunc: pytest.Metafunc) -> bool:
    return any(mark.args[0] == "database_url" for mark in metafunc.definition.iter_markers("parametrize"))


def _engines(metafunc: pytest.Metafunc) -> tuple[str, ...]:
    needs_both = (
        metafunc.definition.get_closest_marker("both_engines") is not None
        or metafunc.module.__name__.startswith("tests.store.")
        or metafunc.config.getoption("engines") == "both"
    )
    return ENGINES if needs_both else ENGINES[:1]


@pytest.fixture(scope="session")
def postgres_server_url() -> Iterator[str]:
    """The maintenance database of a server that lasts for the whole run."""
    with postgres_server_or_skip() as url:
        yield url


@pytest.fixture(scope="session")
def migrated_postgres(postgres_server_url: str) -> Iterator[str]:
    """The name of a migrated database, to be copied."""
    with fresh_database(postgres_server_url) as url:
        migrations.upgrade(url)
        yield database_name(url)


@pytest.fixture(scope="session")
def migrated_sqlite(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated file, to be copied."""
    path = tmp_path_factory.mktemp("migrated") / "swarm.db"
    migrations.upgrade(f"sqlite:///{path}")
    return path


@pytest.fixture
def sqlite_url(tmp_path: Path, migrated_sqlite: Path) -> str:
    """A migrated SQLite file of the test's own."""
    path = tmp_path / "swarm.db"
    shutil.copyfile(migrated_sqlite, path)
    return f"sqlite:///{path}"


@pytest.fixture
def postgres_url(postgres_server_url: str, migrated_postgres: str) -> Iterator[str]:
    """A migrated PostgreSQL database of the test's own."""
    with fresh_database(postgres_server_url, template=migrated_postgres) as url:
        yield url


@pytest.fixture
def database_url(request: pytest.FixtureRequest) -> str:
    """A migrated database of the test's own, on the engine or engines that `pytest_generate_tests` gives the test."""
    url: str = request.getfixturevalue("sqlite_url" if request.param == "sqlite" else "postgres_url")
    return url


@pytest.fixture(params=ENGINES)
def empty_database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A database without any table, on one engine after the other."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'empty.db'}"
    else:
        with fresh_database(request.getfixturevalue("postgres_server_url")) as url:
            yield url


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    """A migrated database of the test's own, open."""
    async with Database(database_url) as opened:
        yield opened


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> Scheduling | None:
    return Scheduling(config, log) if config.getoption("dist") == "loadgroup" else None


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None]:
    if config.getoption("engines") != "both":
        _deselect_repeated(config, items)
    split_long(items)
    yield
    restore_groups(items)
    longest_first(items)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Where everything is supposed to be installed, a test that skips itself has failed."""
    report = yield
    if report.skipped and os.environ.get("CI") and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"In CI nothing may be skipped: {report.longrepr}"
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly what was not tested."""
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.section(f"NOT TESTED: {len(skipped)} tests were skipped", red=True)
        for reason in sorted({str(report.longrepr[2]) for report in skipped}):
            terminalreporter.write_line(reason)
