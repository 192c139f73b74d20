"""One twin and one coordinator for all tests of runners; each test has a worker of its own."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import os
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from packages.swarm_runner.tests import fakes
from swarm.clock import new_id
from swarm.domain.model.agents import Role
from swarm_runner.coordinator import CoordinatorConnection
from swarm_runner.environment import cli_environment
from swarm_runner.port import CliDoor
from swarm_runner.runner import Runner
from swarm_runner.settings import RunnerSettings, door_of
from tests.support.doors import Visitor
from tests.support.http import client as http_client
from tests.support.processes import processes_in
from tests.support.stage import Stage
from tests.support.twin_client import TwinClient
from tests.support.waiting import wait_until

HTTP_SECONDS = 30
_names = itertools.count(1)


def fake(habit: str) -> str:
    """The provider of a fake CLI."""
    return f"command:{sys.executable} -I {fakes.__file__} {habit}"


@dataclass
class LedStage(Stage):
    """A stage with a lead, once it is started."""

    lead_token: str = ""


@dataclass
class Office:
    """A thread in the twin, a lead that the test plays, and a worker that a runner serves."""

    stage: Stage
    http: httpx2.AsyncClient
    twin: TwinClient
    lead: Visitor
    folder: Path
    name: str
    token: str
    environment: dict[str, str]
    stack: contextlib.AsyncExitStack
    asked: set[str] = field(default_factory=set)  # the threads of this test
    settings: RunnerSettings = field(init=False)
    runner: Runner = field(init=False)
    _stopping: asyncio.Event = field(init=False)
    _at_once: asyncio.Event = field(init=False)
    _serving: asyncio.Task[None] = field(init=False)

    async def start(self, provider: str, door: CliDoor | None = None, others: Any = None, **given: Any) -> None:
        """Runs the worker's runner until the end of the test; ``others`` are the doors that take over at a limit."""
        self.settings = RunnerSettings(
            name=self.name,
            provider=provider,
            home=self.folder / "runner",
            url=self.stage.base,
            environment=cli_environment(self.environment, self.environment),
            **given,
        )
        fallbacks = [replace(self.settings, provider=one, account=at) for at, one in enumerate(others or {}, 1)]
        self.settings = replace(self.settings, fallbacks=tuple(fallbacks))
        self.settings.home.mkdir(exist_ok=True)
        connection = CoordinatorConnection(self.stage.base, self.token, new_id())
        coordinator = await self.stack.enter_async_context(connection)
        self.runner = Runner(self.settings, coordinator, door or door_of(provider), *(others or {}).values())
        self._stopping, self._at_once = asyncio.Event(), asyncio.Event()
        self._serving = asyncio.create_task(self.runner.serve(self._stopping, self._at_once))
        self.stack.push_async_callback(self.stop, at_once=True)
        await self.online()

    async def stop(self, *, at_once: bool = False) -> None:
        """Stops the runner, in order unless at once."""
        self._stopping.set()
        if at_once:
            self._at_once.set()
        await asyncio.wait_for(self._serving, 15)

    async def until_told(self) -> None:
        """The run has been told of the newest message in its thread."""

        async def look() -> bool:
            return any(run.pending for run in self.runner.runs)

        await wait_until(look, what="the run knows of the message")

    async def online_once(self) -> Visitor:
        """The worker, played by the test: it counts as online from now on."""
        worker = self.stage.visitor(self.http, self.token)
        await worker.poll()
        return worker

    async def online(self) -> None:
        """The coordinator knows that the worker is here."""

        async def look() -> bool:
            agents = (await self.stage.visitor(self.http).get("/agents"))["agents"]
            return any(agent["name"] == self.name and agent["last_seen_at"] for agent in agents)

        await wait_until(look, what=f"{self.name} is online")

    async def delegate(
        self, task: str = "count the letters", thread: str | None = None, *, offer: bool = False
    ) -> tuple[str, str]:
        """A person asks and the lead delegates it to the worker; the message, and the task's id."""
        ts = await self.twin.say("@swarm please count", thread=thread)
        self.asked.add(thread or ts)
        async with asyncio.timeout(60):
            trigger = await self._mine(ts)
        made = await self.lead.uses(
            "inbox-delegate",
            trigger["lease"]["token"],
            inbox_message_id=trigger["inbox_messages"][-1]["id"],
            agent=self.name,
            task=task,
            offer=offer,
        )
        return ts, str(made["task_id"])

    async def _mine(self, ts: str) -> dict[str, Any]:
        """The lead's trigger of this message. What earlier tests have left, which may be work, is ended."""
        while True:
            if not (triggers := await self.lead.poll(wait_seconds=20, limit=1)):
                continue  # the coordinator has just been started again, or the machine is busy
            (trigger,) = triggers
            if any(message["ts"] == ts for message in trigger["inbox_messages"]):
                return trigger
            if (trigger.get("notice") or {}).get("kind") == "task_returned":
                await self.lead.uses("cancel-task", task_id=trigger["task"]["id"], reason="its test is over")
            outcome = "dismissed" if trigger["inbox_messages"] else "done"
            ended = {"tokens": [trigger["lease"]["token"]], "outcome": outcome, "reason": "its test is over"}
            await self.lead.post("/leases/finish", ended)

    async def news(self) -> list[str]:
        """The kinds of what waits for the lead from this test. All tests have one lead, and some end late."""
        triggers = await self.lead.poll(limit=20)
        return [trigger["kind"] for trigger in triggers if (trigger.get("thread") or {}).get("thread_ts") in self.asked]

    async def task(self, task_id: str) -> dict[str, Any]:
        return await self.lead.uses("get-task", task_id=task_id)

    async def ended(self, task_id: str, status: str, within_seconds: float = 30) -> dict[str, Any]:
        """The task, once it has this status."""
        return await wait_until(
            lambda: self.task(task_id), lambda task: task["status"] == status, within_seconds=within_seconds
        )

    async def says(self, ts: str, *words: str, within_seconds: float = 20) -> list[str]:
        """The messages below a message, with their blocks, once they have all these words and nothing grows any
        more."""

        async def look() -> list[Any]:
            return list((await self.twin.messages(thread_ts=ts))[1:])

        def met(messages: list[Any]) -> bool:
            shown = json.dumps(messages, ensure_ascii=False).replace('\\"', '"')
            return not any(message["streaming"] for message in messages) and all(word in shown for word in words)

        messages = await wait_until(look, met, within_seconds=within_seconds, what=f"people see {words}")
        return [str(message["text"]) for message in messages if message["kind"] == "bot"]

    async def idle(self) -> None:
        """The runner has no run."""

        async def look() -> bool:
            return not self.runner.runs

        await wait_until(look, what="no run is left", within_seconds=60)

    def left(self) -> list[int]:
        """The processes of the worker's CLI that are alive."""
        mark = f"RUNNER_MARK={self.environment['RUNNER_MARK']}".encode()
        return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdecimal() and _has(entry, mark)]

    async def gone(self) -> None:
        """No process of the worker's CLI is left."""

        async def look() -> list[int]:
            return self.left()

        await wait_until(look, lambda left: not left, what="no process is left")


