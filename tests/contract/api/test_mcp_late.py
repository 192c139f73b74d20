"""What a coordinator does not load before it is needed, and that the first who need it notice nothing but the wait."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from typing import Any

import pytest

from swarm.entrypoints.mcp import mcp_server
from tests.support.doors import Doors, Visitor

LATE = ("ag_ui", "alembic", "mcp", "mcp_types", "opentelemetry.exporter", "opentelemetry.sdk", "psycopg", "tools")

LOADED = f"""
import json, sys
from swarm.app import bootstrap
from swarm.telemetry.setup import watching
with watching(version="1", database="sqlite", traces_endpoint=None):
    print(json.dumps([name for name in {LATE} if name in sys.modules]))
"""

LIST_TOOLS = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
HEADERS = {"Accept": "application/json, text/event-stream"}


def test_a_start_loads_nothing_that_may_never_be_needed() -> None:
    done = subprocess.run([sys.executable, "-c", LOADED], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


@pytest.mark.req("LOOP-07")
async def test_of_several_first_calls_at_once_one_loads_and_all_are_answered(
    doors: Doors, lea: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[object] = []
    make = mcp_server.session_manager

    def counting(*arguments: Any) -> Any:
        made.append(arguments)
        return make(*arguments)

    monkeypatch.setattr(mcp_server, "session_manager", counting)
    answers = await asyncio.gather(*(lea.uses("list-agents") for _ in range(4)))
    assert [answer["agents"][0]["name"] for answer in answers] == ["lea"] * 4
    assert len(made) == 1


@pytest.mark.req("LOOP-07")
async def test_after_a_load_that_failed_the_next_call_loads_again(
    doors: Doors, lea: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.delattr(mcp_server, "session_manager")
        refused = await lea.ask("POST", "/mcp", json=LIST_TOOLS, headers=HEADERS)
    assert refused.status_code == 500
    assert refused.json()["error"]["code"] == "internal"
    assert (await lea.uses("list-agents"))["agents"]


@pytest.mark.req("LOOP-07")
async def test_who_may_not_call_loads_nothing(doors: Doors, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(mcp_server, "session_manager")  # to load would fail
    answer = await doors.visitor("nobody's").ask("POST", "/mcp", json=LIST_TOOLS, headers=HEADERS)
    assert answer.status_code == 401
