"""The runner as somebody installs it on another machine: two wheels in an environment of their own."""

from __future__ import annotations

import importlib.metadata
import sys
from pathlib import Path

import httpx2
import pytest

from tests.e2e.test_wheels import ROOT, run
from tests.support.processes import Processes
from tests.support.stage import OPERATOR_TOKEN, Stage
from tests.support.twin_client import ANSWERED

AGENT = ROOT / "packages" / "swarm_runner" / "tests" / "doors" / "acp_agent.py"
PROVIDERS = {"cat": "command:wc -w", "aco": f"acp:{sys.executable} {AGENT} normal /dev/null"}


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.req("RUN-10")
async def test_the_wheels_of_the_runner_serve_without_the_coordinators_package(
    tmp_path: Path, processes: Processes, http: httpx2.AsyncClient
) -> None:
    for package in ("swarm_base", "swarm_runner"):
        build: tuple[str | Path, ...] = ("build", "-t", "wheel", "-d", tmp_path)
        run(sys.executable, "-m", "hatchling", *build, folder=ROOT / "packages" / package)
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment, folder=tmp_path)
    python = environment / "bin" / "python"
    known = sorted({f"{one.name}=={one.version}" for one in importlib.metadata.distributions()})
    (tmp_path / "versions.txt").write_text("\n".join(known))
    wanted: tuple[str | Path, ...] = ("install", "-q", "-c", tmp_path / "versions.txt", *tmp_path.glob("*.whl"))
    try:
        run(sys.executable, "-m", "uv", "pip", *wanted, "--python", python, folder=tmp_path)
    except AssertionError:  # where only pip knows how to reach its packages, as in the Makefile
        run(sys.executable, "-m", "pip", "--python", python, *wanted, folder=tmp_path)
    find = "import importlib.util as it; print(*map(it.find_spec, ['swarm', 'fastapi', 'sqlalchemy', 'slack_sdk']))"
    assert set(run(python, "-c", find, folder=tmp_path).split()) == {"None"}

    stage = Stage(processes)
    await stage.start_twin(rates=False)
    await stage.start_coordinator()
    env = {"SWARM_URL": stage.base, "SWARM_OPERATOR_TOKEN": OPERATOR_TOKEN, "SWARM_HOME": str(tmp_path / "runners")}
    twin = stage.person(http)
    for name, provider in PROVIDERS.items():
        command = (str(environment / "bin" / "swarm-runner"), name, "--provider", provider)
        await processes.start(name, *command, env=env).says("is connected to")
        await stage.agents_are_known(http, [name])
        ts = await twin.say(f"@swarm#{name} hello")
        await twin.until(ts, lambda seen: seen.answers and ANSWERED in seen.emoji, within_seconds=60)
