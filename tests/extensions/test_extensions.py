"""An extension from outside, found by its metadata: an agent, a command, a route and a section; and bad ones."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.routing import Route

from swarm import extensions
from swarm.app import extending
from swarm.app.process import StopDeadline
from swarm.cli import commands
from swarm.config import extension_sections, read
from swarm.config.explaining import explain
from swarm.domain.errors import ConfigurationError
from swarm.services.builtin.agent_runs import AgentRuns
from swarm.store.bridge.database import Database
from swarm_base.redaction import HIDDEN
from tests.support.processes import processes_in, until_ready
from tests.support.stage import Stage
from tests.support.twin_client import ANSWERED

ROOT = Path(__file__).parents[2]
WEATHER = Path(__file__).parent / "weather"
POINT = "swarm_weather.extension:EXTENSION"


def install(folder: Path, package: str, point: str, name: str) -> None:
    """What pip writes about a package."""
    info = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[swarm.extensions]\n{name} = {point}\n")


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of packages that this process finds, that of the weather among them."""
    folder = tmp_path / "packages"
    folder.mkdir()
    install(folder, "swarm-weather", POINT, "weather")
    for path in (WEATHER, folder):
        monkeypatch.syspath_prepend(path)
    clear()
    yield folder
    sys.modules.pop("swarm_bad", None)
    clear()


def clear() -> None:
    extensions.installed.cache_clear()
    extension_sections._sections.cache_clear()


async def test_an_agent_a_command_a_route_and_a_section_work_in_a_coordinator(
    tmp_path: Path, http: httpx2.AsyncClient, migrated_sqlite: Path
) -> None:
    point = tomllib.loads((WEATHER / "pyproject.toml").read_text())["project"]["entry-points"]["swarm.extensions"]
    install(tmp_path, "swarm-weather", point["weather"], "weather")
    settings = tmp_path / "swarm.yaml"
    settings.write_text("agents: {default: weather}\nextensions: {weather: {place: Oslo, key: snow-for-all-of-us}}\n")
    path = {"PYTHONPATH": f"{tmp_path}:{WEATHER}:{ROOT}"}
    with processes_in(tmp_path) as processes:
        stage = Stage(processes, settings=path)
        await stage.start_twin()
        stage.use_sqlite(migrated_sqlite)
        swarm = (sys.executable, "-m", "swarm")
        stage.coordinator = processes.start("coordinator", *swarm, "up", env=stage.environment)
        assert (await processes.run(*swarm, "weather", env=path)).out == "It will rain in Oslo.\n"
        await until_ready(stage.coordinator, f"{stage.base}/readyz")
        assert (await http.get(f"{stage.base}/weather")).status_code == 401
        assert await stage.visitor(http).get("/weather") == {"forecast": "It will rain in Oslo."}
        twin = stage.person(http)
        ts = await twin.say("@swarm hello")
        seen = await twin.until(ts, lambda seen: seen.answers and ANSWERED in seen.emoji)
        assert seen.answers[0].startswith("It will rain in Oslo.")
        settings.write_text("agents: {default: weather}\n")
        reloaded = await stage.visitor(http).post("/reload")
        assert reloaded["needs_restart"] == ["extensions.weather.place", "extensions.weather.key"]


def test_a_section_is_explained_without_its_secrets(packages: Path, tmp_path: Path) -> None:
    (tmp_path / "swarm.yaml").write_text("extensions: {weather: {key: snow-for-all-of-us}}\n")
    found = explain(read({}, folder=tmp_path, user_home=tmp_path), "dm")
    assert [(one.key, one.value, one.source) for one in found if one.key.startswith("extensions.")] == [
        ("extensions.weather.place", "Bonn", "default"),
        ("extensions.weather.key", HIDDEN, "swarm.yaml: extensions.weather.key"),
    ]


BAD_SECTIONS = {
    "an unknown key": ("weather: {plaice: Bonn}", "extensions.weather.plaice: there is no such setting"),
    "a bad value": ("weather: {place: ''}", "extensions.weather.place is '': String should have at least 1 character"),
    "no mapping": ("weather: [Bonn]", "extensions.weather: a mapping is expected"),
    "a package that is not there": ("wether: {}", "extensions.wether: no package that is installed has settings of"),
}


@pytest.mark.parametrize(("section", "says"), BAD_SECTIONS.values(), ids=BAD_SECTIONS)
def test_a_section_is_checked_as_all_settings_are(packages: Path, tmp_path: Path, section: str, says: str) -> None:
    (tmp_path / "swarm.yaml").write_text(f"extensions: {{{section}}}\n")
    with pytest.raises(ConfigurationError, match=re.escape(says)):
        read({}, folder=tmp_path, user_home=tmp_path)


