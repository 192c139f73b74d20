"""Our packages as somebody installs them: wheels in an environment of their own, far from the checkout."""

from __future__ import annotations

import importlib.metadata
import re
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from packages.swarm_lab.tests.e2e.demo import Demo
from tests.support.processes import Processes
from tests.support.twin_client import ANSWERED, TwinClient

pytestmark = [pytest.mark.long, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
OURS = ("swarm", "swarm-base", "swarm-runner", "swarm-agents", "swarm-lab", "slack-twin")
ALONE = ("demo", "bench loop", "conformance --suite", "chat hello", "eval router", "run wim --provider claude")
END_SECONDS = 30


def run(*command: str | Path, folder: Path) -> str:
    done = subprocess.run([str(part) for part in command], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def dist(tmp_path: Path) -> Path:
    """What ``make dist`` builds."""
    run("make", "dist", f"DIST={tmp_path / 'dist'}", folder=ROOT)
    return tmp_path / "dist"


def installed(dist: Path, folder: Path, *packages: str) -> Path:
    """The programs of an environment with some of the wheels and what they need, in the tested versions."""
    environment = folder / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment, folder=folder)
    known = sorted(f"{one.name}=={one.version}" for one in importlib.metadata.distributions() if one.name not in OURS)
    (folder / "versions.txt").write_text("\n".join(known))
    wheels = [wheel for name in packages for wheel in dist.glob(f"{name.replace('-', '_')}-0*.whl")]
    assert len(wheels) == len(packages)
    wanted: tuple[str | Path, ...] = ("install", "-q", "-c", folder / "versions.txt", *wheels)
    python = environment / "bin" / "python"
    try:
        compiled = "--compile-bytecode"  # as pip does: the first start of the demo is not to wait for it
        run(sys.executable, "-m", "uv", "pip", *wanted, compiled, "--python", python, folder=folder)
    except AssertionError:  # where only pip knows how to reach its packages, as in the Makefile
        run(sys.executable, "-m", "pip", "--python", python, *wanted, folder=folder)
    return environment / "bin"


@pytest.mark.req("OPS-01")
@pytest.mark.parametrize(("with_agents", "missing"), [(False, ALONE), (True, (*ALONE[:3], ALONE[5]))])
def test_the_core_alone_and_with_agents_says_what_other_commands_need(
    dist: Path, tmp_path: Path, with_agents: bool, missing: tuple[str, ...]
) -> None:
    programs = installed(dist, tmp_path, "swarm", "swarm-base", *(["swarm-agents"] if with_agents else []))
    assert "coordinator" in run(programs / "swarm", "--help", folder=tmp_path)
    assert '"socket_mode_enabled": true' in run(programs / "swarm", "slack", "manifest", folder=tmp_path)
    for command in missing:
        done = subprocess.run(
            [str(programs / "swarm"), *command.split()], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert (done.returncode, done.stdout) == (1, "")
        assert re.fullmatch(r"swarm: .* needs the package swarm-\w+, which is not installed\. .*\n", done.stderr)
    models = run(
        programs / "python", "-c", "import importlib.util as u; print(u.find_spec('pydantic_ai'))", folder=tmp_path
    )
    assert (models.strip() != "None") is with_agents


@pytest.mark.req("OPS-01")
async def test_wheels_that_are_installed_together_run_the_demo(
    dist: Path, tmp_path: Path, processes: Processes, http: httpx2.AsyncClient
) -> None:
    programs = installed(dist, tmp_path, *OURS)
    names = ", ".join(name.replace("-", "_") for name in OURS)
    where = run(programs / "python", "-c", f"import {names}\nfor one in {names}: print(one.__file__)", folder=programs)
    assert {Path(path).is_relative_to(programs.parent) for path in where.split()} == {True}
    demo = Demo(processes, command=str(programs / "swarm"))
    await demo.open()
    twin = TwinClient(demo.url, http)
    ts = await twin.say("@swarm hello")
    seen = await twin.until(ts, lambda seen: seen.answers and ANSWERED in seen.emoji, within_seconds=60)
    assert seen.answers[0].startswith("Hello Alice!")
    demo.process.send(signal.SIGINT)
    assert await demo.process.exit_code(END_SECONDS) == 0


def test_the_sources_are_enough_to_build_the_wheels_again(dist: Path, tmp_path: Path) -> None:
    for sources in dist.glob("*.tar.gz"):
        run("tar", "xzf", sources, folder=tmp_path)
        folder = tmp_path / sources.name.removesuffix(".tar.gz")
        run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "again", folder=folder)
    assert {one.name for one in (tmp_path / "again").iterdir()} == {one.name for one in dist.glob("*.whl")}
    for wheel in dist.glob("*.whl"):
        contents = [
            run(sys.executable, "-m", "zipfile", "-l", one / wheel.name, folder=tmp_path).split("\n")
            for one in (dist, tmp_path / "again")
        ]
        first, second = ({line.split()[0] for line in lines if line} for lines in contents)
        assert first == second
