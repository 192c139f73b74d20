"""Answers that are given live while their coordinator is killed, stopped, suspended; and people who stop them.

Real processes: the twin, the coordinator, and an agent behind real HTTP whose every byte is scripted. Judged by what
people see in the twin and by the twin's log of calls: at no moment does a thread have two messages that grow.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sqlite3
import sys
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from swarm.domain.requests.button_actions import RETRY_RUN_ACTION, STOP_RUN_ACTION
from swarm.services.runs.run_ends import RESTARTED, RESTARTED_TEXT, STOP_TEXT
from tests.support.agui_server import STALL, STARTED, AguiServer, Request, answering, said
from tests.support.http import client as http_client
from tests.support.postgres import fresh_database
from tests.support.processes import free_port, processes_in
from tests.support.stage import Stage, stages_at
from tests.support.twin_client import ANSWERED, TwinClient
from tests.support.waiting import wait_until

pytestmark = [pytest.mark.xdist_group("processes"), pytest.mark.timeout(240)]

HTTP_SECONDS = 30
LONG_SECONDS = 600
SOON_SECONDS = 15.0
"""So long may it take until an agent's connection is closed, on a busy machine; usually it is a fiftieth of that."""

HALF = (STARTED, *said("Half of it.\n")[:2])
"""The beginning of an answer."""

POET, CLERK = "poet", "clerk"


@dataclass
class Scene:
    """A twin, a coordinator with two agents of which one must not do things twice, and a person."""

    stage: Stage
    http: httpx2.AsyncClient
    twin: TwinClient
    agent: AguiServer
    since: int  # calls of earlier tests have no higher number

    async def ask(self, *, agent: str = POET, channel: str = "general") -> str:
        return await self.twin.say(f"swarm#{agent} tell me a story", channel=channel)

    async def direct_channel(self) -> str:
        """Where alice talks to the swarm alone."""
        said = {"user": "alice", "channel": "@swarm", "text": "hello"}
        self.agent.on("/", *answering("All of it."))
        channel = str((await self.twin.ask("POST", "messages", json=said))["channel"])
        await self.whole((await self.twin.messages(channel=channel))[-1]["ts"], "All of it.", channel=channel)
        return channel

    async def agents_are_known(self) -> None:
        """Before a coordinator has registered and reached its agents for the first time, they count as away."""

        async def look() -> set[str]:
            known = (await self.stage.visitor(self.http).get("/agents"))["agents"]
            return {agent["name"] for agent in known if agent["last_seen_at"]}

        await wait_until(look, lambda names: names >= set(_AGENTS), what="the agents are there")

    async def answers(self, ts: str, *, channel: str = "general") -> list[dict[str, Any]]:
        """The messages of the swarm in a thread, but for the one with the Stop button."""
        messages = await self.twin.messages(channel=channel, thread_ts=ts)
        return [message for message in messages if message["kind"] == "bot" and STOP_TEXT not in message["text"]]

    async def growing(self, ts: str, count: int = 1, *, channel: str = "general") -> dict[str, Any]:
        """The message that grows, once the thread has so many messages of ours and the last one shows something."""

        async def look() -> list[dict[str, Any]]:
            found = await self.answers(ts, channel=channel)
            is_shown = len(found) == count and found[-1]["streaming"] and "Half of it." in found[-1]["text"]
            return found if is_shown else []

        return (await wait_until(look, what=f"message {count} grows"))[-1]

    async def whole(self, ts: str, text: str, *, channel: str = "general") -> list[dict[str, Any]]:
        """The messages of a thread once the last one has this text, and is complete and marked as answered."""

        async def look() -> list[dict[str, Any]]:
            found = await self.answers(ts, channel=channel)
            seen = await self.twin.conversation(ts, channel=channel)
            is_whole = found and found[-1]["text"] == text and not found[-1]["streaming"] and ANSWERED in seen.emoji
            return found if is_whole else []

        return await wait_until(look, what=f"{text!r} is answered")

    async def never_two_grew(self) -> None:
        """Judged by the log of calls: each stream was closed before another one was opened in its thread."""
        growing: dict[str, set[str]] = {}
        for call in await self.twin.calls(since=self.since, ok=True):
            if call["method"] == "chat.startStream":
                thread = growing.setdefault(call["args"]["thread_ts"], set())
                assert not thread, f"two messages grew at once in {call['args']['thread_ts']}"
                thread.add(call["args"]["thread_ts"])
            elif call["method"] == "chat.stopStream":
                for thread in growing.values():
                    thread.clear()
        assert not any(growing.values()), growing

    def runs(self) -> list[Request]:
        """The agent's runs, oldest first; it is asked how it is as well."""
        return [request for request in self.agent.to("/") if request.method == "POST"]

    async def is_over(self) -> bool:
        """Whether nothing goes on any more."""
        if not self.stage.coordinator.alive or await self.stage.backlog(self.http):
            return False
        with sqlite3.connect(self.stage.home / "swarm.db") as database:
            ((runs,),) = database.execute("SELECT count(*) FROM runs WHERE status IN ('running', 'closing')")
        return not runs

    def attempts(self) -> int:
        """How often work was lost."""
        with sqlite3.connect(self.stage.home / "swarm.db") as database:
            ((attempts,),) = database.execute("SELECT attempts FROM inbox_messages ORDER BY created_at DESC LIMIT 1")
        return int(attempts)


