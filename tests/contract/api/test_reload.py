"""POST /reload: the operator has the settings read again."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from swarm.app import settings_mapping
from swarm.app.reload import Reloader
from swarm.cli.operator_commands import CoordinatorClient
from swarm.clock import ManualClock
from swarm.config import Settings, load
from swarm.services.speaking.participants import Rosters
from swarm.store.bridge.database import Database
from tests.support.doors import OPERATOR_TOKEN, Doors, WatchedWakeups, open_doors
from tests.support.live import Scripted, hired, show
from tests.support.world import World

pytestmark = pytest.mark.req("CHAN-01")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Where swarm.yaml is."""
    (tmp_path / "swarm.yaml").write_text("channels: {C123: {agent: lea}}", encoding="utf-8")
    return tmp_path


REMOTE = """
agents: {remote: {docs: {url: http://127.0.0.1:9/}}}
channels: {C123: {agent: lea}, C124: {agent: lea}, C125: {agent: docs}}
"""


@pytest.fixture
async def doors(sqlite_url: str, folder: Path) -> AsyncIterator[Doors]:
    def read() -> Settings:
        return load({}, folder=folder, user_home=folder / "nobody")

    settings, wakeups, clock = read(), WatchedWakeups(), ManualClock()
    operating_policy = settings_mapping.operating_policy(settings)
    async with Database(sqlite_url, clock=clock, wakeups=wakeups) as database:
        world = World(database, clock, operating_policy=operating_policy)
        introduce = show(world, hired("docs", Scripted())).streaming_agents.introduce
        reloader = Reloader(
            settings, operating_policy.book, Rosters(database, operating_policy), read=read, introduce=introduce
        )
        async with open_doors(world, wakeups, reloader.reload, reloader.warnings) as opened:
            yield opened


@pytest.mark.req("OPS-04")
async def test_an_agent_that_the_settings_name_is_removed_with_a_warning_and_comes_back_as_that_says(
    doors: Doors, folder: Path
) -> None:
    (folder / "swarm.yaml").write_text(REMOTE, encoding="utf-8")
    await doors.operator.post("/reload")
    await doors.lead()
    await doors.worker()
    removed = {name: await doors.operator.ask("DELETE", f"/agents/{name}") for name in ("docs", "lea", "wim")}
    assert {name: answer.status_code for name, answer in removed.items()} == {"docs": 200, "lea": 200, "wim": 204}
    assert removed["docs"].json() == {
        "warnings": [
            "agents.remote.docs declares this agent, which will be registered again at the next reload or start unless "
            "you remove agents.remote.docs."
        ]
    }
    assert removed["lea"].json()["warnings"] == [
        f"channels.{channel}.agent names this agent. Until another agent is named, the default lead answers."
        for channel in ("C123", "C124")
    ]
    assert await names(doors) == []
    await doors.operator.post("/reload")
    assert await names(doors) == ["docs"]
    (folder / "swarm.yaml").write_text("{}", encoding="utf-8")
    await doors.operator.post("/reload")
    with CoordinatorClient(doors.base, OPERATOR_TOKEN) as command:  # as `swarm agents revoke` does it
        assert await asyncio.to_thread(command.call, "DELETE", "/agents/docs") is None
    await doors.operator.post("/reload")
    assert await names(doors) == []


async def names(doors: Doors) -> list[str]:
    return [agent["name"] for agent in (await doors.operator.get("/agents"))["agents"]]


async def test_the_operator_learns_what_changed_what_waits_and_what_may_not_be_meant(
    doors: Doors, folder: Path
) -> None:
    await doors.lead()
    (folder / "swarm.yaml").write_text("channels: {C123: {agent: wim}}\nhttp: {port: 1}", encoding="utf-8")
    assert await doors.operator.post("/reload") == {
        "changed": ["channels.C123.agent"],
        "needs_restart": ["http.port"],
        "doubts": [
            "There is no agent 'wim', which channels.C123.agent names. Until the agent exists, "
            "the default lead answers."
        ],
    }
    assert doors.world.operating_policy.policy("C123").agent == "wim"


async def test_what_cannot_be_used_is_422_with_the_key_and_the_reason_and_the_old_stays(
    doors: Doors, folder: Path
) -> None:
    (folder / "swarm.yaml").write_text("channels: {C123: {agent: wim, display: list}}", encoding="utf-8")
    answer = await doors.operator.ask("POST", "/reload")
    assert answer.status_code == 422
    error = answer.json()["error"]
    assert error["code"] == "invalid"
    assert error["fields"] == {"channels.C123.display": "is 'list': Input should be 'plan' or 'timeline'"}
    assert error["hint"] == "The old ones stay."
    assert doors.world.operating_policy.policy("C123").agent == "lea"


async def test_nobody_else_may(doors: Doors) -> None:
    lead = await doors.lead()
    assert (await lead.ask("POST", "/reload")).status_code == 403
    assert (await doors.http.post(f"{doors.base}/reload")).status_code == 401


async def test_the_route_is_described(doors: Doors) -> None:
    described = (await doors.http.get(f"{doors.base}/openapi.json")).json()["paths"]["/reload"]["post"]
    assert {"200", "401", "403", "422"} <= set(described["responses"])
    assert "settings" in described["description"]
