"""One twin and one coordinator for all crash tests on an engine, since each test leaves a coordinator that runs.

A test that fails may leave a mess; then the next one gets everything anew.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from tests.crash.scene import Scene
from tests.support.http import client as http_client
from tests.support.postgres import fresh_database
from tests.support.processes import processes_in
from tests.support.stage import Stage

HTTP_SECONDS = 30
LEAD = "lea"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Each wait has a limit of its own; that of a whole test, with all that it starts, is for what hangs."""
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent) and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(300))


class House:
    """Builds the stage of one engine, and builds it anew when it is not as a good test leaves it.

    ``furnish`` gives a new stage its database.
    """

    def __init__(self, stack: contextlib.ExitStack, new_folder: Callable[[], Path], furnish: Callable[[Stage], None]):
        self._stack = stack
        self._new_folder = new_folder
        self._furnish = furnish
        self._stage: Stage | None = None
        self._token = ""  # of the lead

    async def scene(self, http: httpx2.AsyncClient) -> Scene:
        if self._stage is None or not await self._is_clean(self._stage, http):
            if self._stage is not None:
                self._stage.processes.end()
            self._stage = await self._build(http)
        stage = self._stage
        return Scene(stage=stage, http=http, twin=stage.person(http), lea=stage.visitor(http, self._token))

    async def _is_clean(self, stage: Stage, http: httpx2.AsyncClient) -> bool:
        try:
            await stage.person(http).clear_faults()
            return not await stage.backlog(http) and await stage.visitor(http, self._token).poll() == []
        except (httpx2.HTTPError, AssertionError):
            return False

    async def _build(self, http: httpx2.AsyncClient) -> Stage:
        stage = Stage(self._stack.enter_context(processes_in(self._new_folder())))
        self._furnish(stage)
        await stage.start_twin(rates=False)
        await stage.start_coordinator()
        self._token = await stage.register(http, LEAD)
        assert await stage.visitor(http, self._token).poll() == []  # from now on it counts as online
        return stage


@pytest.fixture(scope="session")
def sqlite_house(tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: Path) -> Iterator[House]:
    with contextlib.ExitStack() as stack:
        yield House(stack, lambda: tmp_path_factory.mktemp("crash"), lambda stage: stage.use_sqlite(migrated_sqlite))


@pytest.fixture(scope="session")
def postgresql_house(
    tmp_path_factory: pytest.TempPathFactory, postgres_server_url: str, migrated_postgres: str
) -> Iterator[House]:
    with contextlib.ExitStack() as databases, contextlib.ExitStack() as stack:

        def furnish(stage: Stage) -> None:
            stage.use_postgres(databases.enter_context(fresh_database(postgres_server_url, migrated_postgres)))

        yield House(stack, lambda: tmp_path_factory.mktemp("crash-pg"), furnish)


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> str:
    """SQLite, unless a test asks for both with `both_engines`."""
    return str(getattr(request, "param", "sqlite"))


@pytest.fixture
async def scene(request: pytest.FixtureRequest, engine: str) -> AsyncIterator[Scene]:
    house: House = request.getfixturevalue(f"{engine}_house")
    async with http_client(timeout=HTTP_SECONDS) as http:
        scene = await house.scene(http)
        yield scene
        scene.stage.processes.show_logs()
