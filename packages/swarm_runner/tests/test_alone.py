"""The runner without the coordinator's package, and where it finds a coordinator."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from swarm_base.errors import ConfigurationError
from swarm_runner import cli

ALONE = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in (
            "swarm", "tools", "alembic", "fastapi", "mcp", "pydantic", "pydantic_ai", "slack_bolt", "slack_sdk",
            "sqlalchemy", "starlette", "uvicorn",
        ):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Absent())
import swarm_runner.__main__
from swarm_runner.settings import door_of
for provider in ("claude", "command:true"):
    door_of(provider)
assert not {"rich", "zoneinfo"} & sys.modules.keys(), "loaded before it is needed"
sys.argv = ["swarm-runner", "--help"]
swarm_runner.__main__.main()
"""


@pytest.mark.req("RUN-10")
def test_the_command_needs_neither_the_coordinator_nor_a_server() -> None:
    ended = subprocess.run([sys.executable, "-c", ALONE], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
    assert "swarm-runner wim --provider claude" in ended.stdout


@pytest.mark.req("RUN-10")
@pytest.mark.parametrize("is_alone", [True, False])
def test_a_coordinator_is_found_by_its_settings_or_without_its_package_by_variables(
    is_alone: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if is_alone:
        monkeypatch.setattr(cli, "entry_points", lambda **_: ())
    monkeypatch.chdir(tmp_path)
    for name, value in {"HOME": str(tmp_path), "SWARM_HOME": "~/own", "PORT": "81", "SWARM_LOG_LEVEL": "debug"}.items():
        monkeypatch.setenv(name, value)
    (tmp_path / "swarm.yaml").write_text("log: {level: error}\nhttp: {host: 127.0.0.9}")
    found = cli._place()
    host = "127.0.0.1" if is_alone else "127.0.0.9"
    assert (found.home, found.url, found.log_level) == (tmp_path / "own", f"http://{host}:81", "debug")


@pytest.mark.req("RUN-10")
@pytest.mark.parametrize("name", ["PORT", "SWARM_LOG_LEVEL"])
def test_a_variable_that_cannot_be_used_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cli, "entry_points", lambda **_: ())
    monkeypatch.setenv(name, "nonsense")
    with pytest.raises(ConfigurationError, match=f"{name} is 'nonsense'"):
        cli._place()