def blocks_of(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return [block for block in message["blocks"] if block["type"] == kind]


def is_sealed(message: dict[str, Any], note: str) -> bool:
    return not message["streaming"] and note in json.dumps(message["blocks"], ensure_ascii=False)


def configure(stage: Stage, agent_port: int) -> None:
    """The agents, in a file for the next start."""
    url = f"http://127.0.0.1:{agent_port}/"
    remote = "\n".join(f"    {name}: {{url: {url!r}, on_restart: {how}}}" for name, how in _AGENTS.items())
    slack = "slack: {pace: false, stop_button_after_seconds: 0.5}"
    (stage.processes.folder / "swarm.yaml").write_text(f"{slack}\nagents:\n  remote:\n{remote}\n")


_AGENTS = {POET: "rerun", CLERK: "ask"}


@contextlib.asynccontextmanager
async def agent_at(port: int) -> AsyncIterator[AguiServer]:
    """A scripted agent that is always at the same address, so that a coordinator need not be told of each."""
    scripted = AguiServer()
    server = await asyncio.start_server(scripted.handle, "127.0.0.1", port)
    try:
        yield scripted
    finally:
        server.close()
        await scripted.stop()


@dataclass
class House:
    """What all tests share: starting a coordinator takes longer than most of them."""

    stage: Stage
    agent_port: int
    is_clean: bool = False  # the last test has left nothing that goes on


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, migrated_sqlite: Path) -> Iterator[House]:
    with processes_in(tmp_path_factory.mktemp("live")) as processes:
        house = House(Stage(processes), free_port())
        house.stage.use_sqlite(migrated_sqlite)
        configure(house.stage, house.agent_port)
        yield house


@pytest.fixture
async def scene(house: House) -> AsyncIterator[Scene]:
    stage = house.stage
    async with http_client(timeout=HTTP_SECONDS) as http, agent_at(house.agent_port) as agent:
        if not hasattr(stage, "twin"):
            await stage.start_twin(rates=False)
        twin = stage.person(http)
        await twin.clear_faults()
        if not house.is_clean:
            await (stage.restart_coordinator() if hasattr(stage, "coordinator") else stage.start_coordinator())
        scene = Scene(stage=stage, http=http, twin=twin, agent=agent, since=await twin.now())
        await scene.agents_are_known()
        house.is_clean = False
        yield scene
        house.is_clean = await scene.is_over()
        stage.processes.show_logs()


# Killed


@pytest.mark.req("STREAM-10")
async def test_killed_twice_in_the_middle_it_ends_with_one_whole_answer(scene: Scene) -> None:
    scene.agent.on("/", *HALF, STALL)
    ts = await scene.ask()
    await scene.growing(ts)
    await scene.stage.restart_coordinator()
    await scene.growing(ts, 2)
    scene.agent.on("/", *answering("All of it."))
    await scene.stage.restart_coordinator()
    first, second, whole = await scene.whole(ts, "All of it.")
    assert is_sealed(first, RESTARTED_TEXT)
    assert is_sealed(second, RESTARTED_TEXT)
    assert RESTARTED_TEXT not in json.dumps(whole["blocks"], ensure_ascii=False)
    assert len(blocks_of(whole, "context_actions")) == 1
    await scene.never_two_grew()
    assert len(scene.runs()) == 3


