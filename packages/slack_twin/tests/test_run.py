"""`python -m slack_twin.run`: an unmodified Bolt app on the twin, its exit code, and Ctrl-C."""

import asyncio
import os
import signal
import sys
from pathlib import Path

import aiohttp
import pytest
from slack_twin.run import main

from tests.world import PATIENCE_SECONDS

pytestmark = pytest.mark.req("TWIN-07")

# As in the quick start of Bolt for Python, plus what the test has to see.
APP = """
import os, subprocess, sys
from slack_bolt import App
from slack_bolt.adapter.socket_mode import SocketModeHandler

app = App(token=os.environ["SLACK_BOT_TOKEN"])

@app.event("app_mention")
def answer(event, say):
    child = "from slack_sdk import WebClient; print(WebClient().base_url)"
    say(f"{sys.argv[1:]} " + subprocess.run([sys.executable, "-c", child], capture_output=True, text=True).stdout)

@app.event("message")
def listen(say):
    say("is_connected")

SocketModeHandler(app, os.environ["SLACK_APP_TOKEN"]).start()
"""


async def started(app: Path, *arguments: str) -> tuple[asyncio.subprocess.Process, str]:
    """Returns the running command and the twin's address."""
    command = [sys.executable, "-m", "slack_twin.run", "--port", "0", str(app), *arguments]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=os.environ | {"TWIN_RATES": "off"}
    )
    assert process.stdout
    lines = [await asyncio.wait_for(process.stdout.readline(), PATIENCE_SECONDS) for _ in range(6)]
    return process, lines[-1].decode().removeprefix("Open ").strip()


async def test_a_bolt_app_runs_unmodified_with_its_processes_and_ends_with_ctrl_c(tmp_path: Path) -> None:
    app = tmp_path / "greeter.py"
    app.write_text(APP, encoding="utf-8")
    process, base = await started(app, "--loud", "x")
    try:
        async with asyncio.timeout(3 * PATIENCE_SECONDS), aiohttp.ClientSession() as http:

            async def ask(verb: str, path: str, **body: object) -> dict[str, object]:
                async with http.request(verb, f"{base}twin/{path}", json=body or None) as answer:
                    return dict(await answer.json())

            while "is_connected" not in str(await ask("GET", "messages?channel=general")):
                await ask("POST", "messages", user="alice", channel="general", text="anybody?")
                await asyncio.sleep(0.2)  # an event is lost while the app is not connected
            await ask("POST", "messages", user="alice", channel="general", text="@greeter hello")
            while f"['--loud', 'x'] {base}api/" not in str(await ask("GET", "messages?channel=general")):
                await asyncio.sleep(0.05)
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE_SECONDS):
            await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert process.returncode == 130


async def test_the_apps_exit_code_is_the_commands(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text("import os; raise SystemExit(7 if os.environ['SLACK_SIGNING_SECRET'] else 8)", encoding="utf-8")
    process, _ = await started(app)
    await asyncio.wait_for(process.communicate(), PATIENCE_SECONDS)
    assert process.returncode == 7


@pytest.mark.parametrize("arguments", [[], ["no_such_app.py"], ["--nonsense", "app.py"]])
def test_wrong_options_end_with_2_and_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert capsys.readouterr().err.count("\n") == 1


def test_a_port_in_use_and_an_unreadable_manifest_end_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--manifest", "no_such.json", __file__]) == 1
    assert "no_such.json" in capsys.readouterr().err
