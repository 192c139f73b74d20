"""The twin as a process of its own."""

import asyncio
import os
import signal
import socket
import sys

import pytest
from slack_sdk.web.async_client import AsyncWebClient

from tests.world import PATIENCE_SECONDS

pytestmark = pytest.mark.req("TWIN-01")


async def started(port: int) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "slack_twin", "--port", str(port)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | {"TWIN_RATES": "off"},
    )


async def test_it_prints_what_its_app_needs_serves_and_ends_cleanly_on_a_signal() -> None:
    process = await started(0)
    assert process.stdout is not None
    async with asyncio.timeout(2 * PATIENCE_SECONDS):
        lines = [(await process.stdout.readline()).decode().strip() for _ in range(5)]
        printed = dict(line.removeprefix("export ").split("=", 1) for line in lines[:4])
        assert set(printed) == {"SLACK_BOT_TOKEN", "SLACK_APP_TOKEN", "SLACK_SIGNING_SECRET", "SLACK_API_BASE_URL"}
        client = AsyncWebClient(printed["SLACK_BOT_TOKEN"], base_url=printed["SLACK_API_BASE_URL"])
        for _ in range(8):
            await client.chat_postMessage(channel="#general", text="limits are off")
        process.send_signal(signal.SIGTERM)
        _, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b"")


async def test_a_port_in_use_is_said_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        process = await started(taken.getsockname()[1])
        output, errors = await asyncio.wait_for(process.communicate(), 2 * PATIENCE_SECONDS)
    assert (process.returncode, output) == (1, b"")
    assert errors.decode().count("\n") == 1
    assert "Cannot listen on 127.0.0.1:" in errors.decode()
