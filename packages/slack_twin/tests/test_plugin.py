"""The pytest plugin in a separate run of pytest, which finds it by the package's entry point."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.req("TWIN-06")

PACKAGE = Path(__file__).parent.parent


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Returns an empty project folder."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    return tmp_path


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True, timeout=100)


def run_pytest(folder: Path) -> subprocess.CompletedProcess[str]:
    return run(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio")


def test_a_server_for_the_session_is_shared_and_emptied_and_its_rates_can_be_switched_off(project: Path) -> None:
    (project / "pytest.ini").write_text(
        "[pytest]\nslack_twin_server = session\nslack_twin_rates = false\nslack_twin_timeout_seconds = 0.05\n"
    )
    (project / "test_it.py").write_text(
        "import json, pathlib, pytest\n"
        "from slack_sdk import WebClient\n"
        "@pytest.mark.parametrize('name', ['first', 'second'])\n"
        "def test_it(slack_twin, name):\n"
        "    assert slack_twin.messages() == []\n"
        "    client = WebClient(slack_twin.bot_token(), base_url=slack_twin.web_api_url, retry_handlers=[])\n"
        "    for _ in range(30):\n"
        "        client.chat_postMessage(channel='#general', text='hello')\n"
        "    with pytest.raises(AssertionError, match='Waited 0.05 s'):\n"
        "        slack_twin.wait_for(lambda: False)\n"
        "    known = [slack_twin.base_url, slack_twin.bot_token()]\n"
        "    pathlib.Path(f'{name}.json').write_text(json.dumps(known))\n"
    )
    ran = run_pytest(project)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (url, token), (other_url, other_token) = (
        json.loads((project / f"{name}.json").read_text()) for name in ("first", "second")
    )
    assert url == other_url
    assert token != other_token


@pytest.mark.parametrize(
    ("option", "complaint"),
    [
        ("slack_twin_server = module", "slack_twin_server must be 'test' or 'session', not 'module'"),
        ("slack_twin_timeout_seconds = 0", "slack_twin_timeout_seconds must be a number of seconds above 0"),
    ],
)
def test_an_option_that_makes_no_sense_is_refused(project: Path, option: str, complaint: str) -> None:
    (project / "pytest.ini").write_text(f"[pytest]\n{option}\n")
    (project / "test_it.py").write_text("def test_it(slack_twin):\n    pass\n")
    ran = run_pytest(project)
    assert ran.returncode != 0
    assert complaint in ran.stdout + ran.stderr


def test_a_failing_test_shows_its_own_line_and_not_the_inside_of_the_plugin(project: Path) -> None:
    (project / "test_it.py").write_text(
        "def test_it(slack_twin):\n    slack_twin.user('alice').says('hi').wait_for_reply(timeout_seconds=0.05)\n"
    )
    ran = run_pytest(project)
    assert "NotInTime: Waited 0.05 s for an app's reply to 'hi'" in ran.stdout
    assert "def _block_on" not in ran.stdout


def test_the_plugin_itself_loads_nothing_of_the_twin(project: Path) -> None:
    """Every run of pytest loads the plugin if the package is installed."""
    code = (
        "import importlib.util, sys, pytest\n"
        "before = set(sys.modules)\n"
        f"spec = importlib.util.spec_from_file_location('plugin', {str(PACKAGE / 'slack_twin/pytest_plugin.py')!r})\n"
        "spec.loader.exec_module(importlib.util.module_from_spec(spec))\n"
        "print(sorted({name.partition('.')[0] for name in set(sys.modules) - before}))\n"
    )
    ran = run(project, "-c", code)
    assert ran.stdout.strip() == "[]", ran.stdout + ran.stderr
