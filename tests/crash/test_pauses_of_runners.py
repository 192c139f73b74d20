"""Pauses longer than a lease while coding CLIs work: of the coordinator, the runner, both, and the database.

Judged by a file to which the CLI appends when it starts, and by what people see: every run is made once, and nobody is
said to have fallen silent. ``PAUSE_ROUNDS=20`` plays more rounds, ``PAUSE_LEASE_SECONDS=60`` those of the usual lease.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx2
import pytest

from swarm.domain.model.agents import Role
from tests.support.doors import Visitor
from tests.support.http import client as http_client
from tests.support.processes import Process, processes_in
from tests.support.stage import Stage
from tests.support.twin_client import TwinClient
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800), pytest.mark.req("LOOP-21", "RUN-02")]

CLI = Path(__file__).parent / "counting_cli.py"
ROUNDS = int(os.environ.get("PAUSE_ROUNDS", "3"))
LEASE_SECONDS = int(os.environ.get("PAUSE_LEASE_SECONDS", "4"))
AWAY_SECONDS = LEASE_SECONDS + 2
WORK_SECONDS = 3
JOBS = 3
PATIENCE_SECONDS = 90.0


@dataclass
class Scene:
    """A twin, a coordinator, a runner with a CLI that counts its runs, and a lead that the test plays."""

    stage: Stage
    http: httpx2.AsyncClient
    notes: Path
    runner: Process
    lead: Visitor
    jobs: dict[str, tuple[str, str]] = field(default_factory=dict)  # job -> thread, task

    @property
    def twin(self) -> TwinClient:
        return self.stage.person(self.http)

    async def delegate(self) -> None:
        """A person asks, and the lead hands a job over."""
        job = f"job-{len(self.jobs)}"
        ts = await self.twin.say(f"@swarm please do {job}")
        (trigger,) = await self.lead.poll(wait_seconds=20, limit=1)
        made = await self.lead.uses(
            "inbox-delegate",
            trigger["lease"]["token"],
            inbox_message_id=trigger["inbox_messages"][-1]["id"],
            agent="wim",
            task=job,
        )
        self.jobs[job] = ts, str(made["task_id"])

    async def all_are_done(self) -> None:
        async def left() -> list[str]:
            found = [await self.lead.uses("get-task", task_id=task_id) for _, task_id in self.jobs.values()]
            return [task["status"] for task in found if task["status"] != "completed"]

        await wait_until(left, lambda left: not left, within_seconds=PATIENCE_SECONDS, what="all jobs are done")
        await self.finish_notices()

    async def finish_notices(self) -> None:
        if tokens := [trigger["lease"]["token"] for trigger in await self.lead.poll(limit=20)]:
            await self.lead.post("/leases/finish", {"tokens": tokens, "outcome": "done"})

    async def each_was_done_once(self) -> None:
        assert Counter(self.notes.read_text().split()) == dict.fromkeys(self.jobs, 1)
        for job, (ts, task_id) in self.jobs.items():
            task = await self.lead.uses("get-task", task_id=task_id)
            assert (task["status"], task["attempts"]) == ("completed", 0), task
            said = await wait_until(partial(self.said, ts), partial(contains, f"Finished {job}."))
            assert "silent" not in said
            assert "incomplete" not in said

    async def said(self, ts: str) -> str:
        """What the swarm says in a thread, with its blocks."""
        return json.dumps((await self.twin.messages(thread_ts=ts))[1:], ensure_ascii=False)


@contextlib.asynccontextmanager
async def played(folder: Path, migrated: Path, kind: str) -> AsyncIterator[Scene]:
    notes = folder / "notes"
    with processes_in(folder) as processes:
        stage = Stage(processes, {"SWARM_LEASE_SECONDS": str(LEASE_SECONDS)})
        stage.use_sqlite(migrated)
        await stage.start_twin(rates=False)
        await stage.start_coordinator()
        async with http_client(timeout=60) as http:
            lead = stage.visitor(http, await stage.register(http, "lea"))
            await lead.poll()
            added = await stage.visitor(http).post("/agents", {"name": "wim", "role": Role.WORKER.value})
            provider = f"{kind}:{sys.executable} {CLI} {kind} {notes} {WORK_SECONDS}"
            arguments = ("--provider", provider, "--max-concurrent", str(JOBS))
            env = {"SWARM_HOME": str(folder / "runner"), "SWARM_URL": stage.base, "SWARM_TOKEN": added["token"]}
            runner = processes.fork("run", "swarm.cli.main", "run", "wim", *arguments, env=env)
            await runner.says("works with")
            yield Scene(stage=stage, http=http, notes=notes, runner=runner, lead=lead)


def contains(words: str, said: str) -> bool:
    return words in said


async def crashes(scene: Scene) -> None:
    """The coordinator is killed again and again, and is there for moments only."""
    for _ in range(4):
        scene.stage.kill_coordinator()
        await asyncio.sleep(0.5)
        await scene.stage.start_coordinator()
        await asyncio.sleep(0.5)


@contextlib.asynccontextmanager
async def away(scene: Scene, what: str) -> AsyncIterator[None]:
    """Somebody is away for as long as this lasts."""
    if what == "a loop of crashes":
        await crashes(scene)
        yield
        return
    if what == "database":
        with contextlib.closing(sqlite3.connect(scene.stage.home / "swarm.db", isolation_level=None)) as locker:
            locker.execute("PRAGMA busy_timeout = 5000")
            locker.execute("BEGIN IMMEDIATE")
            yield
            locker.execute("ROLLBACK")
        return
    frozen = {"coordinator": [scene.stage.coordinator], "runner": [scene.runner]}
    processes = frozen.get(what, [scene.stage.coordinator, scene.runner])
    for process in processes:
        process.send(signal.SIGSTOP)
    yield
    for process in processes:
        process.send(signal.SIGCONT)


@pytest.mark.parametrize("kind", ["command", "acp"])
@pytest.mark.parametrize("what", ["coordinator", "runner", "both", "database", "a loop of crashes"])
async def test_every_run_of_a_cli_is_made_once_whoever_is_away_for_longer_than_its_lease(
    tmp_path: Path, migrated_sqlite: Path, what: str, kind: str
) -> None:
    moments = random.Random(seed := random.randrange(1_000_000))
    sys.stdout.write(f"seed {seed}\n")
    async with played(tmp_path, migrated_sqlite, kind) as scene:
        for _ in range(ROUNDS):
            for _ in range(JOBS):
                await scene.delegate()
            await asyncio.sleep(moments.uniform(0, WORK_SECONDS))
            async with away(scene, what):
                await asyncio.sleep(0 if what == "a loop of crashes" else AWAY_SECONDS)
            await scene.all_are_done()
        await scene.each_was_done_once()


async def test_a_runner_that_is_started_without_a_coordinator_waits_and_says_so_once(
    tmp_path: Path, migrated_sqlite: Path
) -> None:
    with processes_in(tmp_path) as processes:
        stage = Stage(processes)
        stage.use_sqlite(migrated_sqlite)
        await stage.start_twin(rates=False)
        env = {"SWARM_HOME": str(tmp_path / "runner"), "SWARM_URL": stage.base}
        for number in range(2):  # to be enrolled, and later on with its token
            keys = {} if number else {"SWARM_OPERATOR_TOKEN": stage.environment["SWARM_OPERATOR_TOKEN"]}
            arguments = ("run", "wim", "--provider", "command:cat")
            runner = processes.fork("run", "swarm.cli.main", *arguments, env=env | keys)
            await runner.says("This waits for it")
            await asyncio.sleep(3)
            await stage.start_coordinator()
            await runner.says("The coordinator answers")
            await runner.says("works with")
            assert runner.output.count("does not answer") == 1
            stage.kill_coordinator()
            runner.send(signal.SIGTERM)
            assert await runner.exit_code(20) == 0
        waits = processes.fork("run", "swarm.cli.main", *arguments, env=env)
        await waits.says("This waits for it")
        waits.send(signal.SIGINT)
        assert await waits.exit_code(10) == 0
