"""The command ``swarm`` where the package of the twin, or any but the core, is not installed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import contextlib, importlib.metadata, runpy, sys
sys.path[:] = [path for path in sys.path if "packages/{hidden}" not in path or "packages/swarm_base" in path]
if not "{hidden}":
    importlib.metadata.entry_points = lambda **_: ()
for command in {commands}:
    sys.argv = ["swarm", *command.split()]
    with contextlib.suppress(SystemExit):
        runpy.run_module("swarm", run_name="__main__")
"""
NEED_IT = (
    "twin --port 0",
    "demo",
    "conformance --agent http://127.0.0.1:1/ --suite",
    "bench loop --only pairs",
    "bench team",
    "bench storm --messages 1 --agents 1 --leads 1",
    "bench stream --streams 1 --seconds 1",
)


def run(folder: Path, *commands: str, hidden: str = "slack_twin") -> subprocess.CompletedProcess[str]:
    """Runs commands without one of our packages, or without all of them."""
    code = CODE.format(commands=commands, hidden=hidden)
    return subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=100)


@pytest.mark.req("TWIN-06")
def test_a_command_that_needs_the_twin_says_in_one_line_what_to_install(tmp_path: Path) -> None:
    ran = run(tmp_path, *NEED_IT)
    lines = ran.stderr.splitlines()
    said = [line for line in lines if "the package slack-twin, which is not installed" in line]
    assert len(said) == len(NEED_IT), ran.stderr
    assert len(set(said)) == 1
    assert "pip install" in said[0]
    assert "Traceback" not in ran.stderr
    assert not (tmp_path / ".demo").exists()


def test_the_other_commands_do_without_it(tmp_path: Path) -> None:
    ran = run(tmp_path, "--help", "slack --help", "slack manifest")
    assert ran.stderr == ""
    assert "socket_mode" in ran.stdout
    assert "Hold what this version relies on" in ran.stdout  # the help loads what another package adds


@pytest.mark.req("OPS-01")
def test_where_the_core_is_alone_each_command_of_the_laboratory_says_what_to_install(tmp_path: Path) -> None:
    commands = ("demo", "bench loop --only pairs", "conformance --suite", "slack selftest general --report x.json")
    ran = run(tmp_path, "slack manifest", *commands, "twin", hidden="")
    packages = ["swarm-lab"] * len(commands) + ["slack-twin"]
    assert re.findall(r"needs the package ([\w-]+), which is not installed", ran.stderr) == packages, ran.stderr
    assert len(ran.stderr.splitlines()) == len(packages)
    assert "socket_mode" in ran.stdout
