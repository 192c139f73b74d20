"""Pauses longer than a lease while coding CLIs work: of the coordinator, the runners, both, and the database.

Judged by a file to which the CLIs append when they start, and by what people see: every run is made once, and nobody
is said to have fallen silent. Each round has a pause at another moment of the work of three runners, one for each kind
of CLI. ``PAUSE_ROUNDS=2`` plays fewer rounds, ``PAUSE_LEASE_SECONDS=60`` those of the usual lease.
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
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest

from swarm.domain.model.agents import Role
from swarm.store.admin import migrations
from tests.crash.counting_cli import KINDS
from tests.support.doors import Visitor
from tests.support.http import client as http_client
from tests.support.postgres import NoPostgres, Server, fresh_database, own_server
from tests.support.processes import Process, processes_in
from tests.support.stage import Stage
from tests.support.twin_client import TwinClient
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.long, pytest.mark.timeout(1800), pytest.mark.req("LOOP-21", "RUN-02")]

CLI = Path(__file__).parent / "counting_cli.py"
ROUNDS = int(os.environ.get("PAUSE_ROUNDS", "20"))
LEASE_SECONDS = int(os.environ.get("PAUSE_LEASE_SECONDS", "3"))
AWAY_SECONDS = LEASE_SECONDS + 1.5
WORK_SECONDS = 2
AT_ONCE, JOBS = 2, 3  # of each runner: one job waits
PATIENCE_SECONDS = 120.0
DEATHS = 4  # of the coordinator, in a loop of crashes
PAUSES = (
    "coordinator",
    "runners",
    "coordinator and runners",
    "SQLite is locked",
    "PostgreSQL is suspended",
    "PostgreSQL is stopped",
    "a loop of crashes",
)


@dataclass
class Scene:
    """A twin, a coordinator, runners with CLIs that count their runs, and a lead that the test plays."""

    stage: Stage
    http: httpx2.AsyncClient
    notes: Path
    lead: Visitor
    postgres: Server | None
    runners: list[Process] = field(default_factory=list)
    jobs: dict[str, tuple[str, str]] = field(default_factory=dict)  # job -> thread, task

    @property
    def twin(self) -> TwinClient:
        return self.stage.person(self.http)

    async def start_runner(self, kind: str) -> None:
        stage, programs = self.stage, self.stage.processes.folder / "bin"
        words = f"{sys.executable} {CLI} {kind} {self.notes} {WORK_SECONDS}"
        programs.mkdir(exist_ok=True)
        (programs / "claude").write_text(f'#!/bin/sh\nexec {words} "$@"\n')
        (programs / "claude").chmod(0o700)
        added = await stage.visitor(self.http).post("/agents", {"name": kind, "role": Role.WORKER.value})
        env = {
            "SWARM_HOME": str(stage.processes.folder / "runner"),
            "SWARM_URL": stage.base,
            "SWARM_TOKEN": added["token"],
            "PATH": f"{programs}:{os.environ['PATH']}",
        }
        provider = ("--provider", kind if kind == "claude" else f"{kind}:{words}")
        command = ("swarm.cli.main", "run", kind, *provider, "--max-concurrent", f"{AT_ONCE}")
        self.runners.append(stage.processes.fork("run", *command, env=env))
        await self.runners[-1].says("is connected to")

    async def delegate(self, kinds: Sequence[str]) -> list[str]:
        """A person asks for as many things, and the lead hands them over to the runners of these kinds. The jobs."""
        wanted = {f"job-{number}": kind for number, kind in enumerate(kinds, len(self.jobs))}
        said = await asyncio.gather(*(self.twin.say(f"@swarm please do {job}") for job in wanted))
        threads = dict(zip(wanted, said, strict=True))
        while not wanted.keys() <= self.jobs.keys():
            triggers = await self.lead.poll(wait_seconds=20, limit=AT_ONCE)
            await asyncio.gather(*(self._hand_over(trigger, wanted, threads) for trigger in triggers))
        return list(wanted)

    async def _hand_over(
        self, trigger: Mapping[str, Any], kinds: Mapping[str, str], threads: Mapping[str, str]
    ) -> None:
        if trigger["kind"] != "slack_inbox_message":  # a task has ended
            await self._finish(trigger)
            return
        message = trigger["inbox_messages"][-1]
        job = message["text"].rpartition(" ")[2]
        made = await self.lead.uses(
            "inbox-delegate", trigger["lease"]["token"], inbox_message_id=message["id"], agent=kinds[job], task=job
        )
        self.jobs[job] = threads[job], str(made["task_id"])

    async def _finish(self, *triggers: Mapping[str, Any]) -> None:
        if tokens := [trigger["lease"]["token"] for trigger in triggers]:
            await self.lead.post("/leases/finish", {"tokens": tokens, "outcome": "done"})

    async def each_is_done_once(self, jobs: Sequence[str]) -> None:
        for job in jobs:
            ts, task_id = self.jobs[job]
            task = await wait_until(
                partial(self.lead.uses, "get-task", task_id=task_id), _is_completed, within_seconds=PATIENCE_SECONDS
            )
            assert task["attempts"] == 0, task
            said = await wait_until(partial(self.said, ts), partial(contains, f"Finished {job}."))
            assert "silent" not in said
            assert "incomplete" not in said
        await self._finish(*await self.lead.poll(limit=20))
        assert Counter(self.notes.read_text().split()) == dict.fromkeys(self.jobs, 1)

    async def said(self, ts: str) -> str:
        """What the swarm says in a thread, with its blocks."""
        return json.dumps((await self.twin.messages(thread_ts=ts))[1:], ensure_ascii=False)


def _is_completed(task: Mapping[str, Any]) -> bool:
    return bool(task["status"] == "completed")


@contextlib.contextmanager
def database(stage: Stage, migrated: Path, pause: str) -> Iterator[Server | None]:
    """Gives the coordinator its database: a PostgreSQL of its own if that is to be away."""
    if not pause.startswith("PostgreSQL"):
        stage.use_sqlite(migrated)
        yield None
        return
    with contextlib.ExitStack() as stack:
        try:
            server = stack.enter_context(own_server())
        except NoPostgres as error:
            pytest.skip(f"NOT TESTED ON POSTGRESQL: {error}")
        url = stack.enter_context(fresh_database(server.url))
        migrations.upgrade(url)
        stage.use_postgres(url)
        yield server


@contextlib.asynccontextmanager
async def played(folder: Path, migrated: Path, pause: str) -> AsyncIterator[Scene]:
    with processes_in(folder) as processes:
        stage = Stage(processes, {"SWARM_LEASE_SECONDS": f"{LEASE_SECONDS}"})
        with database(stage, migrated, pause) as postgres:
            await stage.start_twin(rates=False)
            await stage.start_coordinator()
            async with http_client(timeout=60) as http:
                lead = stage.visitor(http, await stage.register(http, "lea"))
                await lead.poll()
                scene = Scene(stage=stage, http=http, notes=folder / "notes", lead=lead, postgres=postgres)
                await asyncio.gather(*map(scene.start_runner, KINDS))
                yield scene
            processes.end()  # before its database


def contains(words: str, said: str) -> bool:
    return words in said


async def crashes(scene: Scene) -> None:
    """The coordinator is killed again and again, and is there for moments only."""
    for _ in range(DEATHS):
        scene.stage.kill_coordinator()
        await asyncio.sleep(0.5)
        await scene.stage.start_coordinator()
        await asyncio.sleep(0.5)


def frozen(scene: Scene, pause: str) -> list[int]:
    """The processes that are suspended."""
    found = [scene.stage.coordinator.pid] if "coordinator" in pause else []
    found += [runner.pid for runner in scene.runners] if "runners" in pause else []
    return found + (scene.postgres.pids() if scene.postgres else [])


@contextlib.asynccontextmanager
async def away(scene: Scene, pause: str) -> AsyncIterator[None]:
    """Somebody is away for as long as this lasts."""
    if pause == "SQLite is locked":
        with contextlib.closing(sqlite3.connect(scene.stage.home / "swarm.db", isolation_level=None)) as locker:
            locker.execute("PRAGMA busy_timeout = 5000")
            locker.execute("BEGIN IMMEDIATE")
            yield
            locker.execute("ROLLBACK")
    elif scene.postgres and pause == "PostgreSQL is stopped":
        await asyncio.to_thread(scene.postgres.crash)
        yield
        await asyncio.to_thread(scene.postgres.start)
    else:
        pids = frozen(scene, pause)
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        yield
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


@pytest.mark.parametrize("pause", PAUSES)
async def test_every_run_of_a_cli_is_made_once_whoever_is_away_for_longer_than_its_lease(
    tmp_path: Path, migrated_sqlite: Path, pause: str
) -> None:
    moments = random.Random(seed := random.randrange(1_000_000))
    sys.stdout.write(f"seed {seed}\n")
    async with played(tmp_path, migrated_sqlite, pause) as scene:
        rounds = max(ROUNDS // DEATHS, 1) if pause == "a loop of crashes" else ROUNDS
        for number in range(rounds):
            jobs = await scene.delegate(KINDS * JOBS)
            await asyncio.sleep(moments.uniform(0, WORK_SECONDS))
            if pause == "a loop of crashes":
                await crashes(scene)
            else:
                async with away(scene, pause):
                    await asyncio.sleep(AWAY_SECONDS)
            await scene.stage.until_ready()
            await scene.each_is_done_once(jobs)
            sys.stdout.write(f"round {number + 1} of {rounds} is over\n")


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
            await runner.says("is connected to")
            assert runner.output.count("does not answer") == 1
            stage.kill_coordinator()
            runner.send(signal.SIGTERM)
            assert await runner.exit_code(20) == 0
        waits = processes.fork("run", "swarm.cli.main", *arguments, env=env)
        await waits.says("This waits for it")
        waits.send(signal.SIGINT)
        assert await waits.exit_code(10) == 0
