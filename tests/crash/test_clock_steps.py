"""The wall clock is set by an hour or a day while people talk: the coordinator's, its database server's, and both.

In flight at each step are a run of a streaming agent, a lease of a polling one, and a post whose outcome is not known.
Judged by what people see in the twin, and by how often the agents were asked.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx2
import pytest

from swarm.store.admin import migrations
from tests.crash.scene import Trigger, inbox_message_of, lease_of
from tests.support.agui_server import FINISHED, STARTED, AguiServer, said
from tests.support.doors import Visitor
from tests.support.faketime import SEEN_SECONDS, SetClock, postgres_server_by, set_clock
from tests.support.http import client as http_client
from tests.support.postgres import fresh_database
from tests.support.processes import SWARM, free_port, processes_in
from tests.support.stage import Stage
from tests.support.twin_client import ANSWERED, TwinClient
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.req("OPS-03"), pytest.mark.timeout(600)]

HOUR: Final = 3600
DAY: Final = 24 * HOUR
SETTLED_SECONDS: Final = 60.0
SWEPT_SECONDS: Final = 4.0
"""By then the sweep and the sender have looked several times."""

AGENTS: Final = 2
RENEW_SECONDS: Final = 5.0
WHOLE: Final = "Half of it.\nAll of it."


@dataclass
class Scene:
    stage: Stage
    clock: SetClock
    twin: TwinClient
    lea: Visitor
    poet: AguiServer
    http: httpx2.AsyncClient
    claimed: list[str] = field(default_factory=list)  # by lea, each message as often as she got it

    async def trigger(self) -> Trigger:
        found = await wait_until(
            lambda: self.lea.poll(wait_seconds=20, limit=1), within_seconds=SETTLED_SECONDS, what="lea has work"
        )
        (trigger,) = found
        self.claimed.append(inbox_message_of(trigger))
        return trigger

    async def reply(self, trigger: Trigger, text: str) -> None:
        await self.lea.uses("slack-reply", lease_of(trigger), inbox_message_id=inbox_message_of(trigger), message=text)

    @contextlib.asynccontextmanager
    async def renewing(self, trigger: Trigger) -> AsyncIterator[None]:
        async def renew() -> None:
            while True:
                await self.lea.post("/leases/renew", {"tokens": [lease_of(trigger)]})
                await asyncio.sleep(RENEW_SECONDS)

        task = asyncio.create_task(renew())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def runs(self) -> int:
        return len([request for request in self.poet.to("/") if request.method == "POST"])

    async def live(self, step: int) -> None:
        """Work before the step, over it and after it; all of it is done within a minute, once."""
        gate, runs = asyncio.Event(), self.runs()
        start, half, rest, end = said("Half of it.\n", "All of it.")
        self.poet.on("/", STARTED, start, half, gate, rest, end, FINISHED)
        told = await self.twin.say("swarm#poet tell me")
        await self.twin.until(told, lambda seen: seen.is_growing, within_seconds=SETTLED_SECONDS)
        held = await self.twin.say("swarm#lea that takes long")
        holding = await self.trigger()
        doubted = await self.twin.say("swarm#lea that is quick")
        await self.twin.fault("cut_after_accept", method="chat.postMessage", times=1)
        await self.reply(await self.trigger(), "quick")
        await self.twin.until(doubted, lambda seen: seen.answers, within_seconds=SETTLED_SECONDS)
        async with self.renewing(holding):
            self.clock.step(step)
            await asyncio.sleep(SEEN_SECONDS)
            new = await self.twin.say("swarm#lea and now")
            told_new = await self.twin.say("swarm#poet and again")
            await self.reply(await self.trigger(), "now")
            await asyncio.sleep(SWEPT_SECONDS)
            gate.set()
            await self.reply(holding, "long")
        await wait_until(
            lambda: self.stage.backlog(self.http), lambda n: n == 0, within_seconds=SETTLED_SECONDS, what="all is done"
        )
        answers = {told: WHOLE, told_new: WHOLE, held: "long", doubted: "quick", new: "now"}
        for ts, answer in answers.items():
            seen = await self.twin.until(
                ts, lambda seen: ANSWERED in seen.emoji and not seen.is_growing, within_seconds=SETTLED_SECONDS
            )
            assert seen.answers == (answer,), f"step {step}"
        assert self.runs() == runs + 2, f"the poet was asked once for each question, step {step}"
        assert await self.lea.poll() == []
        assert len(set(self.claimed)) == len(self.claimed), "no message was handed out twice"
        ready = await self.http.get(f"{self.stage.base}/readyz")
        assert ready.status_code == 200, ready.text


def configure(stage: Stage, agent_port: int) -> None:
    slack = "slack: {pace: false, stop_button_after_seconds: 600}"
    remote = f"    poet: {{url: 'http://127.0.0.1:{agent_port}/', on_restart: rerun}}"
    (stage.processes.folder / "swarm.yaml").write_text(f"{slack}\nagents:\n  remote:\n{remote}\n")


async def agents_are_there(operator: Visitor) -> None:
    async def look() -> int:
        return len([agent for agent in (await operator.get("/agents"))["agents"] if agent["last_seen_at"]])

    await wait_until(look, lambda n: n == AGENTS, what="the agents are there")


async def tools_are_loaded(lea: Visitor) -> None:
    """The first call loads the door's code, which stops everything for seconds on a busy machine."""
    for _ in range(5):
        with contextlib.suppress(ExceptionGroup):
            await lea.tool("team-list")
            return


