"""A coordinator that sleeps for longer than its leases last, in the middle of streamed answers.

Judged by what people see in the twin, and by what the agent counts: each thread has one whole answer, an answer that
was abandoned says so, and no run is done again without that.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import psycopg
import pytest

from swarm.domain.model.leases import LEASE_SECONDS
from swarm.services.runs.run_ends import STOP_TEXT
from tests.crash.test_live_answers import agent_at
from tests.support.agui_server import FINISHED, STARTED, AguiServer, Drip, Request, said, sse
from tests.support.http import client as http_client
from tests.support.postgres import fresh_database
from tests.support.processes import free_port, processes_in
from tests.support.stage import Stage, stages_at
from tests.support.twin_client import ANSWERED, TwinClient
from tests.support.waiting import wait_until

pytestmark = pytest.mark.req("STREAM-10", "OPS-03", "LOOP-06")

HTTP_SECONDS = 30
LINES = tuple(f"Line {number} of the answer.\n" for number in range(6))
WHOLE = "".join(LINES)
ABANDONED = "the answer starts again below"


def telling(seconds: float) -> tuple[Any, ...]:
    """A run that takes so long to say everything."""
    begin, *lines, end = said(*LINES)
    events = [sse(line.model_dump_json(by_alias=True)) for line in lines]
    slowly = seconds / sum(len(event) for event in events)
    return (STARTED, begin, *(Drip(event, slowly) for event in events), end, FINISHED)


@dataclass
class Paused:
    """A twin, a coordinator or several on one database, and an agent that counts its runs."""

    stages: list[Stage]
    http: httpx2.AsyncClient
    twin: TwinClient
    agent: AguiServer
    name: str = ""
    asked: dict[str, str] = field(default_factory=dict)  # question -> thread

    async def ask(self) -> str:
        question = f"story {self.name}-{len(self.asked)}."
        self.asked[question] = await self.twin.say(f"swarm#poet tell me {question}")
        return self.asked[question]

    async def answers(self, ts: str) -> list[dict[str, Any]]:
        """What the swarm says in a thread, but for the message with the Stop button."""
        seen = await self.twin.messages(thread_ts=ts, channel="general")
        return [message for message in seen if message["kind"] == "bot" and STOP_TEXT not in message["text"]]

    def runs(self, question: str) -> list[Request]:
        """The runs of the agent for a question, which is what its tools would have been run for."""
        posted = [request for request in self.agent.to("/") if request.method == "POST"]
        return [request for request in posted if question in json.dumps(request.json["messages"][-1])]

    async def everything_is_answered(self, within_seconds: float) -> None:
        for ts in self.asked.values():
            await self.twin.until(ts, lambda seen: ANSWERED in seen.emoji, within_seconds=within_seconds)
        for stage in self.stages:
            await wait_until(partial(stage.backlog, self.http), lambda n: n == 0, within_seconds=60, what="all is done")
        await asyncio.sleep(2)  # what would be done twice is begun by then

    async def each_once(self) -> int:
        """Every thread shows one whole answer, and says of all others that they were abandoned; how many were."""
        count = 0
        for question, ts in self.asked.items():
            seen = await wait_until(partial(self.answers, ts), lambda seen: not any_grows(seen))
            *others, last = answers_of(seen)
            what = (question, [[message["text"] for message in answer] for answer in (*others, last)])
            assert all(is_abandoned(answer[0]) and is_abandoned(answer[-1]) for answer in others), what
            assert not any(is_abandoned(message) for message in last), what
            assert "".join(message["text"] for message in last) == WHOLE, what
            assert len(self.runs(question)) <= 1 + len(others), what
            count += len(others)
        return count


def answers_of(seen: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """The messages of each answer: after a broken connection the rest of one stands in another message."""
    found: list[list[dict[str, Any]]] = []
    for message in seen:
        begins = message["text"].startswith("Line 0") or ABANDONED in message["text"]
        if begins or not found:
            found.append([])
        found[-1].append(message)
    return found


def is_abandoned(message: dict[str, Any]) -> bool:
    return ABANDONED in json.dumps(message, ensure_ascii=False)


def any_grows(seen: list[dict[str, Any]]) -> bool:
    return any(message["streaming"] for message in seen)


def configure(folder: Path, agent_port: int) -> None:
    """The agent, in a file."""
    url = f"http://127.0.0.1:{agent_port}/"
    agents = f"agents:\n  remote:\n    poet: {{url: {url!r}, on_restart: rerun, parallel: 8}}\n"
    (folder / "swarm.yaml").write_text(f"slack: {{pace: false, stop_button_after_seconds: 0.5}}\n{agents}")


async def begin(stages: list[Stage], http: httpx2.AsyncClient, agent: AguiServer, name: str = "") -> Paused:
    """Start everything, and wait until the agent is there."""
    await stages[0].start_twin(rates=False)
    for stage in stages:
        stage.launch_coordinator()
    await asyncio.gather(*(stage.until_ready() for stage in stages))
    paused = Paused(stages=stages, http=http, twin=stages[0].person(http), agent=agent, name=name)

    async def is_there() -> bool:
        known = (await stages[0].visitor(http).get("/agents"))["agents"]
        return any(agent["last_seen_at"] for agent in known)

    await wait_until(is_there, within_seconds=60, what="the agent is there")
    return paused


@pytest.mark.long
@pytest.mark.xdist_group("processes")
@pytest.mark.timeout(120)
async def test_asleep_for_longer_than_its_lease_it_shows_each_answer_once(
    tmp_path: Path, migrated_sqlite: Path
) -> None:
    """One answer is closed in Slack at that moment, and another one is being told."""
    async with http_client(timeout=HTTP_SECONDS) as http, agent_at(port := free_port()) as agent:
        with processes_in(tmp_path) as processes:
            stage = Stage(processes, {"SWARM_LEASE_SECONDS": "3"})
            stage.use_sqlite(migrated_sqlite)
            configure(tmp_path, port)
            paused = await begin([stage], http, agent)
            agent.next("/", *telling(0.5))
            agent.on("/", *telling(3))
            await paused.twin.fault("delay", method="chat.stopStream", seconds=1, times=1)
            since = await paused.twin.now()
            await paused.ask()
            await agent.asked("/", 2)  # it was asked how it is before
            await paused.ask()
            await wait_until(lambda: paused.twin.calls("chat.stopStream", since=since), what="an answer is closed")
            stage.freeze_coordinator()
            await asyncio.sleep(4)
            stage.thaw_coordinator()
            await paused.everything_is_answered(within_seconds=40)
            await paused.each_once()
            processes.show_logs()


# The default lease, again and again

PAUSES, SCENES = 20, 4
ASLEEP_SECONDS = LEASE_SECONDS + 6


@pytest.fixture
def scenes(
    request: pytest.FixtureRequest, tmp_path: Path, migrated_sqlite: Path, postgres_server_url: str
) -> Iterator[list[list[Stage]]]:
    """The stages of so many scenes: one coordinator on SQLite each, or two on PostgreSQL."""
    with ExitStack() as stack:
        found = []
        for number in range(SCENES):
            folder = tmp_path / str(number)
            folder.mkdir()
            processes = stack.enter_context(processes_in(folder))
            if request.param == "postgresql":
                template = request.getfixturevalue("migrated_postgres")
                url = stack.enter_context(fresh_database(postgres_server_url, template))
                found.append(stages_at(processes, 2, url))
            else:
                found.append([Stage(processes)])
                found[-1][0].use_sqlite(migrated_sqlite)
        yield found


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(
    "scenes",
    [pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in ("sqlite", "postgresql")],
    indirect=True,
)
async def test_asleep_again_and_again_at_the_default_lease_each_answer_is_shown_once(
    scenes: list[list[Stage]],
) -> None:
    seed = random.randrange(1_000_000)
    sys.stdout.write(f"seed {seed}\n")
    async with http_client(timeout=HTTP_SECONDS) as http, agent_at(port := free_port()) as agent:
        agent.on("/", *telling(2.5))

        async def play(number: int, stages: list[Stage]) -> tuple[int, int]:
            configure(stages[0].processes.folder, port)
            paused = await begin(stages, http, agent, name=chr(ord("a") + number))
            moments = random.Random(seed + number)
            for _ in range(PAUSES // SCENES):
                await _sleeps_once(paused, moments)
            return len(paused.asked), await paused.each_once()

        done = await asyncio.gather(*(play(number, stages) for number, stages in enumerate(scenes)))
    asked, told = (sum(column) for column in zip(*done, strict=True))
    runs = len([request for request in agent.to("/") if request.method == "POST"])
    sys.stdout.write(f"{asked} questions, {runs} runs, {told} answers were abandoned and said so\n")


async def _sleeps_once(paused: Paused, moments: random.Random) -> None:
    """The one in office sleeps at any moment of four answers; another one, if there is one, takes over meanwhile."""
    asleep = in_office(paused.stages)
    for _ in range(4):
        await paused.ask()
        await asyncio.sleep(moments.uniform(0.0, 1.0))
    await asyncio.sleep(moments.uniform(0.0, 2.0))
    asleep.freeze_coordinator()
    await asyncio.sleep(ASLEEP_SECONDS)
    if len(paused.stages) > 1:
        assert in_office(paused.stages) is not asleep
    asleep.thaw_coordinator()
    await paused.everything_is_answered(within_seconds=120)


def in_office(stages: list[Stage]) -> Stage:
    """Who is elected."""
    if len(stages) == 1:
        return stages[0]
    with psycopg.connect(stages[0].settings["SWARM_DATABASE_URL"], autocommit=True) as database:
        ((holder,),) = database.execute("SELECT holder FROM locks WHERE kind = 'office'").fetchall()
    return next(stage for stage in stages if f":{stage.port} " in holder)
