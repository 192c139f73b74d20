"""What a coordinator loads, and when: nothing that may never be needed, and nothing any more once it is ready.

A module that is loaded while requests are served stops them all: the interpreter runs one thread at a time.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from tests.support.http import client as http_client
from tests.support.processes import Processes
from tests.support.stage import Stage
from tests.support.twin_client import ANSWERED

HTTP_SECONDS = 60

NEVER = (
    "ag_ui",
    "alembic",
    "cyclopts",
    "jinja2",
    "opentelemetry.exporter",
    "opentelemetry.sdk",
    "psycopg",
)

LOADED = f"""
import json, sys
import swarm.cli.main
from swarm.app import bootstrap
from swarm.telemetry.setup import watching
with watching(version="1", database="sqlite", traces_endpoint=None):
    print(json.dumps([name for name in {NEVER} if name in sys.modules]))
"""


def test_a_start_loads_nothing_that_may_never_be_needed() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


@pytest.mark.req("LOOP-07")
async def test_nothing_is_loaded_once_the_coordinator_is_ready(processes: Processes) -> None:
    stage = Stage(processes)
    await stage.start_twin()
    command = (sys.executable, "-X", "importtime", "-m", "swarm", "up")  # not forked, which has everything loaded
    stage.coordinator = processes.start("coordinator", *command, env=stage.environment)
    await stage.until_ready()
    before = _loaded(stage)
    assert "swarm.entrypoints.mcp.mcp_server" in before
    async with http_client(timeout=HTTP_SECONDS) as http:
        twin = stage.person(http)
        lea = stage.visitor(http, await stage.register(http, "lea"))
        for is_streamed in (False, True):
            ts = await twin.say("@swarm hello")
            (trigger,) = await lea.poll(wait_seconds=20)
            about = {"inbox_message_id": trigger["inbox_messages"][0]["id"]}
            await lea.uses("read-inbox-message", **about)
            if is_streamed:
                about = {"turn_id": (await lea.uses("slack-stream", action="open", text="well,", **about))["turn_id"]}
                await lea.uses("slack-stream", action="close", text=" done", **about)
            else:
                await lea.uses("slack-reply", trigger["lease"]["token"], message="done", **about)
            await twin.until(ts, lambda seen: ANSWERED in seen.emoji)
        async with lea.mcp("legacy") as client:
            await client.list_tools()
        operator = stage.visitor(http)
        for path in ("/agents", "/tasks", "/deliveries", "/inbox", "/usage", "/metrics", "/readyz"):
            assert (await operator.ask("GET", path)).is_success, path
        assert (await operator.ask("GET", "/nowhere")).status_code == 404
        assert (await operator.ask("POST", "/agents", json={"name": "?"})).status_code == 422
    assert _loaded(stage)[len(before) :] == []


def _loaded(stage: Stage) -> list[str]:
    """The modules that the coordinator has loaded, in order."""
    return re.findall(r"^import time: +[0-9]+ \| +[0-9]+ \| +(\S+)$", stage.coordinator.output, re.MULTILINE)
