"""A real CLI behind `swarm run`, a model that the test plays, and a person in the twin who presses buttons."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from packages.swarm_runner.tests.clis.known import Cli, path_with
from packages.swarm_runner.tests.conftest import LedStage, Office
from swarm.clock import new_id
from swarm.domain.requests.button_actions import DECIDE_ACTION
from tests.support.processes import Process, processes_in
from tests.support.providers.request import Request
from tests.support.providers.script import Call, Reply, Say
from tests.support.providers.server import ProviderServer, serve
from tests.support.waiting import wait_until

LEASE_SECONDS = 6
PATIENCE_SECONDS = 90.0  # a CLI takes seconds to start on a busy machine, and a lease of a killed runner must end


@dataclass
class Bench:
    """A worker that is a real CLI."""

    office: Office
    cli: Cli
    model: ProviderServer
    env: dict[str, str]
    reply: Callable[[Request], Reply] = field(default=lambda _request: Say("Nothing to say."))
    requests: list[Request] = field(default_factory=list)  # those of the work, not those for a title
    runners: list[Process] = field(default_factory=list)

    def answers(self, request: Request) -> Reply:
        """The reply of the model. A request without tools is for a title."""
        if len(request.tools) < 3:
            return Say("A title")
        self.requests.append(request)
        return self.reply(request)

    async def start(self, *arguments: str) -> Process:
        """`swarm run` as people start it."""
        office = self.office
        names = [word for name in (*self.env, "RUNNER_MARK") for word in ("--env", name)]
        home = {"SWARM_HOME": str(office.folder / "swarm"), "SWARM_URL": office.stage.base, "SWARM_TOKEN": office.token}
        runner = office.stage.processes.fork(
            "run", "swarm.cli.main", "run", office.name, "--provider", self.cli.provider, *names, *arguments,
            env={**office.environment, **home, **self.env},
        )  # fmt: skip
        self.runners.append(runner)
        await runner.says("is connected to")
        await office.online()
        return runner

    async def shown(self, ts: str) -> list[dict[str, Any]]:
        """The app's messages in a thread."""
        messages = await self.office.twin.messages(thread_ts=ts)
        return [message for message in messages[1:] if message["kind"] == "bot"]

    async def until_shown(self, ts: str, *words: str) -> list[dict[str, Any]]:
        """The app's messages once people see all these words."""

        def met(messages: list[dict[str, Any]]) -> bool:
            return all(word in seen(messages) for word in words)

        return await wait_until(
            lambda: self.shown(ts), met, within_seconds=PATIENCE_SECONDS, what=f"people see {words}"
        )

    async def card(self, ts: str, action_id: str) -> dict[str, Any]:
        """The newest message in the thread with this button, once there is one."""

        def found(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
            return [message for message in messages if f'"{action_id}"' in seen([message])]

        messages = await wait_until(
            lambda: self.shown(ts), found, within_seconds=PATIENCE_SECONDS, what=f"a button {action_id}"
        )
        return found(messages)[-1]

    async def decide(self, ts: str, decision: str, *values: object) -> None:
        """Alice enters values in the first fields of the request in the thread, and presses a button below."""
        action_id = DECIDE_ACTION + decision
        card = await self.card(ts, action_id)
        fields = [block["block_id"] for block in card["blocks"] if block["type"] == "input"]
        pressed = {"user": "alice", "channel": "general", "ts": card["ts"], "action_id": action_id}
        state = dict(zip(fields, values, strict=False))
        assert (await self.office.twin.ask("POST", "actions", json={**pressed, "state": state}))["ok"]

    def pids(self) -> list[int]:
        """The processes of the real binary."""
        return [pid for pid in self.office.left() if _executable(pid) == self.cli.binary]

    async def kill_cli(self) -> None:
        """``kill -9`` of the process that talks with the model."""
        for pid in self.pids():
            os.kill(pid, signal.SIGKILL)

    async def over(self, ts: str, piece: str = "") -> str:
        """All that the thread says, once nothing grows any more and no process of the CLI is left.

        ``piece`` is awaited first: a short answer may be posted some seconds after its task has ended.
        """
        await self.until_shown(ts, piece)
        await self.office.gone()

        async def look() -> list[dict[str, Any]]:
            return await self.shown(ts)

        messages = await wait_until(
            look, lambda found: not any(one["streaming"] for one in found), what="nothing is being written"
        )
        return said(messages)


def said(messages: list[dict[str, Any]]) -> str:
    """What the blocks of messages say, each text once."""

    def texts(part: object) -> Iterator[str]:
        if isinstance(part, dict):
            for name, value in part.items():
                yield from [value] if name == "text" and isinstance(value, str) else texts(value)
        elif isinstance(part, list):
            for one in part:
                yield from texts(one)

    return "\n".join("".join(texts(message["blocks"] or message)) for message in messages)


def seen(messages: list[dict[str, Any]]) -> str:
    """Messages with their blocks, as text to look for words in."""
    return json.dumps(messages, ensure_ascii=False).replace('\\"', '"')


def after(call: Call, *, then: str) -> Callable[[Request], Reply]:
    """A model that calls a tool, and says something when it has one more result than before. Calls have ids of their
    own, as in a session that goes on for days."""
    counts: list[int] = []

    def reply(request: Request) -> Reply:
        counts.append(len(request.results))
        return Say(then) if counts[-1] > counts[0] else replace(call, id=f"call_{new_id()}")

    return reply


def _executable(pid: int) -> str:
    try:
        name = Path(f"/proc/{pid}/exe").readlink().name
    except OSError:
        return ""
    return name.removesuffix(".exe")


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: Path) -> Iterator[LedStage]:
    with processes_in(tmp_path_factory.mktemp("clis")) as processes:
        stage = LedStage(processes, {"SWARM_LEASE_SECONDS": str(LEASE_SECONDS)})
        stage.use_sqlite(migrated_sqlite)
        yield stage


@pytest.fixture
async def bench(cli: Cli, office: Office) -> AsyncIterator[Bench]:
    """A worker with this CLI. Afterwards none of its processes may be left."""
    office.environment["PATH"] = path_with(cli.program)
    benches: list[Bench] = []
    async with serve(cli.wire(), lambda request: benches[0].answers(request)) as model:
        benches.append(Bench(office, cli, model, cli.environment(model.base_url, office.folder)))
        yield benches[0]
        for runner in benches[0].runners:
            if runner.alive:
                runner.send(signal.SIGTERM)
                await runner.exit_code(20)
    await office.gone()
