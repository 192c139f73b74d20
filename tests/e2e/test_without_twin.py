"""The command ``swarm`` where the package of the twin is not installed, which no other command needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

CODE = """
import contextlib, runpy, sys
sys.path[:] = [path for path in sys.path if not path.endswith("packages/slack_twin")]
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


def run(folder: Path, *commands: str) -> subprocess.CompletedProcess[str]:
    code = CODE.format(commands=commands)
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
    ran = run(tmp_path, "--help", "slack manifest")
    assert ran.stderr == ""
    assert "socket_mode" in ran.stdout
