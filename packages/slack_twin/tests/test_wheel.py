"""The installed package: its wheel in an empty environment, with its declared dependencies only."""

from __future__ import annotations

import importlib.metadata
import os
import re
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest
from slack_sdk import WebClient

pytestmark = [pytest.mark.long, pytest.mark.req("TWIN-06"), pytest.mark.xdist_group("wheel"), pytest.mark.timeout(600)]

PATIENCE_SECONDS = 60  # a busy machine may take long to load everything
PACKAGE = Path(__file__).parent.parent
GUIDE = PACKAGE / "docs" / "testing-slack-apps.md"
IMPORT_ALL = """
import importlib, pkgutil, slack_twin
names = {one.name for one in pkgutil.walk_packages(slack_twin.__path__, "slack_twin.")}
for name in sorted(names - {"slack_twin.pytest_plugin"}):  # which only pytest loads
    importlib.import_module(name)
print(slack_twin.__file__, len(names))
"""


def run(*command: str | Path, folder: Path) -> subprocess.CompletedProcess[str]:
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return subprocess.run(list(map(str, command)), cwd=folder, env=env, capture_output=True, text=True, check=False)


def install(environment: Path, *wanted: str | Path) -> None:
    """Installs packages in the versions that are tested here."""
    versions = environment / "versions.txt"
    distributions = (one for one in importlib.metadata.distributions() if one.name not in ("swarm", "slack-twin"))
    versions.write_text("\n".join(sorted(f"{one.name}=={one.version}" for one in distributions)))
    python = environment / "bin" / "python"
    arguments = ("install", "-q", "-c", versions, *wanted)
    ran = run(sys.executable, "-m", "uv", "pip", *arguments, "--python", python, folder=environment)
    if ran.returncode:  # only pip may be configured for the package index here
        ran = run(sys.executable, "-m", "pip", "--python", python, *arguments, folder=environment)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Returns a virtual environment with only the wheel."""
    folder = tmp_path_factory.mktemp("wheel")
    built = run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder, folder=PACKAGE)
    assert built.returncode == 0, built.stdout + built.stderr
    made = run(sys.executable, "-m", "venv", "--without-pip", folder / "environment", folder=folder)
    assert made.returncode == 0, made.stderr
    install(folder / "environment", *folder.glob("*.whl"))
    return folder / "environment"


def test_what_it_declares_is_all_that_it_imports(environment: Path, tmp_path: Path) -> None:
    ran = run(environment / "bin" / "python", "-W", "error", "-c", IMPORT_ALL, folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
    where, modules = ran.stdout.split()
    assert Path(where).is_relative_to(environment)
    assert int(modules) > 80
    for absent in ("slack_sdk", "sqlalchemy", "pydantic", "swarm", "pytest"):
        assert run(environment / "bin" / "python", "-c", f"import {absent}", folder=tmp_path).returncode == 1, absent


def test_its_command_serves_the_sdk_and_the_page(environment: Path, tmp_path: Path) -> None:
    command = [str(environment / "bin" / "slack-twin"), "--port", "0"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as twin:
        try:
            assert twin.stdout is not None
            lines = [twin.stdout.readline().strip() for _ in range(6)]
            printed = dict(line.removeprefix("export ").split("=", 1) for line in lines[:5])
            client = WebClient(printed["SLACK_BOT_TOKEN"], base_url=printed["SLACK_API_URL"])
            posted = client.chat_postMessage(channel="#general", text="hello")
            history = client.conversations_history(channel=posted["channel"])
            page = httpx2.get(lines[5].removeprefix("Open "), timeout=PATIENCE_SECONDS)
            script = httpx2.get(f"{page.url}static/app.js", timeout=PATIENCE_SECONDS)
        finally:
            twin.terminate()
    assert [message["text"] for message in history["messages"]] == ["hello"]
    assert "<script" in page.text
    assert "import" in script.text
    assert twin.returncode == 0


def test_the_examples_of_the_guide_run_as_they_stand_there(environment: Path, tmp_path: Path) -> None:
    install(environment, "pytest", "slack-bolt", "aiohttp")
    examples = re.findall(r"```python\n# (\w+\.py)\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    for name, code in examples:
        (tmp_path / name).write_text(code, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    tests = sum(code.count("\ndef test_") for _, code in examples)
    ran = run(environment / "bin" / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", folder=tmp_path)
    assert f"{tests} passed" in ran.stdout, ran.stdout + ran.stderr
    assert tests >= 8