@pytest.mark.long
@pytest.mark.req("STREAM-10", "CHAN-06")
async def test_killed_in_the_middle_of_what_must_not_be_done_twice_it_asks(scene: Scene) -> None:
    scene.agent.on("/", *HALF, STALL)
    ts = await scene.ask(agent=CLERK)
    await scene.growing(ts)
    await scene.stage.restart_coordinator()

    async def sealed() -> list[dict[str, Any]]:
        return [message for message in await scene.answers(ts) if not message["streaming"]]

    (message,) = await wait_until(sealed)
    assert is_sealed(message, RESTARTED)
    await wait_until(scene.is_over)  # the button is there a moment before the run is over
    scene.agent.on("/", *answering("All of it."))
    await scene.twin.press(ts, "Half of it.", RETRY_RUN_ACTION)
    assert len(await scene.whole(ts, "All of it.")) == 2
    await scene.never_two_grew()


@pytest.mark.long
@pytest.mark.req("STREAM-10")
async def test_killed_before_it_hears_that_the_answer_is_closed_it_closes_it_once_more(scene: Scene) -> None:
    await scene.twin.fault("delay", method="chat.stopStream", seconds=LONG_SECONDS)
    scene.agent.on("/", *answering("All of it."))
    ts = await scene.ask()
    await wait_until(lambda: scene.twin.calls("chat.stopStream", since=scene.since))
    await scene.stage.restart_coordinator()
    (message,) = await scene.whole(ts, "All of it.")
    assert len(blocks_of(message, "context_actions")) == 1
    assert len(scene.runs()) == 1


@pytest.mark.long
@pytest.mark.req("STREAM-10")
async def test_killed_while_a_message_is_begun_it_finds_and_seals_it(scene: Scene) -> None:
    await scene.twin.fault("delay", method="chat.startStream", seconds=LONG_SECONDS)
    scene.agent.on("/", *HALF, STALL)
    ts = await scene.ask()
    await scene.growing(ts)
    scene.stage.kill_coordinator()
    await scene.twin.clear_faults()
    scene.agent.on("/", *answering("All of it."))
    await scene.stage.start_coordinator()
    sealed, _ = await scene.whole(ts, "All of it.")
    assert is_sealed(sealed, RESTARTED_TEXT)
    await scene.never_two_grew()


# Stopped in good order


@pytest.mark.req("STREAM-10", "OPS-01")
async def test_told_to_stop_in_the_middle_it_seals_at_once_and_counts_no_attempt(scene: Scene) -> None:
    scene.agent.on("/", *HALF, STALL)
    ts = await scene.ask()
    await scene.growing(ts)
    scene.stage.coordinator.send(signal.SIGTERM)
    await asyncio.wait_for(scene.runs()[0].left.wait(), SOON_SECONDS)  # else the run would go on for ever
    assert await scene.stage.coordinator.exit_code(2 * SOON_SECONDS) == 0
    (message,) = await scene.answers(ts)
    assert is_sealed(message, RESTARTED_TEXT)
    assert scene.attempts() == 0
    scene.agent.on("/", *answering("All of it."))
    await scene.stage.start_coordinator()
    await scene.whole(ts, "All of it.")
    await scene.never_two_grew()


# Stopped by people


async def runs(scene: Scene, *, channel: str = "general") -> tuple[str, Request]:
    """A run that would never end: the thread, and the agent's connection."""
    scene.agent.on("/", *HALF, STALL)
    ts = await scene.ask(channel=channel)
    await scene.growing(ts, channel=channel)
    return ts, scene.runs()[-1]


async def is_stopped(scene: Scene, ts: str, run: Request, *, by: str, began: float, channel: str = "general") -> None:
    """The agent's connection is closed soon, and the message tells who wanted it."""
    await asyncio.wait_for(run.left.wait(), SOON_SECONDS)
    sys.stdout.write(f"the connection was closed after {time.monotonic() - began:.3f} s\n")

    async def look() -> bool:
        found = await scene.answers(ts, channel=channel)
        return is_sealed(found[0], by)

    await wait_until(look, what="the message says who stopped it")