@pytest.fixture
def clock() -> Iterator[SetClock]:
    with set_clock() as clock:
        yield clock


@pytest.fixture
def where() -> str:
    """Whose clock is set: the ``machine``'s with an SQLite file, the database ``server``'s, or that of ``both``."""
    return "machine"


@pytest.fixture
def stage(tmp_path: Path, migrated_sqlite: Path, clock: SetClock, where: str) -> Iterator[Stage]:
    with contextlib.ExitStack() as stack:
        database = None
        if where != "machine":
            server = stack.enter_context(postgres_server_by(clock))
            database = stack.enter_context(fresh_database(server))
            migrations.upgrade(database)
        stage = Stage(stack.enter_context(processes_in(tmp_path)))
        if database:
            stage.use_postgres(database)
        else:
            stage.use_sqlite(migrated_sqlite)
        if where != "server":
            stage.settings |= clock.environment
        yield stage


@pytest.fixture
async def scene(stage: Stage, clock: SetClock) -> AsyncIterator[Scene]:
    port, poet = free_port(), AguiServer()
    configure(stage, port)
    server = await asyncio.start_server(poet.handle, "127.0.0.1", port)
    async with http_client(timeout=30) as http:
        await stage.start_twin(rates=False)
        poet.on("/", STARTED, FINISHED)
        stage.coordinator = stage.processes.start("coordinator", SWARM, "up", env=stage.environment)
        await stage.until_ready()
        lea = stage.visitor(http, await stage.register(http, "lea"))
        assert await lea.poll() == []
        await agents_are_there(stage.visitor(http))
        await tools_are_loaded(lea)
        yield Scene(stage=stage, clock=clock, twin=stage.person(http), lea=lea, poet=poet, http=http)
        server.close()
        await poet.stop()


@pytest.mark.long
@pytest.mark.parametrize("where", ["machine", "server", "both"])
async def test_steps_of_an_hour_and_a_day_lose_double_and_hold_up_nothing(scene: Scene) -> None:
    for step in (HOUR, -HOUR, -HOUR, HOUR, DAY, -DAY):
        await scene.live(step)


@pytest.mark.long
async def test_a_coordinator_that_starts_after_a_step_back_does_not_wait_for_tomorrow(scene: Scene) -> None:
    stage, clock = scene.stage, scene.clock
    clock.step(DAY)
    await scene.live(0)
    doubted = await scene.twin.say("swarm#lea that is quick")
    await scene.twin.fault("cut_after_accept", method="chat.postMessage", times=1)
    await scene.reply(await scene.trigger(), "quick")
    await scene.twin.until(doubted, lambda seen: seen.answers, within_seconds=SETTLED_SECONDS)
    stage.kill_coordinator()
    clock.step(-DAY)
    stage.coordinator = stage.processes.start("coordinator", SWARM, "up", env=stage.environment)
    await stage.until_ready()
    await scene.live(0)
    assert (await scene.twin.conversation(doubted)).answers == ("quick",)
