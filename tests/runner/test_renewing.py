"""Leases are renewed in time, however long the runner has waited for the work before."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from swarm.runner.coordinator import CoordinatorConnection, Refused
from swarm.runner.port import McpAccess
from swarm.runner.runner import Runner
from swarm.runner.settings import RunnerSettings
from tests.runner.scripted import ScriptedDoor, ScriptedSession

LEASE_SECONDS = 1.5


class Coordinator:
    """Hands out one notice of another agent when the test says so, and notes the renewals."""

    def __init__(self) -> None:
        self.polled = asyncio.Event()
        self.work = asyncio.Event()
        self.renewed = asyncio.Event()

    async def poll(self, limit: int, wait_seconds: float) -> list[dict[str, Any]]:
        self.polled.set()
        await self.work.wait()
        self.work.clear()
        ends = datetime.now(UTC) + timedelta(seconds=LEASE_SECONDS)
        lease = {"token": "lease-1", "expires_at": ends.isoformat()}
        return [
            {"id": "n1", "kind": "agent_message", "prompt": "Hi", "attempt": 1, "inbox_messages": [], "lease": lease}
        ]

    async def renew(self, tokens: list[str]) -> dict[str, Any]:
        self.renewed.set()
        ends = datetime.now(UTC) + timedelta(seconds=LEASE_SECONDS)
        return {"renewed": [{"expires_at": ends.isoformat()} for _ in tokens], "lost": [], "notices": []}

    async def release(self, tokens: list[str]) -> None: ...

    async def finish(self, token: str, outcome: str = "done", reason: str = "") -> dict[str, Any]:
        raise Refused("lease_lost", "over")

    async def leave(self) -> None: ...

    def mcp(self, lease_token: str) -> McpAccess:
        return McpAccess(url="http://127.0.0.1:9/mcp", headers={})


@pytest.mark.req("RUN-01")
@pytest.mark.parametrize("max_concurrent", [1, 2])
async def test_a_short_lease_that_begins_while_the_runner_waits_is_renewed(tmp_path: Path, max_concurrent: int) -> None:
    async def hangs(session: ScriptedSession, prompt: str) -> Any:
        await asyncio.Event().wait()
        yield None

    coordinator, stopping, at_once = Coordinator(), asyncio.Event(), asyncio.Event()
    settings = RunnerSettings(
        name="wim", provider="claude", home=tmp_path, url="http://127.0.0.1:9", max_concurrent=max_concurrent
    )
    runner = Runner(settings, cast(CoordinatorConnection, coordinator), ScriptedDoor(hangs))
    serving = asyncio.create_task(runner.serve(stopping, at_once))
    await coordinator.polled.wait()
    await asyncio.sleep(0)  # the renewals, begun after the polls, wait for their usual time
    coordinator.work.set()
    try:
        async with asyncio.timeout(LEASE_SECONDS):
            await coordinator.renewed.wait()
    finally:
        stopping.set()
        at_once.set()
        await serving