@pytest.mark.long
@pytest.mark.req("STREAM-09")
@pytest.mark.parametrize(
    "where",
    ["thread", pytest.param("direct message", marks=pytest.mark.long), pytest.param("beside", marks=pytest.mark.long)],
)
async def test_a_word_stops_it(scene: Scene, where: str) -> None:
    channel = "general" if where == "thread" else await scene.direct_channel()
    ts, run = await runs(scene, channel=channel)
    began = time.monotonic()
    await scene.twin.say("!stop", channel=channel, thread=None if where == "beside" else ts)
    await is_stopped(scene, ts, run, by="🛑 Stopped by", began=began, channel=channel)


@pytest.mark.long
@pytest.mark.req("STREAM-09")
async def test_the_button_stops_it_and_goes(scene: Scene) -> None:
    scene.stage.settings["SLACK_AGENT_SESSIONS"] = "false"  # where Slack shows its own Stop, there is no button
    await scene.stage.restart_coordinator()
    ts, run = await runs(scene)
    await wait_until(lambda: has_button(scene, ts), what="the button")
    began = time.monotonic()
    await scene.twin.press(ts, STOP_TEXT, STOP_RUN_ACTION, user="bob")
    await is_stopped(scene, ts, run, by="U00000BOB", began=began)
    await wait_until(lambda: has_button(scene, ts), lambda seen: not seen, what="the button goes")
    del scene.stage.settings["SLACK_AGENT_SESSIONS"]
    await scene.stage.restart_coordinator()


async def has_button(scene: Scene, ts: str) -> bool:
    return any(STOP_TEXT in message["text"] for message in await scene.twin.messages(thread_ts=ts, channel="general"))


@pytest.mark.long
@pytest.mark.req("STREAM-09")
async def test_slacks_own_stop_stops_it(scene: Scene) -> None:
    ts, run = await runs(scene)
    began = time.monotonic()
    await scene.twin.ask("POST", "stop", json={"user": "alice", "channel": "general", "thread_ts": ts})
    await is_stopped(scene, ts, run, by="🛑 Stopped", began=began)


@pytest.mark.long
@pytest.mark.req("LOOP-15", "STREAM-09")
async def test_a_question_that_is_deleted_while_it_is_answered_stops_it(scene: Scene) -> None:
    ts, run = await runs(scene)
    began = time.monotonic()
    await scene.twin.ask("DELETE", "messages", json={"user": "alice", "channel": "general", "ts": ts})
    await is_stopped(scene, ts, run, by="🛑 Stopped.", began=began)


# Suspended


@pytest.mark.long
@pytest.mark.req("STREAM-10", "OPS-03")
async def test_a_suspended_one_that_comes_back_makes_no_call_any_more(
    tmp_path: Path, postgres_server_url: str, migrated_postgres: str
) -> None:
    async with http_client(timeout=HTTP_SECONDS) as http, agent_at(port := free_port()) as agent:
        with fresh_database(postgres_server_url, migrated_postgres) as url, processes_in(tmp_path) as processes:
            first, second = stages_at(processes, 2, url)
            await first.start_twin(rates=False)
            configure(first, port)
            await first.start_coordinator()
            twin = first.person(http)
            scene = Scene(stage=first, http=http, twin=twin, agent=agent, since=await twin.now())
            await scene.agents_are_known()
            agent.on("/", *HALF, STALL)
            ts = await scene.ask()
            await scene.growing(ts)
            first.freeze_coordinator()
            agent.on("/", *answering("All of it."))
            await second.start_coordinator()
            sealed, _ = await scene.whole(ts, "All of it.")
            assert is_sealed(sealed, RESTARTED_TEXT)
            before = await twin.now()
            first.thaw_coordinator()
            await first.coordinator.says("Out of office|deposed")
            other = await scene.ask()
            await scene.whole(other, "All of it.")
            late = [call for call in await twin.calls(since=before) if call["args"].get("thread_ts") == ts]
            assert late == []
            await scene.never_two_grew()
