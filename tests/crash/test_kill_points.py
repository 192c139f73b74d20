"""Kill points: a coordinator, or its database, is killed at the N-th write, sync or send of a small working day.

Two hundred points, a hundred on each engine, spread by a seed (``SWARM_KILL_POINTS``, ``SWARM_KILL_SEED``). After each
kill everything starts again unaided and goes on; every message is then answered once, each answer that was shown live
is whole once, and nothing is left to do. What one point leaves is what the next one begins with. A point that fails
keeps its evidence in a folder and says by which command it is repeated, with everything new.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import httpx2
import pytest

from swarm.store.admin import migrations
from tests.crash.kill_plan import Victim, point
from tests.crash.kill_scene import BY_ITSELF, WITH_ALL, House, Scene
from tests.crash.kill_verdict import Rows
from tests.support.http import client as http_client
from tests.support.kill_point import KillPoint, NoCompiler, built_shim
from tests.support.postgres import fresh_database, own_server
from tests.support.processes import processes_in
from tests.support.stage import Stage

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

SEED = int(os.environ.get("SWARM_KILL_SEED", "20261122"))
POINTS = int(os.environ.get("SWARM_KILL_POINTS", "200"))
PARTS = 4
"""So many processes of pytest can do these, each with a house of its own."""

EVIDENCE = Path(os.environ.get("SWARM_KILL_EVIDENCE", Path(tempfile.gettempdir()) / "swarm-kill-points"))
_ENGINES = ("sqlite", "postgresql")
_NUMBERS = [
    pytest.param(number, marks=pytest.mark.xdist_group(f"part {number * PARTS // POINTS}"))
    for number in range((POINTS + 1) // 2)
]
HTTP_SECONDS = 30
TRIES = 4
"""A scene is never quite as long as another one; a point that lies behind its end is moved forward."""


class Houses:
    """The house of each engine, built when it is wanted, and anew after a point that failed."""

    def __init__(self, build: Callable[[str, contextlib.ExitStack], House]) -> None:
        self._build = build
        self._open: dict[str, tuple[House, contextlib.ExitStack]] = {}

    async def house(self, engine: str, http: httpx2.AsyncClient) -> House:
        if engine not in self._open:
            stack = contextlib.ExitStack()
            house = self._build(engine, stack)
            self._open[engine] = house, stack
            await house.open(http)
            await _count(house, http)
        return self._open[engine][0]

    def leave(self, engine: str) -> None:
        """The next one gets another house."""
        if engine in self._open:
            self._open.pop(engine)[1].close()

    def close(self) -> None:
        for engine in list(self._open):
            self.leave(engine)


async def _count(house: House, http: httpx2.AsyncClient) -> None:
    """A scene without a kill: how many calls it makes, and that all is well then."""
    scene = Scene(house=house, http=http, point=None, chance=random.Random(SEED))
    await scene.play()
    for kind, count in house.kill.counts.items():
        house.calls |= {(victim, kind): count for victim in Victim if victim is not Victim.BACKEND}
    if house.server_kill:
        house.calls |= {(Victim.BACKEND, kind): count for kind, count in house.server_kill.counts.items()}
    assert await scene.faults() == []


@pytest.fixture(scope="module")
def houses(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Houses]:
    with contextlib.ExitStack() as whole:
        folder = Path(whole.enter_context(tempfile.TemporaryDirectory(prefix="kill", dir="/tmp")))
        try:
            shim = built_shim(folder)
        except NoCompiler as error:
            pytest.skip(f"NOT TESTED HERE: {error}")

        def build(engine: str, stack: contextlib.ExitStack) -> House:
            stage = Stage(stack.enter_context(processes_in(tmp_path_factory.mktemp(engine))))
            stage.preload = shim
            kill = KillPoint(folder / f"{engine}-coordinator")
            stage.settings |= {**WITH_ALL, **kill.environment}
            if engine == "sqlite":
                stage.use_sqlite(request.getfixturevalue("migrated_sqlite"))
                return House(engine=engine, stage=stage, rows=Rows(stage.home / "swarm.db"), kill=kill)
            server_kill = KillPoint(folder / "postgresql-server")
            environment = {"LD_PRELOAD": str(shim), **server_kill.environment}
            server = stack.enter_context(own_server(environment, fsync=True))
            url = stack.enter_context(fresh_database(server.url))
            stack.callback(stage.processes.end)  # a database that is in use cannot be dropped in peace
            migrations.upgrade(url)
            stage.use_postgres(url)
            return House(engine=engine, stage=stage, rows=Rows(url), kill=kill, server=server, server_kill=server_kill)

        houses = Houses(build)
        whole.callback(houses.close)
        yield houses


@pytest.mark.req("LOOP-01", "LOOP-04", "LOOP-06", "LOOP-08", "OPS-10", "STREAM-10", "STREAM-11")
@pytest.mark.parametrize("number", _NUMBERS)
@pytest.mark.parametrize("engine", [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in _ENGINES])
async def test_killed_at_a_point_it_loses_and_doubles_nothing(houses: Houses, engine: str, number: int) -> None:
    here = point(engine, SEED, number)
    repeat = f"SWARM_KILL_SEED={SEED} pytest -m long 'tests/crash/test_kill_points.py' -k '{engine} and {number}]'"
    async with http_client(timeout=HTTP_SECONDS, limits=httpx2.Limits(max_keepalive_connections=0)) as http:
        house = await houses.house(engine, http)
        began = time.monotonic()
        for _ in range(TRIES):
            scene = Scene(house=house, http=http, point=here, chance=random.Random(f"{engine} {SEED} {number}"))
            try:
                await scene.play()
                faults = await scene.faults()
                faults += [end for end in scene.ends if end == BY_ITSELF]
            except (AssertionError, httpx2.HTTPError) as error:
                faults = [str(error)]
            if faults or scene.has_fired:
                break
            here = replace(here, share=here.share * 0.7)
        _note(engine, number, scene, time.monotonic() - began, faults)
        if faults:
            folder = EVIDENCE / f"{engine}-{SEED}-{number}"
            scene.keep_evidence(folder, "\n".join(faults))
            houses.leave(engine)
            text = "\n".join([*faults, f"point: {here}", f"ends: {scene.ends}", f"evidence: {folder}", repeat])
            pytest.fail(text, pytrace=False)
        assert scene.has_fired, f"never reached: {here}"


def _note(engine: str, number: int, scene: Scene, seconds: float, faults: list[str]) -> None:
    """A line for whoever counts: what was killed, and how long it took."""
    if path := os.environ.get("SWARM_KILL_LOG"):
        told = {"engine": engine, "number": number, "point": str(scene.point), "ends": scene.ends, "seconds": seconds}
        with Path(path).open("a") as log:
            log.write(json.dumps(told | {"shown": scene.beginnings, "faults": faults}) + "\n")