BAD = {
    "it cannot be imported": ("import nothing_of_the_kind", "No module named 'nothing_of_the_kind'"),
    "it is something else": ("EXTENSION = 7", "it is no swarm.extensions.Extension"),
    "its command is ours": (
        "EXTENSION = Extension(package='swarm-bad', commands={'chat': Command(target='x:y')})",
        "The packages swarm-agents and swarm-bad both have a command `chat`",
    ),
    "its command is another's": (
        "EXTENSION = Extension(package='swarm-bad', commands={'weather': Command(target='x:y')})",
        "The packages swarm-bad and swarm-weather both have a command `weather`",
    ),
    "its section is none": (
        "EXTENSION = Extension(package='swarm-bad', section='json:JSONDecoder')",
        "it is no subclass of swarm.config.section.Section",
    ),
    "its section needs a key": (
        "from swarm.config.section import Section\nclass Bad(Section):\n    place: str\n"
        "EXTENSION = Extension(package='swarm-bad', section='swarm_bad:Bad')",
        "every key needs a default",
    ),
    "its agents are not there": (
        "EXTENSION = Extension(package='swarm-bad', agents='swarm_bad:nowhere')",
        "module 'swarm_bad' has no attribute 'nowhere'",
    ),
    "its agents are something else": (
        "EXTENSION = Extension(package='swarm-bad', agents='builtins:repr')",
        "it gives str in place of AbstractAsyncContextManager",
    ),
    "its agents are no function": (
        "EXTENSION = Extension(package='swarm-bad', agents='swarm.extensions:GROUP')",
        "swarm.extensions:GROUP: it is no function or class, but str",
    ),
    "its agent has another's name": (
        "EXTENSION = Extension(package='swarm-bad', agents='swarm_weather.parts:agents', "
        "section='swarm_weather.settings:WeatherSettings')",
        "The package swarm-weather has an agent weather, and so has swarm-bad",
    ),
}


@pytest.mark.parametrize(("code", "says"), BAD.values(), ids=BAD)
async def test_an_extension_that_cannot_be_used_stops_the_start_with_its_name(
    packages: Path, tmp_path: Path, database: Database, code: str, says: str
) -> None:
    (packages / "swarm_bad.py").write_text("from swarm.extensions import Command, Extension\n" + code)
    install(packages, "swarm-bad", "swarm_bad:EXTENSION", "bad")
    with pytest.raises(ConfigurationError, match=re.escape(says)) as refused:  # noqa: PT012 - a start is both
        settings = read({}, folder=tmp_path, user_home=tmp_path).settings
        async with extending.opened(settings, database, StopDeadline(), ()):
            pass
    assert "swarm-bad" in refused.value.message
    assert "ninstall swarm-" in str(refused.value.hint)


@pytest.mark.parametrize("words", [["--help"], ["bad"]])
def test_a_command_that_cannot_be_imported_is_told_with_its_package(packages: Path, words: list[str]) -> None:
    code = "EXTENSION = Extension(package='swarm-bad', commands={'bad': Command(target='swarm_weather:nothing')})"
    (packages / "swarm_bad.py").write_text("from swarm.extensions import Command, Extension\n" + code)
    install(packages, "swarm-bad", "swarm_bad:EXTENSION", "bad")
    with pytest.raises(ConfigurationError, match="swarm-bad cannot be used as an extension: swarm_weather:nothing"):
        commands.run(words)


def test_routes_below_one_of_ours_are_refused(packages: Path, tmp_path: Path) -> None:
    settings = read({}, folder=tmp_path, user_home=tmp_path).settings
    nothing: Any = None
    runs = AgentRuns({}, nothing, {})
    host = extending.RouteHost(settings=settings, section=None, services=nothing, identities=nothing, runs=runs)
    (route,) = extending.routes(host, [Route("/agents", repr)])
    assert isinstance(route, Route)
    assert route.path == "/weather"
    with pytest.raises(ConfigurationError, match="swarm-weather has routes below /weather, and so has swarm"):
        extending.routes(host, [Route("/weather/{day}", repr)])


def test_the_page_on_extensions_lists_the_package() -> None:
    page = (ROOT / "docs" / "extensions.md").read_text(encoding="utf-8")
    for path in (WEATHER / "pyproject.toml", *sorted(WEATHER.rglob("[a-z]*.py"))):
        assert path.read_text(encoding="utf-8").strip() in page, path
