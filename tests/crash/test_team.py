"""A team at work while a coordinator is killed: lead, worker, follow-up, result; nothing lost, nothing said twice.

All parts are processes: the twin with Slack's rate limits, the coordinators, a lead and two workers, which know only
the address of the balancer. The judge is that of `swarm bench storm`, which reads the twin's log of calls.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from swarm_lab.bench.agents import Part
from swarm_lab.bench.storm import Asked
from tests.crash.scene import ask, until_answered, verdict
from tests.support.balancer import Balancer, balancing
from tests.support.doors import Visitor
from tests.support.http import client as http_client
from tests.support.postgres import fresh_database
from tests.support.processes import processes_in
from tests.support.stage import Stage, stages_at
from tests.support.twin_client import TwinClient
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(300)]

CHANNELS = ("general", "random")
LEAD, WORKERS = "lea", ("will", "wanda")
CONVERSATIONS = 4
WORK_SECONDS = 8
"""So long does a task take; what people write meanwhile reaches its worker."""

HTTP_SECONDS = 30
PATIENCE_SECONDS = 120.0


@dataclass
class Team:
    """Coordinators behind a balancer, agents that know only that, and a person."""

    stages: list[Stage]
    balancer: Balancer
    http: httpx2.AsyncClient
    twin: TwinClient
    roots: dict[int, Asked] = field(default_factory=dict)  # the first message of each conversation
    asked: list[Asked] = field(default_factory=list)

    @property
    def operator(self) -> Visitor:
        """At the door of a coordinator that runs."""
        return next(stage for stage in self.stages if stage.coordinator.alive).visitor(self.http)

    async def start_agents(self) -> None:
        """Start them, and wait until they poll."""
        for name, role in {LEAD: "lead", **dict.fromkeys(WORKERS, "worker")}.items():
            token = (await self.operator.post("/agents", {"name": name, "role": role}))["token"]
            part = Part(
                port=self.balancer.port,
                token=token,
                workers=WORKERS if role == "lead" else (),
                hands=CONVERSATIONS,
                work_seconds=WORK_SECONDS,
            )
            command = (sys.executable, "-m", "swarm_lab.bench.agents")
            self.stages[0].processes.start(name, *command, env=part.environment)
        await self.stages[0].until_online(self.http, LEAD, *WORKERS)

    async def say(self, conversation: int, *, delegate: bool = False) -> None:
        """Say something more in a conversation; without a mention, but for the first time."""
        root, channel = self.roots.get(conversation), CHANNELS[conversation % len(CHANNELS)]
        asked = await ask(self.twin, len(self.asked), channel, root, delegate=delegate, mention=root is None)
        self.roots.setdefault(conversation, asked)
        self.asked.append(asked)

    async def say_in_each(self, *, delegate: bool = False) -> None:
        """Say something in each of the conversations."""
        for conversation in range(CONVERSATIONS):
            await self.say(conversation, delegate=delegate)

    async def until_tasks(self, status: str, count: int) -> None:
        """Wait for so many tasks in a state."""

        async def look() -> list[Any]:
            return list((await self.operator.get(f"/tasks?status={status}"))["tasks"])

        await wait_until(look, lambda tasks: len(tasks) >= count, within_seconds=PATIENCE_SECONDS, what=status)

    async def until_answered(self) -> None:
        """Wait until everything that was said has an answer, and the coordinators have nothing left to do."""

        async def backlog() -> int:
            return sum((await self.operator.get("/readyz"))["backlog"].values())

        await until_answered(self.twin, self.asked, within_seconds=PATIENCE_SECONDS)
        await wait_until(backlog, lambda count: count == 0, within_seconds=PATIENCE_SECONDS, what="nothing left to do")

    async def kill(self, stage: Stage) -> None:
        """``kill -9``. Of several the others go on; one alone is started again. Slack repeats what was not acked."""
        stage.kill_coordinator()
        if len(self.stages) == 1:
            await stage.start_coordinator()
        await self.twin.redeliver()


@pytest.fixture(params=["sqlite", "postgresql"])
def stages(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[list[Stage]]:
    """One coordinator on SQLite, three on PostgreSQL."""
    with processes_in(tmp_path) as processes:
        if request.param == "sqlite":
            stage = Stage(processes)
            stage.use_sqlite(request.getfixturevalue("migrated_sqlite"))
            yield [stage]
            return
        server_url, migrated = (request.getfixturevalue(name) for name in ("postgres_server_url", "migrated_postgres"))
        with fresh_database(server_url, migrated) as url:
            yield stages_at(processes, 3, url)
            processes.end()  # a database that is in use cannot be dropped in peace


@pytest.fixture
async def team(stages: list[Stage]) -> AsyncIterator[Team]:
    await stages[0].start_twin(rates=True)
    for stage in stages:
        stage.launch_coordinator()
    await asyncio.gather(*(stage.until_ready() for stage in stages))
    async with (
        http_client(timeout=HTTP_SECONDS, limits=httpx2.Limits(max_keepalive_connections=0)) as http,
        balancing([stage.port for stage in stages]) as balancer,
    ):
        team = Team(stages, balancer, http, stages[0].person(http))
        await team.start_agents()
        yield team


def _elected(stages: list[Stage]) -> Stage:
    """The coordinator in office, as the database has it; one alone needs no election."""
    if len(stages) == 1:
        return stages[0]
    with psycopg.connect(stages[0].settings["SWARM_DATABASE_URL"], autocommit=True) as database:
        row = database.execute(
            "SELECT holder FROM locks WHERE kind = 'office' AND expires_at > extract(epoch FROM now()) * 1e6"
        )
        ((holder,),) = row.fetchall()
    (found,) = [stage for stage in stages if f":{stage.port} " in holder]
    return found


@pytest.mark.req("LOOP-06", "LOOP-08", "LOOP-09", "OPS-03", "OPS-10")
async def test_a_conversation_reaches_its_result_though_the_coordinator_in_office_is_killed_at_work(team: Team) -> None:
    await team.say_in_each(delegate=True)
    await team.until_tasks("in_progress", CONVERSATIONS)
    await team.say_in_each()  # to the workers, while they work
    await team.kill(_elected(team.stages))
    await team.until_tasks("completed", CONVERSATIONS)
    await team.say_in_each()  # to the lead, which has the thread back
    await team.until_answered()
    assert await verdict(team.twin, team.asked) == {}
