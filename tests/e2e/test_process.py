"""A coordinator is honest about itself: what takes its database away ends it, or keeps it from starting."""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path

import httpx2
import pytest

from tests.support.http import client as http_client
from tests.support.processes import SWARM, Processes, free_port, until_ready
from tests.support.stage import Stage

pytestmark = pytest.mark.req("OPS-16")

END_SECONDS = 30


@pytest.fixture
async def stage(processes: Processes, migrated_sqlite: Path) -> Stage:
    """A twin that runs, and a coordinator with a migrated SQLite file that is not started."""
    stage = Stage(processes)
    stage.use_sqlite(migrated_sqlite)
    await stage.start_twin()
    return stage


async def test_a_second_coordinator_on_one_sqlite_database_is_refused_until_the_first_is_dead(stage: Stage) -> None:
    await stage.start_coordinator()
    (stage.processes.folder / "link").symlink_to(stage.home)  # the same database under another name
    for home in ("home", "link"):
        other = {"PORT": str(free_port()), "SWARM_HOME": str(stage.processes.folder / home)}
        second = await stage.processes.command("up", env={**stage.environment, **other})
        assert second.code == 1
        assert "Another coordinator (process " in second.err
        assert str(stage.home / "swarm.db") in second.err
        assert "SWARM_HOME" in second.err
        assert "Traceback" not in second.err
    await stage.restart_coordinator()  # killed; the file of the lock is still there


@pytest.mark.parametrize("change", ["removed", "replaced"])
async def test_a_database_file_that_goes_away_ends_the_coordinator_with_a_sentence(stage: Stage, change: str) -> None:
    await stage.start_coordinator()
    file = stage.home / "swarm.db"
    if change == "removed":
        file.unlink()
    else:
        (stage.home / "other.db").write_bytes(file.read_bytes())
        os.replace(stage.home / "other.db", file)
    assert await stage.coordinator.exit_code(END_SECONDS) == 1
    assert f"{file} was {change} while it was in use" in stage.coordinator.output.splitlines()[-1]


async def test_a_start_on_an_empty_database_says_so(stage: Stage) -> None:
    await stage.start_coordinator()
    assert "holds no conversation yet" in stage.coordinator.output
    assert "SWARM_DATABASE_URL" in stage.coordinator.output


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="needs setpriv")
@pytest.mark.parametrize("arguments", [("up",), ("run", "x", "--provider", "command:cat")])
async def test_a_home_that_may_not_be_searched_is_said_in_one_line(
    processes: Processes, arguments: tuple[str, ...]
) -> None:
    home = processes.folder / "home"
    home.mkdir(mode=0o600)
    like_others = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-all")
    command = like_others if os.geteuid() == 0 else ()
    env = {"SLACK_BOT_TOKEN": "xoxb-1", "SLACK_APP_TOKEN": "xapp-1", "SWARM_HOME": str(home)}
    try:
        ended = await processes.run(*command, SWARM, *arguments, env=env)
    finally:
        home.chmod(0o700)
    assert ended.code == 1
    (line,) = ended.err.splitlines()
    assert line.startswith(f"swarm: {home}/")
    assert "Permission denied" in line


async def test_without_slack_a_first_start_opens_health_only_and_a_later_one_all_doors(
    processes: Processes, migrated_sqlite: Path
) -> None:
    stage = Stage(processes)
    stage.use_sqlite(migrated_sqlite)
    async with http_client() as http:
        stage.launch_coordinator()
        await stage.coordinator.says("identity cannot be read")
        await until_ready(stage.coordinator, f"{stage.base}/healthz")
        refused = await http.get(f"{stage.base}/readyz")
        assert refused.status_code == 503
        assert "Slack does not answer" in refused.json()["problems"]["slack"]
        assert (await http.get(f"{stage.base}/agents")).status_code == 503
        await stage.start_twin()
        await stage.until_ready()
        stage.kill_coordinator()
        stage.twin.kill()

        stage.launch_coordinator()
        await stage.coordinator.says("The coordinator is up")
        await until_ready(stage.coordinator, f"{stage.base}/healthz")
        refused = await http.get(f"{stage.base}/readyz")
        assert refused.status_code == 503
        assert list(refused.json()["problems"]) == ["slack"]
        assert (await stage.visitor(http).ask("GET", "/agents")).status_code == 200
        await stage.start_twin()
        await stage.until_ready()


@pytest.mark.long
async def test_with_256_file_handles_waiting_polls_lock_neither_leads_nor_readiness_out(stage: Stage) -> None:
    command = ("bash", "-c", 'ulimit -n 256; exec "$0" up', SWARM)
    stage.coordinator = stage.processes.start("coordinator", *command, env=stage.environment)
    await stage.until_ready()
    everyone = httpx2.Limits(max_connections=None)
    async with http_client(timeout=90, limits=everyone) as http, asyncio.TaskGroup() as group:
        lead = stage.visitor(http, await stage.register(http, "lea"))
        polls = []
        for number in range(15):
            added = await stage.visitor(http).post("/agents", {"name": f"w{number}", "role": "worker"})
            worker = stage.visitor(http, added["token"])
            polls += [group.create_task(worker.ask("GET", "/poll?wait_seconds=60")) for _ in range(20)]
        async with asyncio.timeout(END_SECONDS):
            while sum(poll.done() for poll in polls) < 100:  # those that are refused
                await asyncio.sleep(0.1)
        assert {poll.result().status_code for poll in polls if poll.done()} <= {429, 503}
        assert (await http.get(f"{stage.base}/readyz")).status_code == 200
        waiting = group.create_task(lead.poll(wait_seconds=60))
        assert (await worker.get("/tray"))["unread"] == 0
        await stage.person(http).ask(
            "POST", "messages", json={"user": "alice", "channel": "general", "text": "@swarm hi"}
        )
        assert [trigger["kind"] for trigger in await waiting] == ["slack_inbox_message"]
        for poll in polls:
            poll.cancel()
