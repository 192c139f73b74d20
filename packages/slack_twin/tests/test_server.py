"""The command ``slack-twin``, which runs the twin as a process."""

import asyncio
import os
import re
import signal
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from slack_sdk.web.async_client import AsyncWebClient
from slack_twin.__main__ import main

from tests.world import PATIENCE_SECONDS

pytestmark = pytest.mark.req("TWIN-01")

PRINTED = {"SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET", "SLACK_API_BASE_URL", "SLACK_API_URL"}


@asynccontextmanager
async def started(*arguments: str, **environment: str) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "slack_twin", *arguments),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | environment,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [(["--port", "0", "--rates", "off"], {}), ([], {"TWIN_PORT": "0", "TWIN_RATES": "off"})],
)
async def test_it_prints_what_its_app_needs_serves_and_ends_cleanly_on_a_signal(
    arguments: list[str], environment: dict[str, str]
) -> None:
    async with started(*arguments, **environment) as process, asyncio.timeout(2 * PATIENCE_SECONDS):
        assert process.stdout is not None
        lines = [(await process.stdout.readline()).decode().strip() for _ in range(len(PRINTED) + 1)]
        printed = dict(line.removeprefix("export ").split("=", 1) for line in lines[:-1])
        assert set(printed) == PRINTED
        assert printed["SLACK_API_URL"] == printed["SLACK_API_BASE_URL"]
        assert lines[-1] == f"Open {printed['SLACK_API_URL'].removesuffix('api/')}"
        client = AsyncWebClient(printed["SLACK_BOT_TOKEN"], base_url=printed["SLACK_API_BASE_URL"])
        for _ in range(8):
            await client.chat_postMessage(channel="#general", text="limits are off")
        process.send_signal(signal.SIGTERM)
        _, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b"")


def said(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Returns the exit code and the error line of a command that cannot start."""
    try:
        code = main(arguments)
    except SystemExit as exited:
        code = int(str(exited.code))
    output, errors = capsys.readouterr()
    assert (output, errors.count("\n")) == ("", 1), errors
    return code, errors


def test_what_makes_no_sense_is_said_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for arguments, code, words in (
        (["--port", "x"], 2, "argument --port: invalid int value: 'x' (see slack-twin --help)"),
        (["--what"], 2, "unrecognized arguments: --what"),
        (["--port", "70000"], 1, "the port must be from 0 to 65535, not 70000"),
        (["--port", "0", "--rates", "fast"], 1, "TWIN_RATES must be on or off, not 'fast'"),
        (["--port", "0", "--host", "no.such.host.invalid"], 1, "cannot listen on no.such.host.invalid:0"),
        (["--port", "0", "--allow-host", "a/b"], 1, "'a/b' is not a host"),
        (["--port", "0", "--allow-origin", "a/b"], 1, "'a/b' is not an origin"),
        (["--port", "0", "--manifest", "no.json"], 1, "No such file or directory: 'no.json'"),
    ):
        found, errors = said(capsys, *arguments)
        assert (found, errors.startswith("slack-twin: "), words in errors) == (code, True, True), errors
    monkeypatch.setenv("TWIN_RETENTION_MESSAGES", "0")
    assert "TWIN_RETENTION_MESSAGES must be a whole number" in said(capsys, "--port", "0")[1]


def test_a_port_in_use_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, errors = said(capsys, "--port", str(taken.getsockname()[1]))
    assert code == 1
    assert "cannot listen on 127.0.0.1:" in errors
    assert "; choose another --host or --port" in errors


def test_the_help_names_every_option_with_its_default(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = re.sub(r"\s+", " ", capsys.readouterr().out)
    for words in (
        "--host",
        "--port",
        "--rates",
        "--allow-host",
        "--allow-origin",
        "127.0.0.1)",
        "TWIN_PORT or 8400",
        "TWIN_RATES or on",
    ):
        assert words in shown