async def lead_beside(office: Office) -> Office:
    """A lead beside the worker of an office; a runner serves each."""
    name = office.name.replace("wim", "lio")
    added = await office.stage.visitor(office.http).post("/agents", {"name": name, "role": Role.LEAD.value})
    folder = office.folder / "lead"
    folder.mkdir()
    return Office(
        stage=office.stage,
        http=office.http,
        twin=office.twin,
        lead=office.stage.visitor(office.http, added["token"]),
        folder=folder,
        name=name,
        token=added["token"],
        environment=office.environment,
        stack=office.stack,
    )


def _has(process: Path, mark: bytes) -> bool:
    try:
        return mark in (process / "environ").read_bytes().split(b"\0")
    except OSError:
        return False


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: Path) -> Iterator[LedStage]:
    with processes_in(tmp_path_factory.mktemp("runners")) as processes:
        stage = LedStage(processes)
        stage.use_sqlite(migrated_sqlite)
        yield stage


@pytest.fixture
async def office(stage: LedStage, tmp_path: Path) -> AsyncIterator[Office]:
    async with http_client(timeout=HTTP_SECONDS) as http:
        if not stage.lead_token:
            await stage.start_twin(rates=False)
            await stage.start_coordinator()
        operator = stage.visitor(http)
        if not stage.lead_token:
            added = await operator.post("/agents", {"name": "lea", "role": Role.LEAD.value})
            stage.lead_token = added["token"]
        worker = await operator.post("/agents", {"name": f"wim-{next(_names)}", "role": Role.WORKER.value})
        visitor = stage.visitor(http, stage.lead_token)
        await visitor.poll()  # from now on the lead counts as online
        environment = {"PATH": os.environ["PATH"], "RUNNER_MARK": new_id()}
        async with contextlib.AsyncExitStack() as stack:
            yield Office(
                stage=stage,
                http=http,
                twin=stage.person(http),
                lead=visitor,
                folder=tmp_path,
                name=worker["name"],
                token=worker["token"],
                environment={**environment, "HOME": str(tmp_path), "GO": str(tmp_path / "go")},
                stack=stack,
            )
        await operator.ask("DELETE", f"/agents/{worker['name']}")
